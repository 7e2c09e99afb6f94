"""The micro benches in a short form, for the report; asv keeps their history."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from bench.bars import BOWSTRING
from bench.catalogue import micro_benches
from bench.lab import Lab
from bench.results import CaseResult, Sample

REPEATS = 5


def micro(lab: Lab, name: str, title: str) -> CaseResult:
    """Median time of one call of every micro bench."""
    facts = {
        "measured": f"median of {REPEATS} repeats of {lab.size.micro_seconds:g} s each, microseconds a call",
        "where": "in this process, on one core",
    }
    case = CaseResult(name, title, facts)
    values = {}
    for bench in micro_benches():
        with bench.ready() as call:
            values[metric(bench.name)] = _microseconds(call, lab.size.micro_seconds)
    case.samples.append(Sample(BOWSTRING, 1, values))
    return case


def metric(micro_name: str) -> str:
    """Key of a micro bench's figure."""
    return f"{micro_name} us"


def _microseconds(call: Callable[[], object], seconds: float) -> float:
    call()  # lazy plans, page faults
    began = time.perf_counter()
    call()
    once = time.perf_counter() - began
    count = max(1, int(seconds / max(once, 1e-7)))
    repeats = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        for _ in range(count):
            call()
        repeats.append((time.perf_counter() - began) / count * 1e6)
    return statistics.median(repeats)
