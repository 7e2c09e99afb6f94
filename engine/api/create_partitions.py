"""Handles CreatePartitions: adds partitions to existing topics."""

from typing import TYPE_CHECKING

from bowstring.engine.api.commit_changes import commit
from bowstring.engine.controller.decision import check_not_too_many
from bowstring.engine.metadata.topic_changes import create_partitions
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from bowstring.protocol.schema import MetadataRecord

if TYPE_CHECKING:
    from bowstring.engine.metadata.committer import Committer
    from bowstring.engine.metadata.image import ChangingImage
    from bowstring.engine.metadata.replica_placer import Randomness
    from bowstring.engine.requests.request import Request
    from bowstring.engine.requests.time_slices import TimeSlices


async def handle(
    request: "Request",
    *,
    metadata: "ChangingImage",
    committer: "Committer",
    random: "Randomness",
    time_slices: "TimeSlices",
) -> CreatePartitionsResponse:
    """Adds partitions. Each topic succeeds or fails alone; one commit covers all.

    Behaviour: a topic named twice is refused. The new partitions have leaders when the answer is sent.

    Versions: 1 and 2 change only the encoding; 3 allows quota errors (KIP-599).
    """
    body: CreatePartitionsRequest = request.body
    names = await time_slices.different(topic.name for topic in body.topics)
    results: dict[str, CreatePartitionsTopicResult] = {}
    async with metadata.changing() as change:
        image = change.image
        records: list[MetadataRecord] = []
        async for topic in time_slices.each(body.topics):
            if topic.name in results:
                continue
            result = results[topic.name] = CreatePartitionsTopicResult(name=topic.name)
            try:
                if names[topic.name] > 1:
                    raise KafkaError(Errors.INVALID_REQUEST, "Duplicate topic name.")
                assignments = topic.assignments
                check_not_too_many(len(assignments or ()))
                made = create_partitions(
                    image,
                    topic.name,
                    topic.count,
                    None
                    if assignments is None
                    else [list(assignment.broker_ids) for assignment in assignments],
                    random,
                )
                check_not_too_many(len(records) + len(made))
                records += made
            except KafkaError as error:
                result.error_code = error.code
                result.error_message = error.detail or error.error.message
        if not body.validate_only:
            await commit(committer, change, records, results.values())
    return CreatePartitionsResponse(results=list(results.values()))
