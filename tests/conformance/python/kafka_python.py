"""kafka-python for the driver protocol."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.errors import RetriableError

from tests.conformance.python import security
from tests.conformance.python.loop import (
    ClientError,
    Collector,
    Json,
    MemberThread,
    flood,
    member_operations,
    pack,
    run,
    unpack,
)
from tests.support.waiting import HANG_S, pause

producers: dict[str, KafkaProducer] = {}
TIMEOUT_S = 240.0  # for hangs
ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


def produce_open(args: Json) -> Json:
    producers[args["handle"]] = KafkaProducer(
        **security.kafka_python(),
        bootstrap_servers=args["bootstrap"],
        acks=args["acks"] if args["acks"] == "all" else int(args["acks"]),
        compression_type=None if args["compression"] == "none" else args["compression"],
        enable_idempotence=args["idempotent"],
        max_request_size=4 << 20,
        reconnect_backoff_max_ms=200,
    )
    return {}


def send_one(producer: KafkaProducer, topic: str, record: Json) -> Any:
    return producer.send(
        topic,
        value=unpack(record.get("value")),
        key=unpack(record.get("key")),
        headers=[(name, unpack(value)) for name, value in record.get("headers") or []],
        partition=record.get("partition"),
        timestamp_ms=record.get("timestamp"),
    )


def produce(args: Json) -> Json:
    producer = producers[args["handle"]]
    futures = [send_one(producer, args["topic"], record) for record in args["records"]]
    producer.flush(TIMEOUT_S)
    found = [future.get(TIMEOUT_S) for future in futures]
    return {"results": [{"partition": each.partition, "offset": each.offset} for each in found]}


def flood_topic(args: Json) -> Json:
    producer = producers[args["handle"]]
    futures: list[Any] = []

    def send(partition: int, key: bytes, value: bytes) -> None:
        futures.append(producer.send(args["topic"], value=value, key=key, partition=partition))

    flood(send, partial(pause, why="the rate of the flood"), args)
    producer.flush(HANG_S)
    for future in futures:
        future.get(TIMEOUT_S)
    return {"acked": len(futures)}


def produce_close(args: Json) -> Json:
    producers.pop(args["handle"]).close(timeout=TIMEOUT_S)
    return {}


def transact(args: Json) -> Json:
    producer = KafkaProducer(
        **security.kafka_python(),
        bootstrap_servers=args["bootstrap"],
        transactional_id=args["id"],
        max_block_ms=args["timeout_ms"],
    )
    try:
        producer.init_transactions()
        producer.begin_transaction()
        sent = producer.send(args["topic"], value=b"in a transaction")
        if "for_ms" in args:
            sent.get(args["timeout_ms"] / 1000)
            pause(args["for_ms"] / 1000, "the session ends in it")
            producer.send(args["topic"], value=b"in a transaction")
        producer.commit_transaction()
    finally:
        producer.close(timeout=0)
    return {}


def plain_consumer(args: Json, **options: Any) -> KafkaConsumer:
    return KafkaConsumer(
        **security.kafka_python(),
        bootstrap_servers=args["bootstrap"],
        auto_offset_reset="none",
        max_partition_fetch_bytes=4 << 20,
        max_poll_records=5000,
        reconnect_backoff_max_ms=200,
        **options,
    )


def record_of(message: Any) -> Json:
    return {
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp,
        "timestamp_type": message.timestamp_type,
        "key": pack(message.key),
        "headers": [[name, pack(value)] for name, value in message.headers],
    }


def consume(args: Json) -> Json:
    consumer = plain_consumer(args)
    collector = Collector(args["count"], args["timeout_ms"], args.get("summary", False))
    partitions = [TopicPartition(args["topic"], each) for each in args["partitions"]]
    consumer.assign(partitions)
    try:
        if args["offset"] == "earliest":
            consumer.seek_to_beginning(*partitions)
        else:
            for each in partitions:
                consumer.seek(each, args["offset"])
        while collector.open():
            for messages in consumer.poll(timeout_ms=200).values():
                for message in messages:
                    collector.add(record_of(message), message.value)
    finally:
        consumer.close()
    return collector.answer()


def offsets_for_times(args: Json) -> Json:
    consumer = plain_consumer(args)
    where = TopicPartition(args["topic"], args["partition"])
    found = [consumer.offsets_for_times({where: each})[where] for each in args["timestamps"]]
    consumer.close()
    return {"offsets": [None if each is None else each.offset for each in found]}


def bounds(args: Json) -> Json:
    consumer = plain_consumer(args)
    where = TopicPartition(args["topic"], args["partition"])
    earliest, latest = consumer.beginning_offsets([where])[where], consumer.end_offsets([where])[where]
    consumer.close()
    return {"earliest": earliest, "latest": latest}


class Member(MemberThread):
    """A subscribed KafkaConsumer."""

    def open(self) -> None:
        self.consumer = KafkaConsumer(
            *self.args["topics"],
            **security.kafka_python(),
            bootstrap_servers=self.args["bootstrap"],
            group_id=self.args["group"],
            group_instance_id=self.args.get("instance_id"),
            partition_assignment_strategy=[ASSIGNORS[self.args["assignor"]]],
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=self.args["session_timeout_ms"],
            heartbeat_interval_ms=500,
            reconnect_backoff_max_ms=200,
        )

    def poll(self) -> None:
        # kafka-python 3.0.12 loses a rebalance that a metadata change began (every new member's, as it first
        # joins without a list of partitions) when a poll times out before the answer to SyncGroup. The join
        # continues in the background (coordinator/base.py: join_group_async returns False and leaves
        # _join_task), but the next poll calls need_rejoin, which returns False: the leader's assignment has
        # accepted the new metadata, and nothing checks for a join under way. So the assignment from the
        # broker is never applied, heartbeats stay off, and the connection sends nothing more. Apache Kafka
        # sees the same: 1 new member in about 200, and all of them if SyncGroup's answer takes 250 ms. Java's
        # rejoinNeededOrPending includes the join under way; so does this override.
        coordinator = self.consumer._coordinator
        if coordinator.rebalance_in_progress():
            coordinator.request_rejoin()
        try:
            polled = self.consumer.poll(timeout_ms=100)
        except RetriableError:
            # While a broker is away, poll raises or not, depending on timing: if finding the
            # coordinator fails, ensure_coordinator_ready_async awaits fresh metadata and raises the resulting
            # KafkaConnectionError. The next poll looks for the coordinator again.
            return
        for where, messages in polled.items():
            for message in messages:
                self.record(where.topic, where.partition, message.offset, message.value)

    def assignment(self) -> Iterable[tuple[str, int]]:
        return [(each.topic, each.partition) for each in self.consumer.assignment()]

    def commit(self) -> None:
        self.consumer.commit()

    def close(self) -> None:
        self.consumer.close()


def with_admin(operation: Any) -> Any:
    """Runs an operation with a new admin client."""

    def wrapped(args: Json) -> Json:
        admin = KafkaAdminClient(**security.kafka_python(), bootstrap_servers=args["bootstrap"])
        try:
            return operation(admin, args) or {}
        finally:
            admin.close()

    wrapped.__name__ = operation.__name__
    return wrapped


@with_admin
def create_topic(admin: KafkaAdminClient, args: Json) -> None:
    options = {
        "num_partitions": args["partitions"],
        "replication_factor": 1,
        "configs": args.get("configs") or {},
    }
    admin.create_topics({args["topic"]: options})


@with_admin
def delete_topic(admin: KafkaAdminClient, args: Json) -> None:
    admin.delete_topics([args["topic"]])


@with_admin
def create_partitions(admin: KafkaAdminClient, args: Json) -> None:
    admin.create_partitions({args["topic"]: args["count"]})


@with_admin
def list_topics(admin: KafkaAdminClient, args: Json) -> Json:
    return {"topics": {each["name"]: len(each["partitions"]) for each in admin.describe_topics()}}


@with_admin
def topic_configs(admin: KafkaAdminClient, args: Json) -> Json:
    resource = ConfigResource("TOPIC", args["topic"])
    found = admin.describe_configs([resource], config_filter="all")["topic"][args["topic"]]
    return {"configs": {name: entry["value"] for name, entry in found.items()}}


@with_admin
def alter_topic_configs(admin: KafkaAdminClient, args: Json) -> None:
    done = admin.alter_configs(
        [ConfigResource("TOPIC", args["topic"], args["configs"])], raise_on_unknown=False
    )
    if done["topic"][args["topic"]] != "OK":
        raise ClientError(None, done["topic"][args["topic"]])


@with_admin
def delete_records(admin: KafkaAdminClient, args: Json) -> Json:
    where = TopicPartition(args["topic"], args["partition"])
    return {"low_watermark": admin.delete_records({where: args["before"]})[where]["low_watermark"]}


@with_admin
def list_groups(admin: KafkaAdminClient, args: Json) -> Json:
    return {"groups": [each["group_id"] for each in admin.list_groups()]}


@with_admin
def describe_group(admin: KafkaAdminClient, args: Json) -> Json:
    group = admin.describe_groups([args["group"]])[args["group"]]
    return {"state": group["group_state"], "members": len(group["members"])}


@with_admin
def delete_group(admin: KafkaAdminClient, args: Json) -> None:
    done = admin.delete_groups([args["group"]])[args["group"]]
    if done != "OK":
        raise ClientError(None, done)


@with_admin
def committed(admin: KafkaAdminClient, args: Json) -> Json:
    wanted = [TopicPartition(args["topic"], each) for each in args["partitions"]]
    found = admin.list_group_offsets({args["group"]: wanted})[args["group"]]
    return {"offsets": [found[each].offset if found[each].offset >= 0 else None for each in wanted]}


def greet(args: Json) -> Json:
    # A refused log-in is tried again until the bootstrap's time is over.
    where = {"bootstrap_servers": args["bootstrap"], "bootstrap_timeout_ms": 500}
    admin = KafkaAdminClient(**security.kafka_python(), **where)
    try:
        return {"brokers": len(admin.describe_cluster()["brokers"])}
    finally:
        admin.close()


OPERATIONS = [greet, produce_open, produce, produce_close, transact, consume, offsets_for_times, bounds]
OPERATIONS += [create_topic, delete_topic, create_partitions, list_topics, topic_configs, alter_topic_configs]
OPERATIONS += [delete_records, list_groups, describe_group, delete_group, committed]

if __name__ == "__main__":
    table = {each.__name__: each for each in OPERATIONS} | member_operations(Member)
    run(table | {"flood": flood_topic, "secure": security.secure})
