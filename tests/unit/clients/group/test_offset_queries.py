"""Questions about offsets that brokers refuse for a while."""

from bowstring.clients.consumer.consumer import Consumer
from bowstring.clients.errors import BrokerError
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from tests.support.fake_group import FakeGroup
from tests.support.waiting import error_in_time


def test_what_brokers_answer_to_the_end_is_the_error():
    """Not that the last try had no time."""
    code = Errors.COORDINATOR_NOT_AVAILABLE.code
    refusal = FindCoordinatorResponse(coordinators=[Coordinator(key="g", error_code=code)])
    with FakeGroup() as broker, Consumer(broker.bootstrap, group_id="g") as consumer:
        broker.handlers[FindCoordinatorRequest] = lambda *_: refusal
        error = error_in_time(lambda s: consumer.committed([("t", 0)], timeout=s), BrokerError)
        assert error.code == code
