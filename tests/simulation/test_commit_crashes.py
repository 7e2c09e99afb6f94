"""Commit mode on the simulated disk: an acknowledged record is there after any power loss, also during recovery."""

import os
import random

import pytest

from tests.simulation.disk.commit_workload import CommitCrashes, CommitWorkload
from tests.simulation.disk.crashes import scratch
from tests.simulation.disk.disk import Disk
from tests.simulation.disk.medium import KILLED, NOTHING, SYSTEMATIC, Note, random_outcome
from tests.simulation.disk.workload import facts_along

# Of the moments; BOWSTRING_EVERY_FAULT=1 takes all of them.
SHARE = 1.0 if os.environ.get("BOWSTRING_EVERY_FAULT") else 0.5
SMALL = [
    *["append"] * 3, "commit", "append", "commit", *["append"] * 4, "commit", "checkpoint", "append", "roll", "commit",
    "append", "append", "truncate", "append", "commit", "append", "restart", *["append"] * 2, "commit", "append",
]  # fmt: skip
STAGED = [
    "append", *["append_some", "commit"] * 3, "append", "rest", "append", "commit", "append_some", "kill", "append", "commit",
    "append_some", "truncate", "commit", "append_some", "commit", "checkpoint", "append_some", "commit", "append", "kill",
    *["append", "commit"] * 3, "restart", "append_some", "commit", "roll", "append_some",
]  # fmt: skip
LARGE = [
    "append", "commit", *["append_much", "append", "commit"] * 11, "checkpoint", *["append_much", "commit"] * 5, "append"
]  # fmt: skip


def worked(steps, seed):
    """A workload, done."""
    with scratch() as root:
        disk = Disk(root)
        workload = CommitWorkload(disk, seed)
        with disk.watched():
            workload.run(steps)
        return disk, workload


@pytest.fixture(scope="module")
def small():
    return worked(SMALL, 1)


@pytest.mark.parametrize("outcome", SYSTEMATIC, ids=lambda o: o.name)
def test_every_moment(small, outcome):
    disk, workload = small
    CommitCrashes(workload.ever).at_every_moment(disk, [outcome], share=SHARE)


def test_anything_left(small):
    disk, workload = small
    # Names in order: a file system that loses a log's first file and keeps its second has none of our users.
    outcomes = [random_outcome(seed, journal=True) for seed in range(4)]
    CommitCrashes(workload.ever).at_every_moment(disk, outcomes, share=0.3)


@pytest.mark.parametrize("outcome", [KILLED, NOTHING, random_outcome(3, journal=True)], ids=lambda o: o.name)
def test_staged_tails(outcome):
    """Chunks that are full, written out at rest, cut, and lost with the process."""
    disk, workload = worked(STAGED, 5)
    assert workload.staged_bytes > 0
    CommitCrashes(workload.ever).at_every_moment(disk, [outcome], share=SHARE)


def test_segments_used_again():
    """Large batches: segments fill, checkpoints give them back, and they are written over."""
    disk, workload = worked(LARGE, 2)
    assert workload.broker.wal.stats()["frames"] > 12
    outcomes = [NOTHING, random_outcome(5, journal=True), random_outcome(6, journal=True)]
    CommitCrashes(workload.ever).at_every_moment(disk, outcomes, share=0.08)


def test_power_lost_during_recovery(small):
    disk, workload = small
    crashes, chance = CommitCrashes(workload.ever), random.Random(1)
    medium = disk.medium()
    for moment, (event, facts) in enumerate(zip(disk.trace, facts_along(disk.trace), strict=True)):
        if isinstance(event, Note):
            continue
        if chance.random() < 0.04:
            image = medium.image(random_outcome(moment, journal=True), moment, event)
            crashes.during_recovery(
                image, facts, [KILLED, NOTHING, random_outcome(moment + 1, journal=True)], 0.1
            )
        medium.apply(event)
