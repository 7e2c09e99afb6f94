"""Faults that the simulation of whole nodes (nodes/) finds, and that runs are deterministic.

`test_nodes_os` and `test_nodes_commit` try seeds.
"""

import re
from pathlib import Path

import pytest

from bowstring.engine.api.table import BY_BROKER, BY_CONTROLLER
from tests.simulation.nodes.__main__ import SIMULATION
from tests.simulation.nodes.faults import FAULTS
from tests.simulation.nodes.plan import draw
from tests.simulation.runs import finds, simulated

PAGE = Path(__file__).resolve().parents[2] / "docs" / "internals" / "simulation.md"
# The simulation hardly finds a fault that needs more.
SEEDS_FOR_A_FAULT = 100
# Seeds per attempt, and at most in all: together they use every API.
SEEDS_AT_A_TIME, SEEDS_THAT_ASK = 20, 120
NOT_ASKED = {
    "controller:59": "FetchSnapshot: a life is too short for a log that no longer has its beginning",
}


def test_seeds_are_of_both_modes():
    assert [draw(seed).commit_mode for seed in range(1, 5)] == [False, True, False, True]


@pytest.mark.parametrize("fault", FAULTS, ids=[each.name for each in FAULTS])
def test_a_fault_is_found(fault):
    finds(SIMULATION, fault, SEEDS_FOR_A_FAULT)


def test_the_table_has_each_fault():
    """The page's row of a fault: the rule that finds it, and the number of seeds it took."""
    text = PAGE.read_text().partition("## The shells under the seed")[2]
    told = re.findall(r"^\| ([^|`]+) \| (\w+) \| (\d+) \|$", text, re.MULTILINE)
    assert [what for what, _, _ in told] == [each.what for each in FAULTS]
    for fault, (_, rule, seeds) in zip(FAULTS, told, strict=True):
        assert rule in fault.rules and int(seeds) <= SEEDS_FOR_A_FAULT, fault.what


def test_every_api_is_asked_for():
    """A client or another node uses every API of a broker or a controller in the simulation."""
    brokers = {f"broker:{key}" for key in BY_BROKER.offered}
    left = brokers | {f"controller:{key}" for key in BY_CONTROLLER.offered}
    for first in range(1, SEEDS_THAT_ASK, SEEDS_AT_A_TIME):
        ran = simulated(SIMULATION, "--asked", *range(first, first + SEEDS_AT_A_TIME))
        assert ran.returncode == 0, ran.stderr
        left -= set(ran.stdout.split())
        if left <= set(NOT_ASKED):
            break
    assert sorted(left) == sorted(NOT_ASKED), "not asked for, or not an exception"


def test_a_seed_is_the_same_run_in_each_process():
    seeds = (3, 4, 7, 12)
    one, other = (
        simulated(SIMULATION, "--hashes", *seeds),
        simulated(SIMULATION, "--hashes", *reversed(seeds)),
    )
    assert one.returncode == 0, one.stderr
    assert one.stdout.split() == other.stdout.split()[::-1] and len(set(one.stdout.split())) == len(seeds)


def test_a_failing_seed_tells_its_last_steps():
    seeds = ("--from", 1, "--seeds", 20, "--jobs", 1, "--shrink", 0, "--last", 7)
    ran = simulated(SIMULATION, "--fault", "roles_are_not_passed_on", "--until-found", *seeds)
    assert ran.returncode == 1, ran.stderr
    steps = [line for line in ran.stdout.splitlines() if re.match(r"^ *\d+\.\d{3}  \S+ ", line)]
    assert len(steps) == 7, ran.stdout
