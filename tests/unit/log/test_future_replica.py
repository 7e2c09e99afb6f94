"""A copy of a log follows what the log becomes meanwhile."""

import pytest

from bowstring._native.log.future_replica import FutureReplica
from tests.support.joined_wal import contents
from tests.support.log_batches import NOW_MS, batch, open_log


def made(path):
    path.mkdir()
    return open_log(path)


def append(log, values, epoch):
    for each in range(values):
        log.append(batch([b"%d in %d" % (each, epoch)]), epoch, NOW_MS)


@pytest.mark.parametrize("cut", [0, 4])
@pytest.mark.parametrize("refilled", [0, 2, 6, 9])
def test_what_is_truncated_during_the_copy_is_not_in_it(tmp_path, cut, refilled):
    source, target = made(tmp_path / "a"), made(tmp_path / "b")
    copy = FutureReplica(source, target)
    append(source, 10, epoch=0)
    while copy.copy(1 << 20) > 0:
        pass
    assert target.log_end_offset == 10
    source.truncate_to(cut)
    append(source, refilled, epoch=1)
    while copy.copy(1 << 20) > 0:
        pass
    assert contents(target) == contents(source)
    assert (target.epochs(), target.log_end_offset) == (source.epochs(), source.log_end_offset)


def test_a_log_that_begins_anew_during_the_copy(tmp_path):
    source, target = made(tmp_path / "a"), made(tmp_path / "b")
    copy = FutureReplica(source, target)
    append(source, 10, epoch=0)
    while copy.copy(1 << 20) > 0:
        pass
    source.truncate_fully_and_start_at(7)
    append(source, 8, epoch=1)
    while copy.copy(1 << 20) > 0:
        pass
    assert target.log_end_offset == 15
    assert target.read(7, 1 << 20, "log_end") == contents(source)
