"""librdkafka's own encoder and decoder, through its mock broker, without a broker of ours.

The mock keeps a produced batch as the bytes it got and serves those, so that what librdkafka wrote can be
fetched raw, and what we wrote can be put there raw for librdkafka to read.
"""

from __future__ import annotations

import socket
import struct
import time

from confluent_kafka import Consumer, Producer

from bowstring._native.record.decode import batch_headers

PRODUCE, FETCH = 0, 1
CLIENT_ID = b"\x00\x01t"
DEADLINE_SECONDS = 240  # for hangs


class MockBroker:
    def __init__(self) -> None:
        self.producer = Producer({"test.mock.num.brokers": 1, "linger.ms": 50, "log_level": 0})
        brokers = self.producer.list_topics(timeout=DEADLINE_SECONDS).brokers
        broker = next(iter(brokers.values()))
        self.address = (broker.host, broker.port)

    def ask(self, api_key: int, version: int, body: bytes) -> bytes:
        """Sends one request on a new connection; returns the response body after the correlation id."""
        with socket.create_connection(self.address, timeout=DEADLINE_SECONDS) as sock:
            frame = struct.pack(">hhi", api_key, version, 1) + CLIENT_ID + body
            sock.sendall(struct.pack(">i", len(frame)) + frame)
            stream = sock.makefile("rb")
            return stream.read(struct.unpack(">i", stream.read(4))[0])[4:]

    def write(self, topic: str, records: list[tuple], config: dict[str, str]) -> None:
        """Has librdkafka encode the records and send them; mostly in one batch, but its threads may begin to
        send while the records are still on their way from the topic's queue to the partition's."""
        producer = Producer(
            {"bootstrap.servers": "{}:{}".format(*self.address), "linger.ms": 100, "log_level": 0} | config
        )
        for key, value, timestamp, headers in records:
            producer.produce(topic, value, key, partition=0, timestamp=timestamp, headers=list(headers))
        assert producer.flush(DEADLINE_SECONDS) == 0

    def fetch_raw(self, topic: str, count: int) -> bytes:
        """Fetches the batches of the first `count` records, which the mock returns one at a time."""
        found, offset = b"", 0
        deadline = time.monotonic() + DEADLINE_SECONDS
        while offset < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the mock broker gave {offset} of {count} records of {topic}")
            found += self.fetch_once(topic, offset)
            if found:
                last = batch_headers(found)[-1]
                offset = last.last_offset + 1
        return found

    def fetch_once(self, topic: str, offset: int) -> bytes:
        name = struct.pack(">h", len(topic)) + topic.encode()
        body = struct.pack(">iiiib", -1, 100, 1, 1 << 24, 0) + struct.pack(">i", 1) + name
        body += struct.pack(">iiqi", 1, 0, offset, 1 << 24)
        answer = self.ask(FETCH, 4, body)
        at = 4 + 4 + len(name) + 4 + 4  # throttle, topics, name, partitions, index
        error, _, _, aborted, size = struct.unpack_from(">hqqii", answer, at)
        assert error == 0
        assert aborted <= 0
        return answer[len(answer) - max(size, 0) :]

    def produce_raw(self, topic: str, batch: bytes) -> None:
        self.producer.list_topics(topic, timeout=DEADLINE_SECONDS)  # creates it
        name = struct.pack(">h", len(topic)) + topic.encode()
        body = struct.pack(">hhi", -1, 1, 1000) + struct.pack(">i", 1) + name
        body += struct.pack(">iii", 1, 0, len(batch)) + batch
        answer = self.ask(PRODUCE, 3, body)
        error = struct.unpack_from(">h", answer, 4 + len(name) + 4 + 4)[0]
        assert error == 0, error

    def read(self, topic: str, count: int) -> list[tuple]:
        """Reads records with librdkafka, which checks CRCs: (key, value, timestamp, headers)."""
        consumer = Consumer(
            {
                "bootstrap.servers": "{}:{}".format(*self.address),
                "group.id": topic,
                "auto.offset.reset": "earliest",
                "check.crcs": True,
                "log_level": 0,
            }
        )
        try:
            from confluent_kafka import TopicPartition

            consumer.assign([TopicPartition(topic, 0, 0)])
            out: list[tuple] = []
            deadline = time.monotonic() + DEADLINE_SECONDS
            while len(out) < count and time.monotonic() < deadline:
                message = consumer.poll(0.2)
                if message is not None:
                    assert message.error() is None, message.error()
                    headers = tuple(message.headers() or ())
                    out.append((message.key(), message.value(), message.timestamp()[1], headers))
            return out
        finally:
            consumer.close()
