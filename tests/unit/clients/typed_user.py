"""What a user's program looks like that uses everything the clients have; test_typing.py has mypy check it."""

import asyncio
from collections.abc import Mapping

import pyarrow as pa

import bowstring
from bowstring import NewTopic, OffsetAndMetadata, Record, TopicPartition
from bowstring.clients.errors import ClientError
from bowstring.clients.producer.batches import RecordFuture
from bowstring.clients.records import GroupMetadata, OffsetAndTimestamp, RecordMetadata, TopicInfo


def delivered(future: RecordFuture) -> None:
    """Called with each record's outcome."""
    error: Exception | None = future.exception(0)
    print(error or future.result().offset)


def producing(settings: Mapping[str, object]) -> None:
    """Records and columns out."""
    with bowstring.Producer(settings, compression="zstd", acks="all") as producer:
        sent: RecordMetadata = producer.send("t", b"v", key="k", headers={"h": b"1"}).result(10)
        producer.send("t", None, partition=0, timestamp=5, on_delivery=delivered)
        rows: list[RecordMetadata] = producer.send_arrow("t", pa.table({"value": [b"a"]})).result(10)
        numbers: list[int] = producer.partitions_for("t")
        metrics: dict[str, float] = producer.metrics()
        producer.flush(10.0)
        print(sent.offset + rows[0].offset, numbers, metrics)


def in_words_of_others() -> None:
    """Keywords of kafka-python and librdkafka."""
    with (
        bowstring.Producer(
            bootstrap_servers="a:1", compression_type="zstd", max_in_flight_requests_per_connection=1
        ),
        bowstring.Consumer(bootstrap_servers="a:1", default_api_timeout_ms=500, fetch_wait_max_ms=5),
        bowstring.Admin(bootstrap_servers="a:1", request_timeout_ms=500) as admin,
    ):
        print(admin)


def gained(partitions: list[TopicPartition]) -> None:
    """A listener."""
    print([partition.topic for partition in partitions])


def committed(offsets: dict[TopicPartition, OffsetAndMetadata], error: ClientError | None) -> None:
    """Called when a commit is done."""
    print(offsets, error)


def consuming() -> None:
    """Records and columns in."""
    partition = TopicPartition("t", 0)
    with bowstring.Consumer("a:1,b:2", group_id="g", isolation_level="read_committed") as consumer:
        consumer.subscribe(["t"], on_assigned=gained, on_lost=gained)
        records: list[Record] = consumer.poll(max_records=10, timeout=1.0)
        for record in consumer:
            value: bytes | None = record.value
            print(value, record.headers)
            consumer.commit(record)
            break
        columns: pa.RecordBatch = consumer.poll_arrow(columns=["value"], layout="binary_view")
        reader: pa.RecordBatchReader = consumer.to_reader(timeout=1.0)
        consumer.commit({partition: 5}, asynchronous=True, on_commit=committed)
        consumer.seek(("t", 0), 3)
        consumer.pause(partition)
        low, high = consumer.get_watermark_offsets(partition)
        times: dict[TopicPartition, OffsetAndTimestamp | None] = consumer.offsets_for_times({partition: 0})
        stored = consumer.committed([partition])[partition]
        topics: dict[str, TopicInfo] = consumer.list_topics()
        lag: int | None = consumer.lag(partition)
        print(records, columns, reader, low + high, times, stored, topics, lag, consumer.positions())


def sharing() -> None:
    """Single records of a share group."""
    with bowstring.ShareConsumer("a:1", group_id="g", acknowledgement_mode="explicit") as consumer:
        consumer.subscribe(["t"])
        records: list[bowstring.ShareRecord] = consumer.poll(timeout=1.0)
        consumer.accept(records[0])
        consumer.renew(records[1:])
        columns: pa.RecordBatch = consumer.poll_arrow(columns=["offset", "delivery_count"])
        consumer.release(columns, mask=[True])
        errors: dict[TopicPartition, ClientError | None] = consumer.commit_sync(timeout=5.0)
        print(records[0].delivery_count, errors, consumer.lock_timeout_ms)


def administering() -> None:
    """Topics, configs, groups."""
    with bowstring.Admin(["a:1"], timeout_ms=500) as admin:
        ids: dict[str, bytes] = admin.create_topics([NewTopic("t", 3, configs={"retention.ms": "1"})])
        lags = [row.lag for row in admin.group_lag("g")]
        starts: list[int] = [each.start_offset for each in admin.describe_share_offsets("g").values()]
        print(starts, admin.describe_group("g").group_type)
        value: str | None = admin.describe_configs("topic", "t")["retention.ms"].value
        print(ids, lags, value, admin.describe_cluster().brokers[0].host)


async def awaited(partitions: list[TopicPartition]) -> None:
    """A listener that is a coroutine."""
    await asyncio.sleep(0)


def transacting() -> None:
    """Records out and offsets with them, all or nothing."""

    def double(records: list[Record], sender: bowstring.Producer) -> None:
        sender.send_columns("t", 0, [record.value for record in records] * 2)

    with bowstring.Producer("a:1", transactional_id="p", transaction_timeout_ms=5_000) as producer:
        with producer.transaction() as open_producer:
            open_producer.send("t", b"v")
        producer.begin_transaction()
        with bowstring.Consumer("a:1", group_id="g", isolation_level="read_committed") as consumer:
            member: GroupMetadata = consumer.group_metadata()
            producer.send_offsets({TopicPartition("t", 0): 5}, member)
            producer.commit_transaction(timeout=5)
            count: int = bowstring.transform(consumer, double, producer, timeout=1)
        print(count)


async def main() -> None:
    """The same for asyncio."""
    partition = TopicPartition("t", 0)
    async with bowstring.aio.Producer("a:1", linger_ms=1, enable_idempotence=True) as producer:
        future: asyncio.Future[RecordMetadata] = producer.send("t", b"v", key=b"k")
        sent = await future
        rows: list[RecordMetadata] = await producer.send_arrow("t", pa.table({"value": [b"a"]}), key="id")
        print(sent.offset, rows, await producer.partitions_for("t"))
    async with bowstring.aio.Producer("a:1", transactional_id="p") as producer, producer.transaction():
        producer.send("t", b"v")
    async with bowstring.aio.Consumer({"bootstrap.servers": "a:1"}, group_id="g") as consumer:
        await consumer.subscribe("t", on_assigned=awaited, on_revoked=gained)
        records: list[Record] = await consumer.poll(timeout=1)
        async for record in consumer:
            print(record.offset)
        async for batch in consumer.batches(columns=["value"]):
            print(batch.num_rows)
        ends: dict[TopicPartition, int] = await consumer.end_offsets([partition], timeout=1)
        await consumer.commit({partition: OffsetAndMetadata(3, metadata="m")})
        print(records, ends, (await consumer.list_topics())["t"].partitions)
    async with bowstring.aio.Admin("a:1") as admin:
        topics: dict[str, TopicInfo] = await admin.topics(internal=True)
        await admin.alter_configs("topic", "t", set={"retention.ms": "1"})
        print(topics, await admin.end_offsets([partition]))
