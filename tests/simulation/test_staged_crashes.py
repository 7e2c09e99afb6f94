"""Staged tails in os mode on the simulated disk: the process is killed, or power lost, at every operation and store.

BOWSTRING_SEED runs one random workload at every moment.
"""

import os
import random

import pytest

from tests.simulation.disk.crashes import scratch
from tests.simulation.disk.medium import KILLED, SYSTEMATIC, random_outcome
from tests.simulation.disk.staged_workload import RANDOM, SCRIPT, StagedCrashes, StagedWorkload, staged_disk
from tests.simulation.disk.workload import random_steps

SEED = os.environ.get("BOWSTRING_SEED")
SEEDS = [int(SEED)] if SEED else range(1, 5)
# Of the moments; BOWSTRING_EVERY_FAULT=1 takes all of them. After a power cut the pool restores nothing, and most
# moments differ only in it.
SHARE = 1.0 if os.environ.get("BOWSTRING_EVERY_FAULT") else 0.15


@pytest.fixture(scope="module")
def worked():
    with scratch() as root:
        disk = staged_disk(root)
        workload = StagedWorkload(disk, seed=1)
        with disk.watched():
            workload.run(SCRIPT)
        yield disk, workload.ever


def test_killed_at_every_moment(worked):
    disk, ever = worked
    crashes = StagedCrashes(ever)
    crashes.at_every_moment(disk, [KILLED])
    assert crashes.restored > 100


@pytest.mark.parametrize("outcome", [each for each in SYSTEMATIC if each is not KILLED], ids=lambda o: o.name)
def test_power_lost_at_any_moment(worked, outcome):
    disk, ever = worked
    StagedCrashes(ever).at_every_moment(disk, [outcome], share=SHARE)


def test_power_lost_with_any_mix_of_pages(worked):
    disk, ever = worked
    outcomes = [random_outcome(seed, journal=seed % 2 == 0) for seed in range(4)]
    StagedCrashes(ever).at_every_moment(disk, outcomes, share=SHARE)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_workloads(seed):
    every = SEED is not None
    with scratch() as root:
        disk = staged_disk(root)
        workload = StagedWorkload(disk, seed)
        with disk.watched():
            workload.run(random_steps(seed, 60, RANDOM))
        StagedCrashes(workload.ever).at_every_moment(disk, [KILLED], share=1.0 if every else 0.15)
        # Not any mix of pages and sizes: a page that a truncation zeroed, in a file that kept its size, is damage.
        outcomes = random.Random(seed).sample(SYSTEMATIC[1:], 3)
        StagedCrashes(workload.ever).at_every_moment(disk, outcomes, share=1.0 if every else 0.05)
