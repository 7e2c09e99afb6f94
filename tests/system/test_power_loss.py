"""Power fails under a loaded broker in commit mode: acknowledged records stay, whatever the page cache loses.

kill -9 leaves the page cache, so this test applies to the files what power loss does: beyond each partition's
recovery point, anything unsynced may be missing, short, or zeros.
"""

import json
import random
import signal
import struct
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bowstring.engine.storage.checkpoints import RECOVERY_POINTS, read_offsets
from tests.support.serving import Process
from tests.support.waiting import HANG_S

TOPIC = "orders"
PARTITIONS = 4
RECORDS = 40_000
PAGE = 4096


class Load:
    """An idempotent producer on a thread, with its acknowledged records."""

    def __init__(self, port: int, first: int) -> None:
        self.acknowledged: list[tuple[int, int, int]] = []
        self.enough = threading.Event()
        self._stop = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": f"127.0.0.1:{port}",
                "enable.idempotence": True,
                "linger.ms": 1,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run, args=(first,))
        self._thread.start()

    def _run(self, first: int) -> None:
        number = first
        while not self._stop.is_set():
            try:
                self._producer.produce(
                    TOPIC,
                    b"%d " % number + bytes(1000),
                    partition=number % PARTITIONS,
                    callback=self._done(number),
                )
                number += 1
                self._producer.poll(0)
            except BufferError:
                self._producer.poll(0.01)

    def _done(self, number: int):
        def delivered(error, message) -> None:
            if error is None:
                self.acknowledged.append((number, message.partition(), message.offset()))
                if len(self.acknowledged) >= RECORDS:
                    self.enough.set()

        return delivered

    def end(self) -> None:
        self._stop.set()
        self._thread.join()
        self._producer.purge()
        self._producer.flush(5)


def synced_bytes(path: Path, recovery_point: int) -> int:
    """The position of the recovery point in a .log file."""
    data, at = path.read_bytes(), 0
    while at + 12 <= len(data):
        offset, length = struct.unpack_from(">qi", data, at)
        if offset >= recovery_point or length <= 0:
            break
        at += 12 + length
    return at


def lose_power(data: Path, chance: random.Random) -> int:
    """Reverts what was never synced; returns the number of bytes of segments."""
    points = read_offsets(data / RECOVERY_POINTS)
    lost = 0
    for partition in range(PARTITIONS):
        directory = data / f"{TOPIC}-{partition}"
        point = points.get((TOPIC, partition), 0)
        for log in sorted(directory.glob("*.log")):
            keep = synced_bytes(log, point) if int(log.stem) <= point else 0
            size = log.stat().st_size
            lost += size - keep
            with open(log, "r+b") as file:
                if chance.random() < 0.5:
                    file.truncate(chance.randrange(keep, size + 1))
                else:
                    for page in range(keep // PAGE + 1, size // PAGE):
                        if chance.random() < 0.5:
                            file.seek(page * PAGE)
                            file.write(bytes(PAGE))
            if int(log.stem) > point and chance.random() < 0.5:
                log.unlink()
            if chance.random() < 0.5:
                for index in directory.glob(f"{log.stem}.*index"):
                    index.unlink()
    return lost


def contents(port: int) -> dict[tuple[int, int], int]:
    """(partition, offset) -> number, of every record."""
    consumer = Consumer(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "group.id": "reader",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(TOPIC, each, OFFSET_BEGINNING) for each in range(PARTITIONS)])
    found: dict[tuple[int, int], int] = {}
    ended: set[int] = set()
    while len(ended) < PARTITIONS:
        for message in consumer.consume(1000, 1.0):
            if message.error() is None:
                found[message.partition(), message.offset()] = int(message.value().split()[0])
            elif message.error().code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
    consumer.close()
    return found


@pytest.mark.parametrize("io", ["io_uring", "pwrite"])
@pytest.mark.timeout(1_200)
def test_what_was_acknowledged_survives_power_loss(tmp_path, io):
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    data = tmp_path / "data"
    options = ["--data", str(data), "--host", "127.0.0.1", "--port", "0", "--set", f"bowstring.wal.io={io}"]
    options += [
        "--set",
        "bowstring.tail.from.bytes=0",
        "--set",
        "bowstring.wal.segment.bytes=16777216",
        "--set",
        "log.segment.bytes=4194304",
    ]
    process = Process(*options)
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{process.port}", "log_level": 0})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result()
    acknowledged: dict[tuple[int, int], int] = {}
    for round_ in range(2):
        load = Load(process.port, round_ * 10_000_000)
        assert load.enough.wait(HANG_S)
        process.stop(signal.SIGKILL)
        load.end()
        acknowledged |= {(partition, offset): number for number, partition, offset in load.acknowledged}
        assert lose_power(data, chance) > 0
        process = Process(*options)
        found = contents(process.port)
        lost = {where: number for where, number in acknowledged.items() if found.get(where) != number}
        assert not lost, f"{len(lost)} of {len(acknowledged)} are lost, the first at {min(lost)}"
        for partition in range(PARTITIONS):
            offsets = sorted(offset for where, offset in found if where == partition)
            assert offsets == list(range(len(offsets)))
            sequence = [found[partition, offset] for offset in offsets]
            assert sequence == sorted(set(sequence)), "records of one producer out of order, or twice"
    assert process.stop() == 0
    scrubbed = subprocess.run(
        [sys.executable, "-m", "bowstring", "dump-log", "--json", *map(str, data.glob(f"{TOPIC}-*/*.log"))],
        capture_output=True,
        check=False,
    )
    assert scrubbed.returncode == 0, scrubbed.stdout[-500:]
    assert json.loads(scrubbed.stdout.splitlines()[0])
