"""Handles AlterShareGroupOffsets: sets the start offsets of a share group without members (KIP-932)."""

import asyncio
from collections.abc import Set
from typing import TYPE_CHECKING, Final

from bowstring.engine.api.denials import denied_among
from bowstring.engine.api.share_group_heartbeat import supports_share_groups
from bowstring.engine.groups.share.state_changes import Alteration
from bowstring.engine.requests.time_slices import portions
from bowstring.engine.share.persister.interface import SharePartitionKey
from bowstring.protocol import ZERO_UUID
from bowstring.protocol.acls import AclOperation, AclResourceType
from bowstring.protocol.errors import Error, Errors, KafkaError
from bowstring.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)

if TYPE_CHECKING:
    from bowstring.engine.groups.service import GroupCoordinatorService
    from bowstring.engine.metadata.image import Metadata
    from bowstring.engine.requests.request import Request
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.security.authorizer import Authorizer
    from bowstring.engine.share.persister.network import NetworkPersister

_AT_ONCE: Final = 100

_Partition = tuple[bytes, int]


async def handle(
    request: "Request",
    *,
    metadata: "Metadata",
    time_slices: "TimeSlices",
    groups: "GroupCoordinatorService",
    persister: "NetworkPersister",
    authorizer: "Authorizer",
) -> AlterShareGroupOffsetsResponse:
    """Answers when share coordinators have the new state.

    Behaviour: a group that does not exist is created. A group with members is NON_EMPTY_GROUP.
    """
    body: AlterShareGroupOffsetsRequest = request.body
    try:
        if not supports_share_groups(metadata):
            raise KafkaError(Errors.UNSUPPORTED_VERSION)
        if not body.group_id:
            raise KafkaError(Errors.INVALID_GROUP_ID)
        names = (topic.topic_name for topic in body.topics)
        operation, kind = AclOperation.READ, AclResourceType.TOPIC
        denied = await denied_among(authorizer, request, operation, kind, names, time_slices=time_slices)
        known = await _known(metadata, time_slices, body, denied)
        errors = await _alter(time_slices, groups, persister, body.group_id, known)
    except KafkaError as error:
        return AlterShareGroupOffsetsResponse(
            error_code=error.code, error_message=error.detail or error.error.message
        )
    return AlterShareGroupOffsetsResponse(
        responses=await _answers(metadata, time_slices, body, errors, denied)
    )


async def _known(
    metadata: "Metadata",
    time_slices: "TimeSlices",
    body: AlterShareGroupOffsetsRequest,
    denied: Set[str],
) -> dict[_Partition, int]:
    """Returns the start offsets of partitions that exist, of topics that the client may read."""
    known: dict[_Partition, int] = {}
    async for topic in time_slices.each(body.topics):
        found = None if topic.topic_name in denied else metadata.image.topics.get(topic.topic_name)
        async for each in time_slices.each(topic.partitions):
            if found is not None and 0 <= each.partition_index < len(found.partitions):
                known[found.id, each.partition_index] = each.start_offset
    return known


async def _alter(
    time_slices: "TimeSlices",
    groups: "GroupCoordinatorService",
    persister: "NetworkPersister",
    group_id: str,
    start_offsets: dict[_Partition, int],
) -> dict[_Partition, Error]:
    begun: Alteration | KafkaError = await groups.ask(
        group_id,
        lambda shard, token, now_ms: shard.alter_share_offsets(group_id, start_offsets, token, now_ms),
    )
    if isinstance(begun, KafkaError):
        raise begun
    errors: dict[_Partition, Error] = {}
    async for portion in time_slices.each(portions(begun.start_offsets.items(), _AT_ONCE)):
        found = await asyncio.gather(
            *(
                persister.initialize(SharePartitionKey(group_id, *partition), begun.state_epoch, start_offset)
                for partition, start_offset in portion
            )
        )
        errors.update((partition, error) for (partition, _), error in zip(portion, found, strict=True))
    if errors and not any(errors.values()):
        await groups.ask(
            group_id,
            lambda shard, token, now_ms: shard.share_state_initialized(
                group_id, list(errors), now_ms, token=token
            ),
        )
    return errors


async def _answers(
    metadata: "Metadata",
    time_slices: "TimeSlices",
    body: AlterShareGroupOffsetsRequest,
    errors: dict[_Partition, Error],
    denied: Set[str],
) -> list[AlterShareGroupOffsetsResponseTopic]:
    answers = []
    async for topic in time_slices.each(body.topics):
        is_denied = topic.topic_name in denied
        other = Errors.TOPIC_AUTHORIZATION_FAILED if is_denied else Errors.UNKNOWN_TOPIC_OR_PARTITION
        found = None if is_denied else metadata.image.topics.get(topic.topic_name)
        topic_id = ZERO_UUID if found is None else found.id
        answer = AlterShareGroupOffsetsResponseTopic(topic_name=topic.topic_name, topic_id=topic_id)
        async for each in time_slices.each(topic.partitions):
            error = errors.get((topic_id, each.partition_index), other)
            answer.partitions.append(
                AlterShareGroupOffsetsResponsePartition(
                    partition_index=each.partition_index,
                    error_code=error.code,
                    error_message=error.message if error else None,
                )
            )
        answers.append(answer)
    return answers
