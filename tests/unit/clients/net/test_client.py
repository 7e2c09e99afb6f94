"""Connections in trouble: every failure is a named error within its time, and nothing hangs."""

import contextlib
import errno
import socket
import threading
import time

import pytest

from bowstring._native.client import socket_io as gil_turns
from bowstring.clients.admin.admin import Admin
from bowstring.clients.errors import (
    BrokerUnreachableError,
    ClientError,
    ConfigError,
    ConnectionLostError,
    GarbledAnswerError,
    NoBrokerError,
    ProtocolError,
    RequestTimedOutError,
    UnsupportedApiError,
)
from bowstring.clients.net import connection
from bowstring.clients.net.client import NetworkClient
from bowstring.clients.net.connection import Pending
from bowstring.clients.net.metadata import ClusterMetadata, parse_bootstrap
from bowstring.clients.records import Node
from bowstring.protocol.messages.describe_quorum import DescribeQuorumRequest
from bowstring.protocol.messages.metadata import MetadataRequest
from bowstring.protocol.versions import API_VERSIONS
from tests.support.addresses import own_address
from tests.support.fake_broker import CLOSE, SILENCE, FakeBroker
from tests.support.serving import steady_port
from tests.support.waiting import FOR_EVER_MS, FOR_EVER_S, HANG_S, wait_until


@pytest.fixture
def client():
    made = NetworkClient("test", connect_timeout_ms=FOR_EVER_MS, request_timeout_ms=int(HANG_S * 1000))
    yield made
    made.close()


def ask(client, broker, **options):
    return client.wait(
        client.send(Node(1, broker.host, broker.port), MetadataRequest, MetadataRequest(), **options)
    )


def test_requests_are_answered_in_the_newest_common_version(client):
    with FakeBroker() as broker:
        assert ask(client, broker).cluster_id == "fake"
        assert client.versions(Node(1, broker.host, broker.port))[3] == (0, API_VERSIONS[3].highest)


def test_an_old_broker_is_asked_again_for_its_versions(client):
    with FakeBroker(api_versions_max=0) as broker:
        assert ask(client, broker).cluster_id == "fake"


def test_many_requests_travel_together_and_come_back_in_order(client):
    with FakeBroker() as broker:
        node, done = Node(1, broker.host, broker.port), []
        sent = [
            client.send(node, MetadataRequest, MetadataRequest(), callback=lambda p: done.append(p))
            for _ in range(50)
        ]
        client.wait(sent[-1])
        assert done == sent


def test_nobody_listening_names_the_address(client):
    with pytest.raises(BrokerUnreachableError, match=r"127\.0\.0\.1:1: .*refused.*Check that it is running"):
        client.wait(client.send(Node(1, "127.0.0.1", 1), MetadataRequest, MetadataRequest()))
    assert client.backing_off(Node(1, "127.0.0.1", 1))


def test_a_name_that_does_not_resolve(client):
    with pytest.raises(BrokerUnreachableError, match=r"does not resolve"):
        client.wait(client.send(Node(1, "no.such.host.invalid", 1), MetadataRequest, MetadataRequest()))


def test_a_closed_connection_fails_what_is_in_flight(client):
    with FakeBroker() as broker:
        ask(client, broker)
        broker.handlers[MetadataRequest] = lambda version, request: CLOSE
        with pytest.raises(ConnectionLostError):
            ask(client, broker)


def test_silence_ends_in_a_timeout(client):
    with FakeBroker() as broker:
        broker.handlers[MetadataRequest] = lambda version, request: SILENCE
        with pytest.raises(RequestTimedOutError, match=r"Metadata within 0.3 s"):
            ask(client, broker, timeout_s=0.3)


def test_time_for_which_a_broker_throttles_is_not_waiting(client):
    """The broker reads nothing meanwhile (KIP-219); a lost connection would end that early."""

    def throttled(version, request):
        answer = broker.metadata(version, request)
        answer.throttle_time_ms = FOR_EVER_MS
        return answer

    with FakeBroker() as broker:
        broker.handlers[MetadataRequest] = throttled
        ask(client, broker)
        broker.handlers[MetadataRequest] = lambda version, request: SILENCE
        node = Node(1, broker.host, broker.port)
        pending = client.send(node, MetadataRequest, MetadataRequest(), timeout_s=0.05)
        while time.monotonic() < pending.deadline + 0.05:
            client.poll(0.05)
        assert not pending.done


def test_a_throttle_without_end_ends_and_is_waited_for_at_rest(client, monkeypatch):
    def throttled(version, request):
        answer = broker.metadata(version, request)
        answer.throttle_time_ms = 2**31 - 1
        return answer

    monkeypatch.setattr(connection, "THROTTLE_MAX_S", 0.5)
    with FakeBroker() as broker:
        broker.handlers[MetadataRequest] = throttled
        ask(client, broker)
        broker.handlers[MetadataRequest] = lambda version, request: SILENCE
        polls = []
        monkeypatch.setattr(client, "poll", lambda s: (polls.append(s), NetworkClient.poll(client, s)))
        with pytest.raises(RequestTimedOutError):
            ask(client, broker, timeout_s=0.05)
        assert len(polls) < 40


def test_a_listener_that_never_answers_is_unreachable():
    client = NetworkClient("test", connect_timeout_ms=300)
    with socket.create_server((own_address(), 0)) as listener:
        node = Node(1, *listener.getsockname())
        with pytest.raises(BrokerUnreachableError, match=r"no answer within 0.3 s"):
            client.wait(client.send(node, MetadataRequest, MetadataRequest()))
    client.close()


def test_a_short_request_does_not_wait_for_a_listener_that_never_answers(client):
    """Not for connect_timeout_ms: the other requests to that listener still wait."""
    with socket.create_server((own_address(), 0)) as silent:
        node = Node(1, *silent.getsockname())
        patient = client.send(node, MetadataRequest, MetadataRequest())
        hurried = client.send(node, MetadataRequest, MetadataRequest(), timeout_s=0.1)
        with pytest.raises(RequestTimedOutError):
            client.wait(hurried)
        assert not patient.done


@pytest.mark.parametrize(
    "garbage", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x00\x00\x00\x04\x7f\x7f\x7f\x7f", b"\xff" * 8]
)
def test_something_else_on_the_port(client, garbage):
    listener = socket.create_server((own_address(), 0))

    def serve():
        connection, _ = listener.accept()
        connection.recv(1000)
        connection.sendall(garbage)
        with contextlib.suppress(OSError):
            while connection.recv(1000):  # until the client gives it up
                pass
        connection.close()

    threading.Thread(target=serve, daemon=True).start()
    node = Node(1, *listener.getsockname())
    with pytest.raises((ProtocolError, BrokerUnreachableError)):
        client.wait(client.send(node, MetadataRequest, MetadataRequest()), HANG_S)
    listener.close()


def test_an_api_the_broker_lacks(client):
    with FakeBroker() as broker:
        whole = broker.api_versions

        def without(version, request):
            answer = whole(version, request)
            answer.api_keys = [api for api in answer.api_keys if api.api_key != DescribeQuorumRequest.api_key]
            return answer

        broker.handlers = {type(r): h for r, h in ()} | broker.handlers
        for cls in list(broker.handlers):
            if cls.__name__ == "ApiVersionsRequest":
                broker.handlers[cls] = without
        node = Node(1, broker.host, broker.port)
        with pytest.raises(UnsupportedApiError, match=r"DescribeQuorum"):
            client.wait(client.send(node, DescribeQuorumRequest, DescribeQuorumRequest()))


def test_closing_fails_what_is_in_flight():
    client = NetworkClient("test")
    with FakeBroker() as broker:
        broker.handlers[MetadataRequest] = lambda version, request: SILENCE
        pending = client.send(Node(1, broker.host, broker.port), MetadataRequest, MetadataRequest())
        client.poll(0.1)
        client.close()
        assert isinstance(pending, Pending) and pending.done and "closed" in str(pending.error)


def test_wakeup_from_another_thread_ends_a_poll(client):
    threading.Timer(0.1, client.wakeup).start()
    began = time.monotonic()
    client.poll(FOR_EVER_S)
    assert time.monotonic() - began < HANG_S


def test_no_broker_at_all_names_all_that_were_tried():
    with (
        Admin("127.0.0.1:1,localhost:2", timeout_ms=300) as admin,
        pytest.raises(NoBrokerError, match=r"127\.0\.0\.1:1: .*; localhost:2: .*bowstring serve"),
    ):
        admin.topics()


def test_one_live_broker_among_the_bootstrap_servers_is_enough():
    with (
        FakeBroker() as broker,
        Admin(f"127.0.0.1:1,{broker.bootstrap}", timeout_ms=int(HANG_S * 1000)) as admin,
    ):
        assert admin.topics() == {}


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("a:1,b:2", [("a", 1), ("b", 2)]),
        (["a:1", " b "], [("a", 1), ("b", 9092)]),
        ("PLAINTEXT://[::1]:7", [("::1", 7)]),
    ],
)
def test_bootstrap_servers(text, nodes):
    assert [(node.host, node.port) for node in parse_bootstrap(text)] == nodes


@pytest.mark.parametrize("text", ["", "a:b", "a:0", "a:70000", ":9"])
def test_bad_bootstrap_servers(text):
    with pytest.raises(ConfigError, match=r"bootstrap"):
        parse_bootstrap(text)


def test_a_request_that_fails_at_once_completes_in_poll(client):
    """Otherwise its sender notes it as under way after it has failed, and waits for it for ever."""
    done = []
    for _ in range(2):  # the second finds the node left alone for a moment
        pending = client.send(
            Node(0, "127.0.0.1", 1), MetadataRequest, MetadataRequest(), callback=done.append
        )
        while not pending.done:
            client.poll(0.1)
        client.poll(0)
    assert len(done) == 2 and all(isinstance(each.error, ClientError) for each in done)
    pending = client.send(Node(0, "127.0.0.1", 1), MetadataRequest, MetadataRequest(), callback=done.append)
    assert pending.done and len(done) == 2
    client.poll(60)
    assert len(done) == 3


def test_clients_started_before_their_broker_find_it():
    port = steady_port()
    cluster_client = NetworkClient("early")
    cluster = ClusterMetadata(cluster_client, parse_bootstrap(f"{own_address()}:{port}"))
    for _ in range(30):
        cluster_client.poll(min(0.01, cluster.maintain()))
    assert cluster.version == 0
    with FakeBroker(port=port):
        deadline = time.monotonic() + HANG_S
        while cluster.version == 0 and time.monotonic() < deadline:
            cluster_client.poll(min(0.1, cluster.maintain()))
    cluster_client.close()
    assert cluster.version > 0


@pytest.mark.parametrize("spoil", [lambda frame: frame[:-3], lambda frame: frame + b"tail"])
def test_an_answer_that_cannot_be_read_fails_its_request_and_those_behind(client, spoil):
    with FakeBroker() as broker:
        node = Node(1, broker.host, broker.port)
        client.wait(client.send(node, MetadataRequest, MetadataRequest()))
        broker.spoil = spoil
        pending = [client.send(node, MetadataRequest, MetadataRequest()) for _ in range(3)]
        for each in pending:
            with pytest.raises(GarbledAnswerError):
                client.wait(each)
        broker.spoil = None

        def ask_again():  # a node whose connection broke is left alone for a moment
            with contextlib.suppress(BrokerUnreachableError, GarbledAnswerError):
                return client.wait(client.send(node, MetadataRequest, MetadataRequest()))

        assert wait_until(ask_again).cluster_id == "fake"


def test_a_client_id_that_no_request_can_carry():
    with pytest.raises(ConfigError, match="client_id has 40000 bytes"):
        NetworkClient("c" * 40_000)


class Breaks:
    """The socket accepts `times` sends; then it is broken."""

    def __init__(self, monkeypatch, times):
        self.left = times
        monkeypatch.setattr(connection, "send_queue", self.send_queue)

    def send_queue(self, descriptor, out, keep_gil=False):
        self.left -= 1
        if self.left < 0:
            raise BrokenPipeError(errno.EPIPE, "broken")
        gil_turns.send_queue(descriptor, out, keep_gil)


@pytest.mark.parametrize("times", range(1, 6))
def test_a_connection_that_breaks_under_what_waited_for_it(client, monkeypatch, times):
    """ApiVersions goes first, then all that has waited: each fails, none is forgotten."""
    with FakeBroker() as broker:
        node = Node(1, broker.host, broker.port)
        broker.handlers[MetadataRequest] = lambda version, request: SILENCE
        Breaks(monkeypatch, times)
        asked = [
            client.send(node, MetadataRequest, MetadataRequest(), timeout_s=FOR_EVER_S) for _ in range(4)
        ]
        deadline = time.monotonic() + HANG_S
        while time.monotonic() < deadline and (times < 5 and not all(pending.done for pending in asked)):
            client.poll(0.1)
        if times < 5:
            assert all(isinstance(pending.error, ConnectionLostError) for pending in asked)
        else:
            assert not any(pending.done for pending in asked)


@pytest.mark.parametrize("expects_reply", [True, False])
def test_a_connection_that_breaks_under_a_request(client, monkeypatch, expects_reply):
    with FakeBroker() as broker:
        node = Node(1, broker.host, broker.port)
        ask(client, broker)
        Breaks(monkeypatch, 0)
        pending = client.send(node, MetadataRequest, MetadataRequest(), expects_reply=expects_reply)
        assert isinstance(pending.error, ConnectionLostError)


def test_a_request_that_cannot_be_encoded(client):
    """It fails alone."""
    with FakeBroker() as broker:
        node = Node(1, broker.host, broker.port)
        ask(client, broker)
        with pytest.raises(ProtocolError):
            client.wait(client.send(node, MetadataRequest, lambda version: no_request()))
        ask(client, broker)


def no_request():
    raise ProtocolError("cannot be sent")
