"""Invalid requests: refused with one event, the connection closed, all others served."""

import contextlib
import random
import socket
import struct
import time

import pytest

from bowstring.protocol import encode_request
from tests.support.plane_requests import batch, fetch, produce
from tests.support.served_plane import Served
from tests.support.waiting import FOR_EVER_MS, HANG_S, pause, wait_until


def event_names(served):
    return wait_until(lambda: [name for _, name, _ in served.plane.take_events()], "no event")


def assert_alive(served):
    assert (
        served.client().call(produce(batch(b"alive"), 9), 9).responses[0].partition_responses[0].error_code
        == 0
    )


@pytest.mark.parametrize(
    ("raw", "event"),
    [
        (struct.pack(">i", -1), "bad-frame-size"),
        (struct.pack(">i", 0), "bad-frame-size"),
        (struct.pack(">i", 0x7FFFFFFF), "bad-frame-size"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "tls-on-plaintext"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "bad-frame-size"),
        (struct.pack(">ihhih", 10, 999, 0, 1, -1), "bad-request"),
        (struct.pack(">ihhih", 10, 0, 99, 1, -1), "bad-request"),
        (struct.pack(">ihhih", 10, 0, 9, 1, 500), "bad-request"),
        (struct.pack(">ihhih", 10, -5, 0, 1, -1), "bad-request"),
    ],
    ids=["negative", "empty", "huge", "tls", "http", "api", "version", "client-id", "negative-api"],
)
def test_refused_at_the_door(served, raw, event):
    client = served.client()
    client.socket.sendall(raw)
    assert client.closed()
    assert event_names(served) == [event]
    assert_alive(served)


def mutations(frame: bytes, seed: int):
    """Truncations, oversized counts and random bytes, the frame's length kept true."""
    yield from (frame[:cut] for cut in range(12, len(frame), 7))
    randomness = random.Random(seed)
    for _ in range(150):
        changed = bytearray(frame)
        for _ in range(randomness.randint(1, 4)):
            changed[randomness.randrange(8, len(changed))] = randomness.choice(
                [0, 0x7F, 0x80, 0xFF, randomness.randrange(256)]
            )
        yield bytes(changed)


def throw(served, raw: bytes):
    """Sends one frame and waits a moment for any answer."""
    client = served.client()
    client.socket.sendall(struct.pack(">i", len(raw)) + raw)
    client.socket.settimeout(0.02)
    with contextlib.suppress(TimeoutError):
        client.socket.recv(4096)
    client.close()


@pytest.mark.parametrize("version", [3, 9, 13])
def test_mutated_produce_never_stores_or_crashes(served, version):
    frame = encode_request(produce(batch(b"value", b"other"), version), version, 1, "mutant")
    for raw in mutations(frame, version):
        throw(served, raw)
    served.plane.take_events()
    assert_alive(served)


@pytest.mark.parametrize("version", [4, 11, 12, 17])
def test_mutated_fetch_never_crashes(served, version):
    frame = encode_request(fetch(version, session_epoch=0 if version >= 7 else -1), version, 1, "mutant")
    for raw in mutations(frame, version):
        throw(served, raw)
    assert_alive(served)


def test_bytes_one_at_a_time_and_frames_cut_anywhere(served):
    client = served.client()
    client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    body = produce(batch(b"x" * 300_000), 9)
    frame = encode_request(body, 9, 1, "slow")
    raw = struct.pack(">i", len(frame)) + frame
    for at in range(20):
        client.socket.sendall(raw[at : at + 1])
        pause(0.001, "the frame comes in pieces")
    client.socket.sendall(raw[20:270_000])
    pause(0.05, "the frame comes in pieces")
    client.socket.sendall(raw[270_000:] + raw + raw[:50])
    pause(0.05, "the frame comes in pieces")
    client.socket.sendall(raw[50:])
    offsets = [client.receive(0, 9).responses[0].partition_responses[0].base_offset for _ in range(3)]
    assert offsets == [0, 1, 2]


def test_client_that_never_reads_is_not_read_from(served):
    writer = served.client()
    for _ in range(20):
        writer.call(produce(batch(b"x" * 1_000_000), 9), 9)
    deaf = served.client()
    frame = encode_request(fetch(12, partition_max_bytes=20 << 20), 12, 1, "deaf")
    raw = struct.pack(">i", len(frame)) + frame
    deaf.socket.settimeout(0.5)
    with pytest.raises(TimeoutError):
        for _ in range(200_000):
            deaf.socket.sendall(raw)
    assert_alive(served)


def test_idle_connections_are_closed(tmp_path):
    served = Served(tmp_path, connections_max_idle_ms=100)
    try:

        def answered():  # not where it was idle on the way, on a slow machine
            client = served.client()
            with contextlib.suppress(ConnectionError):
                client.call(produce(batch(b"a"), 9), 9)
                return client

        assert wait_until(answered).closed()
    finally:
        served.close()


def test_requests_for_the_control_thread(served):
    from bowstring.protocol.messages.metadata import MetadataRequest

    client = served.client()
    client.send(MetadataRequest(topics=None), 12)
    deadline = time.monotonic() + HANG_S
    taken = []
    while not taken and time.monotonic() < deadline:
        taken = served.plane.take_requests()
    (request,) = taken
    assert (request.api_key, request.api_version, request.correlation_id, request.client_id) == (
        3,
        12,
        1,
        "test",
    )
    assert request.peer.startswith("127.0.0.1:") and request.principal == "User:ANONYMOUS"
    served.plane.reply(request.connection_id, request.slot, b"\0\0\0\1rest")
    assert client.read_frame() == b"\0\0\0\1rest"
    client.send(MetadataRequest(topics=None), 12)
    while not taken or taken[0] is request:
        taken = served.plane.take_requests() or taken
    served.plane.reply(taken[0].connection_id, taken[0].slot, None)
    assert client.closed()


def test_stop_closes_connections(tmp_path):
    served = Served(tmp_path)
    try:
        client = served.client()
        client.send(fetch(12, max_wait_ms=FOR_EVER_MS), 12)
        served.await_waiting()
        served.plane.stop()
        assert client.closed()
    finally:
        served.close()
