"""Producers and consumers of every kind for a long time, with broker restarts and kill -9: nothing lost, nothing
twice, and memory stays as it is.

BOWSTRING_SOAK_SECONDS sets how long (`make soak`: an hour), BOWSTRING_SEED other moments of the restarts.
"""

import asyncio
import os
import random
import statistics
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bowstring import Admin, Consumer, Producer, aio
from bowstring.clients.errors import ClientError
from tests.support.target import BowstringBroker
from tests.support.waiting import HANG_S, pause, pause_async

SECONDS = float(os.environ.get("BOWSTRING_SOAK_SECONDS", "12"))
SEED = int(os.environ.get("BOWSTRING_SEED", "1"))
TOPIC, PARTITIONS = "soak", 3
BETWEEN_RESTARTS_S = (1.5, 3.5) if SECONDS < 120 else (5.0, 15.0)
MEMBER_LIVES_S = 2.5 if SECONDS < 120 else 10.0
PATIENCE_S = HANG_S
ROWS_A_TABLE = 100
PAUSE_S = 0.01
GROWTH_MAX_BYTES = 32 << 20
# Half of the time, at most two minutes, until caches and allocators have what they need.
WARM_UP_S = min(SECONDS / 2, 120.0)
QUICK: dict[str, Any] = {"request_timeout_ms": 3_000}
WRITING: dict[str, Any] = {**QUICK, "delivery_timeout_ms": int(HANG_S * 1000)}


class Soak:
    """The work, each part in a thread; the first thing that goes wrong is kept."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.over = threading.Event()
        self.wrong: list[str] = []
        self.lock = threading.Lock()
        self.acknowledged: dict[tuple[str, int], int] = {}
        self.read: dict[tuple[str, int], int] = {}
        self.all_written = threading.Event()
        self.reader_done = threading.Event()
        self.covered = [0] * PARTITIONS
        self.rebalances = 0
        self.member_records = {"poll": 0, "poll_arrow": 0}

    def fail(self, what: str) -> None:
        self.wrong.append(what)
        self.over.set()

    def run(self, part) -> threading.Thread:
        def guarded() -> None:
            try:
                part()
            except BaseException as error:
                self.fail(f"{part.__name__}: {error!r}")
                raise

        thread = threading.Thread(target=guarded, name=part.__name__)
        thread.start()
        return thread

    # ------------------------------------------------------------ writing

    def settle(self, name: str, partition: int, number: int, outcome) -> None:
        """Records of one writer in one partition are acknowledged in their order."""
        outcome.result(PATIENCE_S)
        self.acknowledged[name, partition] = number

    def send(self) -> None:
        waiting: deque = deque()
        with Producer(self.where, linger_ms=5, **WRITING) as producer:
            number = 0
            while not self.over.is_set():
                for _ in range(10):
                    number += 1
                    for partition in range(PARTITIONS):
                        future = producer.send(TOPIC, f"send {number}", b"k", partition=partition)
                        waiting.append((partition, number, future))
                while waiting and (waiting[0][2].done() or len(waiting) > 20_000):
                    self.settle("send", *waiting.popleft())
                pause(PAUSE_S, "the pace of the load")
            producer.flush(PATIENCE_S)
            while waiting:
                self.settle("send", *waiting.popleft())

    def send_arrow(self) -> None:
        with Producer(self.where, compression="lz4", **WRITING) as producer:
            number = 0
            while not self.over.is_set():
                partition = number % PARTITIONS
                first = number // PARTITIONS * ROWS_A_TABLE
                values = [f"arrow {first + i + 1}" for i in range(ROWS_A_TABLE)]
                table = pa.table(
                    {"value": values, "partition": pa.array([partition] * ROWS_A_TABLE, pa.int32())}
                )
                future = producer.send_arrow(TOPIC, table)
                self.settle("arrow", partition, first + ROWS_A_TABLE, future)
                number += 1
                pause(PAUSE_S, "the pace of the load")

    def send_asyncio(self) -> None:
        async def main() -> None:
            async with aio.Producer(self.where, **WRITING) as producer:
                number = 0
                while not self.over.is_set():
                    numbers = range(number + 1, number + 11)
                    sent = [producer.send(TOPIC, f"aio {each}", partition=0) for each in numbers]
                    await asyncio.gather(*sent)
                    number += 10
                    self.acknowledged["aio", 0] = number
                    await pause_async(PAUSE_S, "the pace of the load")

        asyncio.run(main())

    # ------------------------------------------------------------ reading

    def read_all(self) -> None:
        """By itself: every record once, in order."""
        settings: dict[str, Any] = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 100, **QUICK}
        with Consumer(self.where, **settings) as consumer:
            consumer.assign([(TOPIC, number) for number in range(PARTITIONS)])
            while not (self.all_written.is_set() or self.wrong) or not self.caught_up():
                for record in consumer.poll(timeout=0.1):
                    name, number = record.value.decode().split()
                    at = (name, record.partition)
                    if int(number) != self.read.get(at, 0) + 1:
                        self.fail(f"{at}: {number} came after {self.read.get(at, 0)}")
                        return
                    self.read[at] = int(number)
        self.reader_done.set()

    def caught_up(self) -> bool:
        if self.wrong:
            return True
        return all(self.read.get(at, 0) >= number for at, number in dict(self.acknowledged).items())

    def note(self, partition: int, offset: int) -> None:
        """A member of the group had this record. Commits cover it, so there can be no gap."""
        with self.lock:
            if offset > self.covered[partition]:
                self.fail(f"the group had {partition}-{offset}, and nobody {self.covered[partition]}")
            self.covered[partition] = max(self.covered[partition], offset + 1)

    def member(self, kind: str, life_s: float) -> None:
        settings: dict[str, Any] = {
            "auto_offset_reset": "earliest",
            "heartbeat_interval_ms": 300,
            "fetch_max_wait_ms": 100,
        }
        while not self.over.is_set():
            consumer = Consumer(
                self.where, group_id="soakers", auto_commit_interval_ms=300, **settings, **QUICK
            )
            ends = time.monotonic() + life_s
            consumer.subscribe([TOPIC], on_assigned=self.count_rebalance)
            while time.monotonic() < ends and not self.over.is_set():
                if kind == "poll":
                    places = [(record.partition, record.offset) for record in consumer.poll(timeout=0.1)]
                else:
                    batch = consumer.poll_arrow(timeout=0.1, columns=["partition", "offset"])
                    places = list(zip(*(column.to_pylist() for column in batch.columns), strict=True))
                for partition, offset in places:
                    self.note(partition, offset)
                self.member_records[kind] += len(places)
            try:
                consumer.close()
            except ClientError:
                continue  # the broker is away: uncommitted records are read again

    def count_rebalance(self, _) -> None:
        self.rebalances += 1

    def lasting_member(self) -> None:
        self.member("poll", float("inf"))

    def passing_member(self) -> None:
        self.member("poll_arrow", MEMBER_LIVES_S)


def rss_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.timeout(SECONDS + 1_200)
def test_soak(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    retention = {"log.retention.bytes": str(256 << 20), "log.segment.bytes": str(16 << 20)}
    broker = BowstringBroker(tmp_path, {"offsets.topic.num.partitions": "2", **retention})
    broker.start()
    with Admin(broker.bootstrap) as admin:
        admin.create_topic(TOPIC, PARTITIONS)
    soak = Soak(broker.bootstrap)
    parts = [
        soak.send,
        soak.send_arrow,
        soak.send_asyncio,
        soak.read_all,
        soak.lasting_member,
        soak.passing_member,
    ]
    threads = [soak.run(part) for part in parts]
    started = time.monotonic()
    memory: list[tuple[float, int]] = []
    restarts, restart_at = 0, started + rng.uniform(*BETWEEN_RESTARTS_S)

    def enough() -> bool:
        return restarts >= 2 and soak.rebalances >= 2 and min(soak.member_records.values()) > 0

    # A slow machine gets more time for the required steps.
    while not soak.over.is_set() and (
        (now := time.monotonic()) < started + SECONDS or (not enough() and now < started + SECONDS + HANG_S)
    ):
        if now > restart_at:
            _ = broker.kill() if restarts % 2 else broker.stop()
            broker.start()
            restarts += 1
            restart_at = time.monotonic() + rng.uniform(*BETWEEN_RESTARTS_S)
        memory.append((now - started, rss_bytes()))
        soak.over.wait(0.2)
    broker_bytes = broker.rss_bytes()
    soak.over.set()
    for thread in threads[:3]:
        thread.join(PATIENCE_S)
    soak.all_written.set()
    for thread in threads:
        thread.join(PATIENCE_S)
    alive = [thread.name for thread in threads if thread.is_alive()]
    broker.stop()
    assert not soak.wrong, soak.wrong
    assert not alive, f"{alive} hang; read {soak.read}, acknowledged {soak.acknowledged}"
    assert soak.reader_done.is_set() and soak.caught_up()
    assert len(soak.acknowledged) == 2 * PARTITIONS + 1 and min(soak.acknowledged.values()) > 0
    assert enough()
    check_memory(memory)
    assert broker_bytes < 256 << 20


def check_memory(memory: list[tuple[float, int]]) -> None:
    """The process holds at the end what it held when it had warmed up."""
    warm = [size for at, size in memory if at >= WARM_UP_S]
    part = max(1, len(warm) // 4)
    before, after = statistics.median(warm[:part]), statistics.median(warm[-part:])
    assert after - before < GROWTH_MAX_BYTES, f"memory grew by {(after - before) / (1 << 20):.1f} MiB"
