"""Alters the configs of several resources, for AlterConfigs and IncrementalAlterConfigs."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from bowstring.engine.api.denials import denies
from bowstring.engine.controller.decision import check_not_too_many
from bowstring.engine.metadata.image import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    ClusterImage,
)
from bowstring.protocol.acls import CLUSTER_NAME, AclOperation, AclResourceType
from bowstring.protocol.errors import Error, Errors, KafkaError
from bowstring.protocol.schema import MetadataRecord

if TYPE_CHECKING:
    from bowstring.engine.controller.service import QuorumController
    from bowstring.engine.requests.request import Request
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.security.authorizer import Authorizer

R = TypeVar("R")
Key = tuple[int, str]

BROKER_LOGGER: Final = 8
"""The type of the resource with a node's log levels, which are no configs of the cluster."""
_OF_TOPIC: Final = (AclResourceType.TOPIC, Errors.TOPIC_AUTHORIZATION_FAILED)
_OF_GROUP: Final = (AclResourceType.GROUP, Errors.GROUP_AUTHORIZATION_FAILED)
_OF_CLUSTER: Final = (AclResourceType.CLUSTER, Errors.CLUSTER_AUTHORIZATION_FAILED)
_PROTECTED: Final = {
    TOPIC_RESOURCE: _OF_TOPIC,
    GROUP_RESOURCE: _OF_GROUP,
    BROKER_RESOURCE: _OF_CLUSTER,
    CLIENT_METRICS_RESOURCE: _OF_CLUSTER,
    BROKER_LOGGER: _OF_CLUSTER,
}
"""What permissions protect the configs, and the error without them, by type of the resource of configs."""


def denial(
    authorizer: "Authorizer", request: "Request", operation: AclOperation, kind: int, name: str
) -> Error | None:
    """Returns the error if the client may not do an operation on a resource of configs. Unknown types have
    none: each handler refuses them.
    """
    if kind not in _PROTECTED:
        return None
    resource, error = _PROTECTED[kind]
    protected = CLUSTER_NAME if resource is AclResourceType.CLUSTER else name
    return error if denies(authorizer, request, operation, resource, protected) else None


async def alter_each(
    request: "Request",
    response_class: Callable[..., R],
    change: Callable[[ClusterImage, Key, Any], Iterable[MetadataRecord]],
    *,
    controller: "QuorumController",
    time_slices: "TimeSlices",
    authorizer: "Authorizer",
) -> list[R]:
    """Changes each resource of a request completely or not at all; refuses a resource that is named twice.

    Args:
        request: the request.
        response_class: class of the answer for one resource.
        change: returns the records that change a resource (given its type, its name and its part of the
            request), or raises a KafkaError.

    Returns:
        An answer for each resource, in the request's order.

    Raises:
        KafkaError: NOT_CONTROLLER, REQUEST_TIMED_OUT: for the request as a whole.
    """
    body: Any = request.body
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
                operation = (
                    AclOperation.CLUSTER_ACTION if key[0] == BROKER_LOGGER else AclOperation.ALTER_CONFIGS
                )
                if refused := denial(authorizer, request, operation, *key):
                    raise KafkaError(refused)
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
