"""Fetching ahead: partitions take turns, and one without records delays no other."""

import time

from bowstring._native.record.encode import encode_batch
from bowstring.clients.consumer import fetcher
from bowstring.clients.consumer.consumer import Consumer
from bowstring.clients.producer.producer import Producer
from bowstring.clients.records import TopicPartition
from bowstring.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from tests.support.fake_broker import TOPIC_ID, FakeBroker
from tests.support.waiting import HANG_S

BATCH_RECORDS = 50
END = 10 * BATCH_RECORDS
FULL, EMPTY = 0, 1
PATIENCE_S = HANG_S


def batch_at(offset):
    """A batch larger than what these consumers request of a partition at a time."""
    return bytes(encode_batch([(None, b"x" * 20, 1, [])] * BATCH_RECORDS, base_offset=offset))


class TwoPartitions(FakeBroker):
    """One partition has records, the other has none."""

    def __init__(self):
        super().__init__(partitions=2)
        self.handlers[FetchRequest] = self.fetch

    def fetch(self, version, request):
        asked = {part.partition: part.fetch_offset for topic in request.topics for part in topic.partitions}
        found = []
        for number, offset in asked.items():
            end = END if number == FULL else 0
            records = batch_at(offset) if offset < end else b""
            found.append(PartitionData(partition_index=number, high_watermark=end, records=records))
        answer = FetchableTopicResponse(topic_id=TOPIC_ID, partitions=found)
        return FetchResponse(session_id=0, responses=[answer])

    def waits(self):
        """How long each request may wait at the broker, with the partitions it names."""
        return [
            ({part.partition for topic in request.topics for part in topic.partitions}, request.max_wait_ms)
            for request in self.seen(FetchRequest)
        ]


def test_a_partition_without_news_holds_up_no_other(monkeypatch):
    monkeypatch.setattr(fetcher, "NEWS_PAUSE_S", 3600)
    with (
        TwoPartitions() as broker,
        Consumer(broker.bootstrap, max_partition_fetch_bytes=1000, fetch_max_wait_ms=300) as consumer,
    ):
        consumer.assign([("t", FULL), ("t", EMPTY)])
        for number in (FULL, EMPTY):
            consumer.seek(("t", number), 0)
        read = 0
        deadline = time.monotonic() + PATIENCE_S
        full = consumer._positions[TopicPartition("t", FULL)]
        while read < END:
            while not full.chunks and full.fetch_offset < END:
                consumer.await_records(1)
            read += len(consumer.poll(timeout=1, max_records=7))
            assert time.monotonic() < deadline
        while broker.waits()[-1] != ({FULL, EMPTY}, 300):  # when nothing is left, it waits for both
            consumer.poll(timeout=0.05)
            assert time.monotonic() < deadline
        alone = [wait for asked, wait in broker.waits() if asked == {EMPTY}]
        assert alone == [0], "at once, as the other had records that waited for polls; and not at each poll"


def test_large_polls_serve_partitions_in_turn(bootstrap, new_topic, consumer_for):
    topic = new_topic(partitions=4)
    with Producer(bootstrap, batch_size=1000) as producer:
        for number in range(4 * 400):
            producer.send(topic, b"x" * 100, partition=number % 4)
    consumer = consumer_for(topic, max_partition_fetch_bytes=10_000)
    served = []
    for _ in range(4):
        while not all(state.has_buffered for _, state in consumer._positions.items()):
            consumer.await_records(10)
        served.append(consumer.poll(timeout=0, max_records=90)[0].partition)
    assert sorted(served) == [0, 1, 2, 3]


def test_a_poll_does_not_decode_a_chunk_for_the_first_few_of_it(bootstrap, new_topic, consumer_for):
    topic = new_topic(partitions=2)
    with Producer(bootstrap) as producer:
        for number in range(200):
            producer.send(topic, b"%d" % number, partition=number % 2)
    consumer = consumer_for(topic)
    consumer.await_records(10)
    assert len(consumer.poll(timeout=HANG_S, max_records=120)) == 100
    assert len(consumer.poll(timeout=HANG_S, max_records=120)) == 100
    consumer.seek((topic, 0), 90)
    consumer.seek((topic, 1), 95)
    while not consumer.await_records(10) or not all(s.has_buffered for _, s in consumer._positions.items()):
        pass
    assert len(consumer.poll(timeout=HANG_S, max_records=120)) == 15, "what fits is put together"


def test_iteration_follows_what_happens_in_its_body(bootstrap, new_topic, consumer_for):
    topic = new_topic(partitions=2)
    with Producer(bootstrap) as producer:
        for number in range(100):
            producer.send(topic, b"%d" % number, partition=number % 2)
    consumer = consumer_for(topic)
    first, second = (TopicPartition(topic, number) for number in range(2))
    seen, paused = [], -1
    for record in consumer:
        seen.append((record.partition, record.offset))
        assert consumer.position((topic, record.partition)) == record.offset + 1
        if len(seen) == 10:
            paused = record.partition
            consumer.pause(TopicPartition(topic, paused))
        elif len(seen) == 20:
            assert {partition for partition, _ in seen[10:]} == {1 - paused}
            consumer.seek((topic, 1 - paused), 2)
        elif len(seen) == 21:
            assert seen[-1] == (1 - paused, 2)
            assert consumer.poll(timeout=HANG_S, max_records=1)[0].offset == 3
        elif len(seen) == 22:
            assert seen[-1] == (1 - paused, 4)
            assert next(iter(consumer)).offset == 5, "a loop within takes its turn"
            consumer.resume(first, second)
        elif consumer.positions() == {first: 50, second: 50}:
            break
    assert [offset for partition, offset in seen if partition == paused] == list(range(50))
    assert [o for p, o in seen if p != paused] == [*range(10), 2, 4, *range(6, 50)]
