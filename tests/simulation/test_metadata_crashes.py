"""The metadata log of the only voter under power loss: committed changes are in the image afterwards, complete
ones only, and the log can be used.
"""

from pathlib import Path

import pytest

from bowstring.protocol.records.cluster_metadata.settings import ConfigRecord
from tests.simulation.disk.crashes import scratch
from tests.simulation.disk.disk import Disk, put_tree
from tests.simulation.disk.medium import SYSTEMATIC, Note, random_outcome
from tests.simulation.disk.workload import directory_with_small_tails
from tests.support.stopped_nodes import image_at_start, led

CHANGES = 6
PARTS = 3  # records of a change


def changes_after_start(root: Path, more: int, disk: Disk | None = None) -> list[set[int]]:
    """Starts, commits `more` changes, stops; the parts that the image had of each change when it started."""
    directory = directory_with_small_tails(root)
    directory.open(1)
    found: list[set[int]] = [set() for _ in range(2 * CHANGES)]
    for name in image_at_start(directory).resource_configs(2, "t"):
        number, _, part = name.partition(".")
        found[int(number)].add(int(part))
    first = sum(bool(parts) for parts in found)

    with led(directory) as leader:
        for change in range(first, first + more):
            leader.append(
                [ConfigRecord(resource_type=2, resource_name="t", name=f"{change}.{part}", value="v" * 300) for part in range(PARTS)]
            )  # fmt: skip
            if disk is not None:
                disk.note("committed", change + 1)
    directory.close()
    return found


@pytest.mark.parametrize(
    "outcome",
    [*SYSTEMATIC, *(random_outcome(i, journal=True) for i in range(3))],
    ids=lambda o: f"{o.name} {o.seed}",
)
def test_every_moment(worked, outcome):
    trace, medium, committed = worked.trace, worked.medium(), 0
    for moment, event in enumerate(trace):
        if isinstance(event, Note):
            committed = event.value
            continue
        image = medium.image(outcome, moment, event)
        medium.apply(event)
        with scratch() as root:
            put_tree(root, image)
            found = changes_after_start(root, 1)
        there = sum(bool(parts) for parts in found)
        assert there >= committed, f"moment {moment}: {there} changes of {committed} committed ones are there"
        assert all(len(parts) in (0, PARTS) for parts in found), f"moment {moment}: {found}"
        assert all(found[:there]) and not any(found[there:]), f"moment {moment}: {found}"


@pytest.fixture(scope="module")
def worked():
    with scratch() as root:
        disk = Disk(root)
        with disk.watched():
            changes_after_start(root, CHANGES // 2, disk)
            changes_after_start(root, CHANGES // 2, disk)
        return disk
