"""aiokafka for the driver protocol: every operation is a coroutine on one event loop thread."""

import asyncio
import threading
from collections.abc import Coroutine, Iterable
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.errors import for_code

from tests.conformance.python import security
from tests.conformance.python.loop import (
    ClientError,
    Collector,
    Json,
    MemberThread,
    flood_value,
    member_operations,
    pack,
    run,
    unpack,
)
from tests.support.waiting import pause_async

loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()
producers: dict[str, AIOKafkaProducer] = {}
TIMEOUT_S = 240.0  # for hangs
ASSIGNORS = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}


def wait(work: Coroutine[Any, Any, Any]) -> Any:
    """Runs a coroutine on the loop's thread and returns its result."""
    return asyncio.run_coroutine_threadsafe(work, loop).result(TIMEOUT_S)


async def produce_open(args: Json) -> None:
    producer = AIOKafkaProducer(
        **security.aiokafka(),
        bootstrap_servers=args["bootstrap"],
        acks=args["acks"] if args["acks"] == "all" else int(args["acks"]),
        compression_type=None if args["compression"] == "none" else args["compression"],
        enable_idempotence=args["idempotent"],
        max_request_size=4 << 20,
    )
    await producer.start()
    producers[args["handle"]] = producer


async def produce(args: Json) -> Json:
    producer = producers[args["handle"]]
    futures = []
    for record in args["records"]:
        futures.append(
            await producer.send(
                args["topic"],
                value=unpack(record.get("value")),
                key=unpack(record.get("key")),
                headers=[(name, unpack(value)) for name, value in record.get("headers") or []],
                partition=record.get("partition"),
                timestamp_ms=record.get("timestamp"),
            )
        )
    # With acks=0 the client resolves its futures with None.
    found = [await each for each in futures]
    return {
        "results": [{"partition": each.partition, "offset": each.offset} if each else None for each in found]
    }


async def flood(args: Json) -> Json:
    producer = producers[args["handle"]]
    rate = args.get("rate_per_s") or 0
    began = loop.time()
    futures = []
    for index in range(args["count"]):
        value = flood_value(index, args["size"])
        where = index % args["partitions"]
        futures.append(await producer.send(args["topic"], value=value, key=b"%d" % index, partition=where))
        if rate and index % 50 == 49:
            await pause_async(max(0.0, began + index / rate - loop.time()), "the rate of the flood")
    await producer.flush()
    for future in futures:
        await future
    return {"acked": len(futures)}


async def produce_close(args: Json) -> None:
    await producers.pop(args["handle"]).stop()


async def transact(args: Json) -> None:
    producer = AIOKafkaProducer(
        **security.aiokafka(), bootstrap_servers=args["bootstrap"], transactional_id=args["id"]
    )
    try:
        async with asyncio.timeout(args["timeout_ms"] / 1000):
            await producer.start()
            async with producer.transaction():
                await producer.send_and_wait(args["topic"], b"in a transaction")
                if "for_ms" in args:
                    await pause_async(args["for_ms"] / 1000, "the session ends in it")
                    await producer.send_and_wait(args["topic"], b"in a transaction")
    finally:
        await producer.stop()


async def plain_consumer(args: Json) -> AIOKafkaConsumer:
    consumer = AIOKafkaConsumer(
        **security.aiokafka(),
        bootstrap_servers=args["bootstrap"],
        auto_offset_reset="none",
        enable_auto_commit=False,
        max_partition_fetch_bytes=4 << 20,
    )
    await consumer.start()
    return consumer


def record_of(message: Any) -> Json:
    return {
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp,
        "timestamp_type": message.timestamp_type,
        "key": pack(message.key),
        "headers": [[name, pack(value)] for name, value in message.headers],
    }


async def consume(args: Json) -> Json:
    consumer = await plain_consumer(args)
    collector = Collector(args["count"], args["timeout_ms"], args.get("summary", False))
    partitions = [TopicPartition(args["topic"], each) for each in args["partitions"]]
    consumer.assign(partitions)
    try:
        if args["offset"] == "earliest":
            await consumer.seek_to_beginning(*partitions)
        else:
            for each in partitions:
                consumer.seek(each, args["offset"])
        while collector.open():
            found = await consumer.getmany(timeout_ms=200, max_records=5000)
            for messages in found.values():
                for message in messages:
                    collector.add(record_of(message), message.value)
    finally:
        await consumer.stop()
    return collector.answer()


async def offsets_for_times(args: Json) -> Json:
    consumer = await plain_consumer(args)
    where = TopicPartition(args["topic"], args["partition"])
    found = [(await consumer.offsets_for_times({where: each}))[where] for each in args["timestamps"]]
    await consumer.stop()
    return {"offsets": [None if each is None else each.offset for each in found]}


async def bounds(args: Json) -> Json:
    consumer = await plain_consumer(args)
    where = TopicPartition(args["topic"], args["partition"])
    earliest = (await consumer.beginning_offsets([where]))[where]
    latest = (await consumer.end_offsets([where]))[where]
    await consumer.stop()
    return {"earliest": earliest, "latest": latest}


class Member(MemberThread):
    """A subscribed AIOKafkaConsumer."""

    async def _start(self) -> None:
        self.consumer = AIOKafkaConsumer(
            *self.args["topics"],
            **security.aiokafka(),
            bootstrap_servers=self.args["bootstrap"],
            group_id=self.args["group"],
            group_instance_id=self.args.get("instance_id"),
            partition_assignment_strategy=[ASSIGNORS[self.args["assignor"]]],
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=self.args["session_timeout_ms"],
            heartbeat_interval_ms=500,
        )
        await self.consumer.start()

    def open(self) -> None:
        wait(self._start())

    def poll(self) -> None:
        for where, messages in wait(self.consumer.getmany(timeout_ms=100)).items():
            for message in messages:
                self.record(where.topic, where.partition, message.offset, message.value)

    def assignment(self) -> Iterable[tuple[str, int]]:
        return [(each.topic, each.partition) for each in self.consumer.assignment()]

    def commit(self) -> None:
        wait(self.consumer.commit())

    def close(self) -> None:
        wait(self.consumer.stop())


def check(code: int, message: str | None = None) -> None:
    """Raises Kafka's error, which this client's admin leaves in the response."""
    if code:
        raise ClientError(code, f"{for_code(code).__name__}: {message}")


def with_admin(operation: Any) -> Any:
    """Runs an operation with a new admin client."""

    async def wrapped(args: Json) -> Json:
        admin = AIOKafkaAdminClient(**security.aiokafka(), bootstrap_servers=args["bootstrap"])
        await admin.start()
        try:
            return await operation(admin, args) or {}
        finally:
            await admin.close()

    wrapped.__name__ = operation.__name__
    return wrapped


@with_admin
async def create_topic(admin: AIOKafkaAdminClient, args: Json) -> None:
    topic = NewTopic(args["topic"], args["partitions"], 1, topic_configs=args.get("configs") or {})
    done = await admin.create_topics([topic])
    check(*done.topic_errors[0][1:3])


@with_admin
async def delete_topic(admin: AIOKafkaAdminClient, args: Json) -> None:
    done = await admin.delete_topics([args["topic"]])
    check(done.topic_error_codes[0][1])


@with_admin
async def create_partitions(admin: AIOKafkaAdminClient, args: Json) -> None:
    await admin.create_partitions({args["topic"]: NewPartitions(args["count"])})


@with_admin
async def list_topics(admin: AIOKafkaAdminClient, args: Json) -> Json:
    return {"topics": {each["topic"]: len(each["partitions"]) for each in await admin.describe_topics()}}


@with_admin
async def topic_configs(admin: AIOKafkaAdminClient, args: Json) -> Json:
    (done,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, args["topic"])])
    code, message, _, _, entries = done.resources[0][:5]
    check(code, message)
    return {"configs": {entry[0]: entry[1] for entry in entries}}


@with_admin
async def alter_topic_configs(admin: AIOKafkaAdminClient, args: Json) -> None:
    done = await admin.alter_configs(
        [ConfigResource(ConfigResourceType.TOPIC, args["topic"], args["configs"])]
    )
    check(*done[0].resources[0][:2])


@with_admin
async def delete_records(admin: AIOKafkaAdminClient, args: Json) -> Json:
    where = TopicPartition(args["topic"], args["partition"])
    return {"low_watermark": (await admin.delete_records({where: RecordsToDelete(args["before"])}))[where]}


@with_admin
async def list_groups(admin: AIOKafkaAdminClient, args: Json) -> Json:
    return {"groups": [each[0] for each in await admin.list_consumer_groups()]}


@with_admin
async def describe_group(admin: AIOKafkaAdminClient, args: Json) -> Json:
    (done,) = await admin.describe_consumer_groups([args["group"]])
    code, _, state, _, _, members = done.groups[0][:6]
    check(code)
    return {"state": state, "members": len(members)}


@with_admin
async def committed(admin: AIOKafkaAdminClient, args: Json) -> Json:
    wanted = [TopicPartition(args["topic"], each) for each in args["partitions"]]
    found = await admin.list_consumer_group_offsets(args["group"], partitions=wanted)
    return {"offsets": [found[each].offset if found[each].offset >= 0 else None for each in wanted]}


@with_admin
async def greet(admin: AIOKafkaAdminClient, args: Json) -> Json:
    return {"brokers": len((await admin.describe_cluster())["brokers"])}


OPERATIONS = [
    greet,
    produce_open,
    produce,
    flood,
    produce_close,
    transact,
    consume,
    offsets_for_times,
    bounds,
]
OPERATIONS += [create_topic, delete_topic, create_partitions, list_topics, topic_configs, alter_topic_configs]
OPERATIONS += [delete_records, list_groups, describe_group, committed]


def blocking(operation: Any) -> Any:
    return lambda args: wait(operation(args)) or {}


if __name__ == "__main__":
    table = {each.__name__: blocking(each) for each in OPERATIONS} | member_operations(Member)
    run(table | {"secure": security.secure})
