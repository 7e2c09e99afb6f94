"""A loaded broker is killed sixty times in os mode, and half as often in commit mode.

Real clients continue, and everything acknowledged is there in the end.

Two idempotent producers and a reader of confluent-kafka, and a committer of kafka-python, notice the kills
only through their libraries. BOWSTRING_KILLS sets the number of kills, BOWSTRING_SEED other moments.
"""

import os
import random
import signal
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import confluent_kafka
import kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from tests.support.serving import Process, steady_port
from tests.support.waiting import FOR_EVER_MS, HANG_S, pause

KILLS = int(os.environ.get("BOWSTRING_KILLS", "60"))
SEED = int(os.environ.get("BOWSTRING_SEED", "1"))
MODES = ("os", "commit")
TOPIC, PARTITIONS = "events", 4
BODY = b"." * 180
# Batches of two producers and commits are in flight at any moment, and the processor has time left for
# others.
PACE_S = 0.005
SETTINGS = {
    "bowstring.tail.from.bytes": 0,  # segments are small here
    "log.flush.offset.checkpoint.interval.ms": 300,
    "log.flush.scheduler.interval.ms": 200,
    "log.flush.interval.ms": 700,
    "log.retention.check.interval.ms": 500,
    "offsets.topic.num.partitions": 4,
}
QUICK = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
    "socket.connection.setup.timeout.ms": 2000,
}
SEGMENTS = {"internal.segment.bytes": "400000", "index.interval.bytes": "1000"}
Place = tuple[int, int]  # partition, offset


@dataclass
class Truth:
    """What was acknowledged to the clients."""

    sent: dict[tuple[int, int], int] = field(default_factory=dict)  # producer, partition -> how many
    acked: dict[Place, bytes] = field(default_factory=dict)
    committed: dict[int, int] = field(default_factory=dict)  # partition -> offset acknowledged as committed
    read: int = 0
    commits: int = 0


class Clients:
    """Threads that work until `stop`; keeps the first problem of any of them."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.truth = Truth()
        self.stopping = threading.Event()
        self.all_read = threading.Event()
        self.problems: list[BaseException] = []
        self.threads: list[threading.Thread] = []

    def start(self, *works: Callable[[], None]) -> None:
        """Starts a thread for each task."""

        def watched(work: Callable[[], None]) -> None:
            try:
                work()
            except BaseException as problem:
                self.problems.append(problem)

        for work in works:
            self.threads.append(threading.Thread(target=watched, args=(work,), daemon=True))
            self.threads[-1].start()

    def stop(self) -> None:
        """Waits until all is acknowledged and read; raises the first problem."""
        self.stopping.set()
        *others, reader = self.threads
        for thread in others:
            thread.join(HANG_S)
        self.wait(lambda: self.truth.read >= len(self.truth.acked), HANG_S)
        self.all_read.set()
        reader.join(HANG_S)
        for thread in self.threads:
            assert not thread.is_alive(), "a client does not end"
        self.check()

    def wait(self, reached: Callable[[], bool], seconds: float) -> None:
        """Waits until it is reached, the time is over, or a thread has failed."""
        deadline = time.monotonic() + seconds
        while not reached() and time.monotonic() < deadline and not self.problems:
            pause(0.01, "between two looks, for a bounded time")

    def work_a_little(self, chance: random.Random) -> None:
        """Mostly waits until producers have found the broker; then kills come at any moment of their work."""
        acked = len(self.truth.acked)
        if chance.random() < 0.8:
            self.wait(lambda: len(self.truth.acked) > acked, 3)
        pause(chance.uniform(0, 0.3), "the kill comes at any moment")

    def check(self) -> None:
        """Raises the first problem."""
        if self.problems:
            raise self.problems[0]

    # ------------------------------------------------------------ producing

    def producer(self, number: int) -> Callable[[], None]:
        """An idempotent producer; its records are numbered by partition."""

        def work() -> None:
            client = confluent_kafka.Producer(
                QUICK
                | {
                    "bootstrap.servers": self.address, "enable.idempotence": True, "linger.ms": 3,
                    "retry.backoff.ms": 20, "retry.backoff.max.ms": 100, "message.timeout.ms": FOR_EVER_MS,
                    "error_cb": self.on_error, "log_level": 0,
                }
            )  # fmt: skip
            chance = random.Random(SEED * 10 + number)
            while not self.stopping.is_set() and not self.problems:
                if len(client) < 2000:
                    for _ in range(20):
                        self.send(client, number, chance.randrange(PARTITIONS))
                client.poll(0)
                self.stopping.wait(PACE_S)
            assert client.flush(HANG_S) == 0, "records are not acknowledged"

        return work

    def send(self, client: confluent_kafka.Producer, number: int, partition: int) -> None:
        """Sends one record."""
        count = self.truth.sent.get((number, partition), 0)
        self.truth.sent[number, partition] = count + 1
        client.produce(
            TOPIC, b"%d:%d:" % (number, count) + BODY, partition=partition, on_delivery=self.on_delivery
        )

    def on_delivery(self, error: Any, message: Any) -> None:
        """Notes an acknowledgement."""
        if error is not None:
            self.problems.append(AssertionError(f"a record was given up: {error}"))
            return
        place = (message.partition(), message.offset())
        known = self.truth.acked.setdefault(place, message.value())
        if known != message.value():
            self.problems.append(AssertionError(f"two records at {place}"))

    def on_error(self, error: Any) -> None:
        """Lost connections are expected, fatal errors are not."""
        if error.fatal():
            self.problems.append(AssertionError(f"fatal: {error}"))

    # ------------------------------------------------------------ reading

    def reader(self) -> None:
        """Follows all partitions: no offset is missing, and none comes twice."""
        client = consumer_from_start(self.address)
        places = dict.fromkeys(range(PARTITIONS), 0)
        while not self.all_read.is_set():
            for message in client.consume(500, 0.1):
                if message.error() is None:
                    expected = places[message.partition()]
                    assert message.offset() == expected, f"{message.offset()} where {expected} should be"
                    places[message.partition()] = expected + 1
                    self.truth.read += 1
        client.close()

    def committer(self) -> None:
        """Commits rising offsets for a group; acknowledged ones are never lost."""
        client = kafka.KafkaConsumer(
            bootstrap_servers=self.address, group_id="committer", enable_auto_commit=False,
            reconnect_backoff_ms=20, reconnect_backoff_max_ms=100, retry_backoff_ms=20, request_timeout_ms=3000,
        )  # fmt: skip
        places = [kafka.TopicPartition(TOPIC, i) for i in range(PARTITIONS)]
        client.assign(places)
        offset = 0
        while not self.stopping.is_set():
            offset += 1
            try:
                client.commit({place: OffsetAndMetadata(offset, f"m{offset}", -1) for place in places})
                self.truth.committed.update(dict.fromkeys(range(PARTITIONS), offset))
                self.truth.commits += 1
                found = client.committed(places[offset % PARTITIONS])
            except KafkaError:
                continue
            assert found is not None and found >= offset, f"committed {found}, acknowledged {offset}"
            self.stopping.wait(PACE_S)
        client.close(autocommit=False)


def consumer_from_start(address: str) -> confluent_kafka.Consumer:
    """A consumer of all partitions from their beginnings, without group assignment."""
    client = confluent_kafka.Consumer(
        QUICK
        | {
            "bootstrap.servers": address, "group.id": "reader", "enable.auto.commit": False, "log_level": 0,
            "auto.offset.reset": "error", "enable.partition.eof": True, "fetch.error.backoff.ms": 20,
        }
    )  # fmt: skip
    client.assign([confluent_kafka.TopicPartition(TOPIC, i, 0) for i in range(PARTITIONS)])
    return client


def read_everything(address: str) -> list[list[bytes]]:
    """The values of each partition by offset."""
    client = consumer_from_start(address)
    values: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    ended: set[int] = set()
    deadline = time.monotonic() + HANG_S
    while len(ended) < PARTITIONS:
        assert time.monotonic() < deadline, "reading everything hangs"
        for message in client.consume(2000, 1.0):
            if message.error() is None:
                assert message.offset() == len(values[message.partition()])
                values[message.partition()].append(message.value())
            elif message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF:
                ended.add(message.partition())
    client.close()
    return values


def verify(truth: Truth, address: str) -> int:
    """Everything acknowledged is in its place, once, and each producer's records are in order."""
    values = read_everything(address)
    for (partition, offset), value in truth.acked.items():
        assert values[partition][offset] == value, f"{partition} {offset}: {value[:20]!r} was acknowledged"
    for (producer, partition), count in truth.sent.items():
        mine = b"%d:" % producer
        numbers = [int(v.split(b":", 2)[1]) for v in values[partition] if v.startswith(mine)]
        assert numbers == list(range(count)), f"producer {producer}, partition {partition}"
    client = kafka.KafkaConsumer(bootstrap_servers=address, group_id="committer", enable_auto_commit=False)
    for partition, offset in truth.committed.items():
        found = client.committed(kafka.TopicPartition(TOPIC, partition))
        assert found is not None and found >= offset, f"committed {found}, acknowledged {offset}"
    client.close(autocommit=False)
    return sum(map(len, values))


class Killed:
    """A broker that is killed and started again, always on the same port and data."""

    def __init__(self, data: str, mode: str) -> None:
        self.port = steady_port()
        settings = SETTINGS | {"bowstring.durability": mode}
        self.arguments = ["--data", data, "--host", "127.0.0.1", "--port", str(self.port)]
        self.arguments += [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        self.restart_s: list[float] = []
        self.process = self.start()

    @property
    def address(self) -> str:
        """The address for clients."""
        return f"127.0.0.1:{self.port}"

    def start(self, *, wait: bool = True) -> Process:
        """Starts a new process; its log lines are read, so that it never blocks on its output."""
        process = Process(*self.arguments, wait=wait)
        if wait:
            threading.Thread(target=process.process.stderr.read, daemon=True).start()
        return process

    def kill(self, chance: random.Random) -> None:
        """Kills the process; now and then also the next one while it starts."""
        assert self.process.process.poll() is None, f"the broker has ended: {self.process.lines}"
        self.process.stop(signal.SIGKILL)
        if chance.random() < 0.15:
            early = self.start(wait=False)
            pause(chance.uniform(0.05, 0.4), "the kill comes at any moment of its start")
            early.stop(signal.SIGKILL)
        before = time.monotonic()
        self.process = self.start()
        self.restart_s.append(time.monotonic() - before)


@pytest.mark.timeout(1_200 + 30 * KILLS)
@pytest.mark.parametrize("mode", MODES)
def test_killed_again_and_again(tmp_path, mode):
    """Nothing acknowledged is lost, duplicated or out of order."""
    chance = random.Random(SEED)
    broker = Killed(str(tmp_path / "data"), mode)
    clients = Clients(broker.address)
    try:
        admin = AdminClient({"bootstrap.servers": broker.address})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, config=SEGMENTS)])[TOPIC].result(HANG_S)
        clients.start(clients.producer(0), clients.producer(1), clients.committer, clients.reader)
        for _ in range(KILLS if mode == "os" else -(-KILLS // 2)):
            clients.work_a_little(chance)
            broker.kill(chance)
            clients.check()
        clients.stop()
        records = verify(clients.truth, broker.address)
    finally:
        clients.stopping.set()
        clients.all_read.set()
        broker.process.stop(signal.SIGTERM)
    restarts = sorted(broker.restart_s)
    print(
        f"\n{mode}: {len(restarts)} kills, {records} records, {clients.truth.commits} commits, "
        f"{clients.truth.read} read on the way; restart median {statistics.median(restarts):.2f} s, longest {restarts[-1]:.2f} s"
    )
    assert clients.truth.read == records == len(clients.truth.acked) and clients.truth.commits > 0
