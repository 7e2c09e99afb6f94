"""Takes the figures: each is the processor time of one task of a node, or its memory."""

from __future__ import annotations

import gc
import multiprocessing
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from bench.scale.cluster import CONFIGS, Controller, decoded, encoded, new_state
from bench.scale.roles import replicas_of
from bowstring._native.record.decode import batch_headers
from bowstring.engine.controller import brokers, leader_elections
from bowstring.engine.controller.activation import activation_records
from bowstring.engine.metadata.image import ClusterImage
from bowstring.engine.metadata.quorum import QuorumFacts
from bowstring.engine.metadata.snapshot import SnapshotId, decode_snapshot, encode_snapshot
from bowstring.protocol.records.cluster_metadata.topics import PartitionChangeRecord
from bowstring.protocol.schema import MetadataRecord

SESSION_MS = 9000
HEARTBEATS = 2000
RECORDS_OF_A_BATCH = 1000
MIB = 1 << 20
LEADS = "it leads: the image is copied, partitions are indexed"
COLLECTS = "Python's collector goes through all objects"


class Size(NamedTuple):
    """The size of the cluster, and how many records the log has behind the snapshot."""

    brokers: int = 100
    topics: int = 2000
    partitions_of_a_topic: int = 100
    records_behind: int = 20_000

    @property
    def partitions(self) -> int:
        """Of all topics."""
        return self.topics * self.partitions_of_a_topic


@dataclass
class Figures:
    """The figures: by subject, rows of name, value, unit and a remark."""

    rows: list[tuple[str, str, float, str, str]] = field(default_factory=list)

    def add(self, subject: str, what: str, value: float, unit: str, remark: str = "") -> None:
        """Notes a figure."""
        self.rows.append((subject, what, value, unit, remark))

    def timed(self, subject: str, what: str, call: Callable[[], Any], remark: str = "") -> Any:
        """Calls, notes the processor time in ms, and returns the result."""
        gc.collect()
        begin = time.process_time_ns()
        result = call()
        self.add(subject, what, (time.process_time_ns() - begin) / 1e6, "ms", remark)
        return result

    def value(self, what: str) -> float:
        """The greatest figure of a name."""
        return max(value for _, name, value, _, _ in self.rows if name == what)


def measure(size: Size, work: Path) -> Figures:
    """Takes all figures.

    Args:
        size: Of the cluster.
        work: A directory for a snapshot and a piece of the log.
    """
    figures = Figures()
    controller = Controller()
    created = _create(figures, controller, size)
    _heartbeats(figures, controller, size)
    young = _snapshot(figures, controller)
    old = _bytes_of(_aged(controller.state.image))
    log = b"".join(_records_behind(controller, size))
    _new_controller(figures, Node(work, "", controller.end_offset), young, log)
    _new_controller(figures, Node(work, ", all partitions differ", controller.end_offset), old, log)
    _death(figures, controller, created)
    return figures


def _create(figures: Figures, controller: Controller, size: Size) -> ClusterImage:
    """Brokers register and topics are created; returns the image of a broker that has applied all."""
    subject = "creating"
    what = f"{size.brokers} brokers register and are unfenced"

    def start() -> None:
        for broker in range(size.brokers):
            controller.start_broker(broker, 0)

    figures.timed(subject, what, start)
    image = controller.state.image.copy()
    records: list[list[MetadataRecord]] = []

    def create() -> None:
        for number in range(size.topics):
            records.append(controller.create_topic(f"topic-{number}", size.partitions_of_a_topic))

    figures.timed(subject, f"{size.partitions:,} partitions are placed and applied", create, "controller")
    batches = figures.timed(
        subject, "their records are encoded", lambda: [encoded(each, 0) for each in records], "controller"
    )
    figures.add(subject, "metadata log of it", sum(map(len, batches)) / MIB, "MiB")

    def follow() -> None:
        for each in batches:
            image.apply_all(decoded(each))

    figures.timed(subject, "their records are decoded and applied", follow, "every node")
    return image


def _heartbeats(figures: Figures, controller: Controller, size: Size) -> None:
    begin = time.process_time_ns()
    for number in range(HEARTBEATS):
        controller.beat(number % size.brokers, 1)
    each_us = (time.process_time_ns() - begin) / 1e3 / HEARTBEATS
    figures.add("heartbeats", "one heartbeat is decided", each_us, "µs", "controller")
    a_second = size.brokers / 2
    figures.add(
        "heartbeats",
        f"{size.brokers} brokers, one each 2 s",
        each_us * a_second / 1e4,
        "% of a core",
        "decisions only; the request costs more",
    )


def _snapshot(figures: Figures, controller: Controller) -> bytes:
    subject, image = "snapshot", controller.state.image
    figures.timed(subject, "the image is copied for it", image.copy, "control thread")
    data: bytes = figures.timed(subject, "it is encoded", lambda: _bytes_of(image), "a thread of its own")
    figures.add(subject, "its size", len(data) / MIB, "MiB")
    return data


def _bytes_of(image: ClusterImage) -> bytes:
    return b"".join(encode_snapshot(image, QuorumFacts(), SnapshotId(0, 1), 0, 0))


def _aged(image: ClusterImage) -> ClusterImage:
    """Returns an image in which no two partitions have the same state: each has changed some time ago."""
    aged, number = image.copy(), 0
    for topic in aged.topics.values():
        for at, partition in enumerate(topic.partitions):
            number += 1
            topic.partitions[at] = partition._replace(leader_epoch=number % 50, partition_epoch=number)
    return aged


def _records_behind(controller: Controller, size: Size) -> list[bytes]:
    """Followers leave ISRs and return: the records behind the snapshot. Returns their batches."""
    state = controller.state
    keys = [(topic.id, at) for topic in state.image.topics.values() for at in range(len(topic.partitions))]
    records: list[MetadataRecord] = []
    for number in range(size.records_behind):
        key = keys[number // 2 % len(keys)]
        replicas = state.partition(key).replicas
        isr = [each for each in replicas if each == state.partition(key).leader or number % 2 == 1]
        records.append(PartitionChangeRecord(topic_id=key[0], partition_id=key[1], isr=isr))
    batches = []
    for at in range(0, len(records), RECORDS_OF_A_BATCH):
        part = records[at : at + RECORDS_OF_A_BATCH]
        batches.append(encoded(part, controller.end_offset))
        controller.append(part)
    return batches


# ------------------------------------------------------------ a new controller, in a new process


class Node(NamedTuple):
    """A node that starts.

    Attributes:
        work: The directory of its files.
        remark: A peculiarity, for the names of figures.
        end_offset: Of the log.
    """

    work: Path
    remark: str
    end_offset: int


def _new_controller(figures: Figures, node: Node, snapshot: bytes, log: bytes) -> None:
    (node.work / "snapshot").write_bytes(snapshot)
    (node.work / "log").write_bytes(log)
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_start_and_lead, args=(there, node))
    process.start()
    there.close()
    rows = here.recv()
    process.join()
    figures.rows += rows


def _start_and_lead(parent: Connection, node: Node) -> None:
    figures, subject = Figures(), f"a node starts{node.remark}"
    data, log = (node.work / "snapshot").read_bytes(), (node.work / "log").read_bytes()
    before = _resident_bytes()
    image, _ = figures.timed(
        subject, "it decodes the snapshot", lambda: decode_snapshot(data, SnapshotId(1, 0))
    )
    figures.add(subject, "memory of the image", (_resident_bytes() - before) / MIB, "MiB", "every node")

    def replay() -> None:
        for each in batch_headers(log):
            image.apply_all(decoded(log[each.position : each.position + each.size_bytes]))

    records = sum(each.record_count for each in batch_headers(log))
    figures.timed(subject, f"it applies {records:,} records behind the snapshot", replay)
    before = _resident_bytes()
    figures.timed(
        subject, "it leads: its first records", lambda: activation_records(image, [], CONFIGS), "controller"
    )
    state = figures.timed(
        subject,
        LEADS,
        lambda: new_state(image, end_offset=node.end_offset, now_ms=0),
        "controller",
    )
    added = (_resident_bytes() - before) / MIB
    figures.add(subject, "memory of the copy and the index", added, "MiB", "controller")
    assert len(state.image.topics) == len(image.topics)
    figures.timed(subject, COLLECTS, gc.collect, "a pause")
    parent.send(figures.rows)


def _resident_bytes() -> int:
    gc.collect()
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status has no RssAnon line")


# ------------------------------------------------------------ a broker dies


def _death(figures: Figures, controller: Controller, image: ClusterImage) -> None:
    """A broker is silent for a session, returns, and gets its leadership back.

    Args:
        controller: The active controller.
        image: Of the brokers, before all of that.
    """
    state, subject = controller.state, "a broker dies"
    dead, other = 0, 1
    for broker in sorted(state.image.brokers):
        if broker != dead:
            controller.beat(broker, SESSION_MS + 2)
    led, held = len(state.index.led(dead)), len(state.index.in_sync(dead))
    figures.add(subject, "partitions that it leads", led, "")
    figures.add(subject, "partitions with it in the ISR", held, "")
    roles, counted = replicas_of(other)
    keys = [
        (topic.id, at)
        for topic in image.topics.values()
        for at, each in enumerate(topic.partitions)
        if other in each.replicas
    ]
    figures.timed(subject, "another broker takes its roles at its start", lambda: roles.apply(image, keys))
    begun = dict(counted.calls)
    decision = figures.timed(
        subject, "the session is over: its records", lambda: brokers.fence_stale(state, SESSION_MS + 2)
    )
    assert decision is not None, "the session of the broker is not over"
    figures.timed(subject, "they are applied", lambda: controller.take(decision), "controller")
    batches = figures.timed(
        subject, "they are encoded", lambda: _batches(decision.records, controller.end_offset), "controller"
    )
    figures.add(subject, "metadata log of it", sum(map(len, batches)) / MIB, "MiB")
    records = figures.timed(
        subject,
        "they are decoded",
        lambda: [each for batch in batches for each in decoded(batch)],
        "every node",
    )
    figures.timed(subject, "they are applied by a broker", lambda: image.apply_all(records), "every node")
    changed = [
        (each.topic_id, each.partition_id) for each in records if isinstance(each, PartitionChangeRecord)
    ]
    figures.timed(
        subject,
        "another broker changes its roles",
        lambda: roles.apply(image, changed, brokers_changed=True),
        "every broker, in steps",
    )
    leads = counted.calls.get("lead", 0) - begun.get("lead", 0)
    figures.add(subject, "calls of the data plane for it", leads, "", "lead")
    figures.timed(
        "it comes back", "it registers and is unfenced", lambda: controller.start_broker(dead, SESSION_MS * 2)
    )
    _balance(figures, controller, dead)


def _balance(figures: Figures, controller: Controller, broker: int) -> None:
    """The ISR has the broker again; leaders return to it, 1,000 in a decision."""
    state, subject = controller.state, "it comes back"
    back = [
        PartitionChangeRecord(
            topic_id=key[0], partition_id=key[1], isr=sorted({*state.partition(key).in_sync, broker})
        )
        for key in list(state.index.imbalanced)
        if broker in state.partition(key).replicas
    ]
    figures.timed(subject, f"it joins {len(back):,} ISRs", lambda: controller.append(back))
    decisions = 0

    def balance() -> None:
        nonlocal decisions
        while (decision := leader_elections.balance(state)) is not None:
            controller.take(decision)
            decisions += 1

    figures.timed(subject, "leaders go back to it", balance, "1,000 in a decision")
    figures.add(subject, "decisions of that", decisions, "")


def _batches(records: list[MetadataRecord], base_offset: int) -> list[bytes]:
    return [
        encoded(records[at : at + RECORDS_OF_A_BATCH], base_offset + at)
        for at in range(0, len(records), RECORDS_OF_A_BATCH)
    ]
