"""Measures recovery after an unclean stop, with a small part written since the last checkpoint."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from bench.bars import BOWSTRING
from bench.lab import Lab, log
from bench.results import CaseResult, Sample
from bench.suites.batch import TIMESTAMP_MS, one_batch
from bowstring._native.log.checkpoint import flush_logs
from bowstring._native.log.partition_log import PartitionLog
from bowstring._native.log.scan import scan_file
from bowstring.engine.configs import BrokerConfigs

PARTITIONS = 20
RECORD_BYTES = 1024
RECORDS_PER_BATCH = 16
LEADER_EPOCH = 0
GB = 1e9


def recovery(lab: Lab, name: str, title: str) -> CaseResult:
    """Measures opening all logs one after another, with and without their files in the page cache."""
    size = lab.size
    facts = {
        "topics": f"{size.recovery_bytes / 2**30:g} GiB in {PARTITIONS} partitions",
        "since the checkpoint": f"{size.recovery_new_bytes / 2**20:g} MiB",
        "batches": f"{RECORDS_PER_BATCH} records of {RECORD_BYTES} B",
        "measured": "opening every log after a crash; the scan alone over what is in the page cache",
    }
    case = CaseResult(name, title, facts)
    directory = lab.work / name
    directory.mkdir()
    try:
        points = _fill(directory, size.recovery_bytes, size.recovery_new_bytes)
        values = {"recovery_seconds": _open_all(directory, points)}
        for path in directory.rglob("*"):
            _evict(path)
        values["cold_recovery_seconds"] = _open_all(directory, points)
        values["scan_gb_per_second"] = _scan(directory / "bench-0")
        case.samples.append(Sample(BOWSTRING, 1, values))
    finally:
        shutil.rmtree(directory)
    log(f"{name}: " + ", ".join(f"{key} {value:.3f}" for key, value in values.items()))
    return case


def _opened(directory: Path, index: int, *, point: int, clean: bool) -> PartitionLog:
    return PartitionLog(
        str(directory / f"bench-{index}"),
        BrokerConfigs().log_config({"message.timestamp.type": "LogAppendTime"}),
        recovery_point=point,
        clean_shutdown=clean,
    )


def _fill(directory: Path, size_bytes: int, new_bytes: int) -> list[int]:
    """Writes the topics, with a checkpoint before the last part; closes no log. Returns the recovery
    points.
    """
    batch = one_batch(RECORDS_PER_BATCH, RECORD_BYTES)
    logs = []
    for index in range(PARTITIONS):
        (directory / f"bench-{index}").mkdir()
        logs.append(_opened(directory, index, point=0, clean=True))
        logs[-1].assign_epoch(LEADER_EPOCH, 0)
    for total, flushed in ((size_bytes - new_bytes, True), (size_bytes, False)):
        for each in logs:
            while each.size_bytes < total // PARTITIONS:
                each.append(batch, LEADER_EPOCH, TIMESTAMP_MS + each.log_end_offset // RECORDS_PER_BATCH)
        if flushed:
            flush_logs(logs)
    return [int(each.recovery_point) for each in logs]


def _open_all(directory: Path, points: list[int]) -> float:
    started = time.perf_counter()
    logs = [_opened(directory, index, point=point, clean=False) for index, point in enumerate(points)]
    seconds = time.perf_counter() - started
    ends = {log.log_end_offset > point for log, point in zip(logs, points, strict=True)}
    assert ends == {True}, "recovery lost what was written since the checkpoint"
    return seconds


def _evict(path: Path) -> None:
    """Drops a file from the page cache after syncing it."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
        if path.is_file():
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def _scan(directory: Path) -> float:
    """Returns GB/s of CPU time over a log in the page cache; the better of three runs."""
    path = min(directory.glob("*.log"))
    scan_file(path)
    best = 0.0
    for _ in range(3):
        started = time.process_time()
        found = scan_file(path)
        best = max(best, found["valid_end"] / GB / (time.process_time() - started))
    return best
