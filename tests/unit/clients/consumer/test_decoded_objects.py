"""Consumers with formats: poll and iteration give decoded objects; what does not decode is named and passed."""

import pyarrow as pa
import pytest

import bowstring
from bowstring import TopicPartition
from bowstring.clients.consumer import record_batches
from tests.support.waiting import HANG_S

ORDERS = pa.schema({"id": pa.int64(), "tags": pa.list_(pa.string()), "at": pa.timestamp("ms", "UTC")})
PARTITION = TopicPartition("orders", 0)
GOOD = [b'{"id":%d,"tags":["a"],"at":"2026-01-31T12:00:00Z"}' % i for i in range(20)]


@pytest.fixture(scope="module")
def servers():
    with bowstring.Broker() as broker, bowstring.Producer(broker.bootstrap_servers) as producer:
        for value in [*GOOD[:5], b"{", *GOOD[5:], None, b"\xff"]:
            producer.send("orders", value, key=b"k", partition=0)
        for i in range(3000):
            producer.send("many", b'{"id":%d}' % i, partition=0)
        producer.flush()
        yield broker.bootstrap_servers


def reader(servers, partition=PARTITION, **settings):
    consumer = bowstring.Consumer(servers, auto_offset_reset="earliest", **settings)
    consumer.assign([partition])
    return consumer


def read(consumer, count):
    records = []
    while len(records) < count:
        records += consumer.poll(HANG_S)
    return records


def test_objects_are_those_of_arrow(servers):
    form = bowstring.Json(ORDERS)
    with reader(servers, value=form, key=bowstring.Text()) as consumer:
        records = read(consumer, 5)
        consumer.seek(PARTITION, 6)
        records += read(consumer, 16)
        assert {record.key for record in records} == {"k"} and records[-1].value is None
        consumer.seek(PARTITION, 0)
        batch = consumer.poll_arrow(HANG_S)
        errors = batch.column("value_error").to_pylist()
        assert [error is None for error in errors] == [i not in (5, 22) for i in range(23)]
        rows = batch.column("value").to_pylist()
        assert [record.value for record in records] == rows[:5] + rows[6:22]
        assert batch.column("key").to_pylist() == ["k"] * 23


def test_what_does_not_decode_is_named_and_can_be_passed(servers):
    with reader(servers, value=bowstring.Json(ORDERS)) as consumer:
        assert [record.offset for record in read(consumer, 5)] == [0, 1, 2, 3, 4]
        for _ in range(2):
            with pytest.raises(bowstring.UndecodableRecordError) as caught:
                consumer.poll(HANG_S)
            assert consumer.positions() == {PARTITION: 5}
        error = caught.value
        assert (error.field, error.record.offset, error.record.value) == ("value", 5, b"{")
        assert "orders-0, offset 5: the value does not decode: at byte 1" in str(error)
        assert error.reason in str(error) and "seek() to 6" in str(error)
        assert isinstance(error, bowstring.ClientError)
        consumer.seek(PARTITION, 6)
        assert [record.value["id"] for record in read(consumer, 16)[:-1]] == list(range(5, 20))


def test_iteration_stops_at_what_does_not_decode(servers):
    with reader(servers, value=bowstring.Json()) as consumer:
        seen = []
        with pytest.raises(bowstring.UndecodableRecordError, match="offset 5"):
            for record in consumer:
                seen.append(record.value["id"])
        assert seen == [0, 1, 2, 3, 4] and consumer.positions() == {PARTITION: 5}
        consumer.seek(PARTITION, 6)
        for record in consumer:
            seen.append(record.value["id"])
            if len(seen) == 10:
                break
        assert seen == list(range(10)) and consumer.positions() == {PARTITION: 11}
        assert consumer.poll(HANG_S)[0].offset == 11


def test_polls_of_any_size_give_every_record_once(servers):
    with reader(servers, TopicPartition("many", 0), value=bowstring.Json()) as consumer:
        seen = []
        while len(seen) < 3000:
            seen += [record.value["id"] for record in consumer.poll(HANG_S, max_records=1 + len(seen) % 700)]
        assert seen == list(range(3000))
        assert consumer.positions() == {TopicPartition("many", 0): 3000}


def test_small_polls_do_not_read_a_batch_again_for_each_record(servers, monkeypatch):
    calls = []
    decode = record_batches.decode_objects

    def counted(*arguments):
        calls.append(arguments)
        return decode(*arguments)

    monkeypatch.setattr(record_batches, "decode_objects", counted)
    with reader(servers, TopicPartition("many", 0), value=bowstring.Json()) as consumer:
        seen = []
        while len(seen) < 50:
            seen += [record.value["id"] for record in consumer.poll(HANG_S, max_records=1)]
    assert seen == list(range(50)) and len(calls) <= 25


def test_an_error_of_the_registry_loses_nothing(servers):
    schema = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}
    down = True

    def schemas(_):
        if down:
            raise ConnectionError("the registry is down")
        return schema

    with bowstring.Producer(servers) as producer:
        producer.send("by-id", b"\0\0\0\0\x07\x02", partition=0).result()
    form = bowstring.Avro(schema, framing="confluent", schemas=schemas)
    with reader(servers, TopicPartition("by-id", 0), value=form) as consumer:
        with pytest.raises(ConnectionError, match="the registry is down"):
            read(consumer, 1)
        down = False
        assert [record.value for record in read(consumer, 1)] == [{"id": 1}]
