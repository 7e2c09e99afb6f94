"""OffsetCommit: stores the offsets a group has consumed up to.

Versions: 2-4 a retention time; 6 leader epochs; 7 static members; 9 member epochs and GROUP_ID_NOT_FOUND; 10
topic ids instead of names.
"""

from typing import TYPE_CHECKING

from bowstring.engine.api.join_group import request_context
from bowstring.engine.errors import Errors, KafkaError
from bowstring.engine.groups.offset_requests import commit_error
from bowstring.engine.protocol.ids import ZERO_UUID
from bowstring.engine.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from bowstring.engine.broker.broker import Broker
    from bowstring.engine.broker.request import Request
    from bowstring.engine.metadata.image import ClusterImage

_TOPIC_ID_VERSION = 10


async def handle(broker: "Broker", request: "Request") -> OffsetCommitResponse:
    """Commits for the partitions that exist; the others get errors of their own."""
    body: OffsetCommitRequest = request.body
    refused: list[OffsetCommitResponseTopic] = []
    body.topics = [
        known
        for topic in body.topics
        if (known := _known(broker.metadata.image, topic, request.version, refused)).partitions
    ]
    answer = OffsetCommitResponse()
    if body.topics:
        context = request_context(request)
        try:
            answer = await broker.groups.ask(
                body.group_id,
                lambda shard, token, now_ms: shard.commit_offsets(body, context, token, now_ms),
            )
        except KafkaError as error:
            answer = commit_error(body, error.error)
    answer.topics = _merged(refused, answer.topics)
    return answer


def _known(
    image: "ClusterImage",
    topic: OffsetCommitRequestTopic,
    version: int,
    refused: list[OffsetCommitResponseTopic],
) -> OffsetCommitRequestTopic:
    """The topic with name and id and those of its partitions that exist; the rest goes to `refused`."""
    if version >= _TOPIC_ID_VERSION:
        found = image.topics_by_id.get(topic.topic_id)
        error = Errors.UNKNOWN_TOPIC_ID if found is None else Errors.UNKNOWN_TOPIC_OR_PARTITION
    else:
        found = image.topics.get(topic.name)
        error = Errors.UNKNOWN_TOPIC_OR_PARTITION
    count = 0 if found is None else len(found.partitions)
    name, topic_id = (topic.name, topic.topic_id) if found is None else (found.name, found.id)
    unknown = [part for part in topic.partitions if not 0 <= part.partition_index < count]
    if unknown:
        refused.append(
            OffsetCommitResponseTopic(
                name=name,
                topic_id=topic_id if found is not None or version >= _TOPIC_ID_VERSION else ZERO_UUID,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=part.partition_index, error_code=error.code)
                    for part in unknown
                ],
            )
        )
    known = [part for part in topic.partitions if 0 <= part.partition_index < count]
    return OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=known)


def _merged(
    refused: list[OffsetCommitResponseTopic], answered: list[OffsetCommitResponseTopic]
) -> list[OffsetCommitResponseTopic]:
    """Each topic once, what was refused first, as Kafka has it."""
    topics = {(topic.name, topic.topic_id): topic for topic in refused}
    for topic in answered:
        known = topics.setdefault((topic.name, topic.topic_id), topic)
        if known is not topic:
            known.partitions += topic.partitions
    return list(topics.values())
