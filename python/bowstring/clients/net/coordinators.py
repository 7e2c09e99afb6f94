"""Builds requests that find the coordinators of groups and transactional ids, and reads the answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from bowstring.clients.errors import broker_error
from bowstring.clients.records import Node
from bowstring.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

# What a coordinator coordinates.
GROUP, TRANSACTION = 0, 1
_KINDS: Final = {GROUP: "group", TRANSACTION: "transactional id"}
# From this version on FindCoordinator takes several keys (KIP-699).
_KEYS_VERSION: Final = 4


def coordinator_name(key: str, kind: int = GROUP) -> str:
    """Names a coordinator for messages: `coordinator of group 'g'`."""
    return f"coordinator of {_KINDS[kind]} {key!r}"


def coordinator_request(*keys: str, kind: int = GROUP) -> Callable[[int], FindCoordinatorRequest]:
    """Returns a request for the coordinators of groups, or of transactional ids.

    Brokers before Kafka 3.0 find the first alone.
    """

    def build(version: int) -> FindCoordinatorRequest:
        if version >= _KEYS_VERSION:
            return FindCoordinatorRequest(coordinator_keys=list(keys), key_type=kind)
        return FindCoordinatorRequest(key=keys[0], key_type=kind if version else 0)

    return build


def found_coordinator(answer: FindCoordinatorResponse, key: str, kind: int = GROUP) -> Node:
    """Returns the broker that an answer about one key names.

    Raises:
        BrokerError: there is none now, or access is denied.
    """
    return _node(answer.coordinators[0] if answer.coordinators else answer, key, kind)


def found_coordinators(
    answer: FindCoordinatorResponse, keys: Sequence[str], kind: int = GROUP
) -> dict[str, Node]:
    """Returns the brokers that an answer names, by key.

    A broker before Kafka 3.0 names that of the first key alone.

    Raises:
        BrokerError: one of the keys has no coordinator now, or access is denied.
    """
    if not answer.coordinators:
        return {keys[0]: _node(answer, keys[0], kind)}
    return {each.key: _node(each, each.key, kind) for each in answer.coordinators}


def _node(found: Any, key: str, kind: int) -> Node:
    if found.error_code:
        raise broker_error(found.error_code, coordinator_name(key, kind), found.error_message)
    return Node(found.node_id, found.host, found.port)
