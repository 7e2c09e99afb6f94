"""I/O errors: the log refuses appends, keeps intact data, serves reads, and recovers at the next start.

A limit on file sizes stands in for a full disk: the write that passes it is short, the next one fails.
"""

import resource
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from bowstring._native.log.partition_log import LogError, open_files_max
from tests.support.log_batches import (
    NOW_MS,
    batch,
    crash,
    fill,
    names,
    offsets,
    open_files,
    open_log,
    segment_name,
)


@contextmanager
def file_size_limit(size):
    """No file of this process grows beyond `size` bytes."""
    old_limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    old_handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, old_limit[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old_limit)
        signal.signal(signal.SIGXFSZ, old_handler)


@pytest.mark.parametrize("spare", [0, 1, 60, 700])
def test_a_short_write_is_taken_back(tmp_path, spare):
    log = open_log(tmp_path)
    fill(log, 5)
    size = log.size_bytes
    with file_size_limit(size + spare), pytest.raises(LogError, match="File too large") as raised:
        fill(log, 1)
    assert raised.value.code == 56 and log.failed
    assert (log.log_end_offset, log.size_bytes) == (50, size)
    assert (tmp_path / segment_name(0, ".log")).stat().st_size == size
    assert offsets(log.read(0, 1 << 20, "log_end")) == [(i, i + 9) for i in range(0, 50, 10)]
    with pytest.raises(LogError) as raised:
        log.append(batch(), 0, NOW_MS)
    assert raised.value.code == 56
    assert "appending to the log" in log.stats()["failure"]


def test_a_failed_log_is_not_closed_as_if_nothing_had_happened(tmp_path):
    log = open_log(tmp_path)
    log.append(batch(producer_id=1, epoch=0, sequence=0), 0, NOW_MS)
    with file_size_limit(log.size_bytes), pytest.raises(LogError):
        log.append(batch(producer_id=1, epoch=0, sequence=1), 0, NOW_MS)
    log.close()
    assert not [name for name in names(tmp_path) if name.endswith(".snapshot")]
    log = open_log(tmp_path, clean=False)
    assert log.append(batch(producer_id=1, epoch=0, sequence=1), 0, NOW_MS) == 1


def test_a_roll_that_fails(tmp_path):
    log = open_log(tmp_path, segment_bytes=5000)
    fill(log, 4)
    (tmp_path / segment_name(40, ".index")).mkdir()
    with pytest.raises(LogError, match="rolling a segment"):
        fill(log, 1)
    assert log.log_end_offset == 40 and len(log.segments()) == 1
    assert offsets(log.read(30, 1 << 20, "log_end")) == [(30, 39)]


def test_few_files_stay_open(tmp_path):
    open_files_max(3)
    try:
        log = open_log(tmp_path, segment_bytes=1200)
        fill(log, 30)
        assert len(log.segments()) == 30
        for base in [*range(0, 300, 10), *range(0, 300, 70), *range(290, -1, -10)]:
            assert offsets(log.read(base, 1, "log_end")) == [(base, base + 9)]
            assert open_files(tmp_path) <= 4
    finally:
        open_files_max(1024)
    log.close()
    assert open_files(tmp_path) == 0


@pytest.mark.parametrize("clean", [True, False])
def test_opening_a_log_leaves_no_file_open(tmp_path, clean):
    log = open_log(tmp_path, segment_bytes=5000)
    fill(log, 17)
    log.append(batch(producer_id=1, epoch=0, sequence=0), 0, NOW_MS)
    log.close()
    log = open_log(tmp_path, segment_bytes=5000, clean=clean)
    assert open_files(tmp_path) == 0
    fill(log, 1)
    assert open_files(tmp_path) == 1


def test_idle_logs_hold_no_file_open(tmp_path):
    log = open_log(tmp_path)
    assert open_files(tmp_path) == 0
    fill(log, 1)
    assert open_files(tmp_path) == 1
    crash(log)
    assert open_files(tmp_path) == 1  # `log` still names it
    del log
    assert open_files(tmp_path) == 0


CRASHING = """
import os, sys
from pathlib import Path
from tests.support.log_batches import fill, open_log
log = open_log(Path(sys.argv[1]), segment_bytes=5000)
while True:
    fill(log, 1)
    print(log.log_end_offset, flush=True)
"""


def test_kill_dash_nine(tmp_path):
    """Everything that the process had written when it died is there, complete."""
    for _ in range(5):
        process = subprocess.Popen([sys.executable, "-c", CRASHING, str(tmp_path)], stdout=subprocess.PIPE)
        lines = [process.stdout.readline() for _ in range(50)]
        process.kill()
        acknowledged = int((process.stdout.read().split() or lines)[-1])
        process.wait()
        log = open_log(tmp_path, segment_bytes=5000, clean=False)
        assert log.log_end_offset >= acknowledged
        position = 0
        while position < log.log_end_offset:
            position = offsets(log.read(position, 1 << 20, "log_end"))[-1][1] + 1
        log.close()


def test_mark_deleted(tmp_path):
    (tmp_path / "t-0").mkdir()
    log = open_log(tmp_path / "t-0", segment_bytes=5000)
    fill(log, 10)
    (tmp_path / "t-0").rename(tmp_path / "t-0.abc-delete")
    log.mark_deleted(tmp_path / "t-0.abc-delete")
    assert offsets(log.read(0, 1, "log_end")) == [(0, 9)]
    with pytest.raises(LogError):
        log.append(batch(), 0, NOW_MS)
    before = names(tmp_path / "t-0.abc-delete")
    log.close()
    assert names(tmp_path / "t-0.abc-delete") == before


def test_flush_by_count_and_recovery_point(tmp_path):
    log = open_log(tmp_path, flush_messages=25, segment_bytes=5000)
    fill(log, 2)
    assert log.recovery_point == 0
    fill(log, 1)
    assert log.recovery_point == 30
    fill(log, 20)
    assert log.recovery_point >= log.log_end_offset - 25
    assert log.flush() == log.log_end_offset == log.recovery_point
    fill(log, 1)
    assert log.flush(include_active=False) == 230
