"""Brokers' clocks that jump by days, forward and back, in processes: no unfinished work ends by it."""

import os
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Consumer, Producer

import bowstring
from tests.support.acked_load import AckedLoad
from tests.support.cluster_processes import Cluster
from tests.support.serving import Process
from tests.support.waiting import HANG_S, wait_until

SHIM = Path(__file__).parents[1] / "support" / "clock_shim.c"
TIMEOUT_MS = int(HANG_S * 1000)
DAY_S = 24 * 3600
# Further back than an hour, brokers refuse clients' timestamps: they seem to come from the future.
JUMPS_S = (3600, 8 * DAY_S, 0, -1800, 0)


class ShiftedCluster(Cluster):
    """A cluster whose nodes have clocks of their own."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.shim = directory / "clock_shim.so"
        command = ["gcc", "-shared", "-fPIC", "-O1", "-o", str(self.shim), str(SHIM), "-ldl"]
        subprocess.run(command, check=True, timeout=HANG_S)
        for id in self.ports:
            self.shift(id, 0)

    def shift(self, id: int, seconds: int) -> None:
        """Sets a node's clock to the machine's time and this."""
        with open(self._clock_of(id), "r+b" if self._clock_of(id).exists() else "wb", buffering=0) as file:
            file.write(struct.pack("q", seconds))

    def _clock_of(self, id: int) -> Path:
        return self.directory / f"{id}.clock"

    def start(self, *ids: int) -> None:
        chosen = ids or tuple(self.ports)
        for id in chosen:
            env = os.environ | {"LD_PRELOAD": str(self.shim), "CLOCK_OFFSET_FILE": str(self._clock_of(id))}
            self.processes[id] = Process("--config", str(self.files[id]), wait=False, env=env)
        for id in chosen:
            self.processes[id].facts = self.processes[id].wait_for("ready")


class Member:
    """A member of a group; `lost` counts how often it gave partitions back."""

    def __init__(self, bootstrap: str) -> None:
        self.assigned, self.lost, self.read = 0, 0, 0
        config = {"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
        self.consumer = Consumer(config)
        self.consumer.subscribe(["t"], on_assign=self._on_assign, on_revoke=self._on_revoke)

    def _on_assign(self, consumer, partitions) -> None:
        self.assigned += 1

    def _on_revoke(self, consumer, partitions) -> None:
        self.lost += 1

    def poll(self) -> int:
        self.read += sum(each.error() is None for each in self.consumer.consume(500, 0.2))
        return self.read

    def reads_more(self) -> Callable[[], bool]:
        """Returns a condition: it has read more than now."""
        seen = self.read
        return lambda: self.poll() > seen


def began(bootstrap: str) -> Producer:
    """A producer with an open transaction."""
    config = {"bootstrap.servers": bootstrap, "transactional.id": "x", "transaction.timeout.ms": TIMEOUT_MS}
    producer = Producer(config)
    producer.init_transactions(HANG_S)
    begin(producer)
    return producer


def begin(producer: Producer) -> None:
    producer.begin_transaction()
    producer.produce("x", b"open")
    assert producer.flush(HANG_S) == 0


def read_committed(bootstrap: str) -> list[bowstring.Record]:
    with bowstring.Consumer(bootstrap, isolation_level="read_committed") as consumer:
        parts = [bowstring.TopicPartition("x", index) for index in range(3)]
        consumer.assign(parts)
        consumer.seek_to_beginning()
        found: list[bowstring.Record] = []
        ends = consumer.end_offsets(parts)
        while any(consumer.position(each) < ends[each] for each in parts):
            found += consumer.poll(0.2)
        return found


def test_nothing_ends_because_clocks_are_set(tmp_path: Path) -> None:
    cluster = ShiftedCluster(tmp_path)
    try:
        cluster.start()
        bootstrap = cluster.bootstrap_of(1, 2, 3)
        with bowstring.Admin(bootstrap, timeout_ms=TIMEOUT_MS) as admin:
            for name in ("t", "x"):
                kept = {"min.insync.replicas": "2", "retention.ms": "-1"}
                kept |= {"message.timestamp.type": "LogAppendTime"} if name == "x" else {}
                admin.create_topic(name, partitions=3, replication_factor=3, configs=kept)
            leader = admin.describe_quorum().leader_id
            with AckedLoad(bootstrap, "t", 3) as load:
                load.wait_for_more(count=5)
                member, producer = Member(bootstrap), began(bootstrap)
                wait_until(lambda: member.poll() > 0)
                for seconds in JUMPS_S:
                    for id in cluster.ports:
                        cluster.shift(id, seconds)
                    load.wait_for_more(count=5)
                    wait_until(member.reads_more())
                    producer.commit_transaction(HANG_S)
                    begin(producer)
                producer.abort_transaction(HANG_S)
                assert (member.assigned, member.lost) == (1, 0)
                member.consumer.close()
            load.check()
            assert admin.describe_quorum().leader_id == leader
        stamps = sorted(each.timestamp for each in read_committed(bootstrap))
        assert len(stamps) == len(JUMPS_S)
        assert stamps[-1] - stamps[0] > 7 * DAY_S * 1000, "the clocks were set"
        for process in cluster.processes.values():
            process.read_for(0.2)
            assert not [
                line for line in process.lines if line["level"] == "error" or " fenced" in line["message"]
            ]
    finally:
        cluster.stop()
