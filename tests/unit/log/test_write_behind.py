"""Appended data is written back in steps, and then leaves the page cache: of followers' logs, or of all."""

import errno
import os
import time

import pytest

from bowstring._native.disk.directory_health import DirectoryHealth
from bowstring._native.log.future_replica import FutureReplica
from bowstring._native.log.partition_log import PartitionLog
from tests.support.faults import all_replaced
from tests.support.log_batches import CONFIG, NOW_MS, batch
from tests.support.waiting import HANG_S, pause, wait_until

STEP_BYTES = 8 << 20
KEPT_BYTES = 2 * STEP_BYTES
MIB = batch((bytes((1 << 20) - 200),))


class Calls:
    """The calls that concern the page cache, each as (position, size)."""

    def __init__(self, error: int = 0) -> None:
        self.begun: list[tuple[int, int]] = []
        self.dropped: list[tuple[int, int]] = []
        self.error = error

    @property
    def starts(self) -> int:
        """Steps that began at the start of a file."""
        return [at for at, _ in self.begun].count(0)

    def write_back(self, original):
        def call(fd, position, size):
            self.begun.append((position, size))
            return -self.error or original(fd, position, size)

        return call

    def advise(self, original):
        def call(fd, position, size, advice):
            assert advice == os.POSIX_FADV_DONTNEED
            self.dropped.append((position, size))
            return -self.error or original(fd, position, size, advice)

        return call

    def watched(self):
        return all_replaced({"write_back": self.write_back, "advise": self.advise})


class Home:
    """A log directory."""

    def __init__(self, path, **which):
        self.path = path
        self.health = DirectoryHealth(str(path))
        if which:
            self.health.write_behind(**which)

    def open(self, name: str) -> PartitionLog:
        (self.path / name).mkdir()
        return PartitionLog(str(self.path / name), CONFIG, clean_shutdown=True, health=self.health)


def fill(log: PartitionLog, mib: int) -> None:
    for _ in range(mib):
        log.append(MIB, 0, NOW_MS)


def fill_until_a_step_begins(log: PartitionLog, calls: Calls) -> int:
    """Appends until a step has begun at a file's start once more; returns how many records that took."""
    before, records = calls.starts, 0

    def has_begun() -> bool:
        return calls.starts > before

    deadline = time.monotonic() + HANG_S
    while not has_begun():
        assert time.monotonic() < deadline, "no step begins"
        fill(log, 20)
        records += 20
        until = time.monotonic() + 5
        while not has_begun() and time.monotonic() < until:
            pause(0.002, "the thread that writes behind gets its turn")
    return records


def ends(home: Home, *logs: PartitionLog) -> None:
    for log in logs:
        log.close()
    home.health.end_writing_behind()


def test_steps_follow_one_another_and_keep_the_newest_pages(tmp_path):
    home, calls = Home(tmp_path, all_logs=True), Calls()
    with calls.watched():
        log = home.open("t-0")
        fill(log, 60)
        wait_until(lambda: calls.begun)
        ends(home, log)
    assert calls.begun[0][0] == 0
    position = 0
    for at, size in calls.begun:  # a step may be longer: the thread was late
        assert at == position and size >= STEP_BYTES and size % STEP_BYTES == 0
        position += size
    assert position <= 60 << 20
    for at, size in calls.dropped:
        assert at + size <= position - KEPT_BYTES
    assert PartitionLog(str(tmp_path / "t-0"), CONFIG, clean_shutdown=True).log_end_offset == 60


@pytest.mark.parametrize("followed", [False, True], ids=["led", "followed"])
def test_what_this_broker_leads_is_left_to_the_kernel(tmp_path, followed):
    home, calls = Home(tmp_path, all_logs=False), Calls()
    with calls.watched():
        led, copy = home.open("t-0"), home.open("t-1")
        fill(led, 20)
        if followed:
            copier = FutureReplica(led, copy)
            while copier.copy(1 << 20):
                pass
            assert copy.log_end_offset == 20
            wait_until(lambda: calls.begun)
        ends(home, led, copy)
    assert bool(calls.begun) == followed


def test_nothing_is_written_back_where_the_kernel_is_to_decide(tmp_path):
    home, calls = Home(tmp_path), Calls()
    with calls.watched():
        log = home.open("t-0")
        fill(log, 20)
        ends(home, log)
    assert not calls.begun and not calls.dropped


def test_its_errors_change_nothing(tmp_path):
    home, calls = Home(tmp_path, all_logs=True), Calls(errno.EIO)
    with calls.watched():
        log = home.open("t-0")
        fill(log, 40)
        log.flush()
        wait_until(lambda: calls.begun)
        assert log.log_end_offset == 40 and not log.failed and not home.health.failed
        ends(home, log)


def test_steps_begin_again_behind_a_truncation_and_in_a_new_segment(tmp_path):
    home, calls = Home(tmp_path, all_logs=True), Calls()
    with calls.watched():
        log = home.open("t-0")
        fill_until_a_step_begins(log, calls)
        log.truncate_to(3)
        records = 3 + fill_until_a_step_begins(log, calls)
        log.roll()
        records += fill_until_a_step_begins(log, calls)
        ends(home, log)
    assert PartitionLog(str(tmp_path / "t-0"), CONFIG, clean_shutdown=True).log_end_offset == records


def test_an_end_waits_for_nothing_that_never_began(tmp_path):
    home = Home(tmp_path, all_logs=True)
    home.health.end_writing_behind()
    log = home.open("t-0")
    fill(log, 20)
    log.close()
    home.health.end_writing_behind()
