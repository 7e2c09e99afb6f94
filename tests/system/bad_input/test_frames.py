"""Invalid frames and headers: the connection is closed with one log line, or Kafka's error is answered."""

import ssl
import struct

import pytest

from tests.support.waiting import pause, wait_until
from tests.support.wire import (
    API_VERSIONS,
    FETCH,
    FIND_COORDINATOR,
    JOIN_GROUP,
    LIST_OFFSETS,
    METADATA,
    OFFSET_COMMIT,
    PRODUCE,
    fetch,
    frame,
    list_offsets,
    metadata,
    produce,
    request,
    string,
    uvarint,
)
from tests.system.bad_input.victim import SOUND, Victim

UNSUPPORTED_VERSION = 35
MAX_BYTES = 8 << 20


def client_hello() -> bytes:
    """The first bytes of a TLS client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def flexible(api_key: int, api_version: int, body: bytes, tags: bytes = b"\0") -> bytes:
    """A frame with a version-2 request header."""
    return frame(struct.pack(">hhi", api_key, api_version, 1) + string("wire") + tags + body)


CLOSED = {
    "length over socket.request.max.bytes": struct.pack(">i", MAX_BYTES + 1) + b"x" * 100,
    "length of two gigabytes": struct.pack(">i", 0x7FFFFFFF),
    "negative length": struct.pack(">i", -1),
    "lowest length": struct.pack(">i", -(1 << 31)),
    "empty frame": struct.pack(">i", 0),
    "frame of one byte": frame(b"\0"),
    "header cut off": frame(struct.pack(">hh", API_VERSIONS, 0)),
    "client id longer than the frame": frame(struct.pack(">hhih", METADATA, 1, 1, 500) + b"short"),
    "client id of negative length": frame(struct.pack(">hhih", METADATA, 1, 1, -7)),
    "client id that is not UTF-8 and too long": frame(
        struct.pack(">hhih", METADATA, 1, 1, 32767) + b"\xff" * 9
    ),
    "unknown API key": request(9999, 0),
    "negative API key": request(-1, 0),
    "API of the cluster's inside": request(4, 7),
    "version below the floor": request(PRODUCE, 2),
    "version over the ceiling": request(FETCH, 99),
    "negative version": request(METADATA, -1),
    "body cut off": request(FETCH, 4, struct.pack(">ii", -1, 0)),
    "metadata of two billion topics": request(METADATA, 1, struct.pack(">i", 0x7FFFFFFF)),
    "metadata of a topic count beyond the frame": request(METADATA, 1, struct.pack(">i", 1000) + string("a")),
    "produce of a negative topic count": request(PRODUCE, 3, string(None) + struct.pack(">hii", 1, 1000, -1)),
    "produce of two billion topics": request(
        PRODUCE, 3, string(None) + struct.pack(">hii", 1, 1000, 0x7FFFFFFF)
    ),
    "produce of a negative partition count": request(
        PRODUCE, 3, string(None) + struct.pack(">hii", 1, 1000, 1) + string("sound") + struct.pack(">i", -5)
    ),
    "produce of records longer than the frame": request(
        PRODUCE,
        3,
        string(None) + struct.pack(">hii", 1, 1000, 1) + string("sound") + struct.pack(">iii", 1, 0, 1 << 20),
    ),
    "fetch of a negative topic count": request(FETCH, 4, struct.pack(">iiiibi", -1, 0, 1, 1, 0, -2)),
    "fetch of two billion topics": request(FETCH, 4, struct.pack(">iiiibi", -1, 0, 1, 1, 0, 0x7FFFFFFF)),
    "list offsets of two billion topics": request(LIST_OFFSETS, 1, struct.pack(">ii", -1, 0x7FFFFFFF)),
    "find coordinator without its key": request(FIND_COORDINATOR, 1, b"\0"),
    "join group cut off": request(JOIN_GROUP, 5, string("group") + struct.pack(">i", 10000)),
    "offset commit of a null group": request(OFFSET_COMMIT, 2, string(None) + struct.pack(">i", -1)),
    "varint that does not end": flexible(METADATA, 9, b"\xff" * 20),
    "varint over 32 bits": flexible(METADATA, 9, b"\xff\xff\xff\xff\x7f" + b"a" * 50),
    "compact array of four billion topics": flexible(METADATA, 9, uvarint(0xFFFFFFFF)),
    "compact string longer than the frame": flexible(METADATA, 9, uvarint(2) + uvarint(1000) + b"short"),
    "header tags that do not end": flexible(METADATA, 9, b"", tags=uvarint(5) + uvarint(0) + uvarint(100)),
    "four billion header tags": flexible(METADATA, 9, b"", tags=uvarint(0xFFFFFFFF)),
    "flexible produce of a huge topic array": flexible(
        PRODUCE, 9, b"\0" + struct.pack(">hi", 1, 1000) + uvarint(0x7FFFFFFF)
    ),
    "flexible fetch of a varint that does not end": flexible(FETCH, 12, b"\xff" * 40),
    "TLS hello on the plain port": client_hello(),
    "HTTP request": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


@pytest.mark.parametrize("name", list(CLOSED))
def test_connection_is_closed_with_one_line(victim: Victim, name: str) -> None:
    before = victim.log_size()
    with victim.connect() as wire:
        wire.send(CLOSED[name])
        assert wire.closed(), "the broker kept the connection or answered"
    if victim.terse:
        wait_until(lambda: victim.log_size() > before, "the log does not say why")
        pause(0.05, "no second line may come")
        lines = victim.broker.log_lines()[before:]
        assert len(lines) == 1, lines


@pytest.mark.parametrize("version", [6, 127, 32767])
def test_unknown_version_of_api_versions_is_answered_in_version_0(victim: Victim, version: int) -> None:
    with victim.connect() as wire:
        answer = wire.ask(flexible(API_VERSIONS, version, b"\x05wire\x051.00\0"))
        assert answer is not None
        correlation_id, code, count = struct.unpack_from(">ihi", answer)
        rows = list(struct.iter_unpack(">hhh", answer[10:]))
        assert (correlation_id, code, count) == (1, UNSUPPORTED_VERSION, len(rows))
        # Kafka answers its ApiVersions range, so that the client can retry on the same connection.
        assert (API_VERSIONS, 0) in [(key, lowest) for key, lowest, _ in rows]
        wire.send_api_versions()
        assert PRODUCE in wire.receive_api_versions()


def test_requests_before_a_bad_frame_are_answered_first(victim: Victim) -> None:
    with victim.connect() as wire:
        good = b"".join(request(API_VERSIONS, 0, correlation_id=number) for number in range(3))
        wire.send(good)
        for number in range(3):
            answer = wire.receive()
            assert answer is not None
            assert struct.unpack_from(">i", answer) == (number,)
        wire.send(request(9999, 0) + request(API_VERSIONS, 0))
        assert wire.closed()


@pytest.mark.parametrize("cut", [1, 3, 4, 5, 10, 30])
def test_frame_cut_off_by_the_end_of_the_connection(victim: Victim, cut: int) -> None:
    before = victim.log_size()
    whole = request(METADATA, 1, struct.pack(">i", 1) + string("sound" * 5))
    with victim.connect() as wire:
        wire.send(whole[:cut])
    if victim.terse:
        pause(0.05, "no second line may come")
        assert victim.log_size() <= before + 1


@pytest.mark.parametrize("tail", [b"\0", b"\x01\0\0", b"x" * 5000])
def test_bytes_after_a_request_are_ignored(victim: Victim, tail: bytes) -> None:
    """As Kafka does: librdkafka's Metadata request for all topics carries three bytes too many."""
    offsets = list_offsets(victim.topic, 0, -1)[4:]
    with victim.connect() as wire:
        for sound in (metadata()[4:], offsets, produce(victim.topic, SOUND)[4:], fetch(victim.topic, 0)[4:]):
            answer = wire.ask(frame(sound + tail))
            assert answer is not None
            assert struct.unpack_from(">i", answer) == (1,)


def test_frame_that_arrives_byte_by_byte(victim: Victim) -> None:
    with victim.connect() as wire:
        for byte in request(API_VERSIONS, 0):
            wire.send(bytes([byte]))
            pause(0.001, "a slow peer")
        assert wire.receive_api_versions()
