"""Power loss at every operation of a scripted workload: nothing durable is missing, nothing is half there."""

import pytest

from tests.simulation.disk.crashes import Crashes, scratch
from tests.simulation.disk.disk import Disk
from tests.simulation.disk.medium import SYSTEMATIC, random_outcome
from tests.simulation.disk.workload import SCRIPT, Workload


@pytest.fixture(scope="module")
def worked():
    """The scripted workload, done once."""
    with scratch() as root:
        disk = Disk(root)
        workload = Workload(disk, seed=1)
        with disk.watched():
            workload.run(SCRIPT)
        yield disk, workload.ever


@pytest.mark.parametrize("outcome", SYSTEMATIC, ids=lambda o: o.name)
def test_every_moment(worked, outcome):
    disk, ever = worked
    crashes = Crashes(ever)
    crashes.at_every_moment(disk, [outcome])
    assert crashes.looked > 20


@pytest.mark.parametrize("journal", [True, False])
def test_every_moment_with_anything_left(worked, journal):
    disk, ever = worked
    Crashes(ever).at_every_moment(disk, [random_outcome(seed, journal=journal) for seed in range(2)])
