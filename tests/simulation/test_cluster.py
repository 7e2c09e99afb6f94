"""Whole clusters under bad networks, media and clocks (cluster/), and that the rules find known faults.

`make simulate` tries thousands of seeds; `python -m tests.simulation.cluster --from SEED --seeds 1` runs one.
"""

import re
from pathlib import Path

import pytest

from tests.simulation.cluster.__main__ import SIMULATION
from tests.simulation.cluster.plan import draw
from tests.simulation.cluster.story import lines
from tests.simulation.cluster.world import outcome
from tests.simulation.quorum.shrink import shrink
from tests.simulation.runs import finds, holds

PAGE = Path(__file__).resolve().parents[2] / "docs" / "internals" / "simulation.md"
SEEDS = 128
# Each found a bug once: a broker that dies before its logs are open, a reader beyond the remaining records, a
# leader that missed active brokers, a follower that joined after the high watermark had passed it, a last
# known leader with a new disk, a follower that the controller had removed.
KNOWN = (480, 899, 1327, 2028, 3145, 5694, 9102)
# A coordinator that took over sent markers for uncommitted decisions.
KNOWN_OF_TRANSACTIONS = (278, 342)
# The acknowledgement of a record that was already done was answered before that was stored.
KNOWN_OF_SHARE_GROUPS = (392,)
TESTS = 16
# The simulation hardly finds a fault that needs more.
SEEDS_FOR_A_FAULT = 150


def is_clean(plan):
    world, violation = outcome(plan)
    assert violation is None, f"{violation}\n" + "\n".join(lines(world))


@pytest.mark.parametrize("part", range(TESTS))
def test_the_rules_hold(part):
    holds(SIMULATION, 1 + part, SEEDS // TESTS, TESTS)


@pytest.mark.parametrize("seed", KNOWN)
def test_what_a_seed_found(seed):
    is_clean(draw(seed, transactions=False, groups=False, shares=False))


@pytest.mark.parametrize("seed", KNOWN_OF_TRANSACTIONS)
def test_what_a_seed_found_of_transactions(seed):
    is_clean(draw(seed, transactions=True, groups=False, shares=False))


@pytest.mark.parametrize("seed", KNOWN_OF_SHARE_GROUPS)
def test_what_a_seed_found_of_share_groups(seed):
    is_clean(draw(seed, transactions=False, groups=False, shares=True))


@pytest.mark.parametrize("fault", SIMULATION.faults, ids=[each.name for each in SIMULATION.faults])
def test_a_fault_is_found(fault):
    finds(SIMULATION, fault, SEEDS_FOR_A_FAULT)


def test_the_table_has_each_fault():
    """The page's row of a fault: the rule that finds it, and the seed at which its test begins."""
    text = PAGE.read_text().partition("## The shells under the seed")[0]
    told = re.findall(r"^\| ([^|`]+) \| (\w+) \| (\d+) \|$", text, re.MULTILINE)
    assert [what for what, _, _ in told] == [each.what for each in SIMULATION.faults]
    for fault, (_, rule, seed) in zip(SIMULATION.faults, told, strict=True):
        assert rule in fault.rules and int(seed) >= fault.first, fault.what


@pytest.mark.parametrize("part", [None, "transactions", "groups", "shares"])
def test_a_run_is_the_same_again(part):
    parts = {each: each == part for each in ("transactions", "groups", "shares")}
    one, other = (outcome(draw(7, **parts))[0] for _ in range(2))
    assert (one.steps, lines(one, len(one.story))) == (other.steps, lines(other, len(other.story)))


def test_a_failing_run_shrinks():
    fault = SIMULATION.fault("leader_counts_itself_alone")
    with fault.on():
        plan = draw(1, **fault.plan)
        _, violation = outcome(plan)
        small = shrink(plan, violation.rule, outcome=outcome)
        _, again = outcome(small)
    assert len(small.actions) < len(plan.actions) // 2 or not small.actions
    assert again is not None and again.rule == violation.rule
