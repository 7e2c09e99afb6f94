"""Handles DescribeShareGroupOffsets: returns where share groups are, and how much they have left (KIP-932).

Versions: 1 the lag (KIP-1226).
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Set
from typing import TYPE_CHECKING, Final

from bowstring.engine.api.denials import denied_among, denies, hides
from bowstring.engine.api.share_group_heartbeat import supports_share_groups
from bowstring.engine.coordinators.effects import Respond
from bowstring.engine.requests.time_slices import portions, streamed
from bowstring.engine.share.persister.interface import (
    UNINITIALIZED_START_OFFSET,
    UNKNOWN_COUNT,
    SharePartitionKey,
    StateSummary,
)
from bowstring.protocol import ZERO_UUID
from bowstring.protocol.acls import AclOperation, AclResourceType
from bowstring.protocol.errors import Error, Errors, KafkaError
from bowstring.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)

if TYPE_CHECKING:
    from bowstring.engine.groups.service import GroupCoordinatorService
    from bowstring.engine.metadata.image import ClusterImage, Metadata
    from bowstring.engine.requests.request import Request
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.security.authorizer import Authorizer
    from bowstring.engine.share.latest_offsets import LatestOffsets
    from bowstring.engine.share.persister.network import NetworkPersister

_AT_ONCE: Final = 100
"""Share partitions that are read together."""
_UNKNOWN_LAG: Final = -1

_Partition = DescribeShareGroupOffsetsResponsePartition
_Topic = DescribeShareGroupOffsetsResponseTopic


async def handle(
    request: "Request",
    *,
    metadata: "Metadata",
    time_slices: "TimeSlices",
    groups: "GroupCoordinatorService",
    persister: "NetworkPersister",
    latest_offsets: "LatestOffsets",
    authorizer: "Authorizer",
) -> DescribeShareGroupOffsetsResponse:
    """Describes every requested group, in order.

    Behaviour: topics of null are all with state that the client may describe. What has no state, or cannot be
    read, has offset -1, without an error.
    """
    body: DescribeShareGroupOffsetsRequest = request.body
    asked = (authorizer, request, AclOperation.DESCRIBE)

    async def described() -> AsyncIterator[DescribeShareGroupOffsetsResponseGroup]:
        for group in body.groups:
            answer = DescribeShareGroupOffsetsResponseGroup(group_id=group.group_id)
            try:
                if not supports_share_groups(metadata):
                    raise KafkaError(Errors.UNSUPPORTED_VERSION)
                if denies(*asked, AclResourceType.GROUP, group.group_id):
                    raise KafkaError(Errors.GROUP_AUTHORIZATION_FAILED)
                image = metadata.image
                named = (topic.topic_name for topic in group.topics or ())
                denied = await denied_among(*asked, AclResourceType.TOPIC, named, time_slices=time_slices)
                wanted, unknown = await _wanted(image, time_slices, groups, group, denied)
                if group.topics is None:
                    wanted = {
                        topic_id: indexes
                        for topic_id, indexes in wanted.items()
                        if not hides(*asked, AclResourceType.TOPIC, image.topics_by_id[topic_id].name)
                    }
                names = {topic_id: image.topics_by_id[topic_id].name for topic_id in wanted}
                summaries = await _summaries(metadata, time_slices, persister, group.group_id, wanted)
                known = await _answers(time_slices, latest_offsets, names, summaries)
                answer.topics = [*known, *unknown, *_denied(group, denied)]
            except KafkaError as error:
                answer.error_code, answer.error_message = error.code, error.detail
            yield answer

    return DescribeShareGroupOffsetsResponse(groups=streamed(described()))


async def _wanted(
    image: "ClusterImage",
    time_slices: "TimeSlices",
    groups: "GroupCoordinatorService",
    group: DescribeShareGroupOffsetsRequestGroup,
    denied: Set[str],
) -> tuple[dict[bytes, list[int]], list[_Topic]]:
    """Returns the partitions to look for, by topic id, and the answers for unknown topics."""
    wanted: dict[bytes, list[int]] = {}
    unknown: list[_Topic] = []
    if group.topics is None:
        held: dict[bytes, list[int]] = await groups.ask(
            group.group_id,
            lambda shard, token, now_ms: [Respond(token, shard.initialized_partitions(group.group_id))],
        )
        wanted = {topic_id: indexes for topic_id, indexes in held.items() if topic_id in image.topics_by_id}
    else:
        async for topic in time_slices.each(group.topics):
            if topic.topic_name in denied:
                continue
            found = image.topics.get(topic.topic_name)
            if found is not None:
                wanted.setdefault(found.id, []).extend(topic.partitions)
                continue
            partitions = [
                _Partition(partition_index=index, start_offset=UNINITIALIZED_START_OFFSET)
                for index in topic.partitions
            ]
            unknown.append(_Topic(topic_name=topic.topic_name, topic_id=ZERO_UUID, partitions=partitions))
    return wanted, unknown


def _denied(group: DescribeShareGroupOffsetsRequestGroup, denied: Set[str]) -> Iterator[_Topic]:
    """Yields the answers for requested topics that the client may not describe."""
    error = Errors.TOPIC_AUTHORIZATION_FAILED
    for topic in (group.topics or ()) if denied else ():
        if topic.topic_name in denied:
            partitions = [
                _Partition(
                    partition_index=index,
                    start_offset=UNINITIALIZED_START_OFFSET,
                    error_code=error.code,
                    error_message=error.message,
                )
                for index in topic.partitions
            ]
            yield _Topic(topic_name=topic.topic_name, topic_id=ZERO_UUID, partitions=partitions)


async def _summaries(
    metadata: "Metadata",
    time_slices: "TimeSlices",
    persister: "NetworkPersister",
    group_id: str,
    wanted: dict[bytes, list[int]],
) -> dict[SharePartitionKey, StateSummary]:
    def keys() -> Iterator[SharePartitionKey]:
        for topic_id, indexes in wanted.items():
            for index in indexes:
                yield SharePartitionKey(group_id, topic_id, index)

    found: dict[SharePartitionKey, StateSummary] = {}
    async for portion in time_slices.each(portions(keys(), _AT_ONCE)):
        summaries = await asyncio.gather(*(_summary(metadata, persister, key) for key in portion))
        found.update(zip(portion, summaries, strict=True))
    return found


async def _summary(
    metadata: "Metadata", persister: "NetworkPersister", key: SharePartitionKey
) -> StateSummary:
    topic = metadata.image.topics_by_id.get(key.topic_id)
    if topic is None or not 0 <= key.partition < len(topic.partitions):
        # The persister would wait for it: a share coordinator may learn of a topic later.
        return StateSummary(Errors.UNKNOWN_TOPIC_OR_PARTITION)
    return await persister.read_summary(key)


def _has_lag(summary: StateSummary) -> bool:
    return (
        not summary.error
        and summary.start_offset != UNINITIALIZED_START_OFFSET
        and summary.delivery_complete_count != UNKNOWN_COUNT
    )


async def _answers(
    time_slices: "TimeSlices",
    latest_offsets: "LatestOffsets",
    names: dict[bytes, str],
    summaries: dict[SharePartitionKey, StateSummary],
) -> list[_Topic]:
    ends = await latest_offsets.find(
        (names[key.topic_id], key.partition) for key, summary in summaries.items() if _has_lag(summary)
    )
    topics = {id: _Topic(topic_name=name, topic_id=id) for id, name in names.items()}
    async for key, summary in time_slices.each(summaries.items()):
        end = ends.get((names[key.topic_id], key.partition), _UNKNOWN_LAG)
        topics[key.topic_id].partitions.append(_partition(key.partition, summary, end))
    return list(topics.values())


def _partition(index: int, summary: StateSummary, end: int | Error) -> _Partition:
    if summary.error:
        return _Partition(partition_index=index, start_offset=UNINITIALIZED_START_OFFSET)
    if isinstance(end, Error):
        return _Partition(partition_index=index, error_code=end.code, error_message=end.message)
    lag = _UNKNOWN_LAG
    if _has_lag(summary):
        lag = end - summary.start_offset - summary.delivery_complete_count
    return _Partition(
        partition_index=index,
        start_offset=summary.start_offset,
        leader_epoch=summary.leader_epoch,
        lag=lag,
    )
