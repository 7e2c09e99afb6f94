"""Runs the command of the simulation from tests."""

import os
import subprocess
import sys

FOR_EVER_S = 1800
SEEDS_OF_A_MODE = 128
TESTS_OF_A_MODE = 8


def simulated(*arguments):
    """Runs the command; its process has hashes of its own, those of each other run."""
    return subprocess.run(
        [sys.executable, "-m", "tests.simulation.nodes", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=FOR_EVER_S,
        check=False,
        env={name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"},
    )


def holds(first, part):
    """Tries a part of the seeds of one mode, which are every second one from `first` on."""
    count = SEEDS_OF_A_MODE // TESTS_OF_A_MODE
    seeds = ("--from", first + 2 * count * part, "--seeds", count, "--step", 2)
    ran = simulated(*seeds, "--jobs", 1, "--shrink", 0)
    assert ran.returncode == 0, ran.stdout + ran.stderr
