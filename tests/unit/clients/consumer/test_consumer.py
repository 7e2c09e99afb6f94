"""Reading against a broker: positions, seeking, pausing, raw batches, errors."""

import threading
import time

import pytest

from bowstring._native.record.decode import payload_bytes
from bowstring.clients.consumer.consumer import Consumer
from bowstring.clients.errors import (
    ClientError,
    ClosedError,
    ConfigError,
    NoBrokerError,
    NoOffsetError,
    OffsetOutOfRangeError,
    UnknownTopicError,
)
from bowstring.clients.producer.producer import Producer
from bowstring.clients.records import TopicPartition
from tests.support.waiting import FOR_EVER_S, HANG_S, error_in_time, wait_until


def fill(bootstrap, topic, count, partitions=1, start=0, **options):
    with Producer(bootstrap, **options) as producer:
        for i in range(start, start + count):
            producer.send(topic, b"%d" % i, partition=i % partitions, timestamp=1000 + i)


def read(consumer, count, **options):
    records = []
    deadline = time.monotonic() + HANG_S
    while len(records) < count:
        assert time.monotonic() < deadline, f"{len(records)} of {count} records came"
        records += consumer.poll(timeout=HANG_S, **options)
    return records


def test_order_and_limit(bootstrap, new_topic, consumer_for):
    topic = new_topic(partitions=2)
    fill(bootstrap, topic, 1000, 2)
    consumer = consumer_for(topic)
    polls = [consumer.poll(HANG_S, max_records=70) for _ in range(3)]
    assert all(0 < len(records) <= 70 for records in polls)
    records = [r for records in polls for r in records] + read(consumer, 1000 - sum(map(len, polls)))
    for partition in range(2):
        mine = [r for r in records if r.partition == partition]
        assert [r.offset for r in mine] == list(range(500))
        assert [int(r.value) for r in mine] == list(range(partition, 1000, 2))
    assert consumer.position((topic, 0)) == 500
    assert consumer.lag(TopicPartition(topic, 0)) == 0
    assert consumer.poll(timeout=0.1) == []


def test_many_small_fetches_lose_nothing(bootstrap, new_topic, consumer_for):
    topic = new_topic(partitions=3)
    fill(bootstrap, topic, 3000, 3, batch_size=300)
    consumer = consumer_for(topic, max_partition_fetch_bytes=500, fetch_max_bytes=1000)
    assert sorted(int(r.value) for r in read(consumer, 3000)) == list(range(3000))


def test_new_records_arrive_while_polling(bootstrap, new_topic, consumer_for):
    topic = new_topic()
    consumer = consumer_for(topic)
    assert consumer.poll(timeout=0.2) == []
    threading.Timer(0.2, fill, (bootstrap, topic, 5)).start()
    assert [r.value for r in read(consumer, 5)] == [b"0", b"1", b"2", b"3", b"4"]


def test_seeking(bootstrap, new_topic, consumer_for):
    topic = new_topic()
    fill(bootstrap, topic, 100)
    p = TopicPartition(topic, 0)
    consumer = consumer_for(topic)
    read(consumer, 10, max_records=10)
    consumer.seek(p, 42)
    assert consumer.position(p) == 42
    assert read(consumer, 1, max_records=1)[0].offset == 42
    with pytest.raises(ConfigError, match="larger than the largest offset"):
        consumer.seek(p, 1 << 63)
    consumer.seek_to_beginning(p)
    assert read(consumer, 1, max_records=1)[0].offset == 0
    consumer.seek_to_end()
    assert consumer.position(p) == 100
    fill(bootstrap, topic, 1, start=100)
    assert read(consumer, 1)[0].offset == 100
    with pytest.raises(ConfigError, match=r"negative"):
        consumer.seek(p, -1)
    with pytest.raises(ConfigError, match=r"not assigned"):
        consumer.seek((topic, 9), 0)


def test_a_seek_inside_a_batch(bootstrap, new_topic, consumer_for):
    topic = new_topic()
    fill(bootstrap, topic, 50, linger_ms=200)
    consumer = consumer_for(topic)
    consumer.seek((topic, 0), 33)
    assert [r.offset for r in read(consumer, 17)] == list(range(33, 50))


def test_offsets_for_times_and_ends(bootstrap, new_topic, consumer_for):
    topic = new_topic()
    fill(bootstrap, topic, 20)
    p = TopicPartition(topic, 0)
    consumer = consumer_for()
    found = consumer.offsets_for_times({p: 1007})[p]
    assert (found.offset, found.timestamp) == (7, 1007)
    assert consumer.offsets_for_times({p: 5000})[p] is None
    assert consumer.beginning_offsets([p]) == {p: 0}
    assert consumer.end_offsets([p]) == {p: 20}


def test_latest_is_the_default(bootstrap, new_topic):
    topic = new_topic()
    fill(bootstrap, topic, 3)
    with Consumer(bootstrap) as consumer:
        consumer.assign([(topic, 0)])
        assert consumer.position((topic, 0)) == 3


def test_pausing(bootstrap, new_topic, consumer_for):
    topic = new_topic(partitions=2)
    fill(bootstrap, topic, 10, 2)
    consumer = consumer_for(topic)
    first = TopicPartition(topic, 0)
    consumer.pause(first)
    assert {r.partition for r in read(consumer, 5)} == {1}
    assert consumer.poll(timeout=0.2) == [] and consumer.paused() == {first}
    consumer.resume(first)
    assert {r.partition for r in read(consumer, 5)} == {0}


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_raw_batches(bootstrap, new_topic, consumer_for, compression):
    topic = new_topic()
    fill(bootstrap, topic, 2000, compression=compression, batch_size=2000)
    consumer = consumer_for(topic, max_partition_fetch_bytes=5000)
    raw = []
    while not raw or raw[-1].next_offset < 2000:
        raw += consumer.poll_batches(5)
    assert sum(batch.record_count for batch in raw) == 2000
    assert [b.offset for b in raw] == [0] + [b.next_offset for b in raw[:-1]]
    counted = [payload_bytes(batch.data) for batch in raw]
    assert sum(records for records, _ in counted) == 2000
    assert sum(size for _, size in counted) == sum(len(b"%d" % i) for i in range(2000))
    assert consumer.position((topic, 0)) == 2000


def test_iteration(bootstrap, new_topic, consumer_for):
    topic = new_topic()
    fill(bootstrap, topic, 10)
    values = []
    for record in consumer_for(topic):
        values.append(int(record.value))
        if len(values) == 10:
            break
    assert values == list(range(10))


def test_what_retention_took_away(bootstrap, admin, new_topic, consumer_for):
    topic = new_topic()
    fill(bootstrap, topic, 10)
    p = TopicPartition(topic, 0)
    assert admin.delete_records({p: 5}) == {p: 5}
    consumer = consumer_for(topic)
    assert read(consumer, 5)[0].offset == 5
    consumer.seek(p, 2)
    assert read(consumer, 5)[0].offset == 5, "auto_offset_reset=earliest goes on at the first there is"
    strict = consumer_for(topic, auto_offset_reset="none")
    strict.seek(p, 2)
    with pytest.raises(OffsetOutOfRangeError, match=r"offset 2 is not in the log"):
        strict.poll(timeout=HANG_S)


def test_without_an_offset_and_without_a_policy(new_topic, consumer_for):
    consumer = consumer_for(new_topic(), auto_offset_reset="none")
    with pytest.raises(NoOffsetError, match=r"auto_offset_reset"):
        consumer.poll(timeout=HANG_S)


def test_a_topic_that_is_not_there(consumer_for):
    consumer = consumer_for(allow_auto_create=False)
    error_in_time(lambda s: consumer.partitions_for("nowhere", timeout=s), UnknownTopicError, "nowhere")
    error_in_time(
        lambda s: consumer.end_offsets([TopicPartition("nowhere", 0)], timeout=s), UnknownTopicError
    )


def test_a_partition_that_is_not_there(new_topic, consumer_for):
    consumer, partition = consumer_for(), TopicPartition(new_topic(), 7)
    error_in_time(
        lambda s: consumer.end_offsets([partition], timeout=s), UnknownTopicError, "partitions 0 to 0"
    )


def test_no_broker(request):
    with Consumer("127.0.0.1:1", default_timeout_ms=300) as consumer:
        with pytest.raises(NoBrokerError, match=r"127.0.0.1:1"):
            consumer.partitions_for("t")
        consumer.assign([("t", 0)])
        assert consumer.poll(timeout=0.3) == []


def test_a_closed_consumer(consumer_for):
    consumer = consumer_for()
    consumer.close()
    consumer.close()
    with pytest.raises(ClosedError):
        consumer.poll()


def told_of_another(consumer):
    """Whether a call reports that another thread is in the consumer; it will be soon."""
    try:
        consumer.poll(timeout=0)
    except ClientError as error:
        return "another thread" in str(error)
    return False


def test_two_threads_are_told(new_topic, consumer_for):
    consumer = consumer_for(new_topic())
    thread = threading.Thread(target=consumer.poll, kwargs={"timeout": FOR_EVER_S})
    thread.start()
    wait_until(lambda: told_of_another(consumer))
    consumer.wakeup()
    thread.join()


@pytest.mark.parametrize(
    "options", [{"auto_offset_reset": "newest"}, {"isolation_level": "serial"}, {"assignors": ("best",)}]
)
def test_settings_that_make_no_sense(options):
    with pytest.raises(ConfigError):
        Consumer("127.0.0.1:1", **options)


def test_group_calls_need_a_group(new_topic, consumer_for):
    consumer = consumer_for(new_topic())
    with pytest.raises(ConfigError, match=r"group_id"):
        consumer.subscribe(["x"])
    with pytest.raises(ConfigError, match=r"group_id"):
        consumer.commit()


def test_await_records_moves_nothing_and_wakeup_ends_a_wait(bootstrap, new_topic):
    topic = new_topic()
    partition = TopicPartition(topic, 0)
    with Producer(bootstrap) as producer, Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([partition])
        assert not consumer.await_records(0.05)
        producer.send(topic, b"v").result(HANG_S)
        assert consumer.await_records(HANG_S)
        assert consumer.positions() == {partition: 0}
        assert [record.value for record in consumer.poll()] == [b"v"]
        assert consumer.positions() == {partition: 1}
        timer = threading.Timer(0.1, consumer.wakeup)
        timer.start()
        started = time.monotonic()
        assert consumer.poll(timeout=FOR_EVER_S) == []
        assert time.monotonic() - started < HANG_S
        timer.join()


def test_a_loop_that_is_left_loses_nothing(bootstrap, new_topic, new_group):
    topic = new_topic(2)
    with Producer(bootstrap) as producer:
        for i in range(100):
            producer.send(topic, str(i), partition=i % 2)
    settings = {"group_id": new_group, "auto_offset_reset": "earliest", "max_poll_records": 30}
    seen = []
    for _ in range(2):
        with Consumer(bootstrap, **settings) as consumer:
            consumer.subscribe([topic])
            for record in consumer:
                seen.append(int(record.value))
                assert consumer.positions()[record.topic, record.partition] == record.offset + 1
                if len(seen) % 35 == 0:
                    break
            if len(seen) == 35:
                seen += [int(record.value) for record in consumer.poll(HANG_S, max_records=5)]
    assert len(seen) == 70 and len(set(seen)) == 70


def test_a_loop_may_seek_pause_and_close(bootstrap, new_topic):
    topic = new_topic()
    with Producer(bootstrap) as producer:
        for i in range(20):
            producer.send(topic, str(i))
    partition = TopicPartition(topic, 0)
    offsets = []
    consumer = Consumer(bootstrap, auto_offset_reset="earliest")
    consumer.assign([partition])
    for record in consumer:
        offsets.append(record.offset)
        if offsets == [0, 1, 2]:
            consumer.seek(partition, 10)
        if record.offset == 12:
            consumer.pause(partition)
            assert consumer.poll(timeout=0.1) == []
            consumer.resume(partition)
        if record.offset == 15:
            consumer.close()
    assert offsets == [0, 1, 2, 10, 11, 12, 13, 14, 15]
