"""Tries seeds of a simulation and prints each that fails with minimal trouble; shared by all that have plans.

A simulation has `draw(seed, **forced)`, which makes a plan, `outcome(plan)`, which runs it, `lines(world,
last)`, which describes the run, `about(plan)`, and `faults`.
"""

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

from tests.simulation.quorum.shrink import shrink

SEEDS_AT_ONCE = 16
# The order of sets of strings in the engine depends on it, and so do steps of a run.
HASH_SEED = "0"
SAYS_S = 10


class Simulation(NamedTuple):
    """A simulation with its plans. `name` is the name of its command."""

    name: str
    draw: Callable[..., Any]
    outcome: Callable[[Any], tuple[Any, Any]]
    lines: Callable[..., list[str]]
    about: Callable[[Any], str]
    faults: Sequence[Any]

    def fault(self, name):
        """The fault of a name."""
        return next(each for each in self.faults if each.name == name)

    def told(self, plan, violation, last, runs) -> str:
        """Describes a seed that fails, with the least trouble that `runs` runs find."""
        plan = shrink(plan, violation.rule, runs, outcome=self.outcome)
        world, violation = self.outcome(plan)
        head = [f"seed {plan.seed}: {violation}", f"  {self.about(plan)}"]
        return "\n".join([*head, *(f"  {each}" for each in plan.actions), *self.lines(world, last)])

    def found_by(self, fault, seeds):
        """The first seed that finds a fault, how many seeds that took, and the rule; None if none does."""
        with fault.on():
            for number, seed in enumerate(seeds, 1):
                _, violation = self.outcome(self.draw(seed, **fault.plan))
                if violation is not None:
                    return seed, number, violation.rule
        return None

    def table(self, seeds) -> int:
        """Prints which rule finds which fault; returns 1 if a fault is not found."""
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

    def run_alike(self) -> None:
        """Starts the command again, with the hash seed of every run, unless it has that."""
        if os.environ.get("PYTHONHASHSEED") != HASH_SEED:
            command = [sys.executable, "-m", self.name, *sys.argv[1:]]
            os.execve(sys.executable, command, os.environ | {"PYTHONHASHSEED": HASH_SEED})

    def main(self, arguments: Sequence[str] | None = None) -> int:
        """Runs the command; returns 1 if a seed failed."""
        parser = argparse.ArgumentParser(prog=f"python -m {self.name}", description="Tries seeds.")
        parser.add_argument("--from", dest="first", type=int, default=1, help="the first seed")
        parser.add_argument("--seeds", type=int, default=1000, help="how many")
        parser.add_argument("--step", type=int, default=1, help="from one seed to the next")
        parser.add_argument("--until-found", action="store_true", help="end with the first that fails")
        parser.add_argument(
            "--fault", choices=[each.name for each in self.faults], help="with a fault patched in"
        )
        parser.add_argument(
            "--faults", action="store_true", help="the table: fault, rule, seeds that it takes"
        )
        parser.add_argument("--last", type=int, default=40, help="how many steps of a failing run to print")
        parser.add_argument(
            "--shrink", type=int, default=200, help="most runs to find a failing one with less trouble"
        )
        cores = len(os.sched_getaffinity(0))
        parser.add_argument("--jobs", type=int, default=cores, help=f"processes, {cores} by default")
        chosen = parser.parse_args(arguments)
        seeds = range(chosen.first, chosen.first + chosen.seeds * chosen.step, chosen.step)
        if chosen.faults:
            return self.table(seeds)
        fault = self.fault(chosen.fault) if chosen.fault else None
        trial = Trial(self, fault, chosen.last, chosen.shrink)
        with trial.fault.on() if trial.fault else nullcontext():
            return trial.run(seeds, chosen.until_found, chosen.jobs)


class Trial(NamedTuple):
    """Runs of many seeds, in several processes: a seed's run depends on nothing else."""

    simulation: Simulation
    fault: Any
    last: int
    shrink: int

    def one(self, seed) -> tuple[int, str | None]:
        """Runs a seed; returns its steps, and the report of a failure."""
        simulation, fault = self.simulation, self.fault
        plan = simulation.draw(seed, **(fault.plan if fault else {}))
        world, violation = simulation.outcome(plan)
        return world.steps, None if violation is None else simulation.told(
            plan, violation, self.last, self.shrink
        )

    def run(self, seeds, until_found, jobs) -> int:
        """Runs seeds and prints those that fail; returns 1 if one failed."""
        failed = steps = number = 0
        begin = said = time.monotonic()
        with results(self.one, seeds, jobs) as found:
            for number, (taken, text) in enumerate(found, 1):
                steps += taken
                if text is not None:
                    failed += 1
                    print(text, flush=True)
                    if until_found:
                        break
                if time.monotonic() - said > SAYS_S:
                    said = time.monotonic()
                    print(
                        f"{number} seeds, {failed} failed, {number / (said - begin):.1f} a second", flush=True
                    )
        print(f"{number} seeds, {steps} steps in {time.monotonic() - begin:.0f} s, {failed} failed")
        return 1 if failed else 0


@contextmanager
def results(call, arguments, jobs):
    """Yields the results of calls in order, from `jobs` processes that are copies of this one."""
    if jobs == 1:
        yield map(call, arguments)
        return
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(jobs, context, initializer=_inherit, initargs=(call,)) as pool:
        try:
            yield pool.map(_call_inherited, arguments, chunksize=SEEDS_AT_ONCE)
        finally:
            pool.shutdown(cancel_futures=True)


# Set in the processes of `results`: faults are lambdas, which cannot be sent to them.
_inherited: list[Callable[[Any], Any]] = []


def _inherit(call):
    _inherited.append(call)


def _call_inherited(argument):
    return _inherited[0](argument)
