"""Whole nodes as they ship on a seeded loop (nodes/), in os mode: the page cache suffices to acknowledge.

`make simulate` tries thousands of seeds; `python -m tests.simulation.nodes --from SEED --seeds 1` runs one.
"""

import pytest

from tests.simulation.nodes.runs import TESTS_OF_A_MODE, holds


@pytest.mark.parametrize("part", range(TESTS_OF_A_MODE))
def test_the_rules_hold(part):
    holds(1, part)
