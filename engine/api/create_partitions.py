"""Handles CreatePartitions: adds partitions to existing topics."""

from typing import TYPE_CHECKING, Final

from bowstring.engine.api.denials import denied_among
from bowstring.engine.api.mutation_quota import mutation_quota
from bowstring.engine.controller.decision import check_not_too_many
from bowstring.engine.metadata.topic_changes import create_partitions
from bowstring.protocol.acls import AclOperation, AclResourceType
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from bowstring.protocol.schema import MetadataRecord

if TYPE_CHECKING:
    from bowstring.engine.controller.mutation_quotas import MutationQuotas
    from bowstring.engine.controller.service import QuorumController
    from bowstring.engine.requests.request import Request
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.security.authorizer import Authorizer

_STRICT_VERSION: Final = 3


async def handle(
    request: "Request",
    *,
    controller: "QuorumController",
    mutation_quotas: "MutationQuotas",
    time_slices: "TimeSlices",
    authorizer: "Authorizer",
) -> CreatePartitionsResponse:
    """Adds partitions. Each topic succeeds or fails alone; one commit covers all.

    Behaviour: a topic named twice is refused. The new partitions have leaders when the answer is sent.
    NOT_CONTROLLER, REQUEST_TIMED_OUT and quotas as from CreateTopics.

    Versions: 1 and 2 change only the encoding; since 3, partitions beyond a quota are refused (KIP-599).
    """
    body: CreatePartitionsRequest = request.body
    names = await time_slices.different(topic.name for topic in body.topics)
    quota = mutation_quota(mutation_quotas, request, strict_since=_STRICT_VERSION)
    named_once = (name for name, count in names.items() if count == 1)
    denied = await denied_among(
        authorizer, request, AclOperation.ALTER, AclResourceType.TOPIC, named_once, time_slices=time_slices
    )
    results: dict[str, CreatePartitionsTopicResult] = {}
    async with controller.changing() as change:
        image = change.image
        records: list[MetadataRecord] = []
        async for topic in time_slices.each(body.topics):
            if topic.name in results:
                continue
            result = results[topic.name] = CreatePartitionsTopicResult(name=topic.name)
            try:
                if names[topic.name] > 1:
                    raise KafkaError(Errors.INVALID_REQUEST, "Duplicate topic name.")
                if topic.name in denied:
                    raise KafkaError(Errors.TOPIC_AUTHORIZATION_FAILED)
                assignments = topic.assignments
                check_not_too_many(len(assignments or ()))
                made = create_partitions(
                    image,
                    topic.name,
                    topic.count,
                    None
                    if assignments is None
                    else [list(assignment.broker_ids) for assignment in assignments],
                    controller.random,
                )
                check_not_too_many(len(records) + len(made))
                quota.count(len(made))
                records += made
            except KafkaError as error:
                result.error_code = error.code
                result.error_message = error.detail or error.error.message
        if not body.validate_only:
            await change.commit(records)
    return CreatePartitionsResponse(throttle_time_ms=quota.throttle_ms, results=list(results.values()))
