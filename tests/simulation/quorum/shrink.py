"""Makes a failing run smaller: leaves out actions as long as the same rule is broken, and ends the story there."""

import gc
from dataclasses import replace

from tests.simulation.quorum.invariants import Violation
from tests.simulation.quorum.world import World


def outcome(plan):
    """Runs a plan; returns the world and the violation, None when all is well."""
    return run_to_end(World(plan))


def run_to_end(world):
    """Runs a world and closes it; returns it and the violation, None when all is well."""
    # A run makes much and drops little: looking for circles meanwhile is a tenth of its time.
    collects = gc.isenabled()
    gc.disable()
    try:
        world.run()
    except Violation as violation:
        return world, violation
    finally:
        world.close()
        if collects:
            gc.enable()
    return world, None


def shrink(plan, rule, runs=200, outcome=outcome):
    """Returns the plan with as few actions as `runs` tries find that still break the rule.

    It leaves out halves, then quarters and so on: if nothing more can go, the rest is the least that this
    finds.
    """
    actions, size = plan.actions, max(1, len(plan.actions) // 2)
    while runs > 0:
        at = 0
        while at < len(actions) and runs > 0:
            fewer = actions[:at] + actions[at + size :]
            runs -= 1
            _, violation = outcome(replace(plan, actions=fewer))
            if violation is not None and violation.rule == rule:
                actions = fewer
            else:
                at += size
        if size == 1:
            break
        size = max(1, size // 2)
    return replace(plan, actions=actions)
