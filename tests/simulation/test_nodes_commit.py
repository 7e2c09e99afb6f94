"""Whole nodes as they ship on a seeded loop (nodes/), in commit mode: acknowledged records are on media.

`make simulate` tries thousands of seeds; `python -m tests.simulation.nodes --from SEED --seeds 1` runs one.
"""

import pytest

from tests.simulation.nodes.__main__ import SIMULATION
from tests.simulation.runs import TESTS_OF_A_MODE, of_one_mode


@pytest.mark.parametrize("part", range(TESTS_OF_A_MODE))
def test_the_rules_hold(part):
    of_one_mode(SIMULATION, 2, part)
