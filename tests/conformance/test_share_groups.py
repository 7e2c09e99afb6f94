"""Share groups through Java's KafkaShareConsumer: acknowledgements, locks, deliveries, members and brokers that die."""

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from bowstring.protocol.messages import incremental_alter_configs as iac
from tests.conformance.drivers import CLIENTS, Driver, Session
from tests.support.target import Broker, target_class
from tests.support.waiting import wait_until
from tests.support.wire_client import WireClient

GROUP_RESOURCE = 32
SETTINGS = {
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.heartbeat.interval.ms": "100",
    "group.share.min.record.lock.duration.ms": "1000",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    running = target_class()(tmp_path_factory.mktemp("share"), SETTINGS)
    running.start()
    yield running
    running.kill()


@pytest.fixture
def java(drivers: Callable[[str], Driver], broker: Broker) -> Session:
    return Session(drivers("java"), broker.bootstrap)


class Group:
    """A topic of one partition with numbered records, and a group that begins with the first."""

    def __init__(self, broker: Broker, java: Session, name: str, records: int, **configs: str) -> None:
        self.broker, self.java = broker, java
        self.topic = self.id = name
        java.call("create_topic", topic=name, partitions=1)
        self.configure(share_auto_offset_reset="earliest", **configs)
        self.written = 0
        self.write(records)
        self.members: list[Member] = []

    def configure(self, **configs: str) -> None:
        wanted = [
            iac.AlterableConfig(name=name.replace("_", "."), config_operation=0, value=value)
            for name, value in configs.items()
        ]
        resource = iac.AlterConfigsResource(
            resource_type=GROUP_RESOURCE, resource_name=self.id, configs=wanted
        )
        client = WireClient(self.broker.port)
        (answer,) = client.ask(iac.IncrementalAlterConfigsRequest(resources=[resource])).responses
        client.close()
        assert answer.error_code == 0, answer.error_message

    def write(self, count: int) -> None:
        if count:
            self.java.produce(
                self.topic, [{"partition": 0, "value": b"%d" % (self.written + i)} for i in range(count)]
            )
        self.written += count

    def join(self, mode: str = "explicit", *, client: Session | None = None, **options: Any) -> "Member":
        self.members.append(Member(self, client or self.java, mode, **options))
        return self.members[-1]

    def close(self) -> None:
        for member in self.members:
            member.close()


class Member:
    """A share consumer."""

    def __init__(
        self,
        group: Group,
        client: Session,
        mode: str,
        *,
        max_poll_records: int = 500,
        acquire_mode: str = "batch_optimized",
    ) -> None:
        self.client, self.open = client, True
        self.handle = client.driver.handle()
        client.call(
            "share_open",
            handle=self.handle,
            group=group.id,
            topics=[group.topic],
            mode=mode,
            acquire_mode=acquire_mode,
            max_poll_records=max_poll_records,
        )

    def poll(self, timeout_ms: int = 500) -> dict[int, int]:
        """Returns offsets with their delivery counts."""
        found = self.client.call("share_poll", handle=self.handle, timeout_ms=timeout_ms)
        assert all(int(base64.b64decode(value)) == offset for offset, _, value in found["records"])
        return {offset: deliveries for offset, deliveries, _ in found["records"]}

    def get(self) -> dict[int, int]:
        """Polls until there are records."""
        found: dict[int, int] = wait_until(self.poll)
        return found

    def acknowledge(self, kind: str, *offsets: int) -> None:
        self.client.call("share_acknowledge", handle=self.handle, offsets=list(offsets), type=kind)

    def commit(self) -> list[int]:
        codes: list[int] = self.client.call("share_commit", handle=self.handle)["codes"]
        return codes

    def close(self) -> None:
        if self.open:
            self.client.call("share_close", handle=self.handle)
        self.open = False


@pytest.fixture
def group(broker: Broker, java: Session, topic_name: str) -> Iterator[Callable[..., Group]]:
    made: list[Group] = []

    def make(records: int = 0, **configs: str) -> Group:
        made.append(Group(broker, java, topic_name, records, **configs))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_implicit_acknowledgement(group: Callable[..., Group]) -> None:
    found = group(5)
    ann = found.join("implicit")
    assert ann.get() == dict.fromkeys(range(5), 1)
    assert ann.commit() == [0]
    found.write(2)
    assert ann.get() == {5: 1, 6: 1}
    ann.close()  # which gives back what no later poll has acknowledged
    assert found.join("implicit").get() == {5: 2, 6: 2}


def test_explicit_acknowledgement(group: Callable[..., Group]) -> None:
    found = group(6, share_delivery_count_limit="3")
    ann = found.join()
    assert set(ann.get()) == set(range(6))
    ann.acknowledge("ACCEPT", 0, 1)
    ann.acknowledge("RELEASE", 2, 3)
    ann.acknowledge("REJECT", 4, 5)
    assert ann.commit() == [0]
    assert ann.get() == {2: 2, 3: 2}
    ann.acknowledge("RELEASE", 2, 3)
    assert ann.commit() == [0]
    last: dict[int, int] = {}
    while len(last) < 2:  # each alone: it is the last delivery
        now = ann.get()
        last |= now
        ann.acknowledge("RELEASE", *now)
        assert ann.commit() == [0]
    assert last == {2: 3, 3: 3}
    found.write(1)
    assert ann.get() == {6: 1}
    ann.acknowledge("ACCEPT", 6)


def test_two_members_share_a_partition(group: Callable[..., Group]) -> None:
    found = group()
    ann, ben = found.join(max_poll_records=10), found.join(max_poll_records=10)
    ann.poll()
    ben.poll()
    for _ in range(10):
        found.write(20)
    seen: list[int] = []
    by_member = [0, 0]
    while len(seen) < 200:
        for number, member in enumerate((ann, ben)):
            now = member.poll()
            assert set(now.values()) <= {1}
            seen += now
            by_member[number] += len(now)
            if now:
                member.acknowledge("ACCEPT", *now)
                member.commit()
    assert sorted(seen) == list(range(200)) and all(by_member)


def test_locks_are_renewed_or_end(group: Callable[..., Group]) -> None:
    found = group(2, share_record_lock_duration_ms="2000")
    ann, ben = found.join(), found.join()
    assert set(ann.get()) == {0, 1}
    ann.acknowledge("RENEW", 0, 1)
    assert ann.commit() == [0]
    assert ben.get() == {0: 2, 1: 2}  # once the renewed locks are over, too
    ben.acknowledge("ACCEPT", 0, 1)
    assert ben.commit() == [0]


def test_a_member_that_dies_gives_its_records_back(group: Callable[..., Group], broker: Broker) -> None:
    found = group(3)
    other = Driver(CLIENTS["java"])
    member = Member(found, Session(other, broker.bootstrap), "explicit")
    assert set(member.get()) == {0, 1, 2}
    member.acknowledge("ACCEPT", 1)
    assert member.commit() == [0]
    other.kill()
    ann = found.join()
    assert ann.get() == {0: 2, 2: 2}
    ann.acknowledge("ACCEPT", 0, 2)


def test_read_committed(group: Callable[..., Group], broker: Broker) -> None:
    found = group(share_isolation_level="read_committed")
    ann = found.join("implicit")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": found.topic})
    producer.init_transactions()
    for commits in (True, False, True):
        producer.begin_transaction()
        producer.produce(found.topic, b"%d" % found.written, partition=0)
        producer.flush()
        found.written += 2  # and the marker
        if commits:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    seen: dict[int, int] = {}
    wait_until(lambda: seen.update(ann.poll()) or len(seen) == 2)
    assert seen == {0: 1, 4: 1}


def test_a_record_limit(group: Callable[..., Group]) -> None:
    found = group(9)
    ann = found.join(acquire_mode="record_limit", max_poll_records=4)
    assert len(ann.get()) <= 4


def test_acknowledged_records_stay_so_when_the_broker_dies(
    tmp_path: Path, drivers: Callable[[str], Driver], topic_name: str
) -> None:
    """Acknowledgements answered before kill -9 keep their records from delivery, and nothing is lost."""
    broker = target_class()(tmp_path / "broker", SETTINGS)
    broker.start()
    java = Session(drivers("java"), broker.bootstrap)
    found = Group(broker, java, topic_name, 120)
    ann = found.join(max_poll_records=10, acquire_mode="record_limit")
    accepted: set[int] = set()
    for _ in range(3):
        for _ in range(3):
            now = ann.get()
            assert not accepted & set(now)
            half = sorted(now)[: len(now) // 2]
            ann.acknowledge("ACCEPT", *half)
            ann.acknowledge("RELEASE", *sorted(now)[len(now) // 2 :])
            if ann.commit() == [0]:
                accepted |= set(half)
        broker.kill()
        broker.start()
    seen: set[int] = set()

    def rest() -> bool:
        now = ann.poll()
        assert not accepted & set(now)
        seen.update(now)
        ann.acknowledge("ACCEPT", *now)
        return len(accepted | seen) == 120

    wait_until(rest)
    ann.close()
    broker.kill()


def test_rejected_records_go_to_the_dead_letter_topic(group: Callable[..., Group], java: Session) -> None:
    """KIP-1191: rejected records and those delivered too often, with key and value if configured."""
    found = group(
        4,
        share_delivery_count_limit="2",
        errors_deadletterqueue_copy_record_enable="true",
    )
    dead = f"dlq.{found.topic}"
    java.call(
        "create_topic", topic=dead, partitions=1, configs={"errors.deadletterqueue.group.enable": "true"}
    )
    found.configure(errors_deadletterqueue_topic_name=dead)
    ann = found.join()
    delivered = 0
    while delivered < 5:  # the one that is released twice
        for offset in ann.get():
            delivered += 1
            ann.acknowledge(("REJECT", "ACCEPT", "RELEASE", "REJECT")[offset], offset)
        assert ann.commit() == [0]
    consumer = Consumer(
        {"bootstrap.servers": found.broker.bootstrap, "group.id": dead, "auto.offset.reset": "earliest"}
    )
    consumer.assign([TopicPartition(dead, 0, 0)])
    letters: dict[int, Any] = {}

    def enough() -> bool:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            headers = dict(message.headers())
            letters[int(headers["__dlq.errors.offset"])] = (message.value(), headers)
        return len(letters) == 3

    wait_until(enough)
    consumer.close()
    assert {offset: value for offset, (value, _) in letters.items()} == {0: b"0", 2: b"2", 3: b"3"}
    assert letters[2][1] == {
        "__dlq.errors.topic": found.topic.encode(),
        "__dlq.errors.partition": b"0",
        "__dlq.errors.offset": b"2",
        "__dlq.errors.group": found.id.encode(),
        "__dlq.errors.delivery.count": b"2",
        "__dlq.errors.message": b"Offset delivery count exceeded the threshold.",
    }
    assert letters[3][1]["__dlq.errors.message"] == b"Offset rejected by client."
