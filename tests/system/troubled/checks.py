"""What must hold after the life of a cluster: of records, offsets, replicas, logs and processes."""

import itertools
import os
import re
import struct
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka

from bowstring import TopicPartition
from bowstring.clients.admin.admin import Admin
from tests.support.acked_load import read_all
from tests.support.waiting import wait_until
from tests.system.troubled.load import KEYS, LIBRDKAFKA, OURS, Notes, Place

KEPT, COMPACTED, SHORTENED = "kept", "compacted", "shortened"
# How much more than when warm a process may hold, and how many samples that takes.
GROWTH_MAX = {"MiB": 64, "threads": 12, "descriptors": 200}
WARM_SAMPLES = 8
_PROBLEM = re.compile(r"^(\S+ \S+ (ERROR|CRITICAL)\b.*|Traceback .*|\w*Error: .*)$", re.M)
# A move, an election or a registration ends when its controller does.
_EXPECTED = ("the move of a partition failed; the partition stays in its directory", "NOT_CONTROLLER")


def replicas_in_sync(admin: Admin, topics: Iterable[str]) -> dict[Place, Sequence[int]]:
    """Waits until all replicas are in sync and at the high watermark; returns them by partition."""
    found: dict[Place, Sequence[int]] = {}

    def are_in_sync() -> bool:
        parts = {
            (topic, number): part
            for topic in topics
            for number, part in admin.describe_topic(topic).partitions.items()
        }
        found.update({place: part.replicas for place, part in parts.items()})
        return not admin.list_reassignments() and all(
            set(part.isr) == set(part.replicas) for part in parts.values()
        )

    wait_until(are_in_sync, lambda: {topic: admin.describe_topic(topic) for topic in topics})
    places = [TopicPartition(*place) for place in found]
    ends: dict[Any, Any] = {}

    def are_at_the_end() -> bool:
        ends.update(admin.replica_ends(places))
        marks = admin.end_offsets(places)
        return all(set(ends[each].values()) == {marks[each]} for each in places)

    wait_until(are_at_the_end, lambda: (ends, admin.end_offsets(places)))
    return found


# ---------------------------------------------------------------- records


def check_records(notes: Notes, bootstrap: str, topics: Mapping[str, int], kinds: Mapping[str, str]) -> None:
    """All acknowledged records are there once and in order, unless their topic deletes them."""
    for topic, partitions in topics.items():
        found = read_all(bootstrap, topic, partitions, from_start=True)
        for partition in range(partitions):
            _check_partition(notes, (topic, partition), kinds[topic], found[partition])


def _check_partition(notes: Notes, place: Place, kind: str, found: list[tuple[int, bytes]]) -> None:
    acked = dict(notes.acked[place])
    gone = set(notes.unplaced[place])
    for offset, value in found:
        if offset not in acked and value in gone:
            acked[offset] = value
            gone.discard(value)
    offsets = [offset for offset, _ in found]
    if offsets != sorted(set(offsets)):
        notes.fail(f"{place}: offsets are not in order")
    others = [offset for offset, value in found if acked.get(offset) != value]
    if others:
        notes.fail(f"{place}: {len(others)} other records than were acknowledged: {others[:5]}")
    first = offsets[0] if found else 0
    if kind == KEPT and first != 0:
        notes.fail(f"{place}: begins at {first}")
    expected = {offset for offset in acked if offset >= first}
    if kind == COMPACTED:
        latest = {(writer, number % KEYS): offset for offset, (writer, number) in _numbers(acked)}
        expected = set(latest.values())
        newest = {(writer, number % KEYS): number for _, (writer, number) in _numbers(acked)}
        if alone := [
            each for each in map(_number, gone) if newest.get((each[0], each[1] % KEYS), -1) < each[1]
        ]:
            notes.fail(f"{place}: the newest records of keys are gone: {alone[:5]}")
    if kind == KEPT and gone:
        notes.fail(
            f"{place}: {len(gone)} records acknowledged without an offset are gone: {sorted(gone)[:5]}"
        )
    if missing := sorted(expected.difference(offsets)):
        notes.fail(f"{place}: {len(missing)} acknowledged records are gone: {missing[:5]}")
    for writer in (LIBRDKAFKA, OURS):
        numbers = [number for _, (name, number) in _numbers(acked) if name == writer]
        sent = notes.sent[(*place, writer)]
        without = {number for name, number in map(_number, gone) if name == writer}
        wanted = [each for each in range(sent) if each not in without]
        if numbers != wanted:
            pairs = zip(numbers, wanted, strict=False)
            at = next((i for i, (each, want) in enumerate(pairs) if each != want), len(numbers))
            notes.fail(f"{place}: {writer} has {numbers[max(0, at - 3) : at + 5]} at {at} of {sent}")


def _numbers(acked: Mapping[int, bytes]) -> list[tuple[int, tuple[str, int]]]:
    """Offset, writer and number of each record, in order."""
    return [(offset, _number(acked[offset])) for offset in sorted(acked)]


def _number(value: bytes) -> tuple[str, int]:
    """Writer and number of a record."""
    writer, number, _ = value.split(b":", 2)
    return writer.decode(), int(number)


# ---------------------------------------------------------------- committed offsets


def check_committed(notes: Notes, bootstrap: str, partitions: int, group: str) -> None:
    """A group's committed offsets never went back, and are not above what it has read.

    librdkafka's may go back: it seems to send an older commit again, behind a newer one, after an error.
    """
    for place, history in _committed(bootstrap, partitions, group).items():
        if history[-1] > notes.covered[group, place]:
            notes.fail(f"{group} committed {history[-1]} of {place}, read {notes.covered[group, place]}")
        back = [(before, after) for before, after in itertools.pairwise(history) if after < before]
        if back and OURS in group:
            notes.fail(f"{group} went back in {place}: {back[:5]}")


def _committed(bootstrap: str, partitions: int, group: str) -> dict[Place, list[int]]:
    """Committed offsets in the order of the coordinator's log, unless compaction removed them."""
    found: dict[Place, list[int]] = defaultdict(list)
    for key, value in _offset_records(bootstrap, partitions):
        kind, size = struct.unpack_from(">hh", key)
        if kind != 1 or value is None or key[4 : 4 + size].decode() != group:
            continue
        at = 4 + size
        (size,) = struct.unpack_from(">h", key, at)
        topic = key[at + 2 : at + 2 + size].decode()
        (partition,) = struct.unpack_from(">i", key, at + 2 + size)
        (offset,) = struct.unpack_from(">q", value, 2)
        found[topic, partition].append(offset)
    return found


def _offset_records(bootstrap: str, partitions: int) -> Iterable[tuple[bytes, bytes | None]]:
    settings = {"bootstrap.servers": bootstrap, "group.id": "history", "enable.partition.eof": True}
    client = confluent_kafka.Consumer(settings)
    asked = [confluent_kafka.TopicPartition("__consumer_offsets", each, 0) for each in range(partitions)]
    client.assign(asked)
    ended = 0
    while ended < partitions:
        for message in client.consume(1000, 1.0):
            if message.error() is None:
                yield message.key(), message.value()
            else:
                ended += message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
    client.close()


# ---------------------------------------------------------------- replicas


def batches(folders: Iterable[Path]) -> dict[int, bytes]:
    """The batches of a partition's segments by base offset."""
    found: dict[int, bytes] = {}
    for folder in folders:
        for path in sorted(folder.glob("*.log")):
            data, at = path.read_bytes(), 0
            while at + 12 <= len(data):
                base, size = struct.unpack_from(">qi", data, at)
                found[base] = data[at : at + 12 + size]
                at += 12 + size
    return found


def check_replicas(notes: Notes, name: str, kind: str, replicas: Mapping[int, dict[int, bytes]]) -> None:
    """All replicas have the same bytes, except deleted ones. Each compacts for itself."""
    last = {id: max(each, default=-1) for id, each in replicas.items()}
    if len(set(last.values())) != 1:
        notes.fail(f"{name}: last batches differ: {last}")
    if kind == COMPACTED:
        return
    first = max(min(each, default=0) for each in replicas.values())
    kept = [{at: data for at, data in each.items() if at >= first} for each in replicas.values()]
    for other in kept[1:]:
        different = sorted(at for at in kept[0].keys() | other.keys() if kept[0].get(at) != other.get(at))
        if different:
            notes.fail(f"{name}: of replicas {list(replicas)} some differ at {different[:5]}")


# ---------------------------------------------------------------- processes


def check_logs(notes: Notes, logs: Mapping[int, str]) -> None:
    """No node has logged an error or a traceback."""
    for id, text in logs.items():
        for line, _ in _PROBLEM.findall(text):
            if not any(each in line for each in _EXPECTED):
                notes.fail(f"node {id}: {line[:300]}")


class Resources(NamedTuple):
    """What a process holds."""

    mib: int
    threads: int
    descriptors: int


def resources_of(pid: int) -> Resources:
    """Returns what a process holds.

    Raises:
        OSError: It has ended.
    """
    status = Path(f"/proc/{pid}/status").read_text()
    values = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    mib = int(values.get("VmRSS", "0 kB").split()[0]) >> 10
    return Resources(mib, int(values["Threads"]), len(os.listdir(f"/proc/{pid}/fd")))


def check_resources(notes: Notes, samples: Mapping[int, list[Resources]]) -> None:
    """No process that lived long holds much more at its end than when it was warm."""
    for pid, found in samples.items():
        if len(found) < 2 * WARM_SAMPLES:
            continue
        warm, last = found[WARM_SAMPLES], found[-1]
        for (what, most), before, after in zip(GROWTH_MAX.items(), warm, last, strict=True):
            if after - before > most:
                notes.fail(f"process {pid} grew from {before} to {after} {what}")
