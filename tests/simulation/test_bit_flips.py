"""A flipped bit in any file of a log that was not closed: it opens, and serves only what was written."""

import random

import pytest

from tests.simulation.disk.checks import check_batches, check_searches, read_all
from tests.simulation.disk.crashes import Image, scratch
from tests.simulation.disk.disk import Disk, put_tree
from tests.simulation.disk.medium import KILLED
from tests.simulation.disk.workload import CONFIGS, SCRIPT, Workload, open_partition
from tests.support.log_batches import NOW_MS, batch, headers

FLIPS = 6  # in each file
CRC = 17  # its place in a batch


@pytest.fixture(scope="module")
def worked():
    with scratch() as root:
        disk = Disk(root)
        workload = Workload(disk, seed=4)
        with disk.watched():
            workload.run(SCRIPT)
        medium = disk.medium()
        for event in disk.trace:
            medium.apply(event)
        return medium.image(KILLED, 0), workload


def covered(content: bytes) -> list[int]:
    """Bytes of a .log that the CRCs cover: base offsets and leader epochs are the broker's, outside of them."""
    positions: list[int] = []
    at = 0
    for header in headers(content):
        positions += range(at + CRC, at + header.size_bytes)
        at += header.size_bytes
    return positions


def flipped(image: Image, path: str, chance: random.Random) -> Image:
    content = bytearray(image[path] or b"")
    whole = ".log" in path and not path.endswith(".deleted")
    content[chance.choice(covered(bytes(content)) if whole else range(len(content)))] ^= (
        1 << chance.randrange(8)
    )
    return image | {path: bytes(content)}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_flipped_bit(worked, name):
    image, workload = worked
    chance = random.Random(name)
    mine = {path: content for path, content in image.items() if path.split("/")[0] == name}
    for path in [path for path, content in mine.items() if content]:
        for _ in range(FLIPS):
            with scratch() as root:
                put_tree(root, flipped(mine, path, chance))
                log = open_partition(root, name, CONFIGS[name], {}, {}, clean=False)
                seen = read_all(log)
                check_batches(seen, workload.ever[name], [], log)
                check_searches(seen, log)
                if not path.endswith(".log"):
                    assert len(seen) >= len(
                        [
                            b
                            for b in workload.partitions[name].live
                            if b.last >= workload.partitions[name].log.log_start_offset
                        ]
                    ), f"a bit of {path} cost records"
                end = log.log_end_offset
                assert log.append(batch([b"after"]), max(log.leader_epoch, 0), NOW_MS) == end
