"""Alters the configs of several resources, for AlterConfigs and IncrementalAlterConfigs."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from bowstring.engine.controller.decision import check_not_too_many
from bowstring.engine.metadata.image import ClusterImage
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.schema import MetadataRecord

if TYPE_CHECKING:
    from bowstring.engine.controller.service import QuorumController
    from bowstring.engine.requests.time_slices import TimeSlices

R = TypeVar("R")
Key = tuple[int, str]


async def alter_each(
    body: Any,
    response_class: Callable[..., R],
    change: Callable[[ClusterImage, Key, Any], Iterable[MetadataRecord]],
    *,
    controller: "QuorumController",
    time_slices: "TimeSlices",
) -> list[R]:
    """Changes each resource of a request completely or not at all; refuses a resource that is named twice.

    Args:
        body: the request.
        response_class: class of the answer for one resource.
        change: returns the records that change a resource (given its type, its name and its part of the
            request), or raises a KafkaError.

    Returns:
        An answer for each resource, in the request's order.

    Raises:
        KafkaError: NOT_CONTROLLER, REQUEST_TIMED_OUT: for the request as a whole.
    """
    counts = await time_slices.different(
        (resource.resource_type, resource.resource_name) for resource in body.resources
    )
    responses: list[Any] = []
    async with controller.changing() as changing:
        image = changing.image
        records: list[MetadataRecord] = []
        async for resource in time_slices.each(body.resources):
            key = (resource.resource_type, resource.resource_name)
            response: Any = response_class(resource_type=key[0], resource_name=key[1], error_message=None)
            responses.append(response)
            try:
                if counts[key] > 1:
                    raise KafkaError(Errors.INVALID_REQUEST, "Each resource must appear at most once.")
                check_not_too_many(len(resource.configs))
                made = list(change(image, key, resource))
                check_not_too_many(len(records) + len(made))
                records += made
            except KafkaError as error:
                response.error_code = error.code
                response.error_message = error.detail or error.error.message
        if not body.validate_only:
            await changing.commit(records)
    return responses
