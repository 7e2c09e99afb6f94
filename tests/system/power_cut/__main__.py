"""Cuts power under real clients, on a real file system: the scenario of test_power_cut, in a mount namespace.

    unshare --mount python -m tests.system.power_cut --fs ext4 --cuts 3 --seed 7 DIRECTORY

The file system is an image on a loop device. FS_IOC_SHUTDOWN cuts it off at one moment: what its journal and
its page cache have not written by then is lost, as in a power failure, and the broker gets EIO for the
rest of its life. Then the broker is killed, the image is mounted again (which replays the journal), a new broker
starts on it, and everything that was acknowledged must be there.
"""

import argparse
import fcntl
import json
import os
import random
import signal
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.serving import Process, steady_port
from tests.support.waiting import HANG_S, pause, wait_until
from tests.system.power_cut.sharing import Sharing
from tests.system.power_cut.transactions import Transfers

# linux/fs.h: _IOR('X', 125, __u32); the flag keeps the journal from being written first
FS_IOC_SHUTDOWN = 0x8004587D
NO_LOG_FLUSH = 2
IMAGE_BYTES = 3 << 30
# No machine waits this long: a read without progress for this time hangs.
STALL_S = HANG_S
PARTITIONS = {"plain": 3, "table": 2, "large": 1, "small": 1}
KEYS = 600
GROUP = "readers"
CONFIGS = {
    "plain": {},
    "table": {
        "cleanup.policy": "compact",
        "segment.bytes": "1048576",
        "min.cleanable.dirty.ratio": "0.01",
        "segment.ms": "500",
    },
    "large": {
        "compression.type": "uncompressed",
        "max.message.bytes": str(96 << 20),
        "segment.bytes": str(96 << 20),
        "retention.bytes": str(256 << 20),
    },
    "small": {"segment.ms": "300", "compression.type": "zstd"},
}
SETTINGS = [
    "log.cleaner.backoff.ms=50",
    "bowstring.tail.from.bytes=0",
    "bowstring.wal.segment.bytes=16777216",
    "bowstring.wal.max.bytes=134217728",
    "log.segment.bytes=4194304",
    "log.retention.check.interval.ms=500",
    "log.flush.offset.checkpoint.interval.ms=700",
    "offsets.topic.num.partitions=2",
    "offsets.topic.segment.bytes=1048576",
    "group.initial.rebalance.delay.ms=0",
    "transaction.state.log.num.partitions=2",
    "transaction.state.log.segment.bytes=1048576",
    "share.coordinator.state.topic.num.partitions=2",
    "share.coordinator.state.topic.segment.bytes=1048576",
    "share.coordinator.snapshot.update.records.per.snapshot=20",
    "socket.request.max.bytes=209715200",
]


class Machine:
    """A file system that can lose power."""

    def __init__(self, directory: Path, kind: str) -> None:
        self.image, self.mount = directory / f"{kind}.img", directory / kind
        self.mount.mkdir()
        with open(self.image, "wb") as file:
            file.truncate(IMAGE_BYTES)
        force = ["-f"] if kind == "xfs" else ["-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"]
        run(f"mkfs.{kind}", "-q", *force, str(self.image))
        self.plug_in()

    def plug_in(self) -> None:
        run("mount", "-o", "loop", str(self.image), str(self.mount))

    def cut_power(self) -> None:
        fd = os.open(self.mount, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, FS_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(fd)

    def unplug(self) -> None:
        """The kernel closes the files of a killed process a moment later."""
        command = ["umount", str(self.mount)]
        wait_until(
            lambda: subprocess.run(command, capture_output=True, check=False).returncode == 0,
            f"{self.mount} cannot be unmounted",
        )


def run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


Record = tuple[bytes | None, int]


class Load:
    """Clients that keep working through every power cut, with what was acknowledged to them."""

    def __init__(self, port: int, chance: random.Random) -> None:
        self._where = f"127.0.0.1:{port}"
        self._over = threading.Event()
        # topic -> {(partition, offset): (key, number)} of acknowledged records; the newest commit by
        # partition
        self.acknowledged: dict[str, dict[tuple[int, int], Record]] = {t: {} for t in PARTITIONS}
        self.committed: dict[int, int] = {}
        self.refusals: dict[str, str] = {}
        pads = {
            "plain": chance.choice([10, 200, 1000]),
            "table": 900,
            "large": chance.choice([1, 3, 9]) << 20,
            "small": 300,
        }
        self._threads = [
            *(
                threading.Thread(target=self._write, args=(topic, pads[topic]), daemon=True)
                for topic in PARTITIONS
            ),
            threading.Thread(target=self._commit, daemon=True),
        ]
        self._works = (Transfers(port), Sharing(port))
        for thread in self._threads:
            thread.start()

    def _write(self, topic: str, pad: int) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._where,
                "enable.idempotence": topic != "table",
                "linger.ms": 200 if topic == "large" else 2,
                "compression.type": "gzip" if topic in ("large", "small") else "none",
                "message.max.bytes": 100_000_000,
                "batch.size": 80_000_000 if topic == "large" else 100_000,
                "queue.buffering.max.kbytes": 400_000,
                "log_level": 0,
            }
        )
        number = 0
        most = 30 if topic == "large" else 4000
        while not self._over.is_set():
            key = b"%d" % (number % KEYS) if topic == "table" else None
            try:
                producer.produce(
                    topic,
                    b"%d " % number + bytes(pad),
                    key,
                    partition=number % PARTITIONS[topic],
                    callback=self._done(topic, key, number),
                )
            except BufferError:
                producer.poll(0.01)
                continue
            number += 1
            producer.poll(0)
            if number % 100 == 0:
                self._over.wait(0.01)  # existing records are read again after each cut
            while len(producer) > most and not self._over.is_set():
                producer.poll(0.01)
        producer.purge()
        producer.flush(0)

    def _done(self, topic: str, key: bytes | None, number: int):
        def delivered(error, message) -> None:
            if error is None:
                self.acknowledged[topic][message.partition(), message.offset()] = key, number
            else:
                self.refusals[topic] = str(error)

        return delivered

    def _commit(self) -> None:
        consumer = Consumer(
            {"bootstrap.servers": self._where, "group.id": GROUP, "log_level": 0, "enable.auto.commit": False}
        )
        offset = 0
        while not self._over.is_set():
            offset += 1
            try:
                places = [TopicPartition("plain", offset % 3, offset)]
                done = consumer.commit(offsets=places, asynchronous=False)
                if all(each.error is None for each in done):
                    self.committed[offset % 3] = offset
            except KafkaException as error:
                self.refusals["commit"] = str(error)
                pause(0.02, "the pace of the load")

    def progress(self) -> str:
        refusals = [self.refusals, *(work.refusals for work in self._works)]
        return f"{self.count()}, refusals {refusals}"

    def count(self) -> dict[str, int]:
        found = {topic: len(records) for topic, records in self.acknowledged.items()}
        found["commits"] = sum(self.committed.values())
        for work in self._works:
            found |= work.count()
        return found

    def check_works(self) -> None:
        for work in self._works:
            work.check()

    def end(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()
        for work in self._works:
            work.end()


def contents(port: int, topic: str) -> dict[tuple[int, int], Record]:
    """(partition, offset) -> (key, number) of every existing record."""
    consumer = Consumer(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "group.id": "checker",
            "enable.partition.eof": True,
            "fetch.message.max.bytes": 1_000_000,
            "log_level": 0,
        }
    )
    places = [TopicPartition(topic, each, OFFSET_BEGINNING) for each in range(PARTITIONS[topic])]
    ends = {place.partition: consumer.get_watermark_offsets(place, STALL_S)[1] for place in places}
    consumer.assign(places)
    found: dict[tuple[int, int], Record] = {}
    ended = {partition for partition, end in ends.items() if end == 0}
    moved = time.monotonic()
    while len(ended) < len(places):
        for message in consumer.consume(10_000, 0.2):
            moved = time.monotonic()
            if message.error() is None:
                number = int(message.value()[:20].split()[0])
                found[message.partition(), message.offset()] = message.key(), number
            if message.error() is not None or message.offset() + 1 >= ends[message.partition()]:
                ended.add(message.partition())
        assert time.monotonic() - moved < STALL_S, (
            f"reading {topic} makes no progress: {len(found)} records, ends {ends}, those of {sorted(ended)} reached"
        )
    consumer.close()
    return found


def committed(port: int) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": f"127.0.0.1:{port}", "group.id": GROUP, "log_level": 0})
    places = [TopicPartition("plain", each) for each in range(PARTITIONS["plain"])]

    def offsets() -> list[TopicPartition] | None:
        try:
            return list(consumer.committed(places, 10))
        except KafkaException:
            return None

    found = wait_until(offsets, "no answer about the group's offsets", every_s=0.1)
    consumer.close()
    return {each.partition: each.offset for each in found}


def check(port: int, load: Load) -> None:
    """Everything acknowledged so far is there, in order, and can be read without delay."""
    records = {topic: dict(acknowledged) for topic, acknowledged in load.acknowledged.items()}
    commits = dict(load.committed)
    for topic in ("plain", "small"):
        check_all(topic, records[topic], contents(port, topic))
    check_newest(records["table"], contents(port, "table"))
    check_large(records["large"], contents(port, "large"))
    found = committed(port)
    late = {p: (offset, found[p]) for p, offset in commits.items() if found[p] < offset}
    assert not late, f"committed offsets went back: {late}"
    load.check_works()


def check_all(topic: str, records, found) -> None:
    lost = {where: each for where, each in records.items() if found.get(where) != each}
    assert not lost, f"{topic}: {len(lost)} of {len(records)} are lost, the first {min(lost.items())}"
    for partition in range(PARTITIONS[topic]):
        offsets = sorted(offset for p, offset in found if p == partition)
        assert offsets == list(range(len(offsets))), f"{topic}-{partition} has holes"
        numbers = [found[partition, offset][1] for offset in offsets]
        assert numbers == sorted(set(numbers)), f"{topic}-{partition} has records twice, or out of order"


def check_newest(records, found) -> None:
    """Each key has its newest value, or a later one."""
    newest: dict[bytes | None, int] = {}
    for key, number in found.values():
        newest[key] = max(newest.get(key, -1), number)
    lost = [(key, number) for key, number in records.values() if newest.get(key, -1) < number]
    assert not lost, f"{len(set(lost))} acknowledged values of keys are lost, the first {min(lost)}"


def check_large(records, found) -> None:
    """Retention deletes the oldest."""
    first = min((offset for _, offset in found), default=0)
    kept = {where: each for where, each in records.items() if where[1] >= first}
    lost = [where for where, each in kept.items() if found.get(where) != each]
    assert not lost, f"large: {len(lost)} of {len(kept)} are lost, the first {min(lost)}"


def await_progress(load: Load) -> None:
    """Every client is answered again."""
    before = load.count()
    wait_until(
        lambda: all(count > before[name] for name, count in load.count().items()),
        lambda: f"some clients get no answers: {load.progress()}, before {before}",
    )


def create_topics(port: int) -> None:
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0})
    topics = [NewTopic(name, PARTITIONS[name], config=CONFIGS[name]) for name in PARTITIONS]
    for done in admin.create_topics(topics).values():
        done.result()


def cut_power(machine: Machine, process: Process) -> None:
    machine.cut_power()
    process.stop(signal.SIGKILL)
    machine.unplug()
    machine.plug_in()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("--fs", default="ext4")
    parser.add_argument("--cuts", type=int, default=2)
    parser.add_argument(
        "--seconds", type=float, default=0.0, help="cut power for so long, whatever --cuts says"
    )
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    machine = Machine(options.directory, options.fs)
    arguments = ["--data", str(machine.mount / "data"), "--host", "127.0.0.1", "--port", str(steady_port())]
    arguments += [word for setting in SETTINGS for word in ("--set", setting)]
    process = Process(*arguments)
    ends, cuts = time.monotonic() + options.seconds, 0
    try:
        create_topics(process.port)
        load = Load(process.port, chance)
        while cuts < options.cuts or time.monotonic() < ends:
            await_progress(load)
            pause(chance.uniform(0, 4), "the cut comes at any moment")
            cut_power(machine, process)
            if chance.random() < 0.3:  # and once more, during the start
                starting = Process(*arguments, wait=False)
                pause(chance.uniform(0.05, 0.6), "the cut comes at any moment of the start")
                cut_power(machine, starting)
            began = time.monotonic()
            process = Process(*arguments)
            started = time.monotonic() - began
            began = time.monotonic()
            check(process.port, load)
            checked = time.monotonic() - began
            cuts += 1
            line = {"cut": cuts, "start_s": round(started, 2), "check_s": round(checked, 2), **load.count()}
            print(json.dumps(line), flush=True)
        load.end()
        process.process.send_signal(signal.SIGTERM)
        process.read_to_the_end()
        code = process.process.wait()
        assert code == 0, code
    except BaseException:
        for line in process.lines[-40:]:
            print(line, file=sys.stderr)
        raise
    finally:
        process.stop(signal.SIGKILL)
        machine.unplug()


if __name__ == "__main__":
    main()
