"""Random workloads with power lost at random moments with random outcomes; half with a failing operation.

BOWSTRING_SEED runs one seed at every moment. BOWSTRING_SIMULATION_SECONDS searches for that long, from a new
seed; without it, the same few seeds run, so that only a change can cause a failure.
"""

import os
import random
import time

import pytest

from tests.simulation.disk.crashes import Crashes, scratch
from tests.simulation.disk.disk import Disk, Fault
from tests.simulation.disk.medium import SYSTEMATIC, random_outcome
from tests.simulation.disk.workload import Workload, random_steps
from tests.support.failing_operations import ONCE, strikes

SECONDS = float(os.environ.get("BOWSTRING_SIMULATION_SECONDS", "0"))
FEW = 20
STEPS = 60
# Each has found something once.
SEEDS = [1, 2, 3, 104, 66066234]


def simulate(seed: int, *, every_moment: bool) -> None:
    """One workload, and what power loss leaves of it."""
    chance = random.Random(seed)
    number, fault = chance.randrange(1, 600), chance.choice(ONCE)

    def plan(at: int, operation: str) -> Fault | None:
        # A stat that fails at start makes an index anew; power loss in the middle of that leaves a part of it.
        strikes_it = at == number and operation != "stat_path" and strikes(fault, operation, first=True)
        return fault if strikes_it else None

    with scratch() as root:
        failing = seed % 2 == 0
        disk = Disk(root, plan if failing else None)
        workload = Workload(disk, seed, failing=failing)
        with disk.watched():
            workload.run(random_steps(seed, STEPS))
        outcomes = [*SYSTEMATIC, *(random_outcome(seed * 10 + i, journal=i % 2 == 0) for i in range(4))]
        try:
            Crashes(workload.ever).at_every_moment(
                disk,
                outcomes if every_moment else chance.sample(outcomes, 3),
                share=1.0 if every_moment else 0.2,
            )
        except AssertionError as problem:
            raise AssertionError(f"BOWSTRING_SEED={seed}: {problem}") from problem


@pytest.mark.parametrize("seed", SEEDS)
def test_seeds_that_found_something(seed):
    simulate(seed, every_moment=False)


def test_random_workloads():
    if "BOWSTRING_SEED" in os.environ:
        simulate(int(os.environ["BOWSTRING_SEED"]), every_moment=True)
        return
    ends = time.monotonic() + SECONDS
    first = seed = time.time_ns() // 1_000_000 % 100_000_000 if SECONDS else 100
    print(f"seeds from {first}")
    while time.monotonic() < ends or seed < first + FEW:
        simulate(seed, every_moment=False)
        seed += 1
    print(f"to {seed - 1}")
