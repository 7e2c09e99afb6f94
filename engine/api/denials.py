"""Finds what the sender of a request may not do, for handlers that answer each element of a request.

What a whole request needs is checked before its handler (request_permissions.py).
"""

from collections.abc import Callable, Iterable, Iterator, Set
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from bowstring.engine.requests.time_slices import portions
from bowstring.protocol.acls import CLUSTER_NAME, AclOperation, AclResourceType

if TYPE_CHECKING:
    from bowstring.engine.metadata.image import ClusterImage
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.security.authorizer import Authorizer, Sender

NONE_DENIED: Final[frozenset[str]] = frozenset()
_AT_ONCE: Final = 500


def names_of(image: "ClusterImage", topics: Iterable[Any], *, by_id: bool) -> Iterator[str]:
    """Yields the names of topics of a request, which has names or ids. Unknown ids are left out."""
    for topic in topics:
        if not by_id:
            yield topic.name
        elif (found := image.topics_by_id.get(topic.topic_id)) is not None:
            yield found.name


def denies(
    authorizer: "Authorizer", request: "Sender", operation: AclOperation, resource: AclResourceType, name: str
) -> bool:
    """Returns whether the sender may not do an operation on a resource, which then gets an error."""
    return authorizer.is_on and not authorizer.allows(request, operation, resource, name)


def hides(
    authorizer: "Authorizer", request: "Sender", operation: AclOperation, resource: AclResourceType, name: str
) -> bool:
    """Returns whether a resource is left out of what the sender gets. Nothing is refused, so it does not
    count as a denial.
    """
    return authorizer.is_on and not authorizer.allows(request, operation, resource, name, counts=False)


def denials_of_topics(
    authorizer: "Authorizer", request: "Sender", operation: AclOperation
) -> Callable[[str], bool]:
    """Returns a function of whether the sender may not do an operation on a topic; each topic is
    looked up once.
    """
    if not authorizer.is_on:
        return lambda topic: False
    return cache(partial(denies, authorizer, request, operation, AclResourceType.TOPIC))


def allows_on_cluster(authorizer: "Authorizer", request: "Sender", operation: AclOperation) -> bool:
    """Returns whether the sender may do an operation on the cluster. If not, permissions for single resources
    are looked at, so it does not count as a denial.
    """
    return not hides(authorizer, request, operation, AclResourceType.CLUSTER, CLUSTER_NAME)


async def denied_among(
    authorizer: "Authorizer",
    request: "Sender",
    operation: AclOperation,
    resource: AclResourceType,
    names: Iterable[str],
    *,
    time_slices: "TimeSlices",
) -> Set[str]:
    """Returns those of the names on which the sender may not do an operation."""
    if not authorizer.is_on:
        return NONE_DENIED
    seen: set[str] = set()
    denied: set[str] = set()
    for portion in portions(names, _AT_ONCE):
        asked = {name for name in portion if name not in seen}
        denied |= asked - authorizer.allowed(request, operation, resource, asked)
        seen |= asked
        if time_slices.over():
            await time_slices.rest()
    return denied
