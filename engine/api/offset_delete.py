"""OffsetDelete: deletes committed offsets of a group (KIP-496)."""

from typing import TYPE_CHECKING

from bowstring.engine.errors import Errors
from bowstring.engine.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from bowstring.engine.broker.broker import Broker
    from bowstring.engine.broker.request import Request


async def handle(broker: "Broker", request: "Request") -> OffsetDeleteResponse:
    """Deletes those of partitions that exist; the group's errors come before those of its partitions."""
    body: OffsetDeleteRequest = request.body
    image = broker.metadata.image
    known: list[OffsetDeleteRequestTopic] = []
    unknown: dict[str, list[OffsetDeleteResponsePartition]] = {}
    for topic in body.topics:
        found = image.topics.get(topic.name)
        count = 0 if found is None else len(found.partitions)
        there = [part for part in topic.partitions if 0 <= part.partition_index < count]
        if there:
            known.append(OffsetDeleteRequestTopic(name=topic.name, partitions=there))
        missing = [
            OffsetDeleteResponsePartition(
                partition_index=part.partition_index, error_code=Errors.UNKNOWN_TOPIC_OR_PARTITION.code
            )
            for part in topic.partitions
            if not 0 <= part.partition_index < count
        ]
        if missing:
            unknown.setdefault(topic.name, []).extend(missing)
    body.topics = known
    answer: OffsetDeleteResponse = await broker.groups.ask(
        body.group_id, lambda shard, token, now_ms: shard.delete_offsets(body, token)
    )
    if not answer.error_code:
        # each topic once, what was refused first, as Kafka has it
        for answered in answer.topics:
            unknown.setdefault(answered.name, []).extend(answered.partitions)
        answer.topics = [
            OffsetDeleteResponseTopic(name=name, partitions=parts) for name, parts in unknown.items()
        ]
    return answer
