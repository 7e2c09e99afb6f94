"""Leads clients and brokers through kills and pauses, and collects what they leave."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import confluent_kafka
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import bowstring
from bowstring.clients.admin.admin import Admin
from bowstring.clients.errors import ClientError
from tests.support.serving import Process, steady_port
from tests.support.waiting import pause
from tests.system.history.check import Check, Place, Seen, steps_of
from tests.system.history.client import FENCED, GROUP, SOURCE, TARGET

ROOT = Path(__file__).resolve().parents[3]
BREAKS = Path(__file__).with_name("breaks")
STANDS_STILL_S = 60.0
# librdkafka's send_offsets_to_transaction has no timeout (its issue 5456), and waits for ever when the group's coordinator
# is no longer in the metadata (5511), as a broker that was killed is in Kafka's answers, too.
FORGETS_ITS_TIMEOUT_S = 15.0
SETTINGS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "transaction.state.log.num.partitions": "4",
    "offsets.topic.num.partitions": "4",
    "auto.create.topics.enable": "false",
}
EVENTS_S = (0.3, 0.6, 1.2, 2.5)


@dataclass(frozen=True)
class Plan:
    """What a life is like. `durability` is that of every broker (`bowstring.durability`). `broken` names a fault of
    `breaks`; then nothing else goes wrong.
    """

    seed: int = 1
    seconds: float = 10.0
    brokers: int = 3
    partitions: int = 2
    writers: int = 2
    broken: str = ""
    durability: str = "commit"


class OneBroker:
    """A broker alone, with the interface of `bowstring.Cluster`."""

    def __init__(self, directory: Path, settings: Mapping[str, str], env: Mapping[str, str]) -> None:
        port = steady_port()
        options = [f"--set={name}={value}" for name, value in settings.items()]
        self._arguments = ("--data", str(directory), "--port", str(port), *options)
        self._env = dict(env)
        self.bootstrap_servers = f"127.0.0.1:{port}"
        self.broker_ids = [0]
        self.restart(0)

    def restart(self, id: int, wait: bool = True) -> None:
        self._process = Process(*self._arguments, env=self._env)

    def kill(self, id: int) -> None:
        self._process.stop(signal.SIGKILL)

    def pause(self, id: int) -> None:
        self._process.process.send_signal(signal.SIGSTOP)

    def resume(self, id: int) -> None:
        self._process.process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        self._process.stop(signal.SIGKILL)


class Life:
    """One life. Call `run`, which returns the problems.

    Attributes:
        counts: How many transactions ended how.
    """

    def __init__(self, plan: Plan, directory: Path, *, tells: bool = False) -> None:
        self.plan = plan
        self.counts: dict[str, int] = {}
        self._directory = directory
        self._tells = tells
        self._random = random.Random(plan.seed)
        self._stop_file = directory / "stop"
        self._started_s = time.monotonic()
        self._clients: dict[str, subprocess.Popen[bytes]] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._zombies: list[subprocess.Popen[bytes]] = []
        self._paused: list[tuple[float, object]] = []
        self._number = 0

    def _say(self, *what: object) -> None:
        if self._tells:
            print(f"{time.monotonic() - self._started_s:7.1f}", *what, flush=True)

    # ------------------------------------------------------------ the life

    def run(self) -> list[str]:
        """Leads the life; returns the promises that were broken."""
        env = dict(os.environ)
        if self.plan.broken:
            env |= {"BOWSTRING_BREAK": self.plan.broken, "PYTHONPATH": str(BREAKS)}
        self._brokers = self._start_brokers(env)
        try:
            self._create_topics()
            for number in range(self.plan.writers):
                self._start(f"w{number}")
            for number in range(self.plan.partitions):
                self._start(f"c{number}")
            ends_s = time.monotonic() + self.plan.seconds
            while time.monotonic() < ends_s:
                self._happen()
                pause(self._random.choice(EVENTS_S), "things happen in between")
                self._renew()
            return self._finish()
        finally:
            for each in [*self._clients.values(), *self._zombies]:
                each.kill()
                each.wait()
            self._brokers.stop()

    def _start_brokers(self, env: Mapping[str, str]) -> "OneBroker | bowstring.Cluster":
        settings = SETTINGS | {"bowstring.durability": self.plan.durability}
        if self.plan.brokers == 1:
            return OneBroker(self._directory / "broker", settings, env)
        return bowstring.Cluster(
            self.plan.brokers, data_dir=self._directory / "nodes", config=settings, start_timeout_s=120
        ).start()

    def _create_topics(self) -> None:
        copies = min(3, self.plan.brokers)
        topics = [
            NewTopic(name, self.plan.partitions, copies, config={"min.insync.replicas": str(min(2, copies))})
            for name in (SOURCE, TARGET)
        ]
        admin = AdminClient({"bootstrap.servers": self._brokers.bootstrap_servers})
        for made in admin.create_topics(topics).values():
            made.result()

    # ------------------------------------------------------------ clients

    def _start(self, id: str) -> None:
        self._number += 1
        kind = "writer" if id.startswith("w") else "copier"
        name = f"{id}.{self._number}"
        with open(self._directory / f"{name}.log", "wb") as log:
            self._clients[id] = self._processes[name] = subprocess.Popen(
                [
                    *(sys.executable, "-m", "tests.system.history.client", kind),
                    f"--bootstrap={self._brokers.bootstrap_servers}",
                    *(f"--id={id}", f"--partition={id[1:]}", f"--partitions={self.plan.partitions}"),
                    f"--history={self._directory}/{id}.{self._number}.history",
                    *(f"--stop={self._stop_file}", f"--seed={self.plan.seed}"),
                ],
                cwd=ROOT,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )

    def _end_stuck(self) -> None:
        """Kills copiers that librdkafka holds although their call's time is over."""
        for path in self._directory.glob("c*.history"):
            process = self._processes[path.stem]
            if process.poll() is None and time.time() - path.stat().st_mtime > FORGETS_ITS_TIMEOUT_S:
                last = path.read_bytes().rstrip().rpartition(b"\n")[2]
                if b'"event": "offset"' in last:
                    self._say("kills", path.stem, "librdkafka waits for ever for the group's coordinator")
                    process.kill()
                    process.wait()

    def _renew(self) -> None:
        """Starts clients again that have ended, and ends pauses.

        FENCED is also what a fatal INVALID_TXN_STATE leaves: librdkafka aborts transactions whose partitions the
        coordinator has never got (its issue 4849).
        """
        self._end_stuck()
        for id, process in list(self._clients.items()):
            if process.poll() is not None:
                self._say("starts again", id, process.returncode)
                assert process.returncode in (-signal.SIGKILL, FENCED), self._log_of(id)
                self._start(id)
        for until_s, what in list(self._paused):
            if time.monotonic() >= until_s:
                self._paused.remove((until_s, what))
                self._resume(what)

    def _log_of(self, id: str) -> str:
        return "\n".join(
            path.read_text()[-4000:] for path in sorted(self._directory.glob(f"{id}.*.log"))[-1:]
        )

    # ------------------------------------------------------------ trouble

    def _happen(self) -> None:
        if self.plan.broken:
            return
        client = self._random.choice(list(self._clients))
        broker = self._random.choice(self._brokers.broker_ids)
        kind = self._random.choice(
            ["kill client", "zombie", "pause client", "kill broker", "kill broker", "pause broker", "nothing"]
        )
        busy = any(not isinstance(what, subprocess.Popen) for _, what in self._paused)
        self._say(kind, client if "broker" not in kind else broker)
        if kind == "kill client":
            self._clients[client].kill()
            self._clients[client].wait()
        elif kind == "zombie":
            self._zombies.append(self._clients[client])
            self._start(client)
        elif kind == "pause client":
            self._clients[client].send_signal(signal.SIGSTOP)
            self._paused.append((time.monotonic() + self._random.choice([0.5, 2, 7]), self._clients[client]))
        elif kind == "kill broker" and not busy:
            self._brokers.kill(broker)
            self._paused.append((time.monotonic() + self._random.choice([0.0, 1.0, 3.0]), ("dead", broker)))
        elif kind == "pause broker" and not busy:
            self._brokers.pause(broker)
            self._paused.append((time.monotonic() + self._random.choice([0.5, 2.0, 4.0]), ("paused", broker)))

    def _resume(self, what: object) -> None:
        if isinstance(what, subprocess.Popen):
            if what.poll() is None:
                what.send_signal(signal.SIGCONT)
            return
        assert isinstance(what, tuple), what
        state, broker = what
        if state == "dead":
            self._brokers.restart(broker)
        else:
            self._brokers.resume(broker)

    # ------------------------------------------------------------ the end

    def _finish(self) -> list[str]:
        for _, what in self._paused:
            self._resume(what)
        self._paused.clear()
        self._say("calm")
        self._stop_file.touch()
        problems = self._wait_for_clients() or self._wait_for_transactions()
        if problems:
            return problems
        places = [(topic, number) for topic in (SOURCE, TARGET) for number in range(self.plan.partitions)]
        steps = steps_of(sorted(self._directory.glob("*.history")))
        for step in steps:
            self.counts[step.event] = self.counts.get(step.event, 0) + 1
        check = Check(
            steps,
            self._read(places, "read_committed"),
            self._read(places, "read_uncommitted"),
            self._offsets(),
        )
        return check.problems()

    def _wait_for_clients(self) -> list[str]:
        """Waits until no client works."""
        until_s = time.monotonic() + STANDS_STILL_S
        working = {**self._clients, **{f"zombie {each.pid}": each for each in self._zombies}}
        while working := {id: each for id, each in working.items() if each.poll() is None}:
            if time.monotonic() > until_s:
                return [f"stands still: {id}\n{self._log_of(id)}" for id in working]
            self._end_stuck()
            pause(0.05, "processes end")
        return []

    def _wait_for_transactions(self) -> list[str]:
        """Waits until no transaction is open: those of killed clients time out."""
        until_s = time.monotonic() + STANDS_STILL_S
        left: object = "nobody answered"
        while time.monotonic() < until_s:
            try:
                with Admin(self._brokers.bootstrap_servers, timeout_ms=10_000) as admin:
                    left = admin.list_transactions(["Ongoing", "PrepareCommit", "PrepareAbort"])
                if not left:
                    return []
            except ClientError as error:
                left = error
            pause(0.2, "transactions time out")
        return [f"open for ever: {left}"]

    def _consumer(self, isolation: str) -> confluent_kafka.Consumer:
        return confluent_kafka.Consumer(
            {
                "bootstrap.servers": self._brokers.bootstrap_servers,
                "group.id": GROUP,
                "enable.auto.commit": False,
                "isolation.level": isolation,
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
                "log_level": 0,
            }
        )

    def _read(self, places: list[Place], isolation: str) -> dict[Place, list[Seen]]:
        """Reads every existing record."""
        consumer = self._consumer(isolation)
        consumer.assign([TopicPartition(*place, 0) for place in places])
        found: dict[Place, list[Seen]] = {place: [] for place in places}
        ended: set[Place] = set()
        while len(ended) < len(places):
            message = consumer.poll(1.0)
            if message is None:
                continue
            place = (message.topic(), message.partition())
            if message.error() is None:
                found[place].append(Seen(message.offset(), message.value().decode()))
            elif message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF:
                ended.add(place)
        consumer.close()
        return found

    def _offsets(self) -> dict[int, int]:
        consumer = self._consumer("read_committed")
        found = consumer.committed(
            [TopicPartition(SOURCE, number) for number in range(self.plan.partitions)], 60
        )
        consumer.close()
        return {each.partition: max(0, each.offset) for each in found}
