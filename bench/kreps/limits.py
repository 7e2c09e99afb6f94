"""Chooses the bare loop that runs beside a test (bench/limits)."""

from __future__ import annotations

from collections.abc import Sequence

from bench.kreps.catalogue import RECORD_BYTES, Test
from bench.limits import catalogue
from bench.limits.catalogue import Limit
from bench.limits.loops import LoopResult

MIB = 1 << 20
MIB_LEAST = 8
MIB_MOST = 2048
# Kinds whose load is a producer's; those of a sweep have one loop for all points.
PRODUCING = ("produce", "sizes", "partitions", "connections", "active")
# Of the loop beside each point of stored data: the broker's partitions, and pieces of a request.
STORED = {"piece_kib": catalogue.PIECE_KIB}


def limit_of(test: Test) -> Limit | None:
    """Returns the loop of a test; None where none does the like: latency, reading from the disk, replicas in
    commit mode or with readers.

    In the test of stored data a loop runs beside each point (`point_figures`).
    """
    if test.replication > 1:
        is_plain = test.kind in PRODUCING and not test.topic_configs
        return catalogue.replicate(_figures, test.replication)[0] if is_plain else None
    if test.kind in PRODUCING:
        return (catalogue.commit if test.topic_configs else catalogue.produce_in_pieces)(_figures)[0]
    if test.kind == "consume":
        return catalogue.fetch(_figures)[0]
    if test.kind == "both":
        # Every consumer reads all that is written.
        return catalogue.produce_and_fetch(_figures, test.consumers)[0]
    return None


def mib_of(test: Test, records: int) -> int:
    """Returns how much a loop moves beside a test with that many records."""
    return int(min(MIB_MOST, max(MIB_LEAST, records * test.share * RECORD_BYTES / MIB)))


def point_figures(result: LoopResult) -> dict[str, float]:
    """Returns what a point of the test of stored data has of the loop beside it."""
    return {
        "loop_records_per_second": result.gb_per_s * 1e9 / RECORD_BYTES,
        "loop_cpu_seconds_per_gb": result.cpu_s_per_gb,
    }


def _figures(results: Sequence[LoopResult]) -> dict[str, float]:
    found = catalogue.throughput(RECORD_BYTES, "")(results)
    found["broker_cpu_seconds_per_gb"] = found.pop("cpu_seconds_per_gb")
    return found
