"""Runs the micro benches in a short form for the report; asv keeps their history."""

from __future__ import annotations

import statistics
import timeit
from collections.abc import Callable

from bench.bars import BOWSTRING
from bench.catalogue import micro_benches
from bench.lab import Lab, log
from bench.results import CaseResult, Failure, Sample

REPEATS = 5


def micro(lab: Lab, name: str, title: str) -> CaseResult:
    """Measures the median time of one call of every micro bench."""
    facts = {
        "measured": f"median of {REPEATS} repeats of {lab.size.micro_seconds:g} s each, microseconds a call",
        "where": "in this process, on one core",
    }
    case = CaseResult(name, title, facts)
    values = {}
    for bench in micro_benches():
        try:
            with bench.ready() as call:
                values[metric(bench.name)] = _microseconds(call, lab.size.micro_seconds)
        except Exception as error:  # one broken suite must not end a run of an hour; it is reported
            case.failures.append(Failure(BOWSTRING, 1, f"{bench.name}: {type(error).__name__}: {error}"))
    case.samples.append(Sample(BOWSTRING, 1, values))
    log(f"{name}: {len(values)} micro benches measured, {len(case.failures)} failed")
    return case


def metric(micro_name: str) -> str:
    """Returns the key of a micro bench's figure."""
    return f"{micro_name} us"


def _microseconds(call: Callable[[], object], seconds: float) -> float:
    # timeit switches the garbage collector off, as asv's timings do.
    timer = timeit.Timer(call)
    timer.timeit(1)  # warms up lazy plans and page faults
    once = timer.timeit(1)
    count = max(1, int(seconds / max(once, 1e-7)))
    return statistics.median(timer.repeat(REPEATS, count)) / count * 1e6
