"""FindCoordinator in the versions of brokers, and its answers."""

import pytest

from bowstring.clients.errors import BrokerError
from bowstring.clients.net.coordinators import (
    TRANSACTION,
    coordinator_name,
    coordinator_request,
    found_coordinator,
    found_coordinators,
)
from bowstring.clients.records import Node
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse

FIRST, SECOND = Node(1, "h1", 9092), Node(2, "h2", 9092)


def row(key, node, error=Errors.NONE, message=None):
    return Coordinator(
        key=key, node_id=node.id, host=node.host, port=node.port, error_code=error.code, error_message=message
    )


def old(node, error=Errors.NONE, message=None):
    return FindCoordinatorResponse(
        node_id=node.id, host=node.host, port=node.port, error_code=error.code, error_message=message
    )


@pytest.mark.parametrize(
    ("version", "keys", "key", "kind"),
    [(0, [], "a", 0), (1, [], "a", TRANSACTION), (3, [], "a", TRANSACTION), (4, ["a", "b"], "", TRANSACTION)],
)
def test_several_keys_need_version_4(version, keys, key, kind):
    request = coordinator_request("a", "b", kind=TRANSACTION)(version)
    assert (request.coordinator_keys, request.key, request.key_type) == (keys, key, kind)


def test_answers_name_coordinators():
    assert found_coordinator(old(FIRST), "g") == FIRST
    assert found_coordinator(FindCoordinatorResponse(coordinators=[row("g", SECOND)]), "g") == SECOND
    both = FindCoordinatorResponse(coordinators=[row("b", SECOND), row("a", FIRST)])
    assert found_coordinators(both, ["a", "b"], TRANSACTION) == {"a": FIRST, "b": SECOND}
    assert found_coordinators(old(FIRST), ["a", "b"], TRANSACTION) == {"a": FIRST}


@pytest.mark.parametrize("is_old", [True, False])
def test_refusals_say_for_what(is_old):
    refused = Errors.COORDINATOR_NOT_AVAILABLE, "no topic yet"
    answer = (
        old(FIRST, *refused) if is_old else FindCoordinatorResponse(coordinators=[row("g", FIRST, *refused)])
    )
    with pytest.raises(BrokerError, match=r"coordinator of group 'g'.*no topic yet") as raised:
        found_coordinator(answer, "g")
    assert raised.value.retriable
    with pytest.raises(BrokerError, match="coordinator of transactional id 'g'"):
        found_coordinators(answer, ["g"], TRANSACTION)


def test_names_are_quoted():
    assert coordinator_name("it's") == """coordinator of group "it's\""""
