"""OffsetFetch: reads the offsets groups have committed.

Versions: 2 all topics of the group, and an error of the whole; 7 stable offsets only (KIP-447); 8 several
groups (KIP-709); 9 member ids and epochs; 10 topic ids instead of names.
"""

from typing import TYPE_CHECKING

from bowstring.engine.errors import Error, Errors, KafkaError
from bowstring.engine.protocol.ids import ZERO_UUID
from bowstring.engine.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from bowstring.engine.broker.broker import Broker
    from bowstring.engine.broker.request import Request

_GROUP_ERROR_VERSION = 2
_BATCH_VERSION = 8
_TOPIC_ID_VERSION = 10
_NO_OFFSET = -1


async def handle(broker: "Broker", request: "Request") -> OffsetFetchResponse:
    """One answer for every group asked for, in order."""
    body: OffsetFetchRequest = request.body
    if request.version >= _BATCH_VERSION:
        groups = [await _fetch(broker, request, group) for group in body.groups]
        return OffsetFetchResponse(groups=groups)
    topics = None
    if body.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in body.topics
        ]
    group = await _fetch(broker, request, OffsetFetchRequestGroup(group_id=body.group_id, topics=topics))
    return _single(group)


def _single(group: OffsetFetchResponseGroup) -> OffsetFetchResponse:
    """The form of versions before 8."""
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=part.partition_index,
                        committed_offset=part.committed_offset,
                        committed_leader_epoch=part.committed_leader_epoch,
                        metadata=part.metadata,
                        error_code=part.error_code,
                    )
                    for part in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )


async def _fetch(
    broker: "Broker", request: "Request", group: OffsetFetchRequestGroup
) -> OffsetFetchResponseGroup:
    image = broker.metadata.image
    by_id = request.version >= _TOPIC_ID_VERSION
    unknown: list[OffsetFetchResponseTopics] = []
    everything = group.topics is None
    if group.topics is not None and by_id:
        known = []
        for topic in group.topics:
            found = image.topics_by_id.get(topic.topic_id)
            if found is None:
                unknown.append(_failed(topic, Errors.UNKNOWN_TOPIC_ID))
            else:
                topic.name = found.name
                known.append(topic)
        group.topics = known
    try:
        answer: OffsetFetchResponseGroup = await broker.groups.ask(
            group.group_id,
            lambda shard, token, now_ms: shard.fetch_offsets(
                group, token, require_stable=request.body.require_stable
            ),
        )
    except KafkaError as error:
        return _group_error(request.version, group, error.error)
    if everything and by_id:
        for topic_answer in answer.topics:
            named = image.topics.get(topic_answer.name)
            topic_answer.topic_id = ZERO_UUID if named is None else named.id
        answer.topics = [topic for topic in answer.topics if topic.topic_id != ZERO_UUID]
    answer.topics += unknown
    return answer


def _group_error(version: int, group: OffsetFetchRequestGroup, error: Error) -> OffsetFetchResponseGroup:
    """Version 1 has no place for it but the partitions."""
    if version >= _GROUP_ERROR_VERSION:
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=error.code)
    topics = [_failed(topic, error) for topic in group.topics or []]
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)


def _failed(topic: OffsetFetchRequestTopics, error: Error) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=_NO_OFFSET, metadata="", error_code=error.code
            )
            for index in topic.partition_indexes
        ],
    )
