"""Consumer.poll_arrow and to_reader: positions, limits, groups, errors, and memory."""

import gc
import random
import struct
import threading
import time

import pyarrow as pa
import pytest

from bowstring.clients.consumer import fetcher
from bowstring.clients.consumer.consumer import Consumer
from bowstring.clients.errors import (
    ClosedError,
    CorruptBatchError,
    NoOffsetError,
    OffsetOutOfRangeError,
    UnknownTopicError,
)
from bowstring.clients.producer.producer import Producer
from bowstring.clients.records import TopicPartition
from tests.support.arrow_formats import Lengths
from tests.support.arrow_reference import marker
from tests.support.fetch_log import FetchLog
from tests.support.numbered_records import fill, numbered
from tests.support.waiting import FOR_EVER_S, HANG_S, wait_until


def read(consumer, count, **options):
    batches = []
    deadline = time.monotonic() + HANG_S
    while sum(batch.num_rows for batch in batches) < count:
        assert time.monotonic() < deadline, f"{batches} of {count} records came"
        batches.append(consumer.poll_arrow(timeout=HANG_S, **options))
        batches[-1].validate(full=True)
    return pa.Table.from_batches([batch for batch in batches if batch.num_rows])


@pytest.mark.parametrize("layout", ["binary", "binary_view"])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_all_records_of_all_partitions(bootstrap, new_topic, consumer_for, layout, codec):
    topic = new_topic(partitions=3)
    fill(bootstrap, topic, 3000, 3, compression=codec)
    table = read(consumer_for(topic), 3000, layout=layout)
    rows = sorted(zip(*(table[name].to_pylist() for name in ("partition", "offset", "value")), strict=True))
    assert rows == [(p, i, b"value %06d" % (3 * i + p)) for p in range(3) for i in range(1000)]
    assert set(table["topic"].to_pylist()) == {topic}
    in_order = [
        (p, o) for p, o in zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True)
    ]
    assert all([o for q, o in in_order if q == p] == list(range(1000)) for p in range(3))


def test_limits_and_positions(bootstrap, new_topic, consumer_for):
    topic = new_topic()
    fill(bootstrap, topic, 1000)
    consumer = consumer_for(topic)
    partition = TopicPartition(topic, 0)
    batch = consumer.poll_arrow(HANG_S, max_records=70)
    assert batch["offset"].to_pylist() == list(range(70))
    assert consumer.position(partition) == 70
    small = consumer.poll_arrow(max_bytes=200, timeout=HANG_S, columns=["offset"])
    assert small["offset"][0].as_py() == 70 and 1 <= small.num_rows < 20
    following = 70 + small.num_rows
    assert consumer.poll(HANG_S, max_records=5)[0].offset == following, (
        "poll() goes on where poll_arrow() stopped"
    )
    assert consumer.poll_arrow(HANG_S, max_records=3)["offset"].to_pylist() == list(
        range(following + 5, following + 8)
    )
    consumer.seek(partition, 990)
    assert read(consumer, 10)["offset"].to_pylist() == list(range(990, 1000))
    assert consumer.poll_arrow(timeout=0.05).num_rows == 0
    assert consumer.lag(partition) == 0
    raw = consumer
    raw.seek(partition, 500)
    assert raw.poll_arrow(HANG_S, max_records=1)["offset"].to_pylist() == [500]
    assert raw.poll_batches(timeout=HANG_S)[0].offset == 501


def test_every_way_of_reading_goes_on_where_another_stopped(bootstrap, new_topic, consumer_for):
    topic = new_topic()
    fill(bootstrap, topic, 3000)
    consumer = consumer_for(topic, max_partition_fetch_bytes=20_000)
    rng, offset = random.Random(3), 0
    while offset < 3000:
        way = rng.randrange(3)
        if way == 0:
            found = [record.offset for record in consumer.poll(HANG_S, max_records=rng.randint(1, 200))]
        elif way == 1:
            found = consumer.poll_arrow(HANG_S, max_records=rng.randint(1, 200))["offset"].to_pylist()
        else:
            found = [
                o for raw in consumer.poll_batches(timeout=HANG_S) for o in range(raw.offset, raw.next_offset)
            ]
        assert found == list(range(offset, offset + len(found)))
        offset += len(found)
        assert consumer.position(TopicPartition(topic, 0)) == offset


def test_paused_partitions_give_nothing(bootstrap, new_topic, consumer_for):
    topic = new_topic(partitions=2)
    fill(bootstrap, topic, 100, 2)
    consumer = consumer_for(topic)
    consumer.pause(TopicPartition(topic, 0))
    assert set(read(consumer, 50)["partition"].to_pylist()) == {1}
    assert consumer.poll_arrow(timeout=0.1).num_rows == 0
    consumer.resume(TopicPartition(topic, 0))
    assert set(read(consumer, 50)["partition"].to_pylist()) == {0}


def test_a_group_goes_on_where_it_committed(bootstrap, new_topic, new_group, consumer_for):
    topic = new_topic()
    fill(bootstrap, topic, 300)
    first = consumer_for(group_id=new_group, enable_auto_commit=False)
    first.subscribe([topic])
    deadline = time.monotonic() + HANG_S
    while not (batch := first.poll_arrow(HANG_S, max_records=100)).num_rows:
        assert time.monotonic() < deadline
    first.commit()
    first.close()
    second = consumer_for(group_id=new_group)
    second.subscribe([topic])
    assert read(second, 300 - batch.num_rows)["offset"][0].as_py() == batch.num_rows


def test_reader_streams_until_nothing_comes(bootstrap, new_topic, consumer_for):
    topic = new_topic(partitions=2)
    fill(bootstrap, topic, 500, 2)
    consumer = consumer_for(topic)
    while not all(state.has_buffered for _, state in consumer._positions.items()):
        consumer.await_records(HANG_S)
    reader = consumer.to_reader(max_records=60, timeout=0.5, columns=["offset", "value"])
    assert reader.schema.names == ["offset", "value"]
    sizes = [batch.num_rows for batch in reader]
    assert sum(sizes) == 500 and max(sizes) <= 60


def test_reader_ends_when_the_consumer_is_closed(bootstrap, new_topic, consumer_for):
    topic = new_topic()
    fill(bootstrap, topic, 10)
    consumer = consumer_for(topic)
    reader = consumer.to_reader(columns=["offset"])
    assert reader.read_next_batch().num_rows == 10
    consumer.close()
    with pytest.raises(StopIteration):
        reader.read_next_batch()


def test_fetching_goes_on_while_the_caller_works(bootstrap, new_topic, consumer_for):
    topic = new_topic()
    fill(bootstrap, topic, 2000)
    consumer = consumer_for(topic)
    stop = threading.Timer(0.3, consumer.wakeup)
    assert read(consumer, 2000).num_rows == 2000
    stop.start()
    began = time.monotonic()
    assert consumer.poll_arrow(timeout=FOR_EVER_S).num_rows == 0, "wakeup() ends the wait"
    assert time.monotonic() - began < HANG_S
    stop.join()


def test_offsets_out_of_range_and_unknown(bootstrap, new_topic, consumer_for):
    topic = new_topic()
    fill(bootstrap, topic, 10)
    strict = consumer_for(topic, auto_offset_reset="none")
    with pytest.raises(NoOffsetError, match=r"auto_offset_reset"):
        strict.poll_arrow(timeout=HANG_S)
    strict.seek(TopicPartition(topic, 0), 11)
    with pytest.raises(OffsetOutOfRangeError, match=r"offset 11 is not in the log"):
        strict.poll_arrow(timeout=HANG_S)


def test_typed_values(bootstrap, new_topic, consumer_for):
    topic = new_topic()
    fill(bootstrap, topic, 30)
    consumer = consumer_for(topic, key=Lengths(), value=Lengths())
    batch = consumer.poll_arrow(HANG_S, max_records=10, columns=["offset", "value"])
    assert batch.schema.names == ["offset", "value", "value_error"]
    assert batch["value"].to_pylist() == [{"length": 12}] * 10
    reader = consumer.to_reader(timeout=HANG_S, columns=["value", "key"])
    assert reader.schema.names == ["value", "value_error", "key", "key_error"]
    rows = 0
    while rows < 20:
        rows += reader.read_next_batch().num_rows
    assert rows == 20


def test_an_assigned_topic_that_vanishes(bootstrap, admin, new_topic, consumer_for, monkeypatch):
    monkeypatch.setattr(fetcher, "MISSING_TOPIC_S", 0.3)
    topic = new_topic()
    fill(bootstrap, topic, 10)
    consumer = consumer_for(topic, allow_auto_create=False)
    assert read(consumer, 10).num_rows == 10
    admin.delete_topics([topic])
    deadline = time.monotonic() + HANG_S
    with pytest.raises(UnknownTopicError, match=rf"reading {topic}-0.*topics create"):
        while time.monotonic() < deadline:
            consumer.poll_arrow(timeout=0.5)


def test_what_waits_for_polls_is_bounded(bootstrap, new_topic, consumer_for):
    topic = new_topic(partitions=4)
    with Producer(bootstrap, batch_size=16384) as producer:
        for i in range(4000):
            producer.send(topic, bytes(1000), partition=i % 4)
    sizes = {"max_partition_fetch_bytes": 100_000, "prefetch_max_bytes": 150_000}
    consumer = consumer_for(topic, **sizes)
    total, most = 0, 0
    while total < 4000:
        total += consumer.poll_arrow(HANG_S, max_records=7).num_rows
        most = max(most, sum(state.buffered_bytes for _, state in consumer._positions.items()))
    assert most <= 560_000, "the bound, and one answer that was on its way"
    kept = consumer_for(topic, fetch_max_wait_ms=5, **sizes)
    kept.poll_arrow(HANG_S, max_records=1)
    kept.pause(*[TopicPartition(topic, p) for p in range(3)])
    assert read(kept, 900).num_rows >= 900, "what is paused does not starve the others"


def test_a_closed_consumer(consumer_for):
    consumer = consumer_for()
    consumer.close()
    with pytest.raises(ClosedError):
        consumer.poll_arrow()


def fetching(broker, **options):
    consumer = Consumer(broker.bootstrap, auto_offset_reset="earliest", **options)
    consumer.assign([("t", 0)])
    return consumer


@pytest.mark.parametrize("poll", ["poll", "poll_arrow", "poll_batches"])
def test_what_comes_before_a_corrupt_batch_is_given_and_nothing_is_lost(poll):
    bad = bytearray(numbered(20))
    bad[-2] ^= 1
    with (
        FetchLog([numbered(0), numbered(10), bad, numbered(30)]).serve() as broker,
        fetching(broker) as consumer,
    ):
        given = getattr(consumer, poll)(timeout=HANG_S)
        count = given[0].record_count if poll == "poll_batches" else len(given)
        assert count == 20
        for _ in range(2):
            with pytest.raises(CorruptBatchError, match=r"t-0 from offset 20: .*CRC.*seek\(\) to 30"):
                getattr(consumer, poll)(timeout=HANG_S)
            assert consumer.position(("t", 0)) == 20, "it stays before the bad batch"
        consumer.seek(("t", 0), 30)
        assert consumer.poll(timeout=HANG_S)[0].offset == 30


@pytest.mark.parametrize("poll", ["poll", "poll_arrow"])
def test_a_header_that_lies_about_its_records(poll):
    """It reserves no memory for them, and takes no good batch with it."""
    greedy = bytearray(numbered(10))
    struct.pack_into(">i", greedy, 57, (1 << 31) - 1)
    with (
        FetchLog([numbered(0), greedy, numbered(20)]).serve() as broker,
        fetching(broker, check_crcs=False) as consumer,
    ):
        assert len(getattr(consumer, poll)(timeout=HANG_S)) == 10
        with pytest.raises(CorruptBatchError, match=r"t-0 from offset 10: .*seek\(\) to 20"):
            getattr(consumer, poll)(timeout=HANG_S)
        consumer.seek(("t", 0), 20)
        assert len(getattr(consumer, poll)(timeout=HANG_S)) == 10


@pytest.mark.parametrize("codec", [0, 4])
@pytest.mark.parametrize("max_records", [3, None])
def test_read_committed(codec, max_records):
    fields = {"producer_epoch": 0, "base_sequence": 0, "transactional": True}
    log = FetchLog(
        [
            numbered(0, codec=codec, producer_id=5, **fields), numbered(10, codec=codec, producer_id=6, **fields),
            marker(5, 20, 0), numbered(21, codec=codec, producer_id=5, **fields), marker(5, 31, 1), marker(6, 32, 1),
        ],
        aborted=[(5, 0)],
    )  # fmt: skip
    with log.serve() as broker:
        with fetching(broker, isolation_level="read_committed") as consumer:
            table = read(consumer, 20, max_records=max_records)
            assert table["offset"].to_pylist() == [*range(10, 20), *range(21, 31)]
            wait_until(  # until it is behind the markers
                lambda: consumer.poll_arrow(timeout=0.3).num_rows == 0 and consumer.position(("t", 0)) == 33
            )
        with fetching(broker) as consumer:
            assert read(consumer, 30).num_rows == 30


def test_memory_stays_flat_over_many_polls(bootstrap, new_topic, consumer_for):
    topic = new_topic()
    with Producer(bootstrap) as producer:
        for i in range(20_000):
            producer.send(topic, b"%0200d" % i)
    consumer = consumer_for(topic, fetch_max_wait_ms=5)
    partition = TopicPartition(topic, 0)

    def round_of(times):
        for i in range(times):
            consumer.seek(partition, 0)
            read(consumer, 20_000, layout=("binary", "binary_view")[i % 2])

    def resident_kib():
        gc.collect()
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))

    round_of(6)
    before = resident_kib()
    round_of(30)
    assert resident_kib() - before < 24 * 1024
