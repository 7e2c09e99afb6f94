"""What is not there yet is refused in the way by which clients of each version give up (docs/guide/other-clients.md)."""

import pytest

from bowstring.engine.errors import Errors
from bowstring.engine.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from bowstring.engine.protocol.messages.find_coordinator import FindCoordinatorRequest

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
    assert found(served, 6, SHARE).error_code == Errors.INVALID_REQUEST.code


@pytest.mark.parametrize("version", [0, 1])
def test_the_new_group_protocol(served, version):
    answer = served.ask(ConsumerGroupHeartbeatRequest(group_id="g", member_id="m"), version)
    assert answer.error_code == Errors.UNSUPPORTED_VERSION.code
    assert "group.protocol=classic" in answer.error_message
