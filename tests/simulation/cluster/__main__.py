"""`python -m tests.simulation.cluster`: tries seeds, and tells each that fails with as little trouble as needed."""

import argparse
import sys
import time
from contextlib import nullcontext

from tests.simulation.cluster.faults import FAULTS, by_name
from tests.simulation.cluster.plan import draw
from tests.simulation.cluster.shrink import outcome, shrink
from tests.simulation.cluster.story import lines


def tell(plan, violation, last):
    """Prints a seed that fails."""
    plan = shrink(plan, violation.rule)
    world, violation = outcome(plan)
    print(f"seed {plan.seed}: {violation}\n  {world.plan.voters} voters, {world.plan.observers} observers")
    print("\n".join(f"  {each}" for each in plan.actions))
    print("\n".join(lines(world, last)), flush=True)


def main() -> int:
    """1 when a seed failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.cluster", description=__doc__)
    parser.add_argument("--from", dest="first", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1000, help="how many")
    parser.add_argument("--until-found", action="store_true", help="end with the first that fails")
    parser.add_argument("--fault", choices=[each.name for each in FAULTS], help="with a fault patched in")
    parser.add_argument("--faults", action="store_true", help="the table: fault, rule, seeds that it takes")
    parser.add_argument("--last", type=int, default=40, help="how many steps of a failing run to print")
    chosen = parser.parse_args()
    seeds = range(chosen.first, chosen.first + chosen.seeds)
    if chosen.faults:
        return table(seeds)
    fault = by_name(chosen.fault) if chosen.fault else None
    failed = steps = number = 0
    begin = said = time.monotonic()
    for number, seed in enumerate(seeds, 1):
        with fault.on() if fault else nullcontext():
            plan = draw(seed, **(fault.plan if fault else {}))
            world, violation = outcome(plan)
            steps += world.steps
            if violation is not None:
                failed += 1
                tell(plan, violation, chosen.last)
                if chosen.until_found:
                    break
        if time.monotonic() - said > 10:
            said = time.monotonic()
            print(f"{number} seeds, {failed} failed, {number / (said - begin):.1f} a second", flush=True)
    print(f"{number} seeds, {steps} steps in {time.monotonic() - begin:.0f} s, {failed} failed")
    return 1 if failed else 0


def found_by(fault, seeds):
    """The first seed that finds a fault, how many seeds that took, and the rule; None when none does."""
    with fault.on():
        for number, seed in enumerate(seeds, 1):
            _, violation = outcome(draw(seed, **fault.plan))
            if violation is not None:
                return seed, number, violation.rule
    return None


def table(seeds) -> int:
    """Prints which rule finds which fault; 1 when a fault is not found."""
    missed = 0
    print("| fault | found by | seeds |\n| --- | --- | --- |")
    for fault in FAULTS:
        found = found_by(fault, seeds)
        missed += found is None
        print(
            f"| {fault.what} | {'-' if found is None else found[2]} | {'-' if found is None else found[1]} |",
            flush=True,
        )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
