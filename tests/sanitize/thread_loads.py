"""Loads for ThreadSanitizer: concurrent work of brokers on a log, by native threads where it matters.

    python -m tests.sanitize.thread_loads LOAD DIRECTORY SECONDS

Prints how often each part did its work, as JSON. Reactors and the threads of the write-ahead log take no GIL,
so the GIL orders nothing between them and the threads here, which release it for every operation of a log.
"""

import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from bowstring._native.disk.directory_health import DirectoryHealth
from bowstring._native.log.durability import durable_to, join, leave, staged_frame
from bowstring._native.log.partition_log import LogError, PartitionLog
from bowstring._native.wal.write_ahead_log import CONTROL, SUPPLY, WriteAheadLog
from bowstring.engine.storage.directory_wal import liburing_path
from bowstring.engine.storage.staged_tails import StagedTails
from tests.support.log_batches import CONFIG, NOW_MS
from tests.support.log_batches import batch as log_batch
from tests.support.plane_client import PlaneClient
from tests.support.plane_requests import batch, fetch, produce
from tests.support.served_plane import TOPIC, TOPIC_ID, Served
from tests.support.waiting import HANG_S, pause

NOTHING_HERE = (1, 3, 6)  # OFFSET_OUT_OF_RANGE after a truncation, a topic that is just gone
TRUNCATED = 0  # the partition that is
SEGMENT_BYTES = 512 << 10
WAL_SEGMENT_BYTES = 2 << 20


class Crew:
    """Threads that repeat their work until the time is over and each kind of work was done; an error in one ends all."""

    def __init__(self, seconds: float) -> None:
        self.done: Counter[str] = Counter()
        self.wanted: set[str] = set()
        self.ends_at = time.monotonic() + seconds
        self.errors: list[BaseException] = []
        self.threads: list[threading.Thread] = []

    def goes_on(self) -> bool:
        late = time.monotonic() >= self.ends_at and all(self.done[name] for name in list(self.wanted))
        return not late and not self.errors

    def add(self, name: str, work: Callable[[], object], every_s: float = 0.0) -> None:
        def repeat() -> None:
            try:
                while self.goes_on():
                    work()
                    self.done[name] += 1
                    if every_s:
                        pause(every_s, "the pace of a load")
            except BaseException as error:
                self.errors.append(error)

        self.wanted.add(name)
        self.threads.append(threading.Thread(target=repeat, name=name, daemon=True))

    def run(self) -> None:
        for thread in self.threads:
            thread.start()
        for thread in self.threads:
            thread.join(HANG_S)
            assert not thread.is_alive(), f"{thread.name} hangs"
        if self.errors:
            raise self.errors[0]


@contextmanager
def staging(directory: Path, crew: Crew):
    """Staged tails of both modes; their threads write out bytes that have rested for 5 ms."""
    health = DirectoryHealth(str(directory))
    tails = StagedTails(directory, health)
    tails.pool_bytes, tails.from_bytes, tails.rest_ms = 1 << 20, 0, 5
    tails.open()
    crew.add("rested", tails.rest, every_s=0.01)
    try:
        yield health
    finally:
        tails.close()


@contextmanager
def committing(directory: Path, io: str = "io_uring"):
    """A write-ahead log with its own thread."""
    directory.mkdir(exist_ok=True)
    wal = WriteAheadLog(directory, segment_bytes=WAL_SEGMENT_BYTES, io=io, liburing=liburing_path())
    for number in range(2):
        wal.add_segment(number)
    fd = os.eventfd(0, os.EFD_CLOEXEC)
    wal.wake_by(SUPPLY, fd)
    try:
        yield wal, fd
    finally:
        os.close(fd)


def supply(crew: Crew, wal: WriteAheadLog, fd: int, logs: list[PartitionLog]) -> threading.Thread:
    """Takes checkpoints when the write-ahead log wants a segment; returns the thread, which ends after `crew`."""

    def work() -> None:
        while True:
            os.eventfd_read(fd)
            if crew.done["ended"]:
                return
            if wal.take_wants_segment():
                frame = wal.closed_frame
                for log in logs:
                    with suppress(LogError):
                        log.flush()
                wal.released(frame)
                crew.done["checkpoints"] += 1

    crew.wanted.add("checkpoints")
    return threading.Thread(target=work, name="supply", daemon=True)


# ---------------------------------------------------------------- a data plane


def producing(served: Served, crew: Crew, partition: int, topic: str = TOPIC, size: int = 3_000) -> None:
    client, sent = served.client(), [0]

    def send() -> None:
        for _ in range(8):
            value = bytes(size if sent[0] % 40 else 30 * size)
            client.send(
                produce(batch(value, timestamp=NOW_MS + sent[0]), 9, topic=topic, partition=partition), 9
            )
            sent[0] += 1
        for _ in range(8):
            (answer,) = client.receive(0, 9).responses[0].partition_responses
            assert answer.error_code == 0 or answer.error_code in NOTHING_HERE, answer

    crew.add("produced", send)


def fetching(served: Served, crew: Crew, partition: int, topic: str = TOPIC, behind: int = 0) -> None:
    """Reads at the end, so staged bytes; or so many records behind it, so bytes of the file, by sendfile.

    A truncation below the high watermark, which `truncating` may read too early, can cut off what is being sent. The
    broker then closes the connection, and the reader connects again.
    """
    client = served.client()

    def read() -> None:
        nonlocal client
        log = served.logs[topic, partition]
        offset = max(log.log_start_offset, log.high_watermark - behind)
        request = fetch(
            12, topic=topic, partition=partition, offset=offset, max_wait_ms=5, partition_max_bytes=200_000
        )
        try:
            (found,) = client.call(request, 12).responses[0].partitions
        except ConnectionError:
            assert topic == TOPIC and partition == TRUNCATED, (topic, partition)
            crew.done["cut off"] += 1
            client = served.client()
            return
        assert found.error_code == 0 or found.error_code in NOTHING_HERE, found

    crew.add("fetched behind" if behind else "fetched", read)


def asking(crew: Crew, log: PartitionLog) -> None:
    """What the control thread reads of a log that reactors append to."""

    def ask() -> None:
        end = log.high_watermark
        log.offset_for_timestamp(NOW_MS + end // 2)
        log.max_timestamp()
        log.bytes_between(log.log_start_offset, end)
        with suppress(LogError):
            log.read(max(log.log_start_offset, end - 10), 50_000)
        log.segments()
        log.stats()

    crew.add("asked", ask)


def changing(crew: Crew, log: PartitionLog) -> None:
    """What housekeeping does to it."""

    def change() -> None:
        log.roll()
        log.flush()
        log.delete_records(max(0, log.high_watermark - 2_000))
        log.apply_retention(NOW_MS)
        log.delete_expired_files(NOW_MS + 10**9)

    crew.add("changed", change, every_s=0.05)


def truncating(crew: Crew, log: PartitionLog) -> None:
    def truncate() -> None:
        end = log.log_end_offset
        log.truncate_to(max(log.log_start_offset, log.high_watermark, end - 20))

    crew.add("truncated", truncate, every_s=0.02)


def serve(directory: Path, crew: Crew, *, switched: bool) -> None:
    """Reactors lead commits beside the log's thread; with `switched`, one partition changes its mode all the time."""
    with ExitStack() as stack:
        health = stack.enter_context(staging(directory, crew))
        served = Served(directory, reactors=2, health=health, log_config={"segment_bytes": SEGMENT_BYTES})
        stack.callback(served.close)
        wal, fd = stack.enter_context(committing(directory / "wal"))
        plain, plain_fd = stack.enter_context(committing(directory / "plain", io="pwrite"))
        for each in (wal, plain):
            served.plane.wake_by(each)
            each.start()
        supplies = [
            supply(crew, each, each_fd, list(served.logs.values()))
            for each, each_fd in ((wal, fd), (plain, plain_fd))
        ]
        logs = [served.logs[TOPIC, index] for index in range(2)]
        for index, log in enumerate(logs):
            served.plane.set_durability(TOPIC, index, log, wal)
        if switched:

            def switch() -> None:
                for to in (None, plain, None, wal):
                    logs[1].flush()
                    served.plane.set_durability(TOPIC, 1, logs[1], to)
                    pause(0.02, "the pace of a load")

            crew.add("switched", switch)
        for index in range(2):
            for _ in range(2):
                producing(served, crew, index)
            fetching(served, crew, index)
            fetching(served, crew, index, behind=300)
            asking(crew, logs[index])
        changing(crew, logs[0])
        truncating(crew, logs[TRUNCATED])
        crew.add("figures", lambda: (wal.stats(), wal.durable_frame, served.plane.counters()), every_s=0.01)
        for thread in supplies:
            thread.start()
        try:
            crew.run()
        finally:
            served.plane.stop()
            for each in (wal, plain):
                each.stop()
            crew.done["ended"] = 1
            for each_fd, thread in zip((fd, plain_fd), supplies, strict=True):
                os.eventfd_write(each_fd, 1)
                thread.join(HANG_S)
            for index, log in enumerate(logs):
                join(log, None, TOPIC_ID, index)
        for each in (wal, plain):
            assert each.failure is None
        crew.done["frames"] = wal.stats()["frames"]


def commits(directory: Path, crew: Crew) -> None:
    serve(directory, crew, switched=False)


def modes(directory: Path, crew: Crew) -> None:
    serve(directory, crew, switched=True)


# ---------------------------------------------------------------- topics that come and go


def closes(directory: Path, crew: Crew) -> None:
    """Topics are deleted, and their logs closed, while clients produce to them and fetch, and tails rest."""
    with ExitStack() as stack:
        health = stack.enter_context(staging(directory, crew))
        served = Served(directory, reactors=2, health=health, log_config={"segment_bytes": SEGMENT_BYTES})
        stack.callback(served.close)
        round_, topic_id = [0], bytes(range(16))
        served.add_topic("passing", topic_id, 1)
        for _ in range(2):
            producing(served, crew, 0, "passing", size=500)
            fetching(served, crew, 0, "passing")
        producing(served, crew, 0)
        fetching(served, crew, 0)

        def replace() -> None:
            pause(0.05, "the pace of a load")
            log = served.logs["passing", 0]
            served.plane.remove_topic("passing")
            log.close()
            round_[0] += 1
            served.add_topic("passing", topic_id, 1, folder=f"passing{round_[0]}")

        crew.add("closed", replace)
        crew.add("visited", lambda: visit(served), every_s=0.02)
        crew.add("figures", served.plane.counters, every_s=0.005)
        crew.run()
        served.plane.stop()


def visit(served: Served) -> None:
    """A connection with a fetch session."""
    client = PlaneClient(served.port)
    first = client.call(fetch(12, session_epoch=0), 12)
    assert first.session_id
    client.call(fetch(12, session_id=first.session_id, session_epoch=1, max_wait_ms=5), 12)
    client.close()


# ---------------------------------------------------------------- logs without a data plane


def logs(directory: Path, crew: Crew) -> None:
    """Appends, truncations, rolls, reads and searches of logs, and stages from threads that are no reactors."""
    with ExitStack() as stack:
        health = stack.enter_context(staging(directory, crew))
        wal, fd = stack.enter_context(committing(directory / "wal"))
        stack.callback(wal.stop)
        wal.start()
        control = os.eventfd(0, os.EFD_CLOEXEC)
        stack.callback(os.close, control)
        wal.wake_by(CONTROL, control)
        all_logs = []
        for index in range(3):
            path = directory / f"t-{index}"
            path.mkdir()
            log = PartitionLog(str(path), CONFIG | {"segment_bytes": SEGMENT_BYTES}, health=health)
            stack.callback(log.close)
            if index > 0:
                join(log, wal, TOPIC_ID, index)
                stack.callback(join, log, None, TOPIC_ID, index)
            all_logs.append(log)
        supplier = supply(crew, wal, fd, all_logs)
        for log in all_logs:
            work_on(crew, log)
        left = PartitionLog(str(made(directory / "left-0")), CONFIG, health=health)
        stack.callback(left.close)
        crew.add("left", lambda: leave(left, wal), every_s=0.01)

        def commit_all() -> None:
            for log in all_logs[1:]:
                commit(wal, log)

        crew.add("durable", commit_all, every_s=0.005)
        crew.add("awaited", lambda: (wal.control_waits(), wal.stats(), wal.closed_frame), every_s=0.005)
        supplier.start()
        try:
            crew.run()
        finally:
            crew.done["ended"] = 1
            os.eventfd_write(fd, 1)
            supplier.join(HANG_S)


def commit(wal: WriteAheadLog, log: PartitionLog) -> None:
    end = log.log_end_offset
    if staged_frame(log) <= wal.durable_frame:
        durable_to(log, end)


def made(path: Path) -> Path:
    path.mkdir()
    return path


def work_on(crew: Crew, log: PartitionLog) -> None:
    def append() -> None:
        for size in (100, 2_000, 100, 20_000):
            log.append(log_batch([bytes(size)], timestamp=NOW_MS + log.log_end_offset), 0, NOW_MS)

    def read() -> None:
        start, end = log.log_start_offset, log.log_end_offset
        for offset in (start, (start + end) // 2, max(start, end - 3)):
            with suppress(LogError):
                log.read(offset, 60_000, "log_end")
        log.offset_for_timestamp(NOW_MS + end - 5)
        log.max_timestamp()

    for _ in range(2):
        crew.add("appended", append)
    crew.add("read", read)
    changing(crew, log)
    truncating(crew, log)


LOADS = {"commits": commits, "modes": modes, "closes": closes, "logs": logs}


def main(name: str, directory: str, seconds: str) -> None:
    crew = Crew(float(seconds))
    LOADS[name](Path(directory), crew)
    print(json.dumps(crew.done))


if __name__ == "__main__":
    main(*sys.argv[1:])
