"""`python -m tests.simulation.nodes`: tries seeds of whole nodes, and prints each that fails."""

import sys
from functools import partial

from tests.simulation.command import Simulation
from tests.simulation.nodes.faults import FAULTS
from tests.simulation.nodes.plan import draw
from tests.simulation.nodes.world import outcome


def lines(world, last=80):
    """The last steps of a run."""
    return [f"{at / 1e6:10.3f}  {who} {text[:300]}" for at, who, text in list(world.story)[-last:]]


def about(plan):
    """Describes a run."""
    medium = "commit mode" if plan.commit_mode else "os mode"
    return (
        f"{plan.nodes} nodes, {medium}, {plan.clients} clients, {plan.names} topics, mostly {plan.mostly}, "
        f"messages take {plan.delay_ms} ms, threads {plan.thread_ms} ms, stalls {plan.stall}"
    )


SIMULATION = Simulation("tests.simulation.nodes", draw, outcome, lines, about, FAULTS)


def main():
    """Runs the command."""
    SIMULATION.run_alike()
    if sys.argv[1:2] == ["--hashes"]:
        for seed in map(int, sys.argv[2:]):
            print(outcome(draw(seed))[0].kernel.trace_hash)
        return 0
    if sys.argv[1:2] == ["--asked"]:
        asked = set().union(*(outcome(draw(seed))[0].asked for seed in map(int, sys.argv[2:])))
        print(*sorted(f"{'controller' if at_controller else 'broker'}:{key}" for at_controller, key in asked))
        return 0
    return SIMULATION._replace(draw=partial(draw, **_taken(sys.argv))).main()


def _taken(arguments):
    """Takes `--without KIND,KIND` from the arguments: kinds of trouble to leave out."""
    if "--without" not in arguments:
        return {}
    at = arguments.index("--without")
    kinds = tuple(arguments[at + 1].split(","))
    del arguments[at : at + 2]
    return {"without": kinds}


if __name__ == "__main__":
    sys.exit(main())
