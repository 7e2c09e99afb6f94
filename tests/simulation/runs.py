"""Runs the command of a simulation from tests: only its process has the hash seed of every run."""

import os
import re
import subprocess
import sys

from tests.simulation.command import Simulation

FOR_EVER_S = 1800
SEEDS_OF_A_MODE = 64
TESTS_OF_A_MODE = 8
_FIRST_VIOLATION = re.compile(r"^seed (\d+): (\w+): ", re.MULTILINE)


def simulated(simulation: Simulation, *arguments: object) -> "subprocess.CompletedProcess[str]":
    """Runs the command; its process has hashes of its own, those of each other run."""
    return subprocess.run(
        [sys.executable, "-m", simulation.name, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=FOR_EVER_S,
        check=False,
        env={name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"},
    )


def holds(simulation: Simulation, first: int, count: int, step: int) -> None:
    """Tries seeds, which are `step` apart."""
    seeds = ("--from", first, "--seeds", count, "--step", step)
    ran = simulated(simulation, *seeds, "--jobs", 1, "--shrink", 0)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def of_one_mode(simulation: Simulation, first: int, part: int) -> None:
    """Tries a part of the seeds of one mode, which are every second one from `first` on."""
    count = SEEDS_OF_A_MODE // TESTS_OF_A_MODE
    holds(simulation, first + 2 * count * part, count, 2)


def finds(simulation: Simulation, fault, seeds: int) -> None:
    """Puts a fault back, and tries seeds until one of the fault's rules notices it."""
    tried = ("--from", fault.first, "--seeds", seeds, "--jobs", 1, "--shrink", 0)
    ran = simulated(simulation, "--fault", fault.name, "--until-found", *tried)
    found = _FIRST_VIOLATION.search(ran.stdout)
    assert found is not None, f"{fault.what}: nothing notices\n{ran.stdout}{ran.stderr}"
    assert found[2] in fault.rules, ran.stdout
