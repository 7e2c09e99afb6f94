"""DeleteTopics, by name or by id."""

from collections import Counter
from typing import TYPE_CHECKING

from bowstring.engine.api.committing import commit
from bowstring.engine.errors import Errors, KafkaError
from bowstring.engine.metadata.image import ClusterImage
from bowstring.engine.protocol import ZERO_UUID
from bowstring.engine.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from bowstring.engine.protocol.records.cluster_metadata.topics import RemoveTopicRecord

if TYPE_CHECKING:
    from bowstring.engine.broker.broker import Broker
    from bowstring.engine.broker.request import Request

Named = tuple[str | None, bytes]


async def handle(broker: "Broker", request: "Request") -> DeleteTopicsResponse:
    """Deletes topics: those that can be, each by itself; one commit for all of them.

    Behaviour: clients find the topic gone when the answer comes; its directories are renamed at once and
    unlinked after file.delete.delay.ms. A topic named twice, by name or id, is not deleted, and
    answered once.

    Versions: 5 adds error messages; 6 topic ids (KIP-516). With delete.topic.enable=false, INVALID_REQUEST
    before version 3 and TOPIC_DELETION_DISABLED since.
    """
    body: DeleteTopicsRequest = request.body
    wanted: list[Named] = [(name, ZERO_UUID) for name in body.topic_names]
    wanted += [(topic.name, topic.topic_id) for topic in body.topics]
    if not broker.configs.value("delete.topic.enable"):
        error = Errors.INVALID_REQUEST if request.version < 3 else Errors.TOPIC_DELETION_DISABLED
        return DeleteTopicsResponse(
            responses=[_result(name, topic_id, KafkaError(error)) for name, topic_id in wanted]
        )
    counts = Counter(wanted)
    results = []
    async with broker.metadata.changing() as image:
        records = []
        # Ids first: a name of a topic whose id was given too is what Kafka refuses, and both with it.
        found = {each: _find(image, *each) for each in sorted(counts, key=lambda each: each[0] is not None)}
        seen: dict[bytes, int] = {}
        for (name, topic_id), topic in found.items():
            if isinstance(topic, bytes):
                seen[topic] = seen.get(topic, 0) + 1
            if counts[name, topic_id] > 1 and (name is None) != (topic_id == ZERO_UUID):
                found[name, topic_id] = KafkaError(Errors.INVALID_REQUEST, "It is named more than once.")
        for (name, topic_id), topic in found.items():
            if isinstance(topic, KafkaError):
                results.append(_result(name, topic_id, topic))
            elif seen[topic] > 1:
                if name is not None:
                    what = KafkaError(Errors.INVALID_REQUEST, "It is named by its id as well.")
                    results.append(_result(name, topic, what))
            else:
                records.append(RemoveTopicRecord(topic_id=topic))
                results.append(_result(image.topics_by_id[topic].name, topic, None))
        await commit(broker, records, results)
    return DeleteTopicsResponse(responses=results)


def _find(image: ClusterImage, name: str | None, topic_id: bytes) -> bytes | KafkaError:
    """The id of the topic that is meant."""
    if name is None and topic_id == ZERO_UUID:
        return KafkaError(Errors.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if name is not None and topic_id != ZERO_UUID:
        return KafkaError(Errors.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    topic = image.topics_by_id.get(topic_id) if name is None else image.topics.get(name)
    if topic is None:
        return KafkaError(Errors.UNKNOWN_TOPIC_ID if name is None else Errors.UNKNOWN_TOPIC_OR_PARTITION)
    return topic.id


def _result(name: str | None, topic_id: bytes, error: KafkaError | None) -> DeletableTopicResult:
    if error is None:
        return DeletableTopicResult(name=name, topic_id=topic_id)
    return DeletableTopicResult(
        name=name,
        topic_id=topic_id,
        error_code=error.code,
        error_message=error.detail or error.error.message,
    )
