"""The simulated disk itself: when data is durable, and what a crash may leave."""

import os
import shutil

from tests.simulation.disk.crashes import scratch
from tests.simulation.disk.disk import Disk, Fault
from tests.simulation.disk.medium import (
    KILLED,
    NOTHING,
    Medium,
    Outcome,
    SyncFailed,
    Truncate,
    Write,
    random_outcome,
)

BASE: dict[str, bytes | None] = {"d": None, "d/a": b"x" * 10000}
A = 2  # inodes: d 1, d/a 2


def image(medium: Medium, outcome: Outcome, under_way=None) -> bytes:
    found = medium.image(outcome, 0, under_way)["d/a"]
    assert found is not None
    return found


def test_pages_and_sizes_come_when_they_like():
    medium = Medium(BASE)
    medium.apply(Write(A, 4000, b"y" * 10000))
    assert image(medium, KILLED) == b"x" * 4000 + b"y" * 10000
    assert image(medium, NOTHING) == b"x" * 10000
    assert image(medium, Outcome("", pages="none")) == b"x" * 10000 + bytes(4000)
    assert image(
        medium, Outcome("", pages="even")
    ) == b"x" * 4000 + b"y" * 96 + b"x" * 4096 + b"y" * 4096 + bytes(1712)
    seen = {image(medium, random_outcome(seed)) for seed in range(200)}
    assert len(seen) > 10 and b"x" * 10000 in seen


def test_what_is_durable():
    medium = Medium(BASE)
    medium.apply(Write(A, 0, b"1" * 512, True))
    medium.apply(Truncate(A, 600))
    assert image(medium, NOTHING) == b"1" * 512 + b"x" * 9488
    medium.apply(Write(A, 600, b"2", True))
    assert image(medium, NOTHING)[600:601] == b"2"


def test_a_failed_sync_loses_what_it_should_have_written():
    medium = Medium(BASE)
    medium.apply(Write(A, 0, b"y"))
    medium.apply(SyncFailed(A))
    medium.apply(Write(A, 1, b"z"))
    assert image(medium, KILLED)[:2] == b"yz" and image(medium, Outcome("all"))[:2] == b"xz"


def test_a_torn_write_keeps_whole_sectors():
    medium = Medium(BASE)
    write = Write(A, 0, b"y" * 4096, True)
    seen = {image(medium, Outcome("", torn="any", seed=seed), write)[:4096] for seed in range(50)}
    assert len(seen) > 30
    assert all(
        set(data[at : at + 512]) in ({ord("x")}, {ord("y")}) for data in seen for at in range(0, 4096, 512)
    )


def test_names_are_durable_with_their_directory():
    with scratch() as root:
        disk = Disk(root)
        with disk.watched():
            os.mkdir(root / "d")
            fd = os.open(root / "d/a.tmp", os.O_RDWR | os.O_CREAT)
            os.write(fd, b"data")
            os.fsync(fd)
            os.close(fd)
            os.rename(root / "d/a.tmp", root / "d/a")
        for sync_names, found in ((False, {}), (True, {"d": None, "d/a.tmp": b"data"})):
            medium = disk.medium(sync_names=sync_names)
            for event in disk.trace:
                medium.apply(event)
            assert medium.image(NOTHING, 0) == found
            assert medium.image(KILLED, 0) == {"d": None, "d/a": b"data"}


def test_operations_fail_when_told():
    with scratch() as root:
        disk = Disk(root, lambda number, operation: Fault(28) if number == 2 else None)
        with disk.watched():
            fd = os.open(root / "a", os.O_RDWR | os.O_CREAT)
            try:
                os.write(fd, b"1")
                raise AssertionError("it was written")
            except OSError as error:
                assert error.errno == 28
            os.write(fd, b"2")
            os.close(fd)
        assert disk.struck == [(2, "pwritev")] and (root / "a").read_bytes() == b"2"


def test_a_descriptor_with_o_dsync_writes_to_the_medium():
    with scratch() as root:
        disk = Disk(root)
        with disk.watched():
            plain = os.open(root / "plain", os.O_RDWR | os.O_CREAT)
            synced = os.open(root / "synced", os.O_RDWR | os.O_CREAT | os.O_DSYNC)
            for fd in (plain, synced):
                assert os.pwrite(fd, b"data", 2) == 4
                os.close(fd)
        medium = disk.medium()
        for event in disk.trace:
            medium.apply(event)
        left = medium.image(Outcome("", pages="none", sizes="none"), 0)
        assert left == {"plain": b"", "synced": b"\0\0data"}


def test_a_removed_tree_is_gone_with_its_files():
    with scratch() as root:
        disk = Disk(root)
        with disk.watched():
            os.makedirs(root / "d" / "e")
            os.close(os.open(root / "d/e/a", os.O_RDWR | os.O_CREAT))
            shutil.rmtree(root / "d")
            os.mkdir(root / "d")
        medium = disk.medium()
        for event in disk.trace:
            medium.apply(event)
        assert medium.image(KILLED, 0) == {"d": None}
