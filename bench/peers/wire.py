"""Sends the few requests of the bench itself, over a plain socket without a client library.

Only old, non-flexible versions are used. Kafka 4 still supports them (its lowest are CreateTopics 2,
DeleteTopics 1, ListOffsets 1, Metadata 0).
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from bowstring.protocol import decode_response, encode_request
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages import describe_quorum as dq
from bowstring.protocol.schema import Request, Response

API_PRODUCE = 0
API_LIST_OFFSETS = 2
API_METADATA = 3
API_LIST_GROUPS = 16
API_VERSIONS = 18
API_CREATE_TOPICS = 19
API_DELETE_TOPICS = 20
API_CREATE_PARTITIONS = 37
CLIENT_ID = b"bowstring-bench"
LATEST = -1


class WireError(Exception):
    """The broker gave an unexpected answer."""


@dataclass(frozen=True)
class TopicState:
    """Partitions of one topic as Metadata sees them.

    Attributes:
        in_sync, replicas: of the partition that has the fewest replicas in sync.
        leaders: of each partition, -1 for none.
    """

    partitions: int
    ready_partitions: int
    in_sync: int = 0
    replicas: int = 0
    leaders: tuple[int, ...] = ()


class Connection:
    """One blocking connection to a broker; requests are sent one at a time."""

    def __init__(self, host: str, port: int, timeout_seconds: float = 120.0):
        self._socket = socket.create_connection((host, port), timeout=timeout_seconds)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def all_metadata(self) -> int:
        """Requests the metadata of every topic, by Metadata v8; returns the size of the answer in bytes."""
        return len(self.call(API_METADATA, 8, struct.pack(">i???", -1, False, False, False)))

    def list_groups(self) -> None:
        """Sends ListGroups v0: a small request with a small answer."""
        self.call(API_LIST_GROUPS, 0, b"")

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._socket.close()

    def call(self, api_key: int, version: int, body: bytes) -> memoryview:
        """Sends one request and returns the response's body (response header v0).

        Raises:
            ConnectionError: the broker closed the connection.
            WireError: the reply belongs to another request.
        """
        self._correlation_id += 1
        header = struct.pack(">hhih", api_key, version, self._correlation_id, len(CLIENT_ID)) + CLIENT_ID
        self._socket.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
        (length,) = struct.unpack(">i", self._receive(4))
        reply = self._receive(length)
        (correlation_id,) = struct.unpack_from(">i", reply)
        if correlation_id != self._correlation_id:
            raise WireError(f"correlation id {correlation_id}, expected {self._correlation_id}")
        return memoryview(reply)[4:]

    def api_versions(self) -> int:
        """Sends ApiVersions v0; returns the number of APIs that the broker advertises."""
        reply = self.call(API_VERSIONS, 0, b"")
        error, count = struct.unpack_from(">hi", reply)
        if error != Errors.NONE.code:
            raise WireError(f"ApiVersions answered error {error}")
        return int(count)

    def create_topics(
        self,
        names: list[str],
        partitions: int,
        configs: Mapping[str, str] | None = None,
        timeout_ms: int = 60_000,
        replication: int = 1,
        assignment: Sequence[Sequence[int]] = (),
    ) -> None:
        """Creates topics with `partitions` partitions each, in one CreateTopics v2; existing ones are fine.

        Args:
            assignment: The brokers of each partition, the preferred leader first; it replaces the numbers.

        Raises:
            WireError: the broker refused one of them.
        """
        settings = [_string(name) + _string(value) for name, value in (configs or {}).items()]
        rows = [struct.pack(f">ii{len(row)}i", at, len(row), *row) for at, row in enumerate(assignment)]
        numbers = (-1, -1) if assignment else (partitions, replication)
        shape = struct.pack(">ihi", *numbers, len(rows)) + b"".join(rows)
        shape += struct.pack(">i", len(settings)) + b"".join(settings)
        topics = b"".join(_string(name) + shape for name in names)
        body = struct.pack(">i", len(names)) + topics + struct.pack(">i?", timeout_ms, False)
        reply = _Reader(self.call(API_CREATE_TOPICS, 2, body))
        reply.int32()  # throttle_time_ms
        for _ in range(reply.int32()):
            name, error, message = reply.string(), reply.int16(), reply.string()
            if error not in (Errors.NONE.code, Errors.TOPIC_ALREADY_EXISTS.code):
                raise WireError(f"creating topic {name} failed with error {error}: {message}")

    def create_partitions(self, name: str, partitions: int, timeout_ms: int = 60_000) -> None:
        """Sets a topic's number of partitions, by CreatePartitions v0.

        Raises:
            WireError: the broker refused it.
        """
        body = struct.pack(">i", 1) + _string(name) + struct.pack(">iii?", partitions, -1, timeout_ms, False)
        reply = _Reader(self.call(API_CREATE_PARTITIONS, 0, body))
        reply.int32()  # throttle_time_ms
        for _ in range(reply.int32()):
            name, error, message = reply.string() or "", reply.int16(), reply.string()
            if error != Errors.NONE.code:
                raise WireError(
                    f"giving topic {name} {partitions} partitions failed with error {error}: {message}"
                )

    def produce(self, topic: str, batch: bytes) -> None:
        """Sends one record batch to partition 0, acks=all, by Produce v3.

        Raises:
            WireError: the broker refused it.
        """
        check_produced(self.call(API_PRODUCE, 3, _produce_body(topic, 0, batch, -1)), topic)

    def produce_each(self, topic: str, partitions: Sequence[int], batch: bytes) -> dict[int, int]:
        """Sends a batch to each of some partitions, acks=all, by one Produce v3; returns their errors."""
        body = struct.pack(">hhii", -1, -1, 30_000, 1) + _string(topic) + struct.pack(">i", len(partitions))
        body += b"".join(struct.pack(">ii", each, len(batch)) + batch for each in partitions)
        reply = _Reader(self.call(API_PRODUCE, 3, body))
        found = {}
        for _ in range(reply.int32()):
            reply.string()
            for _ in range(reply.int32()):
                partition, error = reply.int32(), reply.int16()
                reply.skip(16)  # base offset, log append time
                found[partition] = error
        return found

    def ask(self, body: Request, version: int) -> Response:
        """Sends any request of a flexible version and returns its answer."""
        self._correlation_id += 1
        frame = encode_request(body, version, self._correlation_id, CLIENT_ID.decode())
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)
        (length,) = struct.unpack(">i", self._receive(4))
        _, answer = decode_response(body.api_key, version, self._receive(length))
        return answer

    def active_controller(self) -> int:
        """Returns the leader of the metadata quorum, by DescribeQuorum; -1 while there is none."""
        partition = dq.DescribeQuorumRequestPartitionData(partition_index=0)
        topic = dq.DescribeQuorumRequestTopicData(topic_name="__cluster_metadata", partitions=[partition])
        answer = self.ask(dq.DescribeQuorumRequest(topics=[topic]), 0)
        assert isinstance(answer, dq.DescribeQuorumResponse)
        return answer.topics[0].partitions[0].leader_id if answer.topics else -1

    def delete_topics(self, names: list[str], timeout_ms: int = 60_000) -> None:
        """Deletes topics by DeleteTopics v1.

        Raises:
            WireError: the broker refused one of them.
        """
        body = struct.pack(">i", len(names)) + b"".join(map(_string, names)) + struct.pack(">i", timeout_ms)
        reply = _Reader(self.call(API_DELETE_TOPICS, 1, body))
        reply.int32()  # throttle_time_ms
        for _ in range(reply.int32()):
            name, error = reply.string(), reply.int16()
            if error != Errors.NONE.code:
                raise WireError(f"deleting topic {name} failed with error {error}")

    def topics(self, names: list[str] | None = None) -> dict[str, TopicState]:
        """Returns how many partitions of `names`, or of every topic, have a leader, by Metadata v1."""
        if names is None:
            body = struct.pack(">i", -1)
        else:
            body = struct.pack(">i", len(names)) + b"".join(map(_string, names))
        return _read_metadata(_Reader(self.call(API_METADATA, 1, body)))

    def brokers(self) -> int:
        """Returns how many brokers Metadata v1 has."""
        return _Reader(self.call(API_METADATA, 1, struct.pack(">i", 0))).int32()

    def readable_partitions(self, partitions: dict[str, int]) -> int:
        """Returns how many partitions (topic: count) answer ListOffsets v1 with their latest offset."""
        return sum(offset is not None for offset in self._latest(partitions))

    def latest_offsets(self, topic: str, partitions: int) -> dict[int, int]:
        """Returns the latest offsets, by ListOffsets v1, of the partitions that this broker leads."""
        found = enumerate(self._latest({topic: partitions}))
        return {index: offset for index, offset in found if offset is not None}

    def _latest(self, partitions: dict[str, int]) -> list[int | None]:
        """Returns the latest offset of each partition (topic: count); None if the broker has an error."""
        body = struct.pack(">ii", -1, len(partitions))
        for name, count in partitions.items():
            body += _string(name) + struct.pack(">i", count)
            body += b"".join(struct.pack(">iq", index, LATEST) for index in range(count))
        reply = _Reader(self.call(API_LIST_OFFSETS, 1, body))
        found: dict[tuple[str | None, int], int | None] = {}
        for _ in range(reply.int32()):
            topic = reply.string()
            for _ in range(reply.int32()):
                index, error = reply.int32(), reply.int16()
                reply.skip(8)  # timestamp
                offset = reply.int64()
                found[topic, index] = offset if error == Errors.NONE.code else None
        return [found[name, index] for name, count in partitions.items() for index in range(count)]

    def _receive(self, count: int) -> bytearray:
        data = bytearray(count)
        view = memoryview(data)
        while view:
            received = self._socket.recv_into(view)
            if received == 0:
                raise ConnectionError("the broker closed the connection")
            view = view[received:]
        return data


def produce_frame(topic: str, partition: int, batch: bytes, acks: int) -> bytes:
    """Returns a complete Produce v3 request frame with one record batch; the correlation id is 0."""
    header = struct.pack(">hhih", API_PRODUCE, 3, 0, len(CLIENT_ID)) + CLIENT_ID
    body = _produce_body(topic, partition, batch, acks)
    return struct.pack(">i", len(header) + len(body)) + header + body


def check_produced(reply: bytes | memoryview, topic: str) -> None:
    """Checks the body of the answer to a Produce v3 of one batch.

    Raises:
        WireError: the broker refused it.
    """
    (error,) = struct.unpack_from(">h", reply, 4 + 2 + len(topic) + 4 + 4)
    if error != Errors.NONE.code:
        raise WireError(f"producing to {topic} failed with error {error}")


def _produce_body(topic: str, partition: int, batch: bytes, acks: int) -> bytes:
    head = struct.pack(">hhii", -1, acks, 30_000, 1) + _string(topic)
    return head + struct.pack(">iii", 1, partition, len(batch)) + batch


def wait_for_api_versions(host: str, port: int, deadline: float, poll_ms: float = 1.0) -> bool:
    """Tries a new connection every `poll_ms` until ApiVersions is answered; False once `deadline` is past.

    `deadline` is on time.monotonic()'s clock.
    """
    while time.monotonic() < deadline:
        try:
            with Connection(host, port, timeout_seconds=5.0) as connection:
                connection.api_versions()
                return True
        except OSError:
            time.sleep(poll_ms / 1000)
    return False


def wait_for_partitions(
    host: str,
    port: int,
    expected: int,
    deadline: float,
    names: list[str] | None = None,
    others: Sequence[tuple[str, int]] = (),
) -> None:
    """Returns when `expected` partitions (without internal topics) can be used.

    Metadata must show a leader for each, and each must answer ListOffsets: Kafka publishes a leader a moment
    before it opens the log, and an idempotent producer that writes in between may lose its sequence.

    Args:
        others: host and port of the cluster's other brokers, because a leader answers only for its
            partitions.

    Raises:
        WireError: `deadline` (time.monotonic()'s clock) passed first.
    """
    ready = 0
    with ExitStack() as ends:
        connections = [ends.enter_context(Connection(*each)) for each in ((host, port), *others)]
        while time.monotonic() < deadline:
            states = {n: s for n, s in connections[0].topics(names).items() if not n.startswith("__")}
            ready = sum(state.ready_partitions for state in states.values())
            if ready >= expected:
                partitions = {n: s.partitions for n, s in states.items()}
                ready = sum(each.readable_partitions(partitions) for each in connections)
                if ready >= expected:
                    return
            time.sleep(0.02)
    raise WireError(f"only {ready} of {expected} partitions can be used")


def wait_for_brokers(listeners: Sequence[tuple[str, int]], deadline: float) -> None:
    """Returns when every broker lists all of them.

    Args:
        listeners: host and port of each.
        deadline: On time.monotonic()'s clock.

    Raises:
        WireError: `deadline` passed first.
    """
    with ExitStack() as ends:
        connections = [ends.enter_context(Connection(*each)) for each in listeners]
        while min(known := [each.brokers() for each in connections]) < len(listeners):
            if time.monotonic() > deadline:
                raise WireError(f"brokers know {known} of {len(listeners)} brokers")
            time.sleep(0.02)


def latest_offsets(listeners: Sequence[tuple[str, int]], topic: str, partitions: int) -> dict[int, int]:
    """Returns the latest offset of each partition that has a leader among these brokers."""
    found: dict[int, int] = {}
    for each in listeners:
        with Connection(*each) as connection:
            found |= connection.latest_offsets(topic, partitions)
    return found


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


class _Reader:
    """Reads Kafka's fixed-width primitives from a reply."""

    def __init__(self, data: memoryview):
        self._data = data
        self._position = 0

    def _unpack(self, layout: struct.Struct) -> int:
        (value,) = layout.unpack_from(self._data, self._position)
        self._position += layout.size
        return int(value)

    def int8(self) -> int:
        return self._unpack(_INT8)

    def int16(self) -> int:
        return self._unpack(_INT16)

    def int32(self) -> int:
        return self._unpack(_INT32)

    def int64(self) -> int:
        return self._unpack(_INT64)

    def string(self) -> str | None:
        length = self.int16()
        if length < 0:
            return None
        start, self._position = self._position, self._position + length
        return bytes(self._data[start : self._position]).decode()

    def skip(self, count: int) -> None:
        self._position += count


_INT8, _INT16, _INT32, _INT64 = (struct.Struct(f">{kind}") for kind in "bhiq")


def _read_metadata(reply: _Reader) -> dict[str, TopicState]:
    for _ in range(reply.int32()):  # brokers
        reply.int32()
        reply.string()
        reply.int32()
        reply.string()
    reply.int32()  # controller_id
    topics = {}
    for _ in range(reply.int32()):
        reply.int16()
        name = reply.string() or ""
        reply.int8()  # is_internal
        partitions = reply.int32()
        ready = 0
        synced: list[tuple[int, int]] = []
        leaders = [-1] * partitions
        for _ in range(partitions):
            error = reply.int16()
            index = reply.int32()
            leader = leaders[index] = reply.int32()
            replicas = reply.int32()
            reply.skip(4 * replicas)  # replica_nodes
            in_sync = reply.int32()
            reply.skip(4 * in_sync)  # isr_nodes
            synced.append((in_sync, replicas))
            ready += error == Errors.NONE.code and leader >= 0
        topics[name] = TopicState(partitions, ready, *min(synced, default=(0, 0)), tuple(leaders))
    return topics
