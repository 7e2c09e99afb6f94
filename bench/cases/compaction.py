"""Measures log compaction: the cleaners of both brokers over the same segment files.

Kafka's runs from bench/peers/java/CleanerTool.java, in a JVM with the options that Kafka ships; ours is
called as the broker calls it. Both have one thread and a table of 128 MiB.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import time
from pathlib import Path

from bench.bars import BOWSTRING
from bench.lab import Lab
from bench.peers.install import JVM_PERFORMANCE_OPTIONS, PeerError, java_program
from bench.peers.kafka import HEAP_AS_SHIPPED
from bench.results import CaseResult
from bowstring._native.cleaner.cleaner import Cleaning
from bowstring._native.log.partition_log import PartitionLog
from bowstring._native.record.encode import BatchBuilder
from bowstring.engine.configs import BrokerConfigs

RECORD_BYTES = 100
KEY_BYTES = 8
BATCH_BYTES = 16 << 10
SEGMENT_BYTES = 256 << 20
TABLE_BYTES = 128 << 20
DAY_MS = 86_400_000


def compaction(lab: Lab, name: str, title: str) -> CaseResult:
    """Measures one run over a log that was never cleaned, all of it in the page cache."""
    records, keys = lab.size.compact_records, lab.size.compact_keys
    facts = {
        "records": f"{records:,} of {RECORD_BYTES} B with {keys:,} keys of {KEY_BYTES} B, drawn at random",
        "batches": f"{BATCH_BYTES >> 10} KiB, not compressed, in segments of {SEGMENT_BYTES >> 20} MiB",
        "measured": "one run over the same files, what it writes synced; one thread, a table of 128 MiB",
    }
    source = lab.work / name / "bench-0"
    source.mkdir(parents=True)
    work = lab.work / name / "copy" / "bench-0"

    def measure(peer: str) -> dict[str, float]:
        shutil.copytree(source, work)
        try:
            seconds, cpu_seconds = _ours(work) if peer == BOWSTRING else _kafkas(work)
            left_bytes = sum(path.stat().st_size for path in work.glob("*.log"))
        finally:
            shutil.rmtree(work)
        return {
            "records_per_second": records / seconds,
            "seconds": seconds,
            "cpu_seconds": cpu_seconds,
            "left_mib": left_bytes / 2**20,
        }

    try:
        _fill(source, records, keys)
        return lab.alternate(CaseResult(name, title, facts), measure)
    finally:
        shutil.rmtree(source.parent)


def _opened(directory: Path) -> PartitionLog:
    settings = {"cleanup.policy": "compact", "segment.bytes": str(SEGMENT_BYTES), "file.delete.delay.ms": "0"}
    return PartitionLog(str(directory), BrokerConfigs().log_config(settings), clean_shutdown=True)


def _fill(directory: Path, records: int, keys: int) -> None:
    log = _opened(directory)
    builder, rng, now = BatchBuilder(BATCH_BYTES), random.Random(0), time.time_ns() // 1_000_000
    value = rng.randbytes(RECORD_BYTES - KEY_BYTES)
    for _ in range(records):
        key = b"%08d" % rng.randrange(keys)
        if not builder.append(key, value, now):
            log.append(builder.build(), 0, now)
            builder.clear()
            builder.append(key, value, now)
    log.append(builder.build(), 0, now)
    log.roll()  # makes all records cleanable
    log.close()


def _ours(directory: Path) -> tuple[float, float]:
    log = _opened(directory)
    log.advance_high_watermark(log.log_end_offset)
    run = Cleaning(
        log,
        first_dirty_offset=0,
        first_uncleanable_offset=log.log_end_offset,
        now_ms=time.time_ns() // 1_000_000,
        delete_retention_ms=DAY_MS,
        dedupe_bytes=TABLE_BYTES,
    )
    started, cpu = time.perf_counter(), time.thread_time()
    run.run()
    figures = time.perf_counter() - started, time.thread_time() - cpu
    log.delete_expired_files(time.time_ns() // 1_000_000 + 1)
    log.close()
    return figures


def _kafkas(directory: Path) -> tuple[float, float]:
    now = time.time_ns() // 1_000_000
    command = [
        "java", *HEAP_AS_SHIPPED, *JVM_PERFORMANCE_OPTIONS, "-cp", java_program("CleanerTool"), "CleanerTool",
        str(directory), "0", str(now), str(DAY_MS), str(SEGMENT_BYTES), str(TABLE_BYTES),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PeerError(f"Kafka's cleaner failed:\n{done.stdout}{done.stderr}")
    _, seconds, cpu_seconds = done.stdout.split()
    return float(seconds), float(cpu_seconds)
