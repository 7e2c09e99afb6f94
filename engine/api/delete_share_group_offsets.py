"""Handles DeleteShareGroupOffsets: deletes the state of topics in a share group without members (KIP-932)."""

from typing import TYPE_CHECKING

from bowstring.engine.api.denials import denied_among
from bowstring.engine.api.share_group_heartbeat import supports_share_groups
from bowstring.engine.api.share_state_deletion import delete_share_state
from bowstring.engine.groups.share.state_changes import Deletion
from bowstring.protocol.acls import AclOperation, AclResourceType
from bowstring.protocol.errors import Error, Errors, KafkaError
from bowstring.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)

if TYPE_CHECKING:
    from bowstring.engine.groups.service import GroupCoordinatorService
    from bowstring.engine.metadata.image import Metadata
    from bowstring.engine.requests.request import Request
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.security.authorizer import Authorizer
    from bowstring.engine.share.persister.network import NetworkPersister


async def handle(
    request: "Request",
    *,
    metadata: "Metadata",
    time_slices: "TimeSlices",
    groups: "GroupCoordinatorService",
    persister: "NetworkPersister",
    authorizer: "Authorizer",
) -> DeleteShareGroupOffsetsResponse:
    """Answers when share coordinators have deleted the state.

    Behaviour: topics that do not exist, or have no state in the group, get UNKNOWN_TOPIC_OR_PARTITION.
    """
    body: DeleteShareGroupOffsetsRequest = request.body
    try:
        if not supports_share_groups(metadata):
            raise KafkaError(Errors.UNSUPPORTED_VERSION)
        if not body.group_id:
            raise KafkaError(Errors.INVALID_GROUP_ID)
        named = [topic.topic_name async for topic in time_slices.each(body.topics)]
        operation, kind = AclOperation.READ, AclResourceType.TOPIC
        denied = await denied_among(authorizer, request, operation, kind, named, time_slices=time_slices)
        names = [name for name in named if name not in denied]
        begun: Deletion | KafkaError = await groups.ask(
            body.group_id,
            lambda shard, token, now_ms: shard.delete_share_offsets(body.group_id, names, token),
        )
        if isinstance(begun, KafkaError):
            raise begun
        errors = await delete_share_state(time_slices, persister, body.group_id, begun.partitions)
        done = {topic_id for topic_id, error in errors.items() if not error}
        if done:
            await groups.ask(
                body.group_id,
                lambda shard, token, now_ms: shard.share_state_deleted(body.group_id, done, token),
            )
    except KafkaError as error:
        return DeleteShareGroupOffsetsResponse(
            error_code=error.code, error_message=error.detail or error.error.message
        )
    topics = metadata.image.topics_by_id
    answers = [_answer(name, Errors.TOPIC_AUTHORIZATION_FAILED) for name in named if name in denied]
    answers += [
        _answer(topics[topic_id].name if topic_id in topics else "", error, topic_id)
        for topic_id, error in errors.items()
    ]
    answers += [_answer(name, error) for name, error in begun.refused.items()]
    return DeleteShareGroupOffsetsResponse(responses=answers)


def _answer(name: str, error: Error, topic_id: bytes = bytes(16)) -> DeleteShareGroupOffsetsResponseTopic:
    return DeleteShareGroupOffsetsResponseTopic(
        topic_name=name,
        topic_id=topic_id,
        error_code=error.code,
        error_message=error.message if error else None,
    )
