"""Runs the micro benches under pytest-benchmark: `python -m pytest bench/test_micro.py`."""

from typing import Any

import pytest

from bench.catalogue import MicroBench, micro_benches


@pytest.mark.parametrize("micro", micro_benches(), ids=lambda micro: micro.name)
def test_micro(benchmark: Any, micro: MicroBench) -> None:
    """Times one call of one suite."""
    benchmark.group = f"{micro.suite.__module__.rpartition('.')[2]}.{micro.suite.__name__}"
    with micro.ready() as call:
        benchmark(call)
