"""A log is replaced by its copy, in commit mode, when truncations and records are on their way."""

import shutil

import pytest

from bowstring._native.log.durability import cuts, durable_to, join
from bowstring._native.log.future_replica import FutureReplica
from bowstring._native.log.wal_replay import replay
from bowstring._native.server.replica_swap import replace_log
from tests.support.joined_wal import contents, wal_on
from tests.support.log_batches import NOW_MS, batch, open_log
from tests.support.served_plane import Served

TOPIC, TOPIC_ID = "moved", bytes(range(16))


def append(log, count, epoch=0):
    for _ in range(count):
        log.append(batch([b"%d in %d" % (log.log_end_offset, epoch)]), epoch, NOW_MS)


class Moving:
    """A replicated partition in directory b, whose copy is made in directory a. Each has a write-ahead log."""

    def __init__(self, path):
        self.path = path
        for name in "ab":
            (path / name / "t-0").mkdir(parents=True)
        (path / "served").mkdir()
        self.served = Served(path / "served")
        self.wals = {name: wal_on(path / name) for name in "ab"}
        self.source, self.target = (open_log(path / name / "t-0") for name in "ba")
        join(self.source, self.wals["b"], TOPIC_ID, 0)
        self.served.plane.add_partition(TOPIC, TOPIC_ID, 0, self.source, replicated=True)
        self.copy = FutureReplica(self.source, self.target)

    def replace(self) -> int:
        return replace_log(self.served.plane, TOPIC, 0, self.copy, 1 << 20, self.wals["a"])

    def copy_all(self):
        while self.copy.copy(1 << 20) > 0:
            pass
        self.target.flush()

    def crashed(self):
        """Returns the logs that a killed broker leaves, each after a replay of both write-ahead logs."""
        for name in "ab":
            shutil.copytree(self.path / name, self.path / "crashed" / name)
        paths = [self.path / "crashed" / name for name in "ab"]
        logs = [open_log(path / "t-0", clean=False) for path in paths]
        for log in logs:
            replay(paths, {(TOPIC_ID, 0): log})
        return logs

    def close(self):
        self.served.plane.stop()
        for log in (self.source, self.target):
            join(log, None, TOPIC_ID, 0)
        for wal in self.wals.values():
            wal.stop()
        self.served.close()


@pytest.fixture
def moving(tmp_path):
    made = Moving(tmp_path)
    yield made
    made.close()


def test_what_comes_after_a_move_survives_truncations_before_it(moving):
    """The old directory's write-ahead log has the truncation, and its directory is the later one."""
    append(moving.source, 10)
    moving.source.truncate_to(4)
    append(moving.source, 3, epoch=1)
    while moving.wals["b"].commit():
        pass
    moving.copy_all()
    assert moving.replace() == 0
    append(moving.target, 5, epoch=1)
    moving.target.truncate_to(10)
    append(moving.target, 4, epoch=2)
    while moving.wals["a"].commit():
        pass
    for log in moving.crashed():
        assert (contents(log), log.log_end_offset) == (contents(moving.target), 14)


def test_a_truncation_below_the_end_of_the_copy_is_copied_first(moving):
    append(moving.source, 10)
    while moving.wals["b"].commit():
        pass
    moving.copy_all()
    moving.source.truncate_to(4)
    append(moving.source, 8, epoch=1)
    while moving.wals["b"].commit():
        pass
    assert moving.replace() == 1
    moving.copy_all()
    assert moving.replace() == 0
    assert moving.target.log_end_offset == 12
    assert contents(moving.target) == contents(moving.source)


def test_records_on_their_way_to_the_old_medium_say_nothing_of_the_new_one(moving):
    append(moving.source, 10)
    before = cuts(moving.source)
    moving.source.truncate_to(4)
    while moving.wals["b"].commit():
        pass
    moving.copy_all()
    assert moving.replace() == 0
    append(moving.target, 4, epoch=1)
    durable_to(moving.target, 10, cuts=before)  # what a reactor does late
    assert moving.target.high_watermark == 4
    while moving.wals["a"].commit():
        pass
    durable_to(moving.target, 8, cuts=cuts(moving.target))
    assert moving.target.high_watermark == 8


def test_what_a_move_in_vain_has_staged_does_not_count(moving):
    """The copy has too many records, so that the log continues, and is truncated later."""
    append(moving.source, 4)
    moving.copy_all()
    for _ in range(6):
        moving.source.append(batch([bytes(1000)]), 0, NOW_MS)
    while moving.wals["b"].commit():
        pass
    assert replace_log(moving.served.plane, TOPIC, 0, moving.copy, 2000, moving.wals["a"]) == 1
    moving.source.truncate_to(4)
    append(moving.source, 3, epoch=1)
    for wal in moving.wals.values():
        while wal.commit():
            pass
    found = moving.crashed()[1]
    assert contents(found) == contents(moving.source)
