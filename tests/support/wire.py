"""Kafka's protocol over a plain socket, for requests that no client library would send.

Only the needed requests, in the oldest non-flexible versions that Kafka 4 supports; `flexible` helpers do the
rest.
"""

import socket
import struct
from types import TracebackType

from tests.support.reference_batch import crc32c, encode_record
from tests.support.waiting import FOR_EVER_MS, HANG_S, wait_until

PRODUCE, FETCH, LIST_OFFSETS, METADATA, OFFSET_COMMIT = 0, 1, 2, 3, 8
FIND_COORDINATOR, JOIN_GROUP, API_VERSIONS, CREATE_TOPICS = 10, 11, 18, 19


def string(text: str | None) -> bytes:
    """STRING or NULLABLE_STRING."""
    if text is None:
        return b"\xff\xff"
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def uvarint(value: int) -> bytes:
    """UNSIGNED_VARINT."""
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def request(api_key: int, api_version: int, body: bytes = b"", *, correlation_id: int = 1) -> bytes:
    """Returns a complete frame with a version-1 request header."""
    header = struct.pack(">hhi", api_key, api_version, correlation_id) + string("wire")
    return frame(header + body)


def frame(payload: bytes) -> bytes:
    """Length prefix and payload."""
    return struct.pack(">i", len(payload)) + payload


def record(value: bytes | None, key: bytes | None = None, offset_delta: int = 0) -> bytes:
    """One record of a version-2 batch."""
    return encode_record((key, value, 0, ()), 0, offset_delta)


def batch(
    records: bytes,
    count: int,
    *,
    magic: int = 2,
    attributes: int = 0,
    last_offset_delta: int | None = None,
    base_offset: int = 0,
    crc: int | None = None,
    length: int | None = None,
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> bytes:
    """Returns a version-2 batch; a test can set any field to a wrong value."""
    last = count - 1 if last_offset_delta is None else last_offset_delta
    stamp = 1_700_000_000_000
    body = struct.pack(">hiqqqhii", attributes, last, stamp, stamp, *producer, count) + records
    checksum = crc32c(body) if crc is None else crc
    rest = struct.pack(">ibI", -1, magic, checksum) + body
    return struct.pack(">qi", base_offset, len(rest) if length is None else length) + rest


def produce(
    topic: str, records: bytes | None, *, acks: int = 1, partition: int = 0, correlation_id: int = 1
) -> bytes:
    """A Produce v3 frame with one partition."""
    data = struct.pack(">i", -1) if records is None else struct.pack(">i", len(records)) + records
    body = string(None) + struct.pack(">hi", acks, FOR_EVER_MS)
    body += struct.pack(">i", 1) + string(topic) + struct.pack(">ii", 1, partition) + data
    return request(PRODUCE, 3, body, correlation_id=correlation_id)


def produce_answer(payload: bytes, topic: str) -> tuple[int, int]:
    """Returns (error code, base offset) of a Produce v3 response to `produce`."""
    at = 4 + 4 + 2 + len(topic) + 4 + 4
    code, offset = struct.unpack_from(">hq", payload, at)
    return code, offset


def fetch(
    topic: str, offset: int, *, max_wait_ms: int = 0, max_bytes: int = 1 << 20, partition: int = 0
) -> bytes:
    """A Fetch v4 frame with one partition."""
    body = struct.pack(">iiiib", -1, max_wait_ms, 1, max_bytes, 0)
    body += struct.pack(">i", 1) + string(topic) + struct.pack(">iiqi", 1, partition, offset, max_bytes)
    return request(FETCH, 4, body)


def metadata(topics: list[str] | None = None) -> bytes:
    """A Metadata v1 frame; None means all topics."""
    if topics is None:
        return request(METADATA, 1, struct.pack(">i", -1))
    return request(METADATA, 1, struct.pack(">i", len(topics)) + b"".join(map(string, topics)))


def create_topic(topic: str, partitions: int = 1) -> bytes:
    """A CreateTopics v2 frame."""
    body = struct.pack(">i", 1) + string(topic) + struct.pack(">ihii", partitions, 1, 0, 0)
    return request(CREATE_TOPICS, 2, body + struct.pack(">ib", 10000, 0))


def list_offsets(topic: str, partition: int, timestamp: int) -> bytes:
    """A ListOffsets v1 frame with one partition."""
    body = struct.pack(">ii", -1, 1) + string(topic) + struct.pack(">iiq", 1, partition, timestamp)
    return request(LIST_OFFSETS, 1, body)


def list_offsets_answer(payload: bytes, topic: str) -> tuple[int, int]:
    """Returns (error code, offset) of a ListOffsets v1 response to `list_offsets`."""
    code, _, offset = struct.unpack_from(">hqq", payload, 4 + 4 + 2 + len(topic) + 4 + 4)
    return code, offset


def wait_for_leaders(bootstrap: str, topic: str, partitions: int) -> None:
    """Waits until the broker answers as the leader of every partition.

    Kafka's answer to CreateTopics comes before the broker takes up its partitions, and clients that retry a refused
    produce may then write twice.
    """
    host, port = bootstrap.split(":")
    with Wire(host, int(port)) as wire:

        def error_of(partition: int) -> int:
            answer = wire.ask(list_offsets(topic, partition, -1))
            assert answer is not None, "the broker closed the connection"
            return list_offsets_answer(answer, topic)[0]

        def errors() -> dict[int, int]:
            found = {partition: error_of(partition) for partition in range(partitions)}
            return {partition: error for partition, error in found.items() if error}

        wait_until(lambda: not errors(), lambda: f"{topic}: errors by partition {errors()}")


class Wire:
    """One connection."""

    def __init__(
        self, host: str, port: int, timeout_s: float = HANG_S, receive_buffer_bytes: int | None = None
    ) -> None:
        self.sock = socket.socket()
        if receive_buffer_bytes is not None:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.sock.settimeout(timeout_s)
        self.sock.connect((host, port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> "Wire":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.sock.close()

    def send(self, data: bytes) -> None:
        """Sends all bytes."""
        self.sock.sendall(data)

    def receive(self) -> bytes | None:
        """Returns the next answer's payload, or None if the broker closed the connection."""
        head = self._exactly(4)
        return None if head is None else self._exactly(struct.unpack(">i", head)[0])

    def _exactly(self, count: int) -> bytes | None:
        data = bytearray()
        while len(data) < count:
            try:
                part = self.sock.recv(min(count - len(data), 1 << 20))
            except ConnectionError:
                return None
            if not part:
                return None
            data += part
        return bytes(data)

    def ask(self, data: bytes) -> bytes | None:
        """Sends a frame and returns the answer's payload."""
        self.send(data)
        return self.receive()

    def closed(self) -> bool:
        """Whether the broker closes the connection without another answer; waits up to the timeout."""
        try:
            return self.receive() is None
        except TimeoutError:
            return False

    def end(self) -> None:
        """Closes the sending side, and reads until the broker closes its side, too."""
        try:
            self.sock.shutdown(socket.SHUT_WR)
        except OSError:
            # The broker has already closed it.
            return
        while self.receive() is not None:
            pass

    def send_api_versions(self) -> None:
        """ApiVersions v0."""
        self.send(request(API_VERSIONS, 0))

    def receive_api_versions(self) -> dict[int, tuple[int, int]]:
        """Returns the ranges of an ApiVersions v0 answer, by API key."""
        payload = self.receive()
        assert payload is not None, "the broker closed the connection"
        _, code, count = struct.unpack_from(">ihi", payload)
        assert code == 0, f"ApiVersions answered error {code}"
        rows = struct.iter_unpack(">hhh", payload[10 : 10 + 6 * count])
        return {key: (lowest, highest) for key, lowest, highest in rows}
