"""Tries seeds of a simulation, and tells each that fails with as little trouble as needed; shared by all that have plans.

A simulation has `draw(seed, **forced)`, which makes a plan, `outcome(plan)`, which runs it, `lines(world, last)`,
which tells it, `about(plan)`, and `faults`.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

from tests.simulation.quorum.shrink import shrink


class Simulation(NamedTuple):
    """What there is to try. `name` is how its command is called."""

    name: str
    draw: Callable[..., Any]
    outcome: Callable[[Any], tuple[Any, Any]]
    lines: Callable[..., list[str]]
    about: Callable[[Any], str]
    faults: Sequence[Any]

    def fault(self, name):
        """The fault of a name."""
        return next(each for each in self.faults if each.name == name)

    def tell(self, plan, violation, last):
        """Prints a seed that fails."""
        plan = shrink(plan, violation.rule, outcome=self.outcome)
        world, violation = self.outcome(plan)
        print(f"seed {plan.seed}: {violation}\n  {self.about(plan)}")
        print("\n".join(f"  {each}" for each in plan.actions))
        print("\n".join(self.lines(world, last)), flush=True)

    def found_by(self, fault, seeds):
        """The first seed that finds a fault, how many seeds that took, and the rule; None when none does."""
        with fault.on():
            for number, seed in enumerate(seeds, 1):
                _, violation = self.outcome(self.draw(seed, **fault.plan))
                if violation is not None:
                    return seed, number, violation.rule
        return None

    def table(self, seeds) -> int:
        """Prints which rule finds which fault; 1 when a fault is not found."""
        missed = 0
        print("| fault | found by | seeds |\n| --- | --- | --- |")
        for fault in self.faults:
            found = self.found_by(fault, seeds)
            missed += found is None
            print(
                f"| {fault.what} | {'-' if found is None else found[2]} | {'-' if found is None else found[1]} |",
                flush=True,
            )
        return 1 if missed else 0

    def main(self, arguments: Sequence[str] | None = None) -> int:
        """Runs the command; 1 when a seed failed."""
        parser = argparse.ArgumentParser(prog=f"python -m {self.name}", description="Tries seeds.")
        parser.add_argument("--from", dest="first", type=int, default=1, help="the first seed")
        parser.add_argument("--seeds", type=int, default=1000, help="how many")
        parser.add_argument("--until-found", action="store_true", help="end with the first that fails")
        parser.add_argument(
            "--fault", choices=[each.name for each in self.faults], help="with a fault patched in"
        )
        parser.add_argument(
            "--faults", action="store_true", help="the table: fault, rule, seeds that it takes"
        )
        parser.add_argument("--last", type=int, default=40, help="how many steps of a failing run to print")
        chosen = parser.parse_args(arguments)
        seeds = range(chosen.first, chosen.first + chosen.seeds)
        if chosen.faults:
            return self.table(seeds)
        fault = self.fault(chosen.fault) if chosen.fault else None
        return self.try_seeds(seeds, fault, chosen.until_found, chosen.last)

    def try_seeds(self, seeds, fault, until_found, last) -> int:
        """Runs seeds one after the other; 1 when one failed."""
        failed = steps = number = 0
        begin = said = time.monotonic()
        for number, seed in enumerate(seeds, 1):
            with fault.on() if fault else nullcontext():
                plan = self.draw(seed, **(fault.plan if fault else {}))
                world, violation = self.outcome(plan)
                steps += world.steps
                if violation is not None:
                    failed += 1
                    self.tell(plan, violation, last)
                    if until_found:
                        break
            if time.monotonic() - said > 10:
                said = time.monotonic()
                print(f"{number} seeds, {failed} failed, {number / (said - begin):.1f} a second", flush=True)
        print(f"{number} seeds, {steps} steps in {time.monotonic() - begin:.0f} s, {failed} failed")
        return 1 if failed else 0
