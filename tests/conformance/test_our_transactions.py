"""Transactions of our own clients, on Apache Kafka as on Bowstring, with each protocol of transactions."""

import asyncio
import pickle
import threading
import uuid
from collections.abc import Iterator

import pyarrow as pa
import pytest

import bowstring
from bowstring import Consumer, Producer, Record, TopicPartition, aio
from bowstring.clients.choices import Compression, IsolationLevel
from bowstring.clients.errors import (
    ClientError,
    CommitFailedError,
    ProducerFencedError,
    TransactionAbortedError,
    TransactionFailedError,
)
from bowstring.clients.net import frames
from bowstring.clients.records import GroupMetadata
from tests.support.topics import made
from tests.support.waiting import HANG_S, wait_until

PARTITIONS = 3
COMMITTED: IsolationLevel = "read_committed"


@pytest.fixture(params=[2, 0], ids=["version-2", "version-0"])
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The transaction.version that clients believe brokers to have; they take clients of each."""
    level: int = request.param
    decode = frames.decode_api_versions

    def believed(asked: int, frame: memoryview) -> frames.BrokerVersions:
        return decode(asked, frame)._replace(features={frames.TRANSACTION_FEATURE: level})

    monkeypatch.setattr(frames, "decode_api_versions", believed)
    return level


@pytest.fixture
def name() -> str:
    """A transactional id, or a group, of one test."""
    return f"ours-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def producer(where: str, name: str, version: int) -> Iterator[Producer]:
    """A transactional producer that sends small batches at once."""
    with Producer(where, transactional_id=name, linger_ms=0) as made_producer:
        yield made_producer


def values(where: str, topic: str, count: int, isolation: IsolationLevel = COMMITTED) -> list[bytes | None]:
    """Returns the values of all records, at least `count`, up to the ends of the partitions.

    A commit is answered before its markers are in every partition, so readers may have to wait for them.
    """
    found: list[bytes | None] = []
    with Consumer(where, auto_offset_reset="earliest", isolation_level=isolation) as consumer:
        partitions = consumer.partitions_for(topic)
        consumer.assign(partitions)

        def is_read() -> bool:
            found.extend(record.value for record in consumer.poll(0.1))
            ends = consumer.end_offsets(partitions)
            return len(found) >= count and all(consumer.position(each) >= end for each, end in ends.items())

        wait_until(is_read, lambda: f"{len(found)} of {count} records of {topic}")
    return found


def test_what_is_committed_is_read_and_what_is_aborted_is_not(where: str, producer: Producer) -> None:
    topic = made(where, PARTITIONS)
    with pytest.raises(ClientError, match="within transactions"):
        producer.send(topic, b"outside")
    with producer.transaction():
        futures = [producer.send(topic, b"1", partition=at) for at in range(PARTITIONS)]
    assert [each.result(0).offset for each in futures] == [0] * PARTITIONS
    with pytest.raises(ValueError, match="mine"), producer.transaction():
        producer.send(topic, b"aborted", partition=0)
        producer.flush()
        raise ValueError("mine")
    for number in range(20):  # without a pause: markers are still being written
        with producer.transaction():
            for at in range(PARTITIONS):
                producer.send(topic, b"%d" % number, partition=at)
    producer.begin_transaction()
    producer.abort_transaction()  # of nothing
    producer.begin_transaction()
    producer.send(topic, b"open", partition=1)
    producer.flush()
    expected = [b"1", *(b"%d" % number for number in range(20))] * PARTITIONS
    assert sorted(filter(None, values(where, topic, len(expected)))) == sorted(expected)
    assert {b"aborted", b"open"} < set(values(where, topic, len(expected) + 2, "read_uncommitted"))
    producer.close()
    assert len(values(where, topic, len(expected))) == len(expected), "closing aborts"


def test_a_later_producer_fences(where: str, producer: Producer, name: str) -> None:
    topic = made(where, 1)
    producer.begin_transaction()
    producer.send(topic, b"of the first").result(HANG_S)
    with Producer(where, transactional_id=name) as second:
        with second.transaction():
            second.send(topic, b"of the second")
        producer.send(topic, b"late")
        with pytest.raises((ProducerFencedError, TransactionFailedError)):
            producer.commit_transaction()
        if producer.in_transaction:
            with pytest.raises(ProducerFencedError):
                producer.abort_transaction()
        for use in (producer.begin_transaction, lambda: producer.send(topic, b"later")):
            with pytest.raises(ProducerFencedError, match="PRODUCER_FENCED"):
                use()
        with second.transaction():
            second.send(topic, b"again")
    assert values(where, topic, 2) == [b"of the second", b"again"]


def test_a_failed_record_keeps_the_rest_from_being_committed(where: str, producer: Producer) -> None:
    topic = made(where, 2, **{"max.message.bytes": "1000"})
    for _ in range(2):
        producer.begin_transaction()
        producer.send(topic, b"small", partition=1)
        large = producer.send(topic, bytes(2000), partition=0)
        with pytest.raises(TransactionFailedError, match="MESSAGE_TOO_LARGE"):
            producer.commit_transaction()
        with pytest.raises(TransactionFailedError, match="abort_transaction"):
            producer.send(topic, b"more", partition=1)
        assert large.exception(0) is not None
        producer.abort_transaction()
    with pytest.raises(TransactionFailedError), producer.transaction():
        producer.send(topic, bytes(2000), partition=0)
    with producer.transaction():
        producer.send(topic, b"good", partition=0)
    assert values(where, topic, 1) == [b"good"]


def test_a_record_that_send_refuses_counts(where: str, producer: Producer) -> None:
    topic = made(where, 1)
    producer.begin_transaction()
    producer.send(topic, b"small")
    with pytest.raises(ClientError, match="max_request_size"):
        producer.send(topic, bytes(2_000_000))
    with pytest.raises(TransactionFailedError):
        producer.commit_transaction()
    producer.abort_transaction()
    assert values(where, topic, 0) == []


def test_aborting_drops_what_waits(where: str, name: str, version: int) -> None:
    topic = made(where, 1)
    with Producer(where, transactional_id=name, linger_ms=60_000) as producer:
        producer.begin_transaction()
        lingering = producer.send(topic, b"lingers")
        producer.abort_transaction()
        assert isinstance(lingering.exception(0), TransactionAbortedError)
        with producer.transaction():
            producer.send(topic, b"kept")
    assert values(where, topic, 1) == [b"kept"]


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_columns_and_compressed_batches(where: str, name: str, version: int, codec: Compression) -> None:
    topic = made(where, 1)
    table = pa.table({"value": [b"a%d" % i for i in range(1000)]})
    with Producer(where, transactional_id=name, compression=codec, batch_size=4096) as producer:
        with producer.transaction():
            producer.send_arrow(topic, table)
        with pytest.raises(ValueError, match="mine"), producer.transaction():
            producer.send_columns(topic, 0, [b"aborted"] * 1000)
            producer.flush()
            raise ValueError("mine")
        with producer.transaction():
            producer.send_columns(topic, 0, [b"b%d" % i for i in range(1000)])
    expected = [b"a%d" % i for i in range(1000)] + [b"b%d" % i for i in range(1000)]
    assert values(where, topic, 2000) == expected
    with Consumer(where, auto_offset_reset="earliest", isolation_level=COMMITTED) as consumer:
        consumer.assign([(topic, 0)])
        read = pa.Table.from_batches(consumer.to_reader(timeout=1, columns=["value"]))
    assert read.num_rows == 2000 and b"aborted" not in read["value"].to_pylist()


def group_consumer(where: str, group: str, **more: object) -> Consumer:
    settings = {
        "group_id": group,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "isolation_level": COMMITTED,
    }
    return Consumer(where, **{**settings, **more})  # type: ignore[arg-type]


def filled(where: str, partitions: int, count: int) -> str:
    topic = made(where, partitions)
    with Producer(where) as plain:
        for number in range(count):
            plain.send(topic, b"%d" % number, partition=number % partitions)
    return topic


def test_offsets_go_with_the_transaction(where: str, producer: Producer, name: str) -> None:
    source, target = filled(where, 1, 10), made(where, 1)
    partition = TopicPartition(source, 0)
    with group_consumer(where, name) as consumer:
        consumer.subscribe([source])
        records: list[Record] = []
        while len(records) < 10:
            records += consumer.poll(HANG_S, max_records=10 - len(records))
        with pytest.raises(ValueError, match="mine"), producer.transaction():
            producer.send_offsets({partition: 10}, consumer.group_metadata())
            raise ValueError("mine")
        assert consumer.committed([partition])[partition] is None
        with producer.transaction():
            producer.send(target, b"seen")
            producer.send_offsets_to_transaction(records[4], consumer.group_metadata())
        committed = consumer.committed([partition])[partition]
        assert committed is not None and committed.offset == 5
        stale = consumer.group_metadata()._replace(generation_id=99)
        producer.begin_transaction()
        producer.send(target, b"not committed")
        with pytest.raises(CommitFailedError):
            producer.send_offsets({partition: 7}, stale)
        with pytest.raises(TransactionFailedError):
            producer.commit_transaction()
        producer.abort_transaction()
        with pytest.raises(ClientError), producer.transaction():
            producer.send_offsets({partition: 7}, GroupMetadata(""))
    assert values(where, target, 1) == [b"seen"]


def test_transform(where: str, producer: Producer, name: str) -> None:
    """A function that fails in the middle, and a member that joins meanwhile: each record takes effect once."""
    count = 300
    source, target = filled(where, PARTITIONS, count), made(where, 1)
    failed: list[int] = []

    def copy(records: list[Record], sender: Producer) -> None:
        for record in records:
            sender.send(target, record.value)
            if len(failed) < 2 and record.value == b"100":
                failed.append(1)
                sender.flush()
                raise ValueError("mine")

    done = threading.Event()

    def help_out() -> None:
        with (
            group_consumer(where, name, max_poll_records=5) as consumer,
            Producer(where, transactional_id=f"{name}-2") as second,
        ):
            consumer.subscribe([source])
            while not done.is_set():
                try:
                    bowstring.transform(consumer, copy, second, until=done.is_set, commit_interval_ms=5)
                except ValueError:
                    continue

    helper = threading.Thread(target=help_out)
    with group_consumer(where, name, max_poll_records=7) as consumer:
        consumer.subscribe([source])
        helper.start()

        def is_all() -> bool:
            offsets = consumer.committed([TopicPartition(source, at) for at in range(PARTITIONS)])
            return sum(each.offset for each in offsets.values() if each is not None) == count

        while not is_all():
            try:
                bowstring.transform(consumer, copy, producer, timeout=0.5, commit_interval_ms=20)
            except ValueError:
                continue
        done.set()
        helper.join()
    assert sorted(filter(None, values(where, target, count))) == sorted(b"%d" % at for at in range(count))


@pytest.mark.parametrize("end", ["before it begins", "fenced", "after its commit"])
def test_transform_that_breaks_off_goes_on_with_the_same_consumer(
    where: str, producer: Producer, name: str, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The consumer continues according to the transaction's outcome: nothing is lost or doubled."""
    source, target = filled(where, 1, 5), made(where, 1)
    commit = producer.commit_transaction
    seen: list[bytes | None] = []

    def copy(records: list[Record], sender: Producer) -> None:
        for record in records:
            sender.send(target, record.value)
            seen.append(record.value)

    def break_off() -> None:
        if end == "before it begins":
            raise ClientError("mine")
        if end == "fenced":
            with Producer(where, transactional_id=name) as other:
                other.init_transactions()
        commit()
        raise KeyboardInterrupt

    with group_consumer(where, name) as consumer:
        consumer.subscribe([source])
        with monkeypatch.context() as patch, pytest.raises((ClientError, KeyboardInterrupt)):
            begins = end == "before it begins"
            patch.setattr(producer, "begin_transaction" if begins else "commit_transaction", break_off)
            bowstring.transform(consumer, copy, producer)
        with Producer(where) as plain:
            plain.send(source, b"last")
        with Producer(where, transactional_id=f"{name}-later") as later:
            bowstring.transform(consumer, copy, later, until=lambda: b"last" in seen)
    assert values(where, target, 6) == [*(b"%d" % number for number in range(5)), b"last"]


def test_transform_of_arrow_batches(where: str, producer: Producer, name: str) -> None:
    source, target = filled(where, 2, 100), made(where, 1)

    def copy(batch: pa.RecordBatch, sender: Producer) -> None:
        sender.send_arrow(target, batch.select(["value"]))

    with group_consumer(where, name) as consumer:
        consumer.subscribe([source])
        moved = 0
        while moved < 100:
            moved += bowstring.transform(
                consumer, copy, producer, arrow=True, columns=["value"], timeout=0.5, max_records=9
            )
    assert sorted(filter(None, values(where, target, 100))) == sorted(b"%d" % at for at in range(100))


def test_asyncio(where: str, version: int, name: str) -> None:
    source, target = filled(where, 2, 50), made(where, 2)

    async def copy(records: list[Record], sender: aio.Producer) -> None:
        for record in records:
            sender.send(target, record.value)

    async def main() -> None:
        async with aio.Producer(where, transactional_id=name) as producer:
            async with producer.transaction():
                sent = producer.send(target, b"first", partition=0)
            assert (await sent).offset == 0
            with pytest.raises(ValueError, match="mine"):
                async with producer.transaction():
                    producer.send(target, b"aborted", partition=1)
                    raise ValueError("mine")
            await producer.begin_transaction()
            with pytest.raises(ClientError):
                await producer.send(target, bytes(2_000_000))
            with pytest.raises(TransactionFailedError):
                await producer.commit_transaction()
            await producer.abort_transaction()
            async with aio.Consumer(
                where,
                group_id=name,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                isolation_level=COMMITTED,
            ) as consumer:
                await consumer.subscribe([source])
                moved = 0
                while moved < 50:
                    moved += await aio.transform(consumer, copy, producer, timeout=0.5)
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(aio.transform(consumer, copy, producer), 0.1)
                assert (await consumer.group_metadata()).generation_id > 0

    asyncio.run(main())
    expected = [b"first", *(b"%d" % at for at in range(50))]
    assert sorted(filter(None, values(where, target, 51))) == sorted(expected)


def test_another_process_ends_what_is_prepared(where: str, version: int, name: str) -> None:
    topic = made(where, 2)
    prepared = []
    for worker in range(3):
        with Producer(where, transactional_id=f"{name}-{worker}") as producer:
            producer.begin_transaction()
            producer.send(topic, b"%d" % worker, partition=worker % 2)
            one = producer.prepare_transaction()
            assert one is not None
            prepared.append(pickle.loads(pickle.dumps(one)))
            with pytest.raises(ClientError, match="another process ends it"):
                producer.send(topic, b"later")
    assert values(where, topic, 0) == []
    for each in (*prepared[:2], prepared[0]):  # a driver that is not sure repeats it
        each.complete(where)
    prepared[2].complete(where, commit=False)
    assert sorted(filter(None, values(where, topic, 2))) == [b"0", b"1"]
    with Producer(where, transactional_id=f"{name}-0") as producer:
        producer.begin_transaction()
        assert producer.prepare_transaction() is None, "nothing was sent"
        producer.begin_transaction()
        producer.send(topic, b"fenced")
        fenced = producer.prepare_transaction()
    with Producer(where, transactional_id=f"{name}-0") as later:
        later.init_transactions()
        with pytest.raises(ProducerFencedError):
            fenced.complete(where)  # type: ignore[union-attr]
    assert sorted(filter(None, values(where, topic, 2))) == [b"0", b"1"]
