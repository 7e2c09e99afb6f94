"""confluent-kafka (librdkafka) for the driver protocol."""

import time
from collections.abc import Iterable
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

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

producers: dict[str, Producer] = {}
admins: dict[str, AdminClient] = {}
TIMEOUT_S = 240.0  # for hangs


def greet(args: Json) -> Json:
    """Connects once and counts the brokers; the first error of a log-in or of TLS ends it."""
    errors: list[KafkaError] = []
    where = {**security.librdkafka(), "bootstrap.servers": args["bootstrap"], "error_cb": errors.append}
    client = Producer(where)
    until = time.monotonic() + HANG_S
    while time.monotonic() < until:
        client.poll(0.05)
        ends = (KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError._ALL_BROKERS_DOWN)
        fatal = [each for each in errors if each.code() in ends]
        if fatal:
            raise client_error(fatal[0])
        try:
            return {"brokers": len(client.list_topics(timeout=0.5).brokers)}
        except KafkaException:
            continue
    raise ClientError(None, f"no answer; {errors}")


def client_error(error: KafkaError) -> ClientError:
    return ClientError(error.code(), error.str())


def produce_open(args: Json) -> Json:
    config: dict[str, Any] = {
        **security.librdkafka(),
        "bootstrap.servers": args["bootstrap"],
        "acks": args["acks"],
        "compression.type": args["compression"],
        "enable.idempotence": args["idempotent"],
        "message.max.bytes": 4 << 20,
        "retry.backoff.ms": 50,
        "reconnect.backoff.max.ms": 200,
        "linger.ms": args.get("linger_ms", 5),
    }
    producers[args["handle"]] = Producer(config)
    return {}


def produce(args: Json) -> Json:
    producer = producers[args["handle"]]
    results: list[Any] = [None] * len(args["records"])
    for index, record in enumerate(args["records"]):

        def report(error: KafkaError | None, message: Any, index: int = index) -> None:
            results[index] = error or {"partition": message.partition(), "offset": message.offset()}

        headers = [(name, unpack(value)) for name, value in record.get("headers") or []]
        options: dict[str, Any] = {}
        if record.get("partition") is not None:
            options["partition"] = record["partition"]
        if record.get("timestamp") is not None:
            options["timestamp"] = record["timestamp"]
        value, key = unpack(record.get("value")), unpack(record.get("key"))
        producer.produce(args["topic"], value, key, headers=headers, on_delivery=report, **options)
    producer.flush(TIMEOUT_S)
    for index, result in enumerate(results):
        if isinstance(result, KafkaError):
            if not args.get("outcomes"):
                raise client_error(result)
            results[index] = {"error": {"kind": result.name(), "message": result.str()}}
    return {"results": results}


def flood_topic(args: Json) -> Json:
    producer = producers[args["handle"]]
    state = {"acked": 0, "error": None}

    def report(error: KafkaError | None, message: Any) -> None:
        if error is not None:
            state["error"] = error
        else:
            state["acked"] += 1

    def send(partition: int, key: bytes, value: bytes) -> None:
        while True:
            try:
                producer.produce(args["topic"], value, key, partition=partition, on_delivery=report)
                break
            except BufferError:
                producer.poll(0.05)
        producer.poll(0)

    flood(send, producer.poll, args)
    producer.flush(HANG_S)
    if state["error"] is not None:
        raise client_error(state["error"])
    return {"acked": state["acked"]}


def produce_close(args: Json) -> Json:
    producers.pop(args["handle"]).flush(TIMEOUT_S)
    return {}


def transact(args: Json) -> Json:
    producer = Producer(
        {**security.librdkafka(), "bootstrap.servers": args["bootstrap"], "transactional.id": args["id"]}
    )
    timeout_s = args["timeout_ms"] / 1000
    try:
        producer.init_transactions(timeout_s)
        producer.begin_transaction()
        producer.produce(args["topic"], b"in a transaction")
        if "for_ms" in args:
            producer.flush(timeout_s)
            pause(args["for_ms"] / 1000, "the session ends in it")
            producer.produce(args["topic"], b"in a transaction")
        producer.commit_transaction(timeout_s)
    except KafkaException as error:
        raise client_error(error.args[0]) from error
    return {}


def record_of(message: Any) -> Json:
    kind, timestamp = message.timestamp()
    return {
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": timestamp,
        "timestamp_type": kind - 1,
        "key": pack(message.key()),
        "headers": [[name, pack(value)] for name, value in message.headers() or []],
    }


def plain_consumer(args: Json) -> Consumer:
    return Consumer(
        {
            **security.librdkafka(),
            "bootstrap.servers": args["bootstrap"],
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "fetch.message.max.bytes": 4 << 20,
            "check.crcs": True,
        }
    )


def consume(args: Json) -> Json:
    consumer = plain_consumer(args)
    collector = Collector(args["count"], args["timeout_ms"], args.get("summary", False))
    start = -2 if args["offset"] == "earliest" else args["offset"]
    consumer.assign([TopicPartition(args["topic"], each, start) for each in args["partitions"]])
    try:
        while collector.open():
            for message in consumer.consume(1000, 0.2):
                if message.error():
                    raise client_error(message.error())
                collector.add(record_of(message), message.value())
    finally:
        consumer.close()
    return collector.answer()


def offsets_for_times(args: Json) -> Json:
    consumer = plain_consumer(args)
    offsets = []
    for timestamp in args["timestamps"]:
        asked = [TopicPartition(args["topic"], args["partition"], timestamp)]
        (found,) = consumer.offsets_for_times(asked, TIMEOUT_S)
        offsets.append(found.offset if found.offset >= 0 else None)
    consumer.close()
    return {"offsets": offsets}


def bounds(args: Json) -> Json:
    consumer = plain_consumer(args)
    where = TopicPartition(args["topic"], args["partition"])
    earliest, latest = consumer.get_watermark_offsets(where, TIMEOUT_S)
    consumer.close()
    return {"earliest": earliest, "latest": latest}


class Member(MemberThread):
    """A subscribed librdkafka consumer."""

    def open(self) -> None:
        config: dict[str, Any] = {
            **security.librdkafka(),
            "bootstrap.servers": self.args["bootstrap"],
            "group.id": self.args["group"],
            "partition.assignment.strategy": self.args["assignor"],
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": self.args["session_timeout_ms"],
            "heartbeat.interval.ms": 500,
            "reconnect.backoff.max.ms": 200,
        }
        if self.args.get("instance_id"):
            config["group.instance.id"] = self.args["instance_id"]
        if self.args.get("protocol"):
            config["group.protocol"] = self.args["protocol"]
            for classic in ("partition.assignment.strategy", "session.timeout.ms", "heartbeat.interval.ms"):
                del config[classic]
        self.consumer = Consumer(config)
        self.consumer.subscribe(self.args["topics"])

    def poll(self) -> None:
        for message in self.consumer.consume(500, 0.1):
            if not message.error():
                self.record(message.topic(), message.partition(), message.offset(), message.value())
            elif message.error().fatal() or message.error().code() == KafkaError._FATAL:
                raise client_error(message.error())

    def assignment(self) -> Iterable[tuple[str, int]]:
        return [(each.topic, each.partition) for each in self.consumer.assignment()]

    def commit(self) -> None:
        self.consumer.commit(asynchronous=False)

    def close(self) -> None:
        self.consumer.close()


def admin(args: Json) -> AdminClient:
    # Keep a reference: a collected client drops its unanswered requests.
    settings = {**security.librdkafka(), "bootstrap.servers": args["bootstrap"]}
    where = repr(settings)
    if where not in admins:
        admins[where] = AdminClient(settings)
    return admins[where]


def create_topic(args: Json) -> Json:
    topic = NewTopic(args["topic"], args["partitions"], 1, config=args.get("configs") or {})
    admin(args).create_topics([topic])[args["topic"]].result(TIMEOUT_S)
    return {}


def delete_topic(args: Json) -> Json:
    admin(args).delete_topics([args["topic"]])[args["topic"]].result(TIMEOUT_S)
    return {}


def create_partitions(args: Json) -> Json:
    asked = [NewPartitions(args["topic"], args["count"])]
    admin(args).create_partitions(asked)[args["topic"]].result(TIMEOUT_S)
    return {}


def list_topics(args: Json) -> Json:
    metadata = admin(args).list_topics(timeout=TIMEOUT_S)
    return {"topics": {name: len(topic.partitions) for name, topic in metadata.topics.items()}}


def topic_configs(args: Json) -> Json:
    resource = ConfigResource(ConfigResource.Type.TOPIC, args["topic"])
    (future,) = admin(args).describe_configs([resource]).values()
    return {"configs": {name: entry.value for name, entry in future.result(TIMEOUT_S).items()}}


def alter_topic_configs(args: Json) -> Json:
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in args["configs"].items()
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, args["topic"], incremental_configs=entries)
    (future,) = admin(args).incremental_alter_configs([resource]).values()
    future.result(TIMEOUT_S)
    return {}


def delete_records(args: Json) -> Json:
    asked = [TopicPartition(args["topic"], args["partition"], args["before"])]
    (future,) = admin(args).delete_records(asked).values()
    return {"low_watermark": future.result(TIMEOUT_S).low_watermark}


def list_groups(args: Json) -> Json:
    listing = admin(args).list_consumer_groups().result(TIMEOUT_S)
    return {"groups": [each.group_id for each in listing.valid]}


def describe_group(args: Json) -> Json:
    future = admin(args).describe_consumer_groups([args["group"]])[args["group"]]
    group = future.result(TIMEOUT_S)
    return {"state": group.state.name.title().replace("_", ""), "members": len(group.members)}


def delete_group(args: Json) -> Json:
    admin(args).delete_consumer_groups([args["group"]])[args["group"]].result(TIMEOUT_S)
    return {}


def committed(args: Json) -> Json:
    consumer = Consumer(
        {**security.librdkafka(), "bootstrap.servers": args["bootstrap"], "group.id": args["group"]}
    )
    asked = [TopicPartition(args["topic"], each) for each in args["partitions"]]
    found = consumer.committed(asked, TIMEOUT_S)
    consumer.close()
    return {"offsets": [each.offset if each.offset >= 0 else None for each in found]}


def with_codes(operation: Any) -> Any:
    def wrapped(args: Json) -> Json:
        try:
            return operation(args)  # type: ignore[no-any-return]
        except KafkaException as error:
            raise client_error(error.args[0]) from error

    return wrapped


OPERATIONS = [greet, produce_open, produce, produce_close, transact, consume, offsets_for_times, bounds]
OPERATIONS += [create_topic, delete_topic, create_partitions, list_topics, topic_configs, alter_topic_configs]
OPERATIONS += [delete_records, list_groups, describe_group, delete_group, committed]

if __name__ == "__main__":
    table = {each.__name__: each for each in OPERATIONS} | member_operations(Member)
    table |= {"flood": flood_topic, "secure": security.secure}
    run({name: with_codes(each) for name, each in table.items()})
