"""What a broker does with requests that are not right, and with bugs of its own."""

import asyncio
from types import SimpleNamespace

import pytest

from bowstring.engine.api import list_config_resources, list_offsets, table, token_requests
from bowstring.engine.broker.dispatcher import Dispatcher
from bowstring.engine.broker.request_counters import RequestCounters
from bowstring.engine.requests.answers import error_response
from bowstring.engine.requests.listeners import WITHIN
from bowstring.engine.requests.time_slices import TimeSlices
from bowstring.protocol import API_VERSIONS, decode_request_header, decode_response, encode_request
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages import consumer_group_heartbeat as cgh
from bowstring.protocol.messages import find_coordinator as fc
from bowstring.protocol.messages import init_producer_id as ipi
from bowstring.protocol.messages import join_group as jg
from bowstring.protocol.messages import list_config_resources as lcr
from bowstring.protocol.messages import list_offsets as lo
from bowstring.protocol.messages import metadata as md
from bowstring.protocol.messages import renew_delegation_token as rdt
from tests.support.fake_authorizer import ALLOWS_ALL
from tests.support.served_broker import Served
from tests.support.waiting import HANG_S, wait_until


def lines(caplog, word):
    return [record for record in caplog.records if word in record.getMessage()]


def test_a_malformed_body_closes_the_connection_with_one_line(served, caplog):
    frame = encode_request(md.MetadataRequest(topics=None), 13, 1, "me")
    served.client.send(frame[:-1] + b"\xff\xff\xff\xff\xff")
    assert served.client.is_closed()
    (line,) = lines(caplog, "malformed request")
    assert line.facts["api"] == "Metadata"
    assert line.facts["client"] == "me"


def test_bytes_behind_a_request_are_ignored_as_kafka_ignores_them(served):
    served.client.send(encode_request(md.MetadataRequest(topics=[]), 9, 7, None) + b"\x00")
    assert int.from_bytes(served.client.receive()[:4], "big") == 7


@pytest.mark.parametrize("key, version", [(3, 14), (3, -1), (24, 0), (68, 0), (99, 0), (-5, 0)])
def test_what_is_not_offered_closes_the_connection(served, key, version):
    header = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True)
    served.client.send(header + bytes(12))
    assert served.client.is_closed()
    assert served.connect().ask(md.MetadataRequest(topics=[])).error_code == 0


def test_a_bug_is_answered_with_unknown_server_error_and_its_traceback(served, caplog, monkeypatch):
    async def broken(request):
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr(list_config_resources, "handle", broken)
    response = served.ask(lcr.ListConfigResourcesRequest())
    assert Errors.of(response.error_code) is Errors.UNKNOWN_SERVER_ERROR
    (line,) = lines(caplog, "bug")
    assert "on purpose" in str(line.exc_info[1])
    assert served.ask(md.MetadataRequest(topics=[])).error_code == 0


def test_a_bug_in_an_api_without_a_place_for_an_error_closes_the_connection(served, monkeypatch):
    async def broken(request):
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr(list_offsets, "handle", broken)
    served.client.send(encode_request(lo.ListOffsetsRequest(replica_id=-2), 11, 1, None))
    assert served.client.is_closed()


JOIN = jg.JoinGroupRequest(group_id="g", protocol_type="consumer", session_timeout_ms=10_000)


@pytest.fixture
def begins(served, monkeypatch):
    """Replaces how a request begins without a task. The first one of an API has a task."""

    def replace(request, begin):
        served.ask(request)
        monkeypatch.setitem(served.engine.dispatcher._begins, request.api_key, begin)

    return replace


def test_a_bug_in_a_request_without_a_task_is_answered_once(served, begins, caplog):
    def broken(body, message, token):
        raise ZeroDivisionError("on purpose")

    begins(JOIN, broken)
    assert Errors.of(served.ask(JOIN).error_code) is Errors.UNKNOWN_SERVER_ERROR
    (line,) = lines(caplog, "bug")
    assert "on purpose" in str(line.exc_info[1])

    def broken_later(body, message, token):
        token.set_result(jg.JoinGroupResponse(error_code=5, protocol_name=None))
        raise ZeroDivisionError("on purpose")

    begins(JOIN, broken_later)
    assert served.ask(JOIN).error_code == 5
    init = ipi.InitProducerIdRequest(transactional_id="")
    begins(init, broken)
    served.client.send(encode_request(init, 5, 1, None))
    assert served.client.is_closed(), "an error that is made up would mislead a producer"


def test_a_request_without_a_task_waits_for_its_answer_and_gets_its_error(served, begins):
    tokens = []
    begins(JOIN, lambda body, message, token: tokens.append(token) or True)
    served.client.send(encode_request(JOIN, 9, 1, None))
    wait_until(lambda: tokens)
    assert not tokens[0].done()
    error = KafkaError(Errors.NOT_COORDINATOR)
    served.broker._loop.call_soon_threadsafe(tokens[0].set_exception, error)
    answer = decode_response(JOIN.api_key, 9, served.client.receive())[1]
    assert (answer.error_code, answer.member_id) == (Errors.NOT_COORDINATOR.code, "")
    assert tokens[0].done()


def test_an_answer_that_is_large_or_cannot_be_encoded(served, begins, caplog):
    members = [jg.JoinGroupResponseMember(member_id=f"m{n}", metadata=bytes(100)) for n in range(50_000)]
    answers = [
        jg.JoinGroupResponse(members=members, protocol_name="range"),
        jg.JoinGroupResponse(protocol_name=5),
    ]
    begins(JOIN, lambda body, message, token: token.set_result(answers.pop(0)) or True)
    assert len(served.ask(JOIN).members) == len(members)
    served.client.send(encode_request(JOIN, 9, 1, None))
    assert served.client.is_closed() or lines(caplog, "bug")


def test_a_malformed_join_closes_the_connection_with_one_line(served, caplog):
    served.ask(JOIN)
    served.client.send(encode_request(JOIN, 9, 1, "me")[:-3] + b"\xff\xff\xff\xff\xff")
    assert served.client.is_closed()
    assert len(lines(caplog, "malformed request")) == 1


def test_apis_whose_requests_begin_without_a_task_have_one_error_code():
    for key, row in table.TABLE.items():
        if row.begins:
            assert error_response(key, API_VERSIONS[key].highest, KafkaError(Errors.NOT_COORDINATOR))
            assert not row.refused, "results for each element would need the request"


def test_an_error_response_has_the_error_where_the_version_has_a_place_for_it():
    error = KafkaError(Errors.CLUSTER_AUTHORIZATION_FAILED, "why")
    assert error_response(60, 2, error).error_message == "why"
    assert error_response(3, 12, error) is None
    assert error_response(3, 13, error).error_code == error.code
    assert API_VERSIONS[3].highest == 13


def test_replies_keep_the_order_of_requests(served):
    for correlation_id in range(50):
        request = md.MetadataRequest(topics=[]) if correlation_id % 2 else lcr.ListConfigResourcesRequest()
        version = 9 if correlation_id % 2 else 1
        served.client.send(encode_request(request, version, correlation_id, None))
    answered = [int.from_bytes(served.client.receive()[:4], "big") for _ in range(50)]
    assert answered == list(range(50))


def test_counters_count():
    counters = RequestCounters()
    counters.count(900)
    counters.count(1_500_000, failed=True)
    assert (counters.requests, counters.errors, counters.total_us) == (2, 1, 1500)
    assert counters.buckets[0] == 1
    assert counters.buckets[11] == 1  # 1024 <= 1500 < 2048 microseconds


def test_a_running_broker_says_what_is_wrong_with_a_second_start(served, tmp_path):
    with pytest.raises(RuntimeError, match="already running"):
        served.broker.start()
    with pytest.raises(Exception, match="in use by another broker"):
        Served(tmp_path / "data")


def test_a_client_id_that_could_not_be_stored_is_cut(served):
    """Each byte that is not UTF-8 becomes three; a group stores the ids of its members' clients."""
    find = fc.FindCoordinatorRequest(coordinator_keys=["g"])
    wait_until(lambda: served.ask(find).coordinators[0].error_code == 0)
    beat = cgh.ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        rebalance_timeout_ms=1000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    frame = encode_request(beat, 1, 1, "Z" * 20_000).replace(b"Z" * 20_000, b"\xff" * 20_000)

    def answered():
        served.client.send(frame)
        answer = decode_response(68, 1, served.client.receive())[1]
        return answer.error_code == 0 and answer

    assert wait_until(answered).member_epoch > 0


def test_a_request_that_cannot_be_taken_up_drops_none_behind_it(served, caplog, monkeypatch):
    dispatcher = served.engine.dispatcher
    take_up = dispatcher.take_up

    def broken(item):
        if item.api_key == lcr.ListConfigResourcesRequest.api_key:
            raise ZeroDivisionError("on purpose")
        take_up(item)

    monkeypatch.setattr(dispatcher, "take_up", broken)
    others = [served.connect() for _ in range(3)]
    for client, request in zip(
        [served.client, *others],
        [lcr.ListConfigResourcesRequest(), *[md.MetadataRequest(topics=[])] * 3],
        strict=True,
    ):
        client.send(encode_request(request, API_VERSIONS[request.api_key].lowest, 1, None))
    for client in others:
        assert client.receive()
    assert served.client.is_closed()
    (line,) = lines(caplog, "could not be taken up")
    assert "on purpose" in str(line.exc_info[1])


class _ThatEnds:
    """An authentication whose connection, which has a token, ends while a request is decoded."""

    def __init__(self):
        self.has_ended = False

    def has_token(self, connection_id):
        return not self.has_ended


class _Replies:
    def __init__(self):
        self.sent = asyncio.Event()

    def reply(self, connection_id, slot, payload, *, throttle_ms=0):
        self.sent.set()


def test_a_connection_has_its_token_until_its_last_request_is_answered(monkeypatch):
    seen = []

    async def handle(request):
        seen.append(request.is_token_authenticated)
        return rdt.RenewDelegationTokenResponse()

    monkeypatch.setattr(token_requests, "handle", handle)

    async def run():
        authentication, plane = _ThatEnds(), _Replies()
        dispatcher = Dispatcher(
            plane,
            table.Served(handlers={39: "token_requests"}, offered=(39,), needs={39: ()}),
            lambda name: None,
            authorizer=ALLOWS_ALL,
            advertised=[WITHIN],
            time_slices=TimeSlices(),
            authentication=authentication,
        )
        # So large that it is looked over on another thread.
        frame = encode_request(rdt.RenewDelegationTokenRequest(hmac=bytes(300_000)), 2, 1, None)
        body = frame[decode_request_header(frame).body_offset :]
        dispatcher.take_up(
            SimpleNamespace(
                api_key=39,
                api_version=2,
                correlation_id=1,
                client_id=None,
                body=body,
                body_bytes=len(body),
                connection_id=5,
                slot=0,
                listener=0,
                principal="User:alice",
                peer="127.0.0.1:1",
                received_ns=0,
                authenticating=False,
                drop_body=lambda: None,
            )
        )
        asyncio.get_running_loop().call_soon(setattr, authentication, "has_ended", True)
        await asyncio.wait_for(plane.sent.wait(), HANG_S)

    asyncio.run(run())
    assert seen == [True]
