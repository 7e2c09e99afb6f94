"""Checks what a request needs as a whole, before its handler gets it: the requirements of the table of APIs
with `Denied.REQUEST`.

Handlers check what elements need, because the other elements are served (denials.py).
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bowstring.engine.api.message_paths import found_at
from bowstring.engine.api.permissions import ANY_NAME, Denied, Permission, Requirement, When
from bowstring.engine.requests.time_slices import portions
from bowstring.protocol.acls import CLUSTER_NAME, AclResourceType
from bowstring.protocol.errors import KafkaError

if TYPE_CHECKING:
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.security.authorizer import Authorizer, Sender

_AT_ONCE: Final = 500
_BROKERS_VERSION: Final = 4

_APPLIES: Final[dict[When, Callable[[int, Any], bool]]] = {
    When.ALWAYS: lambda version, body: True,
    When.WITH_TRANSACTIONAL_ID: lambda version, body: body.transactional_id is not None,
    When.WITHOUT_TRANSACTIONAL_ID: lambda version, body: body.transactional_id is None,
    When.TWO_PHASE_COMMIT: lambda version, body: body.transactional_id is not None and body.enable2_pc,
    When.BY_CLIENT: lambda version, body: version < _BROKERS_VERSION,
    When.BY_BROKER: lambda version, body: version >= _BROKERS_VERSION,
}
"""Whether a requirement applies to a request, by its version and body."""


class Checked(NamedTuple):
    """What is checked of one request."""

    authorizer: "Authorizer"
    sender: "Sender"
    version: int
    body: Any


def for_whole_request(needs: Sequence[Requirement]) -> tuple[Requirement, ...]:
    """Returns the requirements that are checked here."""
    return tuple(need for need in needs if need.denied is Denied.REQUEST and not need.by_handler)


async def check(checked: Checked, needs: Sequence[Requirement], time_slices: "TimeSlices") -> None:
    """Checks the requirements in order.

    Raises:
        KafkaError: The sender of the request lacks a permission.
    """
    for _ in _steps(checked, needs):
        if time_slices.over():
            await time_slices.rest()


def check_at_once(checked: Checked, needs: Sequence[Requirement]) -> None:
    """Does the same without rests, for a small request."""
    for _ in _steps(checked, needs):
        pass


def _steps(checked: Checked, needs: Sequence[Requirement]) -> Iterator[None]:
    for need in needs:
        if not _APPLIES[need.when](checked.version, checked.body):
            continue
        *others, last = need.alternatives
        for each in others:
            if (yield from _has(checked, each, counts=False)):
                break
        else:
            if not (yield from _has(checked, last, counts=True)):
                raise KafkaError(need.error)


def _has(checked: Checked, permission: Permission, *, counts: bool) -> Generator[None, None, bool]:
    authorizer, sender, _, body = checked
    operation, resource = permission.operation, permission.resource
    if resource is AclResourceType.CLUSTER:
        yield
        return authorizer.allows(sender, operation, resource, CLUSTER_NAME, counts=counts)
    if ANY_NAME in permission.names:
        yield
        return authorizer.allows_some(sender, operation, resource)
    for path in permission.names:
        for names in portions(found_at(body, path), _AT_ONCE):
            wanted = set(names)
            if len(authorizer.allowed(sender, operation, resource, wanted)) < len(wanted):
                return False
            yield
    return True
