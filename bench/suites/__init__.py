"""Contains the asv suites, which bench.catalogue finds, for the commits of main (see ../asv.conf.json)."""

import sys
from pathlib import Path

# asv imports this package with only its parent directory on the path.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

# asv_runner would set a suite up again for every call, and calls of less than a microsecond cannot be timed
# one by one. These suites support repeated calls.
if (_timing := sys.modules.get("asv_runner.benchmarks.time")) is not None:
    _timing.TimeBenchmark._setup_isolates_timed_calls = False
