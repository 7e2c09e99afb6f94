"""File operations that fail one by one: acknowledged data is there afterwards, whatever failed."""

import errno

import pytest

from bowstring._native.log.partition_log import LogError
from tests.support import faults
from tests.support.acknowledged_batches import acknowledged_until_it_fails, values
from tests.support.log_batches import NOW_MS, batch, fill, headers, open_log


def test_a_topic_deleted_during_its_flush(tmp_path):
    """The flush runs on another thread; the directory gets its new name between two of its steps."""
    path = tmp_path / "t-0"
    path.mkdir()
    log = open_log(path, segment_bytes=5000)
    fill(log, 10)
    log.flush()  # leader-epoch-checkpoint is written: the next flush syncs segments only, without the lock
    fill(log, 10)
    calls = []

    def make(sync):
        def rename_then_sync(fd):
            if not calls:
                log.mark_deleted(path.rename(tmp_path / "t-0.abc-delete"))
            calls.append(fd)
            return sync(fd)

        return rename_then_sync

    with faults.replaced("sync", make):
        log.flush()
    assert calls and not log.failed
    assert headers(log.read(0, 1, "log_end"))[0].base_offset == 0


def test_a_batch_that_cannot_be_flushed_is_refused(tmp_path):
    log = open_log(tmp_path, flush_messages=1)
    fill(log, 1)
    with faults.failing("sync", errno.EIO), pytest.raises(LogError) as raised:
        fill(log, 1)
    assert raised.value.code == 56 and log.failed


def test_a_write_cut_short_again_and_again(tmp_path):
    """Not an error: the write continues where it stopped."""
    log = open_log(tmp_path)

    def make(pwritev):
        def few(fd, parts, count, position):
            part = faults.IoVec(parts[0].base, min(parts[0].size, 7))
            return pwritev(fd, part, 1, position)

        return few

    with faults.replaced("pwritev", make):
        fill(log, 3)
    assert [h.base_offset for h in headers(log.read(0, 1 << 20, "log_end"))] == [0, 10, 20]
    log.close()


OPERATIONS = [
    "open",
    "pwritev",
    "truncate",
    "sync",
    "stat",
    "rename",
    "unlink",
    "pread",
    "stat_path",
    "reserve",
]


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EMFILE])
def test_whatever_fails_nothing_acknowledged_is_lost(tmp_path, operation, error):
    for seed in range(6):
        directory = tmp_path / str(seed)
        directory.mkdir()
        log = open_log(directory, segment_bytes=4000, index_interval_bytes=300, flush_messages=9)
        with faults.failing(operation, error, after=seed * 13):
            taken = acknowledged_until_it_fails(log, seed)
        if log.failed:
            with pytest.raises(LogError):
                fill(log, 1)
        log.close(sync=False)
        log = open_log(directory, segment_bytes=4000, index_interval_bytes=300, clean=False)
        there = values(log)
        assert [base for base, _ in there] == list(range(log.log_end_offset))  # one record a batch: dense
        by_offset = dict(there)
        for base, value in taken:
            assert value in by_offset[base], (operation, error, seed, base)
        assert len({base for base, _ in taken}) == len(taken)
        for producer in (5, 6):
            known = {p[0]: p[2] + 1 for p in log.active_producers()}
            log.append(batch(producer_id=producer, epoch=0, sequence=known.get(producer, 0)), 0, NOW_MS)
        log.close(sync=False)
