"""asv suites: what bench.catalogue finds, over the commits of main (see ../asv.conf.json)."""

import sys
from pathlib import Path

# asv imports this package by itself, with only its parent directory on the path.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

# asv_runner would set a suite up anew for every single call, and calls of less than a microsecond cannot be
# timed one by one. The suites here are made to be called again and again.
if (_timing := sys.modules.get("asv_runner.benchmarks.time")) is not None:
    _timing.TimeBenchmark._setup_isolates_timed_calls = False
