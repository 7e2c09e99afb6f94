"""Real raft cores under bad networks, disks and clocks (quorum/), and that the rules find known faults.

`make simulate` tries thousands of seeds; a seed that fails there is run here by BOWSTRING_SEED.
"""

import os

import pytest

from tests.simulation.quorum.__main__ import SIMULATION
from tests.simulation.quorum.faults import FAULTS
from tests.simulation.quorum.plan import draw
from tests.simulation.quorum.shrink import outcome, shrink
from tests.simulation.quorum.story import lines

SEEDS = 160
TESTS = 16
# A fault that needs more is one that the simulation hardly finds.
SEEDS_FOR_A_FAULT = 400


def holds(plan):
    world, violation = outcome(plan)
    assert violation is None, f"{violation}\n" + "\n".join(lines(world))


@pytest.mark.parametrize("part", range(TESTS))
def test_the_rules_hold(part):
    chosen = os.environ.get("BOWSTRING_SEED")
    for seed in [int(chosen)] if chosen else range(1 + part, 1 + SEEDS, TESTS):
        holds(draw(seed))


@pytest.mark.parametrize("fault", FAULTS, ids=[each.name for each in FAULTS])
def test_a_fault_is_found(fault):
    found = SIMULATION.found_by(fault, range(fault.first, fault.first + SEEDS_FOR_A_FAULT))
    assert found is not None, f"{fault.what}: nothing notices"
    assert found[2] in fault.rules, f"seed {found[0]}: {found[2]} notices first"


def test_a_run_is_the_same_again():
    one, other = outcome(draw(7))[0], outcome(draw(7))[0]
    assert (one.steps, lines(one, len(one.story))) == (other.steps, lines(other, len(other.story)))


def test_a_failing_run_shrinks():
    fault = next(each for each in FAULTS if each.name == "fetch_before_the_sync")
    with fault.on():
        plan = draw(1, **fault.plan)
        _, violation = outcome(plan)
        small = shrink(plan, violation.rule)
        _, again = outcome(small)
    assert len(small.actions) < len(plan.actions) // 4
    assert again is not None and again.rule == violation.rule
