"""`python -m tests.simulation.quorum`: tries seeds, and prints each that fails with minimal trouble."""

import sys

from tests.simulation.command import Simulation
from tests.simulation.quorum.faults import FAULTS
from tests.simulation.quorum.plan import draw
from tests.simulation.quorum.shrink import outcome
from tests.simulation.quorum.story import lines

SIMULATION = Simulation(
    "tests.simulation.quorum",
    draw,
    outcome,
    lines,
    lambda plan: f"{plan.voters} voters, {plan.observers} observers",
    FAULTS,
)

if __name__ == "__main__":
    sys.exit(SIMULATION.main())
