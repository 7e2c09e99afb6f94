"""Unsupported features are refused so that clients of each version give up (docs/guide/other-clients.md)."""

from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.find_coordinator import FindCoordinatorRequest

SHARE = 2


def found(served, version, key_type):
    answer = served.ask(
        FindCoordinatorRequest(coordinator_keys=["x"], key_type=key_type)
        if version >= 4
        else FindCoordinatorRequest(key="x", key_type=key_type),
        version,
    )
    return answer.coordinators[0] if version >= 4 else answer


def test_coordinators_of_share_groups(served):
    """A group is coordinated by the group coordinator; share coordinators have share partitions."""
    assert found(served, 6, SHARE).error_code == Errors.INVALID_REQUEST.code
