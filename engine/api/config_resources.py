"""Altering the configs of several resources: what AlterConfigs and IncrementalAlterConfigs have in common."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from bowstring.engine.api.committing import commit
from bowstring.engine.errors import Errors, KafkaError
from bowstring.engine.metadata.image import ClusterImage
from bowstring.engine.protocol.schema import MetadataRecord

if TYPE_CHECKING:
    from bowstring.engine.broker.broker import Broker

R = TypeVar("R")
Key = tuple[int, str]


async def alter_each(
    broker: "Broker",
    body: Any,
    response_class: Callable[..., R],
    change: Callable[[ClusterImage, Key, Any], Iterable[MetadataRecord]],
) -> list[R]:
    """Changes each resource of a request as a whole or not at all; one that is named twice is refused.

    Args:
        body: the request.
        response_class: of the answer about one resource.
        change: gives the records that change a resource (its type and name, and what the request says of it),
            or raises a KafkaError.

    Returns:
        An answer for each resource, in the request's order.
    """
    keys = [(resource.resource_type, resource.resource_name) for resource in body.resources]
    responses: list[Any] = []
    async with broker.metadata.changing() as image:
        records: list[MetadataRecord] = []
        for resource, key in zip(body.resources, keys, strict=True):
            response: Any = response_class(resource_type=key[0], resource_name=key[1], error_message=None)
            responses.append(response)
            try:
                if keys.count(key) > 1:
                    raise KafkaError(Errors.INVALID_REQUEST, "Each resource must appear at most once.")
                records += change(image, key, resource)
            except KafkaError as error:
                response.error_code = error.code
                response.error_message = error.detail or error.error.message
        if not body.validate_only:
            await commit(broker, records, responses)
    return responses
