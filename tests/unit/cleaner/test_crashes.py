"""A crash, or a failing file operation, after each step: the log opens, and holds every key's newest."""

import errno
import itertools

import pytest

from bowstring._native.cleaner.cleaner import CleaningStopped
from bowstring._native.log.partition_log import LogError
from tests.support.compacted_logs import batches_of, clean, compacted, newest, put, records_of
from tests.support.faults import failing, replaced
from tests.support.log_batches import NOW_MS, crash, names


def filled(directory):
    log = compacted(directory, segment_bytes=1 << 20)
    for i in range(12):
        put(
            log,
            [(b"key%d" % (i % 5), b"%d" % i), (b"only%d" % i, None if i % 3 else b"v")],
            timestamp=NOW_MS + i,
        )
        if i % 2:
            log.roll()
    log.flush()
    return log


def cut_after(operation: str, n: int):
    """From the n-th call on, no call changes the disk: the calls fail."""
    counter = itertools.count()

    def make(original):
        return lambda *arguments: original(*arguments) if next(counter) < n else -errno.EIO

    return replaced(operation, make)


def test_every_rename_may_be_the_last(tmp_path):
    for n in range(200):
        directory = tmp_path / f"t{n}-0"
        log = filled(directory)
        wanted, end = newest(records_of(log)), log.log_end_offset
        done = True
        # after the crash nothing is tidied up either
        with cut_after("rename", n), cut_after("unlink", 0):
            try:
                clean(log)
            except LogError:
                done = False
        assert newest(records_of(log)) == wanted  # if the process lives on it reads as ever
        crash(log)
        del log
        for clean_shutdown in (False, True):
            again = compacted(directory, segment_bytes=1 << 20, clean=clean_shutdown, recovery_point=end)
            again.advance_high_watermark(again.log_end_offset)
            assert newest(records_of(again)) == wanted
            assert again.log_end_offset == end
            assert not [name for name in names(directory) if name.endswith((".cleaned", ".swap"))]
            clean(again)
            assert newest(records_of(again)) == wanted
            again.close()
        if done:
            assert n > 10
            return
    pytest.fail("it never came to an end")


@pytest.mark.parametrize("operation", ["open", "pread", "pwritev", "sync", "rename", "stat", "set_modified"])
def test_any_failing_operation_is_reported_and_survived(tmp_path, operation):
    for n in range(400):
        directory = tmp_path / f"t{n}-0"
        log = filled(directory)
        wanted, end = newest(records_of(log)), log.log_end_offset
        failed = False
        with failing(operation, errno.EIO, after=n):
            try:
                clean(log)
            except (LogError, CleaningStopped):
                failed = True
        if not log.failed:
            assert newest(records_of(log)) == wanted
            if failed:
                clean(log)
                assert newest(records_of(log)) == wanted
            log.close()
        del log
        again = compacted(directory, segment_bytes=1 << 20, clean=False, recovery_point=end)
        again.advance_high_watermark(again.log_end_offset)
        assert newest(records_of(again)) == wanted
        assert [each.last_offset for each in batches_of(again)][-1] + 1 <= again.log_end_offset == end
        if not failed:
            return
    pytest.fail("it never came to an end")
