"""Requests that a node's own controller answers within the process."""

import asyncio
from types import SimpleNamespace

import pytest

from bowstring.engine.api.table import BY_CONTROLLER, Served
from bowstring.engine.broker.request_handlers import RequestHandlers
from bowstring.engine.requests.time_slices import TimeSlices
from bowstring.engine.security.principals import OWN_NODE
from bowstring.protocol import ProtocolError
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages import ApiKeys
from bowstring.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from bowstring.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.support.fake_authorizer import ALLOWS_ALL

REQUEST = BrokerHeartbeatRequest(broker_id=1, broker_epoch=2)
KEY = ApiKeys.BROKER_HEARTBEAT


@pytest.fixture
def handlers(monkeypatch):
    """Handlers whose answers are those of `answer`, a function of the request that the test sets."""

    async def handle(request, *, part):
        return part(request)

    monkeypatch.setattr(
        "bowstring.engine.broker.request_handlers.import_module", lambda name: SimpleNamespace(handle=handle)
    )
    made = RequestHandlers(
        Served({KEY: "broker_heartbeat", ApiKeys.CREATE_TOPICS: "create_topics"}, (), BY_CONTROLLER.needs),
        {"part": lambda request: made.answer(request)}.__getitem__,
        authorizer=ALLOWS_ALL,
        time_slices=TimeSlices(),
    )
    return made


def answered(handlers, answer, body=REQUEST, version=1):
    def checked(request):
        if isinstance(answer, Exception):
            raise answer
        return answer(request) if callable(answer) else answer

    handlers.answer = checked
    return asyncio.run(handlers.answer_within(body, version))


def test_the_handler_has_the_request_as_it_is_and_its_answer_is_handed_back(handlers):
    seen, response = [], BrokerHeartbeatResponse()

    def note(request):
        seen.append(request)
        return response

    assert answered(handlers, note, version=0) is response
    (request,) = seen
    assert (request.body, request.version, request.api_key) == (REQUEST, 0, KEY)
    assert request.listener.is_controller and request.principal is OWN_NODE
    assert request.connection_id < 0 and request.client_id is None
    counters = handlers.counters[KEY]
    assert (counters.requests, counters.errors) == (1, 0)


def test_a_refusal_is_an_answer(handlers):
    answer = answered(handlers, KafkaError(Errors.STALE_BROKER_EPOCH))
    assert answer.error_code == Errors.STALE_BROKER_EPOCH.code
    creation = CreateTopicsRequest(topics=[CreatableTopic(name="a"), CreatableTopic(name="b")])
    answer = answered(handlers, KafkaError(Errors.NOT_CONTROLLER, "not here"), creation, version=7)
    assert [(each.name, each.error_code, each.error_message) for each in answer.topics] == [
        ("a", Errors.NOT_CONTROLLER.code, "not here"),
        ("b", Errors.NOT_CONTROLLER.code, "not here"),
    ]


def test_a_bug_is_logged_and_answered_where_the_response_has_an_error(handlers, caplog):
    answer = answered(handlers, ZeroDivisionError("on purpose"))
    assert answer.error_code == Errors.UNKNOWN_SERVER_ERROR.code
    assert "bug: a request handler failed" in caplog.text and "on purpose" in caplog.text
    creation = CreateTopicsRequest(topics=[CreatableTopic(name="a")])
    assert answered(handlers, ZeroDivisionError("on purpose"), creation, version=7) is None
    assert [handlers.counters[key].errors for key in (KEY, ApiKeys.CREATE_TOPICS)] == [1, 1]


def test_what_would_close_a_connection_gets_no_answer(handlers, caplog):
    error = ProtocolError("BrokerHeartbeatResponse", 1, "x", 0, "the answer is too large")
    assert answered(handlers, error) is None
    assert "gets no answer" in caplog.text
