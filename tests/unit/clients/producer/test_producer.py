"""The producer against a broker: sent records are stored."""

import gc
import threading
from array import array

import pytest

from bowstring._native.record.encode_columns import binary_column, encode_columns
from bowstring.clients.consumer.consumer import Consumer
from bowstring.clients.errors import ConfigError, UnknownTopicError
from bowstring.clients.producer.producer import Producer
from bowstring.clients.records import TopicPartition
from tests.support.waiting import HANG_S


def everything(bootstrap, topic):
    with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(consumer.partitions_for(topic))
        end = consumer.end_offsets(consumer.assignment())
        records = []
        while any(consumer.position(p) < end[p] for p in end):
            records += consumer.poll(timeout=HANG_S)
        return records


def test_a_record_comes_back_as_it_was(bootstrap, new_topic):
    topic = new_topic()
    with Producer(bootstrap) as producer:
        sent = producer.send(topic, "grüße", key=b"\x00\xff", headers={"a": b"1", "n": None}, timestamp=1234)
        assert sent.result(HANG_S)._asdict() == {
            "topic": topic,
            "partition": 0,
            "offset": 0,
            "timestamp": 1234,
        }
        producer.send(topic, None, key="k", headers=[("a", "1"), ("a", b"2")]).result(HANG_S)
        producer.send(topic, b"").result(HANG_S)
    first, second, third = everything(bootstrap, topic)
    assert (first.key, first.value, first.timestamp) == (b"\x00\xff", "grüße".encode(), 1234)
    assert first.headers == (("a", b"1"), ("n", None))
    assert (second.key, second.value, second.headers) == (b"k", None, (("a", b"1"), ("a", b"2")))
    assert (third.key, third.value) == (None, b"")


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec(bootstrap, new_topic, compression):
    topic = new_topic()
    values = [b"value %d " % i * 10 for i in range(1000)]
    with Producer(bootstrap, compression=compression) as producer:
        for value in values:
            producer.send(topic, value)
    assert [record.value for record in everything(bootstrap, topic)] == values


def test_keys_keep_their_order_over_partitions(bootstrap, new_topic):
    topic = new_topic(partitions=3)
    with Producer(bootstrap, batch_size=500, linger_ms=0) as producer:
        futures = [producer.send(topic, b"%d" % i, key=b"%d" % (i % 7)) for i in range(2000)]
        producer.flush(HANG_S)
        assert all(future.done() for future in futures)
    by_key = {}
    where = {}
    for record in everything(bootstrap, topic):
        by_key.setdefault(record.key, []).append(int(record.value))
        where.setdefault(record.key, set()).add(record.partition)
    assert by_key == {b"%d" % k: list(range(k, 2000, 7)) for k in range(7)}
    assert all(len(partitions) == 1 for partitions in where.values())


def test_threads_may_share_a_producer(bootstrap, new_topic):
    topic = new_topic()
    with Producer(bootstrap) as producer:

        def work(number):
            for i in range(300):
                producer.send(topic, b"%d" % i, key=b"%d" % number)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    by_key = {}
    for record in everything(bootstrap, topic):
        by_key.setdefault(record.key, []).append(int(record.value))
    assert by_key == {b"%d" % n: list(range(300)) for n in range(4)}


def test_columns(bootstrap, new_topic):
    topic = new_topic()
    values = [b"v%d" % i * (i % 5) for i in range(3000)]
    keys = [None if i % 3 else b"k%d" % i for i in range(3000)]
    with Producer(bootstrap, batch_size=4096) as producer:
        results = producer.send_columns(topic, 0, values, keys, timestamps=list(range(3000))).result(HANG_S)
        assert results[0].offset == 0 and len(results) > 1
        producer.send_arrow_columns(topic, 0, (b"abc", array("i", [0, 1, 1, 3]))).result(HANG_S)
    records = everything(bootstrap, topic)
    assert [(r.key, r.value, r.timestamp) for r in records[:3000]] == list(
        zip(keys, values, range(3000), strict=False)
    )
    assert [r.value for r in records[3000:]] == [b"a", b"", b"bc"]


@pytest.mark.parametrize("linger_ms", [0, 1])
def test_topics_that_come_one_after_the_other(bootstrap, new_topic, linger_ms):
    """Each is new to a connection that others use already."""
    topics = []
    with Producer(bootstrap, linger_ms=linger_ms) as producer:
        for _ in range(4):
            topics.append(new_topic())
            futures = [producer.send(topic, b"%d" % i) for i in range(50) for topic in topics]
            for future in futures:
                future.result(HANG_S)
    for i, topic in enumerate(topics):
        values = [record.value for record in everything(bootstrap, topic)]
        assert values == [b"%d" % n for n in range(50)] * (len(topics) - i)


def test_acks_0_and_1(bootstrap, new_topic):
    topic = new_topic()
    for acks in (0, 1):
        with Producer(bootstrap, acks=acks) as producer:
            producer.send(topic, b"%d" % acks).result(HANG_S)
    assert sorted(record.value for record in everything(bootstrap, topic)) == [b"0", b"1"]


def test_log_append_time_is_told(bootstrap, new_topic):
    topic = new_topic(message_timestamp_type="LogAppendTime")
    with Producer(bootstrap) as producer:
        told = producer.send(topic, b"x", timestamp=1).result(HANG_S).timestamp
    (record,) = everything(bootstrap, topic)
    assert told > 1 and record.timestamp == told and record.timestamp_type == 1


def test_a_large_record(bootstrap, new_topic):
    topic = new_topic()
    value = bytes(range(256)) * 4000
    with Producer(bootstrap) as producer:
        producer.send(topic, value).result(HANG_S)
    assert [record.value for record in everything(bootstrap, topic)] == [value]


def test_unknown_topic_that_nobody_creates(bootstrap, monkeypatch):
    monkeypatch.setattr("bowstring.clients.producer.producer.MISSING_TOPIC_GRACE_S", 0.2)
    with (
        Producer(bootstrap, allow_auto_create=False) as producer,
        pytest.raises(UnknownTopicError, match=r"no-such-topic"),
    ):
        producer.send("no-such-topic", b"x")


def test_a_forgotten_producer_sends_what_it_has(bootstrap, new_topic):
    topic = new_topic()
    producer = Producer(bootstrap, linger_ms=60_000)
    producer.send(topic, b"x")
    del producer
    gc.collect()
    assert [record.value for record in everything(bootstrap, topic)] == [b"x"]


def test_a_deleted_topic(bootstrap, admin, new_topic):
    topic = new_topic()
    with Producer(bootstrap, delivery_timeout_ms=800, allow_auto_create=False) as producer:
        producer.find_topic(topic)
        admin.delete_topics([topic])
        assert producer.send(topic, b"y", partition=0).exception(HANG_S) is not None


def test_offsets_reach_every_partition(bootstrap, admin, new_topic):
    topic = new_topic(partitions=4)
    with Producer(bootstrap, linger_ms=0, batch_size=100) as producer:
        for _ in range(200):
            producer.send(topic, b"x" * 50)
    end = admin.end_offsets([TopicPartition(topic, i) for i in range(4)])
    assert sum(end.values()) == 200 and all(end.values())


def test_bytes_that_are_no_batch_are_refused_and_do_not_end_the_producer(bootstrap, new_topic):
    topic = new_topic()
    whole = b"".join(encode_columns(binary_column([b"x"]), key=None, timestamps=5))
    with Producer(bootstrap) as producer:
        for wrong in (b"no batch", bytes(61), whole + b"x", whole[:-1]):
            with pytest.raises(ConfigError, match="encoded has"):
                producer.produce_batches(topic, 0, [(wrong, 1)])
        assert producer.produce_batches(topic, 0, [(whole, 1)]).result(HANG_S)[0].offset == 0
