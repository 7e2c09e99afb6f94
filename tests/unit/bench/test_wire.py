"""The bench's own requests, against a broker with canned replies."""

import socket
import struct
import threading
import time

import pytest

from bench.peers import wire
from tests.support.addresses import own_address
from tests.support.waiting import HANG_S


def string(text):
    return struct.pack(">h", len(text)) + text.encode()


class CannedBroker:
    """Answers one request per reply and keeps the requests."""

    def __init__(self, *replies):
        self.requests = []
        self._replies = replies
        self._listener = socket.create_server((own_address(), 0))
        self.host, self.port = self._listener.getsockname()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        client, _ = self._listener.accept()
        with client, client.makefile("rwb") as stream:
            for reply in self._replies:
                (length,) = struct.unpack(">i", stream.read(4))
                frame = stream.read(length)
                self.requests.append(frame)
                stream.write(struct.pack(">i", len(reply) + 4) + frame[4:8] + reply)
                stream.flush()
        self._listener.close()

    def done(self):
        self._thread.join(HANG_S)
        return self.requests


def body_of(frame):
    (client_id_length,) = struct.unpack_from(">h", frame, 8)
    return frame[10 + client_id_length :]


def test_api_versions_and_create_topics():
    created = struct.pack(">ii", 0, 2) + string("a") + struct.pack(">hh", 0, -1)
    created += string("b") + struct.pack(">hh", 36, -1)
    broker = CannedBroker(struct.pack(">hi", 0, 60) + bytes(360), created)
    with wire.Connection(broker.host, broker.port) as connection:
        assert connection.api_versions() == 60
        connection.create_topics(["a", "b"], 6, timeout_ms=1000)
    versions, create = broker.done()
    assert versions[:4] == struct.pack(">hh", 18, 0) and body_of(versions) == b""
    topic = struct.pack(">ihii", 6, 1, 0, 0)
    expected = (
        struct.pack(">i", 2) + string("a") + topic + string("b") + topic + struct.pack(">i?", 1000, False)
    )
    assert body_of(create) == expected


def test_a_refused_topic_is_an_error_with_the_brokers_words():
    refused = struct.pack(">ii", 0, 1) + string("a") + struct.pack(">h", 37) + string("too few")
    broker = CannedBroker(refused)
    with (
        wire.Connection(broker.host, broker.port) as connection,
        pytest.raises(wire.WireError, match="topic a failed with error 37: too few"),
    ):
        connection.create_topics(["a"], 0)


def test_metadata_counts_partitions_that_have_a_leader():
    def partition(error, index, leader):
        return struct.pack(">hiiiiii", error, index, leader, 1, 1, 1, 1)

    topic = struct.pack(">h", 0) + string("t") + struct.pack(">bi", 0, 3)
    topic += partition(0, 0, 1) + partition(5, 1, -1)
    topic += struct.pack(">hiii3ii2i", 0, 2, 1, 3, 1, 2, 3, 2, 1, 2)
    broker_row = struct.pack(">i", 1) + string("h") + struct.pack(">ih", 9092, -1)
    reply = struct.pack(">i", 1) + broker_row + struct.pack(">ii", 1, 1) + topic
    broker = CannedBroker(reply)
    with wire.Connection(broker.host, broker.port) as connection:
        state = wire.TopicState(3, ready_partitions=2, in_sync=1, replicas=1, leaders=(1, -1, 1))
        assert connection.topics() == {"t": state}, "in sync: of the partition with the fewest"
    assert body_of(broker.done()[0]) == struct.pack(">i", -1)


def test_a_topic_is_given_more_partitions_or_the_refusal_is_told():
    def reply(error):
        return struct.pack(">ii", 0, 1) + string("t") + struct.pack(">hh", error, -1)

    broker = CannedBroker(reply(0), reply(37))
    with wire.Connection(broker.host, broker.port) as connection:
        connection.create_partitions("t", 10)
        with pytest.raises(wire.WireError, match="10 partitions failed with error 37"):
            connection.create_partitions("t", 10)
    assert body_of(broker.done()[0]) == struct.pack(">i", 1) + string("t") + struct.pack(
        ">iii?", 10, -1, 60_000, False
    )


def test_partitions_that_answer_list_offsets_are_readable():
    def partition(index, error):
        return struct.pack(">ihqq", index, error, -1, 0)

    reply = struct.pack(">i", 1) + string("t") + struct.pack(">i", 2) + partition(0, 0) + partition(1, 3)
    broker = CannedBroker(reply)
    with wire.Connection(broker.host, broker.port) as connection:
        assert connection.readable_partitions({"t": 2}) == 1
    asked = struct.pack(">ii", -1, 1) + string("t") + struct.pack(">iiqiq", 2, 0, -1, 1, -1)
    assert body_of(broker.done()[0]) == asked


def test_a_closed_connection_is_an_error():
    broker = CannedBroker()
    with wire.Connection(broker.host, broker.port) as connection, pytest.raises(ConnectionError):
        connection.api_versions()


def test_waiting_for_a_broker_that_never_comes_ends_at_the_deadline():
    with socket.create_server((own_address(), 0)) as unused:
        host, port = unused.getsockname()
    assert wire.wait_for_api_versions(host, port, time.monotonic() + 0.05) is False
