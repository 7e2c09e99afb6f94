"""Handles FindCoordinator: returns the broker that coordinates a group, a transaction or a share partition.

Versions: 1 transactions; 4 several keys (KIP-699); 6 share partitions (KIP-932).
"""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from bowstring.engine.api.denials import denies
from bowstring.engine.metadata.names import GROUPS_TOPIC, SHARE_TOPIC, TRANSACTIONS_TOPIC
from bowstring.engine.requests.time_slices import streamed
from bowstring.engine.share.persister.interface import coordinator_key, parse_coordinator_key
from bowstring.protocol.acls import CLUSTER_NAME, AclOperation, AclResourceType
from bowstring.protocol.errors import Error, Errors, KafkaError
from bowstring.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

if TYPE_CHECKING:
    from bowstring.engine.coordinators.coordinators import Coordinators
    from bowstring.engine.metadata.image import Metadata
    from bowstring.engine.requests.request import Request
    from bowstring.engine.security.authorizer import Authorizer

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2

_DESCRIBED: Final = {
    GROUP: (AclResourceType.GROUP, Errors.GROUP_AUTHORIZATION_FAILED),
    TRANSACTION: (AclResourceType.TRANSACTIONAL_ID, Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
}
"""What a client must be able to describe, and the error if it is not, by type of key."""
_TOPICS: Final = {GROUP: GROUPS_TOPIC, TRANSACTION: TRANSACTIONS_TOPIC, SHARE: SHARE_TOPIC}
_BATCH_VERSION: Final = 4
_SHARE_VERSION: Final = 6
_NO_NODE: Final = -1
# Most keys of a request whose answer may be kept.
_KEPT_KEYS: Final = 100

LeaderOf = Callable[[str], tuple[int, str, int] | str]
"""Returns id, host and port of the broker that coordinates a key, or why there is none."""


class Coordinating(Protocol):
    """A coordinator whose keys hash to the partitions of an internal topic."""

    async def ensure_topic(self) -> None:
        """Creates the topic on first use."""

    def partition_of(self, key: str, /) -> int:
        """Returns the partition of a key."""

    def coordinates(self, key: str, /) -> bool:
        """Whether this broker coordinates the key."""


async def handle(
    request: "Request",
    *,
    node_id: int,
    metadata: "Metadata",
    coordinators: "Coordinators",
    authorizer: "Authorizer",
) -> FindCoordinatorResponse:
    """Returns the leader of the partition of the coordinators' topic that a key hashes to, at its address of
    the listener used; creates the topic on first use.

    Behaviour: while the partition has no leader, COORDINATOR_NOT_AVAILABLE. The key of a share partition is
    "group:topic id:partition".
    """
    body: FindCoordinatorRequest = request.body
    leader_of = partial(_leader, node_id, metadata, coordinators, request)
    keys: Sequence[str] = body.coordinator_keys if request.version >= _BATCH_VERSION else (body.key,)
    found_for = _coordinators(request, keys, leader_of, coordinators=coordinators, authorizer=authorizer)
    if request.version >= _BATCH_VERSION:
        if len(keys) > _KEPT_KEYS:
            return FindCoordinatorResponse(coordinators=streamed(found_for))
        found_all = [each async for each in found_for]
        request.keeps = not any(each.error_code for each in found_all)
        return FindCoordinatorResponse(coordinators=found_all)
    found = await anext(found_for)
    request.keeps = not found.error_code
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message or Errors.of(found.error_code).name,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


async def _coordinators(
    request: "Request",
    keys: Iterable[str],
    leader_of: LeaderOf,
    *,
    coordinators: "Coordinators",
    authorizer: "Authorizer",
) -> AsyncIterator[Coordinator]:
    """Yields the answer for each key. The topic of the coordinators is created for the first allowed one."""
    key_type = request.body.key_type
    prepared: tuple[Error, str] | None = None
    is_share = key_type == SHARE and request.version >= _SHARE_VERSION
    may_ask = not is_share or not denies(
        authorizer, request, AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER, CLUSTER_NAME
    )
    for key in keys:
        if not may_ask:
            yield _coordinator(leader_of, key_type, key, Errors.CLUSTER_AUTHORIZATION_FAILED, "")
            continue
        if key_type in _DESCRIBED:
            kind, error = _DESCRIBED[key_type]
            if denies(authorizer, request, AclOperation.DESCRIBE, kind, key):
                yield _coordinator(leader_of, key_type, key, error, "")
                continue
        if prepared is None:
            prepared = await _prepare(coordinators, key_type, request.version)
        yield _coordinator(leader_of, key_type, key, *prepared)


def _coordinator(leader_of: LeaderOf, key_type: int, key: str, error: Error, detail: str) -> Coordinator:
    if not error and key_type == SHARE:
        try:
            key = coordinator_key(parse_coordinator_key(key))
        except ValueError as invalid:
            error, detail = Errors.INVALID_REQUEST, f"{key!r} is not the key of a share partition: {invalid}"
    if not error:
        found = leader_of(key)
        if not isinstance(found, str):
            leader_id, host, port = found
            return Coordinator(key=key, node_id=leader_id, host=host, port=port, error_message=detail)
        error, detail = Errors.COORDINATOR_NOT_AVAILABLE, found
    return Coordinator(
        key=key, node_id=_NO_NODE, host="", port=_NO_NODE, error_code=error.code, error_message=detail
    )


def _leader(
    node_id: int, metadata: "Metadata", coordinators: "Coordinators", request: "Request", key: str
) -> tuple[int, str, int] | str:
    """Returns id, host and port of the broker that coordinates a key, or why there is none."""
    image = metadata.image
    name = _TOPICS[request.body.key_type]
    coordinator: Coordinating = coordinators.of(name)
    topic = image.topics.get(name)
    partition = coordinator.partition_of(key)
    if topic is None or partition >= len(topic.partitions):
        return f"{name} is being created; try again."
    leader_id = topic.partitions[partition].leader
    if leader_id == node_id:
        if not coordinator.coordinates(key):
            return (
                "This broker does not coordinate the key yet, or the log directory with its partition of "
                f"{name} has failed; see the broker's log."
            )
        return leader_id, request.listener.host, request.listener.port
    leader = image.brokers.get(leader_id)
    endpoint = leader.endpoint(request.listener.name) if leader is not None else None
    if endpoint is None:
        return f"The partition of {name} has no leader that can be reached from here."
    return leader_id, endpoint.host, endpoint.port


async def _prepare(coordinators: "Coordinators", key_type: int, version: int) -> tuple[Error, str]:
    """Makes sure that the requested coordinator exists."""
    if key_type == SHARE and version < _SHARE_VERSION:
        return Errors.INVALID_REQUEST, f"Version {version} does not know share partitions."
    if key_type in _TOPICS:
        try:
            coordinator: Coordinating = coordinators.of(_TOPICS[key_type])
            await coordinator.ensure_topic()
        except KafkaError as error:
            return Errors.COORDINATOR_NOT_AVAILABLE, str(error)
        return Errors.NONE, ""
    return Errors.INVALID_REQUEST, f"Coordinator type {key_type} is unknown."
