"""Encodes and decodes the frames of the local-read socket, for both ends.

docs/internals/local-reads.md lists every field.
"""

import struct
from dataclasses import dataclass, field
from typing import Final

HELLO: Final = 0
SEGMENTS: Final = 1
VERSION: Final = 0
"""The only version of SEGMENTS, and the version of HELLO without a token."""
TOKEN_VERSION: Final = 1
"""The version of HELLO with a token, for brokers with access control."""

REQUEST_BYTES_MAX: Final = 65536
SEGMENTS_MAX: Final = 64
WAIT_MS_MAX: Final = 300_000
WITH_DESCRIPTORS: Final = 1
ANY_TOPIC_ID: Final = bytes(16)

_LENGTH: Final = struct.Struct(">i")
_REQUEST_HEADER: Final = struct.Struct(">hhi")
_RESPONSE_HEADER: Final = struct.Struct(">ih")
_SEGMENTS_REQUEST: Final = struct.Struct(">iibqihb")
_SEGMENTS_RESPONSE: Final = struct.Struct(">iqqqqqh")
_SEGMENT: Final = struct.Struct(">qqqqqqb")
_PAIR: Final = struct.Struct(">qq")
_GROWS: Final = 1


class LocalFrameError(ValueError):
    """Bytes that are not a frame of this protocol; the connection is no longer usable."""


@dataclass(slots=True)
class RequestHeader:
    """The start of every request."""

    kind: int
    version: int
    correlation_id: int


@dataclass(slots=True)
class HelloRequest:
    """Opens a connection.

    Attributes:
        token: logs in; empty: without a login.
    """

    client_id: str
    token: str = field(default="", repr=False)


@dataclass(slots=True)
class Hello:
    """Identity of a broker.

    Attributes:
        instance: id that the broker chose at this start; DescribeConfigs over TCP returns the same.
        highest_version: of SEGMENTS.
    """

    instance: str
    cluster_id: str
    node_id: int
    highest_version: int = VERSION


@dataclass(slots=True)
class SegmentsRequest:
    """Request for the readable bytes of one partition.

    Attributes:
        topic_id: ANY_TOPIC_ID accepts the present topic of this name.
        isolation: 0 read_uncommitted, 1 read_committed.
        max_wait_ms: how long the broker may wait for records before it answers.
        descriptors: whether the answer includes open files.
    """

    topic: str
    partition: int
    fetch_offset: int
    topic_id: bytes = ANY_TOPIC_ID
    current_leader_epoch: int = -1
    isolation: int = 0
    max_wait_ms: int = 0
    max_segments: int = SEGMENTS_MAX
    descriptors: bool = True


@dataclass(slots=True)
class Segment:
    """Readable bytes of a .log file: whole batches from start_position to end_position. Bytes beyond must not
    be read.

    Attributes:
        grows: the segment is still written to.
        checked: positions of batches whose CRC the broker has checked.
        fd: an open descriptor in this process; -1: none.
    """

    base_offset: int
    end_offset: int
    device: int
    inode: int
    start_position: int
    end_position: int
    grows: bool
    path: str
    checked: list[tuple[int, int]] = field(default_factory=list)
    fd: int = -1


@dataclass(slots=True)
class Segments:
    """All readable bytes from the fetch offset up to next_offset.

    Attributes:
        next_offset: where the next request begins; -1: after the last record of the last batch.
        history: changes when files are compacted, truncated or moved.
        aborted: (producer id, first offset) of aborted transactions that touch these offsets.
    """

    topic_id: bytes
    leader_epoch: int
    log_start_offset: int
    high_watermark: int
    last_stable_offset: int
    next_offset: int
    history: int
    segments: list[Segment] = field(default_factory=list)
    aborted: list[tuple[int, int]] = field(default_factory=list)


class _Reader:
    def __init__(self, data: bytes | memoryview) -> None:
        self._data = memoryview(data)
        self._at = 0

    def take(self, form: struct.Struct) -> tuple[int, ...]:
        end = self._at + form.size
        if end > len(self._data):
            raise LocalFrameError(f"a frame of {len(self._data)} bytes ends inside a field")
        found = form.unpack(self._data[self._at : end])
        self._at = end
        return found

    def raw(self, size: int) -> bytes:
        if not 0 <= size <= len(self._data) - self._at:
            raise LocalFrameError(f"a field of {size} bytes exceeds the rest of the frame")
        self._at += size
        return bytes(self._data[self._at - size : self._at])

    def text(self) -> str:
        (size,) = self.take(_INT16)
        try:
            return self.raw(size).decode("utf-8", "surrogateescape")
        except UnicodeDecodeError as error:  # pragma: no cover - surrogateescape takes every byte
            raise LocalFrameError(str(error)) from error

    def end(self) -> None:
        if self._at != len(self._data):
            raise LocalFrameError(f"{len(self._data) - self._at} extra bytes follow the last field")


_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")


def _text(value: str) -> bytes:
    data = value.encode("utf-8", "surrogateescape")
    return _INT16.pack(len(data)) + data


def framed(*parts: bytes) -> bytes:
    """Returns a complete frame with this content."""
    body = b"".join(parts)
    return _LENGTH.pack(len(body)) + body


# ---------------------------------------------------------------- requests


def encode_hello_request(correlation_id: int, client_id: str, token: str = "") -> bytes:
    """Returns the frame of a HELLO: of version 0 without a token, so that brokers of any version take it."""
    if not token:
        return framed(_REQUEST_HEADER.pack(HELLO, VERSION, correlation_id), _text(client_id[:250]))
    header = _REQUEST_HEADER.pack(HELLO, TOKEN_VERSION, correlation_id)
    return framed(header, _text(client_id[:250]), _text(token))


def encode_segments_request(correlation_id: int, request: SegmentsRequest) -> bytes:
    """Returns the frame of a SEGMENTS."""
    return framed(
        _REQUEST_HEADER.pack(SEGMENTS, VERSION, correlation_id),
        _text(request.topic),
        request.topic_id,
        _SEGMENTS_REQUEST.pack(
            request.partition,
            request.current_leader_epoch,
            request.isolation,
            request.fetch_offset,
            request.max_wait_ms,
            request.max_segments,
            WITH_DESCRIPTORS if request.descriptors else 0,
        ),
    )


def decode_request(body: bytes) -> tuple[RequestHeader, HelloRequest | SegmentsRequest | None]:
    """Returns the header and the body; None for an unknown request.

    Raises:
        LocalFrameError: it is not a request.
    """
    reader = _Reader(body)
    header = RequestHeader(*reader.take(_REQUEST_HEADER))
    if header.kind == HELLO and header.version in (VERSION, TOKEN_VERSION):
        client_id = reader.text()
        token = reader.text() if header.version == TOKEN_VERSION else ""
        reader.end()
        return header, HelloRequest(client_id, token)
    if header.kind != SEGMENTS or header.version != VERSION:
        return header, None
    topic = reader.text()
    topic_id = reader.raw(16)
    partition, epoch, isolation, offset, wait_ms, most, flags = reader.take(_SEGMENTS_REQUEST)
    reader.end()
    return header, SegmentsRequest(
        topic, partition, offset, topic_id, epoch, isolation, wait_ms, most, bool(flags & WITH_DESCRIPTORS)
    )


# ---------------------------------------------------------------- responses


def encode_error(correlation_id: int, code: int, message: str) -> bytes:
    """Returns the frame that refuses a request."""
    return framed(_RESPONSE_HEADER.pack(correlation_id, code), _text(message[:4096]))


def encode_hello(correlation_id: int, hello: Hello) -> bytes:
    """Returns the frame that answers a HELLO."""
    return framed(
        _RESPONSE_HEADER.pack(correlation_id, 0),
        _text(""),
        _text(hello.instance),
        _text(hello.cluster_id),
        _INT32.pack(hello.node_id),
        _INT16.pack(hello.highest_version),
    )


def encode_segments(correlation_id: int, answer: Segments) -> bytes:
    """Returns the frame that answers a SEGMENTS; descriptors are sent separately."""
    parts = [
        _RESPONSE_HEADER.pack(correlation_id, 0),
        _text(""),
        answer.topic_id,
        _SEGMENTS_RESPONSE.pack(
            answer.leader_epoch,
            answer.log_start_offset,
            answer.high_watermark,
            answer.last_stable_offset,
            answer.next_offset,
            answer.history,
            len(answer.segments),
        ),
    ]
    for each in answer.segments:
        parts.append(
            _SEGMENT.pack(
                each.base_offset,
                each.end_offset,
                each.device,
                each.inode,
                each.start_position,
                each.end_position,
                _GROWS if each.grows else 0,
            )
        )
        parts.append(_text(each.path))
        parts.append(_INT16.pack(len(each.checked)))
        parts += (_PAIR.pack(*checked) for checked in each.checked)
    parts.append(_INT32.pack(len(answer.aborted)))
    parts += (_PAIR.pack(*each) for each in answer.aborted)
    return framed(*parts)


def decode_response_header(body: bytes | memoryview) -> tuple[int, int, str, "_Reader"]:
    """Returns the correlation id, error code, message, and a reader for the rest.

    Raises:
        LocalFrameError: it is not a response.
    """
    reader = _Reader(body)
    correlation_id, code = reader.take(_RESPONSE_HEADER)
    return correlation_id, code, reader.text(), reader


def decode_hello(reader: "_Reader") -> Hello:
    """Decodes the body of an answer to HELLO."""
    instance, cluster_id = reader.text(), reader.text()
    (node_id,) = reader.take(_INT32)
    (highest,) = reader.take(_INT16)
    return Hello(instance, cluster_id, node_id, highest)


def decode_segments(reader: "_Reader") -> Segments:
    """Decodes the body of an answer to SEGMENTS."""
    topic_id = reader.raw(16)
    epoch, start, high, stable, following, history, count = reader.take(_SEGMENTS_RESPONSE)
    answer = Segments(topic_id, epoch, start, high, stable, following, history)
    for _ in range(count):
        base, end, device, inode, first, last, flags = reader.take(_SEGMENT)
        path = reader.text()
        (ranges,) = reader.take(_INT16)
        checked = [(low, high) for low, high in (reader.take(_PAIR) for _ in range(ranges))]
        answer.segments.append(
            Segment(base, end, device, inode, first, last, bool(flags & _GROWS), path, checked)
        )
    (aborted,) = reader.take(_INT32)
    answer.aborted = [(producer, first) for producer, first in (reader.take(_PAIR) for _ in range(aborted))]
    reader.end()
    return answer
