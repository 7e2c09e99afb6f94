"""RangeReader: exactly the requested offsets, and a named error if they are unavailable."""

import pyarrow as pa
import pytest

from bowstring._native.record.batch import corrected
from bowstring._native.record.encode import encode_batch
from bowstring.clients.consumer.range_reader import RangeReader
from bowstring.clients.errors import (
    ClientTimeoutError,
    ConfigError,
    CorruptBatchError,
    NoBrokerError,
    OffsetOutOfRangeError,
    UnknownTopicError,
)
from bowstring.clients.producer.producer import Producer
from bowstring.protocol.errors import Errors
from tests.support.fetch_log import FetchLog
from tests.support.numbered_records import fill, numbered
from tests.support.serving import steady_port
from tests.support.waiting import HANG_S, error_in_time


def offsets(bootstrap, start, end, topic="t", **options):
    with RangeReader(
        bootstrap, topic=topic, partition=0, start=start, end=end, columns=["offset"], **options
    ) as reader:
        return [offset for batch in reader for offset in batch["offset"].to_pylist()]


@pytest.mark.parametrize("layout", ["binary", "binary_view"])
def test_exactly_the_range(bootstrap, new_topic, layout):
    topic = new_topic()
    fill(bootstrap, topic, 1000)
    reader = RangeReader(
        bootstrap,
        topic=topic,
        partition=0,
        start=17,
        end=803,
        layout=layout,
        timestamp_unit="us",
        max_batch_rows=100,
    )
    assert reader.position == 17
    assert reader.schema.field("timestamp").type == pa.timestamp("us", "UTC")
    with reader:
        batches = list(reader)
    table = pa.Table.from_batches(batches)
    assert table.schema == reader.schema
    assert table["offset"].to_pylist() == list(range(17, 803))
    assert table["value"].to_pylist() == [b"value %06d" % i for i in range(17, 803)]
    assert max(batch.num_rows for batch in batches) == 100
    assert reader.position == 803
    reader.close()


def test_empty_ranges_ask_nobody():
    assert offsets("127.0.0.1:1", 5, 5) == []


def test_ranges_that_are_none():
    with pytest.raises(ConfigError, match=r"t-0: offset 5 to 4 is not a range"):
        offsets("127.0.0.1:1", 5, 4)


def test_gaps_at_either_end_and_between():
    compacted = bytearray(numbered(20, 5))  # offsets 20 to 24 are left of 20 to 29
    compacted[23:27] = (9).to_bytes(4, "big")
    compacted = corrected(compacted, 1)  # which renews the CRC
    log = FetchLog([numbered(4, 6), compacted, numbered(40, 3)], batches_each=1)
    with log.serve() as broker:
        assert offsets(broker.bootstrap, 0, 43) == [*range(4, 10), *range(20, 25), *range(40, 43)]
        assert offsets(broker.bootstrap, 0, 30) == [*range(4, 10), *range(20, 25)]
        assert offsets(broker.bootstrap, 9, 27) == [9, *range(20, 25)]
        assert offsets(broker.bootstrap, 26, 40) == []


def test_offsets_that_are_not_there(bootstrap, new_topic):
    topic = new_topic()
    fill(bootstrap, topic, 10)
    with pytest.raises(OffsetOutOfRangeError, match=r"offset 50 is not in the log"):
        offsets(bootstrap, 50, 60, topic)
    error_in_time(
        lambda s: offsets(bootstrap, 0, 20, topic, idle_timeout_ms=1000 * s, fetch_max_wait_ms=100),
        ClientTimeoutError,
        "requested end is 20; the broker says that 10",
    )


def test_a_topic_that_is_not_there_or_vanishes(bootstrap, admin, new_topic):
    with pytest.raises(UnknownTopicError, match=r"nowhere-0.*topics create"):
        offsets(bootstrap, 0, 5, "nowhere")
    topic = new_topic()
    fill(bootstrap, topic, 10)
    with RangeReader(bootstrap, topic=topic, partition=0, start=0, end=20) as reader:
        assert next(reader).num_rows == 10
        admin.delete_topics([topic])
        with pytest.raises(UnknownTopicError, match=topic):
            next(reader)
    with pytest.raises(UnknownTopicError):
        offsets(bootstrap, 0, 5, topic)


def test_a_partition_that_is_not_there(bootstrap, new_topic):
    topic = new_topic()
    reader = RangeReader(bootstrap, topic=topic, partition=9, start=0, end=5)
    with reader, pytest.raises(UnknownTopicError, match=rf"{topic}-9"):
        next(reader)


def test_a_corrupt_batch(bootstrap):
    bad = bytearray(numbered(10))
    bad[-2] ^= 1
    with FetchLog([numbered(0), bad]).serve() as broker:
        with RangeReader(broker.bootstrap, topic="t", partition=0, start=0, end=20) as reader:
            assert next(reader).num_rows == 10
            for _ in range(2):  # an iteration that failed has not come to its end
                with pytest.raises(CorruptBatchError, match=r"t-0.*base offset 10 fails its CRC"):
                    next(reader)
        with RangeReader(
            broker.bootstrap, topic="t", partition=0, start=0, end=20, check_crcs=False
        ) as reader:
            assert sum(batch.num_rows for batch in reader) == 20


def test_no_broker():
    address = f"127.0.0.1:{steady_port()}"
    with pytest.raises(NoBrokerError, match=address):
        offsets(address, 0, 5, idle_timeout_ms=500)


def test_a_broker_in_trouble_is_asked_again():
    log = FetchLog([numbered(0)])
    log.error = Errors.NOT_LEADER_OR_FOLLOWER.code
    with log.serve() as broker:
        reader = RangeReader(broker.bootstrap, topic="t", partition=0, start=0, end=10)
        with reader:
            log.error = 0
            assert next(reader).num_rows == 10


def test_one_record_larger_than_every_limit(bootstrap, new_topic):
    topic = new_topic(max_message_bytes=4 << 20)
    with Producer(bootstrap, max_request_size=8 << 20) as producer:
        producer.send(topic, bytes(3 << 20)).result(HANG_S)
    with RangeReader(
        bootstrap,
        topic=topic,
        partition=0,
        start=0,
        end=1,
        max_partition_fetch_bytes=1000,
        fetch_max_bytes=1000,
    ) as reader:
        assert len(next(reader)["value"][0].as_py()) == 3 << 20


def test_compressed_and_larger_than_a_batch(bootstrap):
    data = encode_batch([(None, b"%05d" % i, 0, None) for i in range(5000)], 4)
    with FetchLog([data]).serve() as broker:
        assert offsets(broker.bootstrap, 100, 4900, max_batch_rows=700) == list(range(100, 4900))
