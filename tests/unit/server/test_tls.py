"""TLS listeners of a data plane, with Python's ssl module as the client."""

import contextlib
import random
import socket
import ssl
import threading

import pytest

from bowstring.protocol import encode_request
from tests.support.certificates import authority, client_identity, foreign_authority
from tests.support.plane_client import PlaneClient
from tests.support.plane_requests import batch, fetch, fetched, only, produce, records_of
from tests.support.served_plane import Served
from tests.support.taken_requests import Taken
from tests.support.tls_contexts import python_context, server_context
from tests.support.waiting import HANG_S, wait_until

RANDOM = random.Random(7)


@pytest.fixture
def serve(tmp_path):
    served = []

    def serve(**settings):
        settings.setdefault("tls", server_context())
        served.append(Served(tmp_path, log_config={"segment_bytes": 64 << 20}, **settings))
        return served[-1]

    yield serve
    for each in served:
        each.close()


def events(served, name):
    """The details of the events with this name; waits for one."""
    found = []

    def look():
        found.extend(event for event in served.plane.take_events() if event[1] == name)
        return found

    wait_until(look, name)
    return [detail for _, _, detail in found]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_produce_and_fetch(serve, version):
    served = serve()
    context = python_context()
    context.minimum_version = context.maximum_version = version
    client = served.client(context)
    assert only(client.call(produce(batch(b"a", b"b"), 13), 13)).error_code == 0
    assert records_of(fetched(client.call(fetch(17), 17)).records) == [(0, b"a"), (1, b"b")]
    assert served.plane.counters()["tls"] == {"handshakes": 1, "resumed": 0, "failures": 0}


@pytest.mark.parametrize("size", [1, 16_383, 16_384, 65_536, 300_000, 900_000])
def test_sizes_of_batches(serve, size):
    """Small pieces are gathered; frames larger than the receive buffer, and fetches from files, come through."""
    served = serve()
    client = served.client(python_context())
    value = RANDOM.randbytes(size)
    for _ in range(3):
        assert only(client.call(produce(batch(value), 13), 13)).error_code == 0
    found = records_of(fetched(client.call(fetch(17, partition_max_bytes=50 << 20), 17)).records)
    assert [each for _, each in found] == [value] * 3


def test_pipelined_requests(serve):
    served = serve()
    client = served.client(python_context())
    value = RANDOM.randbytes(50_000)
    for _ in range(40):
        client.send(produce(batch(value), 13), 13)
    for offset in range(40):
        assert only(client.receive(0, 13)).base_offset == offset


def test_a_slow_reader_of_a_large_fetch(serve):
    """The socket fills: what is encrypted waits, and nothing is lost or repeated."""
    served = serve()
    client = served.client(python_context())
    value = RANDOM.randbytes(400_000)
    for _ in range(8):
        client.call(produce(batch(value), 13), 13)
    slow = served.client(python_context())
    for _ in range(3):
        slow.send(fetch(17, partition_max_bytes=50 << 20), 17)
    assert only(client.call(produce(batch(b"others go on"), 13), 13)).error_code == 0
    for _ in range(3):
        found = records_of(fetched(slow.receive(1, 17)).records)
        assert [each for _, each in found][:8] == [value] * 8


def test_one_byte_at_a_time(serve):
    served = serve()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    peer = python_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    raw = socket.create_connection(("127.0.0.1", served.port), timeout=HANG_S)
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def drip():
        for byte in outgoing.read():
            raw.send(bytes([byte]))

    while True:
        try:
            peer.do_handshake()
            break
        except ssl.SSLWantReadError:
            drip()
            incoming.write(raw.recv(1 << 16))
    drip()
    frame = encode_request(produce(batch(b"slow"), 13), 13, 1, "test")
    peer.write(len(frame).to_bytes(4, "big") + frame)
    drip()
    while True:
        try:
            assert len(peer.read(100)) > 10
            break
        except ssl.SSLWantReadError:
            incoming.write(raw.recv(1 << 16))
    raw.close()


def test_sessions_resume(serve):
    served = serve(reactors=2)
    context = python_context()
    first = served.client(context)
    first.call(fetch(17), 17)
    for _ in range(2):  # on both reactors
        again = served.client(context, first.socket.session)
        again.call(fetch(17), 17)
        assert again.socket.session_reused
    assert served.plane.counters()["tls"]["resumed"] == 2


def test_a_session_ticket_comes_with_the_first_answer(serve):
    """And not before: that would cost a system call and a segment of each handshake."""
    served = serve()
    client = served.client(python_context())
    wait_until(lambda: served.plane.counters()["tls"]["handshakes"] == 1, "the handshake's end")
    socket_alone = socket.socket(fileno=socket.dup(client.socket.fileno()))
    with socket_alone, pytest.raises(BlockingIOError):
        socket_alone.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    client.call(fetch(17), 17)
    assert client.socket.session.has_ticket


def test_no_good_bye_for_a_peer_that_has_closed_its_side(serve):
    served = serve()
    client = served.client(python_context())
    client.call(fetch(17), 17)
    raw = socket.socket(fileno=client.socket.detach())
    with raw:
        raw.settimeout(HANG_S)
        raw.shutdown(socket.SHUT_WR)
        assert raw.recv(1) == b""


def test_plain_text_to_a_tls_listener(serve):
    served = serve()
    client = served.client()
    client.send(fetch(17), 17)
    assert client.closed()
    (detail,) = events(served, "plaintext-on-tls")
    assert "security.protocol=SSL" in detail
    assert served.plane.counters()["tls"]["failures"] == 1


def test_tls_to_a_plain_listener(serve):
    served = serve(tls=None)
    with pytest.raises((ssl.SSLError, ConnectionError)):
        served.client(python_context())
    (detail,) = events(served, "tls-on-plaintext")
    assert "security.protocol=PLAINTEXT" in detail


def test_a_client_that_does_not_trust(serve):
    served = serve()
    context = ssl.create_default_context(cadata=foreign_authority().certificate.decode())
    with pytest.raises(ssl.SSLCertVerificationError):
        served.client(context)
    (detail,) = events(served, "tls-handshake-failed")
    assert "ssl.truststore.location" in detail


def test_failures_are_reported_once_a_second(serve):
    served = serve()
    for count in range(1, 6):
        client = served.client()
        client.send(fetch(17), 17)
        assert client.closed()
        wait_until(lambda count=count: served.plane.counters()["tls"]["failures"] == count)
    assert len(events(served, "plaintext-on-tls")) <= 3


class TestClientCertificates:
    @pytest.fixture
    def served(self, serve):
        return serve(tls=server_context(client_auth="required", trusted=authority().certificate))

    def test_the_control_thread_admits_the_client(self, served):
        client = served.client(python_context(client_identity()))
        client.send(produce(batch(b"x"), 13), 13)  # waits for the principal
        taken = Taken(served)
        taken.come(1)
        (item,) = taken
        assert item.api_key == -2
        assert item.body == ssl.PEM_cert_to_DER_cert(client_identity().certificate.decode())
        assert served.logs["flights", 0].log_end_offset == 0
        served.plane.admit(item.connection_id, "User:alice")
        assert only(client.receive(0, 13)).error_code == 0

    def test_a_client_without_one_is_refused(self, served):
        client = PlaneClient(served.port, python_context())  # TLS 1.3: the client learns it when it reads
        with pytest.raises((ssl.SSLError, ConnectionError)):
            client.call(fetch(17), 17)
        (detail,) = events(served, "tls-handshake-failed")
        assert "ssl.client.auth=required" in detail

    def test_a_foreign_one_is_refused(self, served):
        client = PlaneClient(served.port, python_context(foreign_authority().identity("mallory", ())))
        with pytest.raises((ssl.SSLError, ConnectionError)):
            client.call(fetch(17), 17)
        (detail,) = events(served, "tls-handshake-failed")
        assert "not from an authority" in detail

    def test_without_one_where_it_is_only_requested(self, serve):
        served = serve(tls=server_context(client_auth="requested", trusted=authority().certificate))
        client = served.client(python_context())
        assert only(client.call(produce(batch(b"x"), 13), 13)).error_code == 0


class TestHandshakes:
    def test_half_open_ones_end_in_time(self, serve):
        served = serve(authentication_max_ms=50)
        silent = [served.client() for _ in range(5)]
        hello = ssl.MemoryBIO()
        begun = python_context().wrap_bio(ssl.MemoryBIO(), hello, server_hostname="localhost")
        with pytest.raises(ssl.SSLWantReadError):
            begun.do_handshake()
        waiting = served.client()
        waiting.socket.sendall(hello.read())
        assert all(client.closed() for client in silent)
        while waiting.socket.recv(1 << 16):
            pass
        wait_until(lambda: served.plane.counters()["connections"] == 0)
        assert served.plane.counters()["tls"]["failures"] == 6

    def test_others_work_while_many_are_half_open(self, serve):
        served = serve()
        client = served.client(python_context())
        hello = ssl.MemoryBIO()
        begun = python_context().wrap_bio(ssl.MemoryBIO(), hello, server_hostname="localhost")
        with pytest.raises(ssl.SSLWantReadError):
            begun.do_handshake()
        first = hello.read()
        for _ in range(1100):
            served.client().socket.sendall(first)
        for offset in range(20):
            assert only(client.call(produce(batch(b"x"), 13), 13)).base_offset == offset
        # The oldest are given up.
        wait_until(lambda: served.plane.counters()["tls"]["failures"] >= 1100 - 1024)
        assert "oldest" in events(served, "tls-handshakes-full")[0]
        fresh = served.client(python_context())
        assert fetched(fresh.call(fetch(17), 17)).high_watermark == 20

    def test_a_host_with_few_does_not_wait_behind_one_with_many(self, serve):
        served = serve()
        hello = ssl.MemoryBIO()
        begun = python_context().wrap_bio(ssl.MemoryBIO(), hello, server_hostname="localhost")
        with pytest.raises(ssl.SSLWantReadError):
            begun.do_handshake()
        first = hello.read()
        with contextlib.ExitStack() as stack:
            for _ in range(1700):
                served.client().socket.sendall(first)
            counters = served.plane.counters
            wait_until(lambda: counters()["tls"]["failures"] or counters()["connections"] >= 1700)
            before = counters()["tls"]["failures"]
            plain = socket.create_connection(
                ("127.0.0.1", served.port), HANG_S, source_address=("127.0.0.9", 0)
            )
            stack.callback(plain.close)
            stack.enter_context(python_context().wrap_socket(plain, server_hostname="localhost"))
            assert counters()["tls"]["failures"] - before < 400, "676 are before it"

    def test_stop_during_a_handshake(self, serve):
        served = serve()
        client = served.client()
        client.socket.sendall(b"\x16\x03\x01\x02\x00\x01")
        served.plane.stop()
        assert client.closed()

    @pytest.mark.parametrize("cut", [1, 5, 100, 200])
    def test_a_truncated_one(self, serve, cut):
        served = serve()
        hello = ssl.MemoryBIO()
        begun = python_context().wrap_bio(ssl.MemoryBIO(), hello, server_hostname="localhost")
        with pytest.raises(ssl.SSLWantReadError):
            begun.do_handshake()
        client = served.client()
        client.socket.sendall(hello.read()[:cut])
        client.socket.shutdown(socket.SHUT_WR)
        assert client.closed()
        wait_until(lambda: served.plane.counters()["tls"]["failures"] == 1)


def test_garbage_after_the_handshake(serve):
    served = serve()
    client = served.client(python_context())
    client.call(fetch(17), 17)
    raw = client.socket.detach()
    with socket.socket(fileno=raw) as below:
        below.settimeout(10)
        below.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
        while below.recv(1 << 16):
            pass
    assert "tls-broken" in [event[1] for event in served.plane.take_events()]


def test_other_keys_for_new_connections(serve):
    """`set_tls` while clients work: none of them notices."""
    served = serve(reactors=2)
    old = served.client(python_context())
    old.call(fetch(17), 17)
    done = threading.Event()
    counted = [0]

    def work():
        while not done.is_set():
            client = PlaneClient(served.port, python_context())
            assert only(client.call(produce(batch(b"x"), 13), 13)).error_code == 0
            client.close()
            counted[0] += 1

    worker = threading.Thread(target=work)
    worker.start()
    for _ in range(10):
        new = authority().identity("renewed")
        served.plane.set_tls(0, server_context(new))
        before = counted[0]
        wait_until(lambda before=before: counted[0] > before)
    done.set()
    worker.join(HANG_S)
    fresh = served.client(python_context())
    assert fresh.socket.getpeercert(binary_form=True) == ssl.PEM_cert_to_DER_cert(new.certificate.decode())
    assert only(old.call(produce(batch(b"x"), 13), 13)).error_code == 0


def test_only_tls_listeners_change_keys(serve):
    served = serve(tls=None)
    with pytest.raises(ValueError, match="no TLS"):
        served.plane.set_tls(0, server_context())
