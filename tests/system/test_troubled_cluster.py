"""Random lives of a cluster of processes: faults, operations and load by a seed, and nothing lost in the end.

BOWSTRING_SOAK_SECONDS sets for how long (`make soak`), BOWSTRING_SEED the first life.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.waiting import FOR_EVER_S, HANG_S

SECONDS = float(os.environ.get("BOWSTRING_SOAK_SECONDS", "0"))
SEED = int(os.environ.get("BOWSTRING_SEED", "1"))
LIFE_S = 90.0 if SECONDS else 8.0


@pytest.mark.timeout(SECONDS + FOR_EVER_S + HANG_S)
def test_clusters_survive_trouble(tmp_path):
    """A process of its own leads each life: its clients may hang when something is wrong."""
    seed, ends_s = SEED, time.monotonic() + SECONDS
    while seed == SEED or time.monotonic() < ends_s:
        directory = tmp_path / str(seed)
        ran = subprocess.run(
            [
                sys.executable,
                "-m",
                "tests.system.troubled",
                f"--seed={seed}",
                f"--seconds={LIFE_S}",
                directory,
            ],
            cwd=Path(__file__).resolve().parents[2],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=FOR_EVER_S,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout
        shutil.rmtree(directory)
        seed += 1
