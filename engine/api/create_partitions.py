"""CreatePartitions: more partitions for topics that are there."""

from typing import TYPE_CHECKING

from bowstring.engine.api.committing import commit
from bowstring.engine.errors import Errors, KafkaError
from bowstring.engine.metadata.topic_changes import create_partitions
from bowstring.engine.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from bowstring.engine.protocol.schema import MetadataRecord

if TYPE_CHECKING:
    from bowstring.engine.broker.broker import Broker
    from bowstring.engine.broker.request import Request


async def handle(broker: "Broker", request: "Request") -> CreatePartitionsResponse:
    """Adds partitions: to each topic by itself, in one commit for all of them.

    Behaviour: a topic named twice is refused. The new partitions' leaders are known when the answer comes.

    Versions: 1 and 2 change nothing but the encoding; 3 allows for quota errors (KIP-599).
    """
    body: CreatePartitionsRequest = request.body
    names = [topic.name for topic in body.topics]
    results: dict[str, CreatePartitionsTopicResult] = {}
    async with broker.metadata.changing() as image:
        records: list[MetadataRecord] = []
        for topic in body.topics:
            if topic.name in results:
                continue
            result = results[topic.name] = CreatePartitionsTopicResult(name=topic.name)
            try:
                if names.count(topic.name) > 1:
                    raise KafkaError(Errors.INVALID_REQUEST, "Duplicate topic name.")
                assignments = topic.assignments
                records += create_partitions(
                    image,
                    topic.name,
                    topic.count,
                    None if assignments is None else [assignment.broker_ids for assignment in assignments],
                )
            except KafkaError as error:
                result.error_code = error.code
                result.error_message = error.detail or error.error.message
        if not body.validate_only:
            await commit(broker, records, results.values())
    return CreatePartitionsResponse(results=list(results.values()))
