"""Every kind of failure at every operation of a short workload: acknowledged records are there afterwards.

BOWSTRING_EVERY_FAULT=1 tries each kind at each operation; without it they take turns, and each operation gets its
share of them by its number.
"""

import errno
import os

import pytest

from tests.simulation.disk.crashes import Crashes, scratch
from tests.simulation.disk.disk import Disk, Fault
from tests.simulation.disk.medium import KILLED, NOTHING, Note
from tests.simulation.disk.workload import Facts, Workload, facts_along
from tests.support.failing_operations import ONCE, strikes

SCRIPT = [
    ("append_idempotent", "t-0"), ("append_transaction", "t-2"), ("append_idempotent", "t-1"), ("flush", "t-0"),
    *[("append_idempotent", "t-0")] * 4, *[("append_transaction", "t-2")] * 4, ("new_epoch", "t-0"), ("roll", "t-0"),
    ("append", "t-0"), ("append_idempotent", "t-1"), ("append", "t-1"), ("flush", "t-0"), ("flush", "t-2"),
    ("checkpoint", ""), ("append", "t-0"), ("append", "t-2"), ("truncate", "t-0"), ("retain", "t-2"),
    ("delete_records", "t-0"), ("unlink", "t-2"), ("append_idempotent", "t-0"), ("restart", ""),
    ("append_idempotent", "t-0"), ("append_transaction", "t-2"), ("append_idempotent", "t-1"), ("flush", "t-0"),
]  # fmt: skip
# From then on: a full disk stays full, a disk that was remounted read-only stays so, a dead one stays dead.
LASTING = [Fault(errno.ENOSPC), Fault(errno.EROFS), Fault(errno.EIO)]
KINDS = [(fault, False) for fault in ONCE] + [(fault, True) for fault in LASTING]
EVERY = bool(os.environ.get("BOWSTRING_EVERY_FAULT"))


def worked(number: int, fault: Fault, *, lasting: bool, crashes: Crashes) -> bool:
    """Runs with a fault from one operation on, and checks the remaining data; returns whether it struck."""

    def plan(at: int, operation: str) -> Fault | None:
        now = at == number or (lasting and at > number)
        return fault if now and strikes(fault, operation, first=at == number) else None

    with scratch() as root:
        disk = Disk(root, plan)
        workload = Workload(disk, seed=3, failing=True)
        with disk.watched():
            workload.run(SCRIPT)
        if not disk.struck:
            return False
        medium = disk.medium()
        facts: dict[str, Facts] = {}
        for event, before in zip(
            [*disk.trace, Note("end")], facts_along([*disk.trace, Note("end")]), strict=True
        ):
            facts = before
            medium.apply(event)
        crashes.ever = workload.ever
        for outcome in (KILLED, NOTHING):
            try:
                crashes.look(medium.image(outcome, number), facts, outcome)
            except Exception as problem:
                raise AssertionError(
                    f"{fault} {'from' if lasting else 'at'} operation {number}; {outcome.name}"
                ) from problem
    return True


@pytest.fixture(scope="module")
def operations():
    """How many operations the workload has when nothing fails."""
    with scratch() as root:
        disk = Disk(root)
        workload = Workload(disk, seed=3)
        with disk.watched():
            workload.run(SCRIPT)
        return disk.calls


@pytest.mark.parametrize("kind", range(len(KINDS)), ids=[f"{f}{' for ever' if e else ''}" for f, e in KINDS])
def test_every_operation(operations, kind):
    fault, lasting = KINDS[kind]
    crashes = Crashes({})
    struck = 0
    for number in range(1, operations + 1):
        if EVERY or lasting is False or number % 3 == kind % 3:
            struck += worked(number, fault, lasting=lasting, crashes=crashes)
    assert struck > 3
