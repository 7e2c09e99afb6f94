"""A life of a cluster of processes: load, faults and operations at random, and the checks afterwards."""

import contextlib
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import bowstring
from bowstring import TopicPartition
from bowstring.clients.admin.admin import Admin
from bowstring.clients.errors import ClientError
from bowstring.cluster import layout
from bowstring.engine.configs.files import load
from tests.support.waiting import HANG_S, wait_until
from tests.system.troubled import checks
from tests.system.troubled.checks import COMPACTED, KEPT, SHORTENED
from tests.system.troubled.load import GROUPS, Load, Notes

TIMEOUT_MS = int(HANG_S * 1000)
# Operators look again when a call takes longer: it may wait for a broker that hangs.
OPERATION_MS = 20_000
TOPICS = {"kept": 3, "small": 2, "compacted": 2, "aged": 2, "cut": 2}
KINDS = {"kept": KEPT, "small": KEPT, "compacted": COMPACTED, "aged": SHORTENED, "cut": SHORTENED}
SMALL_SEGMENTS = {"segment.bytes": "1048576"}
COMPACTING = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "2000"}
CONFIGS = {
    "kept": {},
    "small": SMALL_SEGMENTS,
    "compacted": SMALL_SEGMENTS | COMPACTING,
    "aged": SMALL_SEGMENTS | {"retention.bytes": "3000000"},
    "cut": SMALL_SEGMENTS,
}
OFFSETS_PARTITIONS = 3
SETTINGS = {
    # Kafka's defaults: on a busy machine, shorter ones leave the quorum without a leader.
    "controller.quorum.election.timeout.ms": 1000,
    "controller.quorum.fetch.timeout.ms": 2000,
    "log.retention.check.interval.ms": 1000,
    "log.cleaner.backoff.ms": 200,
    "log.flush.offset.checkpoint.interval.ms": 1000,
    "replica.high.watermark.checkpoint.interval.ms": 700,
    "metadata.log.max.record.bytes.between.snapshots": 20000,
    "bowstring.wal.segment.bytes": 16777216,
    "bowstring.wal.max.bytes": 134217728,
    "offsets.topic.num.partitions": OFFSETS_PARTITIONS,
    "auto.create.topics.enable": "false",
}
PAUSES_S = [0.05, 0.3, 1.0, 2.0, 4.0]
DELAYS_MS = [5, 50, 400]


@dataclass(frozen=True)
class Plan:
    """What a life is like. With `controllers`, nodes of their own are the controllers."""

    seed: int = 1
    seconds: float = 60.0
    brokers: int = 3
    controllers: int = 0
    durability: str = "os"

    @staticmethod
    def of(seed: int, seconds: float) -> "Plan":
        """Returns the kind of life that belongs to a seed: four follow one another."""
        kinds: list[tuple[int, int, str]] = [(5, 0, "os"), (3, 3, "commit"), (3, 0, "os"), (3, 0, "commit")]
        return Plan(seed, seconds, *kinds[(seed + 2) % 4])


class Life:
    """One life, in a directory that is left as it is in the end.

    Attributes:
        notes: Problems and acknowledgements.
    """

    def __init__(self, plan: Plan, directory: Path) -> None:
        self.notes = Notes()
        self._plan = plan
        self._rng = random.Random(plan.seed)
        self._disks = directory / "disks"
        ids = range(1, plan.brokers + 1)
        places = {id: {"log.dirs": f"{self._disks}/{id}/a,{self._disks}/{id}/b"} for id in ids}
        self._cluster = bowstring.Cluster(
            plan.brokers,
            controllers=plan.controllers,
            data_dir=directory / "nodes",
            start_timeout_s=HANG_S,
            node_config=places,
            config=SETTINGS | {"bowstring.durability": plan.durability},
        )
        self._troubled: dict[int, Callable[[], object]] = {}
        self._started_s = time.monotonic()
        self._resources: dict[int, list[checks.Resources]] = {}
        self._operations: Counter[str] = Counter()

    def _say(self, *what: object) -> None:
        print(f"{time.monotonic() - self._started_s:7.1f}", *what, flush=True)

    def run(self) -> None:
        """Leads the life; `notes.wrong` has what must not happen."""
        with self._cluster as cluster:
            self._started_s = time.monotonic()
            self._create_topics()
            load = Load(self.notes, cluster.bootstrap_servers, TOPICS, ["kept", "small"])
            load.start(self._operate)
            ends_s = time.monotonic() + self._plan.seconds
            while time.monotonic() < ends_s and not self.notes.wrong:
                self._note_resources()
                self._trouble()
                self.notes.over.wait(self._rng.choice(PAUSES_S))
            self._say("repairing")
            cluster.repair()
            cluster.wait_until_ready()
            before = self.notes.count
            wait_until(
                lambda: self.notes.count > before + 200, lambda: f"nothing goes on: {self.notes.wrong}"
            )
            load.stop()
            self._say("acknowledged", self.notes.count)
            self._note_resources()
            self._check()

    def _create_topics(self) -> None:
        with Admin(self._cluster.bootstrap_servers, timeout_ms=TIMEOUT_MS) as admin:
            for topic, partitions in TOPICS.items():
                configs = CONFIGS[topic] | {"min.insync.replicas": "2"}
                admin.create_topic(topic, partitions=partitions, replication_factor=3, configs=configs)

    # ------------------------------------------------------------ the end

    def _check(self) -> None:
        bootstrap = self._cluster.bootstrap_servers
        with Admin(bootstrap, timeout_ms=TIMEOUT_MS) as admin:
            replicas = checks.replicas_in_sync(admin, TOPICS)
        checks.check_records(self.notes, bootstrap, TOPICS, KINDS)
        for group in GROUPS.values():
            checks.check_committed(self.notes, bootstrap, OFFSETS_PARTITIONS, group)
        self._say("checked records")
        self._cluster.stop(*self._cluster.broker_ids)
        for (topic, number), ids in replicas.items():
            found = {id: checks.batches(self._disks.glob(f"{id}/*/{topic}-{number}")) for id in ids}
            checks.check_replicas(self.notes, f"{topic}-{number}", KINDS[topic], found)
        self._say("checked replicas")
        checks.check_logs(self.notes, {id: self._cluster.log_text(id) for id in self._cluster.node_ids})
        checks.check_resources(self.notes, self._resources)
        print("operations:", *self._operations.most_common(), sep="\n  ")

    def _note_resources(self) -> None:
        for id in self._cluster.running_ids:
            with contextlib.suppress(OSError, bowstring.cluster.process.NodeError):  # it ends now
                pid = self._cluster.pid(id)
                self._resources.setdefault(pid, []).append(checks.resources_of(pid))

    # ------------------------------------------------------------ operators

    def _operate(self) -> None:
        rng = random.Random(self._plan.seed + 1)
        with Admin(self._cluster.bootstrap_servers, timeout_ms=OPERATION_MS) as admin:
            while not self.notes.over.is_set():
                topic = rng.choice(list(TOPICS))
                partition = TopicPartition(topic, rng.randrange(TOPICS[topic]))
                work = rng.choice([self._reassign, self._elect, self._delete, self._move])
                try:
                    work(admin, rng, partition)
                    outcome = "done"
                except ClientError as error:  # a broker is away, or has other things to do
                    outcome = f"{type(error).__name__} {error}"[:80]
                self._say(work.__name__, partition, outcome)
                self._operations[f"{work.__name__} {outcome}"] += 1
                self.notes.over.wait(rng.uniform(0.2, 3.0))

    def _reassign(self, admin: Admin, rng: random.Random, partition: TopicPartition) -> None:
        replicas = rng.sample(self._cluster.broker_ids, 3)
        admin.alter_reassignments({partition: replicas if rng.random() < 0.9 else None})

    def _elect(self, admin: Admin, rng: random.Random, partition: TopicPartition) -> None:
        admin.elect_leaders([partition])

    def _delete(self, admin: Admin, rng: random.Random, partition: TopicPartition) -> None:
        partition = TopicPartition("cut", partition.partition % TOPICS["cut"])
        acked = list(self.notes.acked[partition.topic, partition.partition])
        admin.delete_records({partition: max(acked, default=0) // 2})

    def _move(self, admin: Admin, rng: random.Random, partition: TopicPartition) -> None:
        broker = rng.choice(self._cluster.broker_ids)
        admin.move_replicas([partition], f"{self._disks}/{broker}/{rng.choice('ab')}", broker)

    # ------------------------------------------------------------ trouble

    def _trouble(self) -> None:
        """Begins or ends a trouble of one node; of five brokers two may be in trouble."""
        most = 1 if self._plan.brokers < 5 else 2
        if self._troubled and (len(self._troubled) >= most or self._rng.random() < 0.4):
            id = self._rng.choice(list(self._troubled))
            self._say("mend", id)
            self._troubled.pop(id)()
            return
        id = self._rng.choice([each for each in self._cluster.node_ids if each not in self._troubled])
        kinds = [
            self._kill,
            self._kill,
            self._pause,
            self._cut,
            self._delay,
            self._stop,
            self._stop,
            self._empty,
        ]
        kind = self._rng.choice(kinds)
        self._say(kind.__name__, id)
        if (mend := kind(id)) is not None:
            self._troubled[id] = mend

    def _kill(self, id: int) -> Callable[[], object]:
        self._cluster.kill(id)
        return self._restart(id)

    def _stop(self, id: int) -> Callable[[], object]:
        self._cluster.stop(id)
        return self._restart(id)

    def _restart(self, id: int) -> Callable[[], object]:
        """The next trouble may come before it serves."""
        return lambda: self._cluster.restart(id, wait=self._rng.random() < 0.5)

    def _pause(self, id: int) -> Callable[[], object]:
        self._cluster.pause(id)
        return lambda: self._cluster.resume(id)

    def _cut(self, id: int) -> Callable[[], object]:
        other = self._rng.choice([None, *(each for each in self._cluster.node_ids if each != id)])
        self._cluster.cut(id, other, one_way=self._rng.random() < 0.5)
        return lambda: self._cluster.heal(id)

    def _delay(self, id: int) -> Callable[[], object]:
        self._cluster.delay(self._rng.choice(DELAYS_MS), id)
        return lambda: self._cluster.heal(id)

    def _empty(self, id: int) -> Callable[[], object] | None:
        """A broker loses what the others have; one that is no controller its whole disk."""
        if self._troubled or id not in self._cluster.broker_ids:
            return None
        self._cluster.restart(id)  # the end of a start before it serves is no clean stop
        if not self._all_in_sync():
            return None
        self._cluster.stop(id)
        whole = id not in self._cluster.controller_ids
        for folder in list(self._disks.glob(f"{id}/*" if whole else f"{id}/*/*-*")):
            if folder.is_dir() and not folder.name.startswith("__cluster_metadata"):
                shutil.rmtree(folder)
        if whole:
            node = layout.node_of(self._cluster.data_dir, id, (layout.BROKER,), {})
            layout.prepare(node, load(node.config_file, []), self._cluster.cluster_id)
        return lambda: self._cluster.restart(id)

    def _all_in_sync(self) -> bool:
        try:
            with Admin(self._cluster.bootstrap_servers, timeout_ms=OPERATION_MS) as admin:
                topics = admin.topics(internal=True).values()
        except ClientError:
            return False
        parts = [part for topic in topics for part in topic.partitions.values()]
        return all(len(part.isr) == len(part.replicas) == 3 for part in parts)
