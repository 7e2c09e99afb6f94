"""Group commit: what counts as durable, which waiters wake, where frames go, and the failures."""

import errno
import os
import threading

import pytest

from bowstring._native.log.durability import cuts, durable_to, staged_frame
from bowstring._native.log.partition_log import LogError
from bowstring._native.wal.write_ahead_log import CONTROL, WalError, WriteAheadLog
from bowstring.engine.storage.directory_wal import liburing_path
from tests.support.faults import failing, replaced
from tests.support.joined_wal import BLOCK, SEGMENT_BYTES, append, joined, wal_on
from tests.support.log_batches import NOW_MS, batch
from tests.support.readable import readable
from tests.support.waiting import HANG_S


@pytest.fixture(params=["pwrite", "io_uring"])
def io(request):
    return request.param


def test_nothing_is_committed_before_it_is_durable(tmp_path, io):
    wal = wal_on(tmp_path, io=io)
    assert wal.io == io and wal.io_reason is None
    with joined(tmp_path, wal) as (log,):
        append(log, 3)
        assert (log.log_end_offset, log.high_watermark) == (3, 0)
        assert not log.advance_high_watermark(3)
        assert staged_frame(log) == wal.staged_frame == wal.durable_frame + 1
        assert wal.commit()
        assert wal.durable_frame == staged_frame(log)
        durable_to(log, 3)
        assert log.high_watermark == 3
        assert not wal.commit()


def test_what_was_cut_meanwhile_does_not_become_durable(tmp_path):
    wal = wal_on(tmp_path)
    with joined(tmp_path, wal) as (log,):
        append(log, 3)
        before = cuts(log)
        log.truncate_to(1)
        append(log, 2)
        durable_to(log, 3, cuts=before, advance=False)
        assert (log.log_end_offset, log.high_watermark) == (3, 0)
        log.advance_high_watermark(3)
        assert log.high_watermark == 1
        durable_to(log, 3, cuts=cuts(log), advance=False)
        log.advance_high_watermark(3)
        assert log.high_watermark == 3


def test_what_is_staged_together_shares_a_frame(tmp_path):
    wal = wal_on(tmp_path)
    with joined(tmp_path, wal, partitions=3) as logs:
        for log in logs:
            append(log, 5)
        assert len({staged_frame(log) for log in logs}) == 1
        wal.commit()
        stats = wal.stats()
        assert (stats["frames"], stats["written_bytes"]) == (1, BLOCK)
        assert stats["staged_bytes"] == 0


def test_full_frames_are_written_at_once(tmp_path, io):
    wal = wal_on(tmp_path, io=io)
    with joined(tmp_path, wal) as (log,):
        append(log, 30, size=100_000)
        wal.commit()
        assert wal.stats()["frames"] == 3
        assert wal.durable_frame == wal.staged_frame


@pytest.mark.parametrize("size", [1_040_000, 1 << 20, 3 << 20, 2 * SEGMENT_BYTES])
def test_a_batch_larger_than_a_frame_goes_into_several(tmp_path, size):
    wal = wal_on(tmp_path, segments=4)
    with joined(tmp_path, wal, max_message_bytes=1 << 30) as (log,):

        def never(original):
            return lambda fd: pytest.fail("an append waits for no sync")

        with replaced("sync", never):
            log.append(batch([b"before"]), 0, NOW_MS)
            log.append(batch([bytes(size)]), 0, NOW_MS)
        while wal.durable_frame < staged_frame(log):
            assert log.high_watermark == 0
            assert wal.commit()
        assert wal.stats()["frames"] >= size // (1 << 20)


def test_frames_go_on_in_the_next_segment_and_wait_for_one(tmp_path):
    wal = wal_on(tmp_path, segments=2)
    with joined(tmp_path, wal) as (log,):
        for _ in range(15):
            append(log, 4, size=100_000)
            wal.commit()
        assert wal.stats()["full_segments"] == 1 and wal.take_wants_segment()
        with pytest.raises(WalError, match="cannot be written"):
            for _ in range(15):
                append(log, 4, size=100_000)
                wal.commit()


def test_released_segments_are_used_again(tmp_path):
    wal = wal_on(tmp_path, segments=2)
    with joined(tmp_path, wal) as (log,):
        for _ in range(60):
            append(log, 4, size=100_000)
            wal.commit()
            log.flush()
            wal.released(wal.closed_frame)
        assert wal.stats()["segments"] == 2
    assert sorted(p.name for p in tmp_path.glob("bowstring.wal.*")) == ["bowstring.wal.0", "bowstring.wal.1"]


def test_staged_bytes_are_what_is_not_durable(tmp_path):
    """To the byte, while more is always staged: entries are padded in frames."""
    wal = wal_on(tmp_path, segments=3)
    with joined(tmp_path, wal) as (log,):
        append(log, 7, size=900_001)
        size = log.size_bytes // 7
        assert size % 8 and wal.stats()["staged_bytes"] == log.size_bytes == 7 * size
        for durable in (4, 7):
            wal.commit()
            stats = wal.stats()
            assert stats["payload_bytes"] == durable * size
            assert stats["staged_bytes"] == (7 - durable) * size


def test_the_thread_commits_and_wakes(tmp_path, io):
    wal = wal_on(tmp_path, io=io)
    with joined(tmp_path, wal) as (log,):
        fd = os.eventfd(0, os.EFD_NONBLOCK)
        wal.wake_by(CONTROL, fd)
        wal.control_waits()
        wal.start()
        append(log)
        assert readable(fd, HANG_S)
        assert wal.durable_frame == staged_frame(log)
        wal.stop()
        os.close(fd)


def test_nobody_waits_for_a_trailer_to_be_written(tmp_path):
    """A device stalls while the log continues in a recycled segment: staging and figures do not wait."""
    wal = wal_on(tmp_path, segments=2)
    writing, leave = threading.Event(), threading.Event()
    waited = []

    def make(original):
        def slow(fd, data, size, position):
            if position == SEGMENT_BYTES - BLOCK and not waited:
                writing.set()
                waited.append(leave.wait(HANG_S))
            return original(fd, data, size, position)

        return slow

    with joined(tmp_path, wal) as (log,), replaced("write_durable", make):
        wal.start()
        while not writing.is_set():
            append(log, 4, size=100_000)
            while wal.durable_frame < wal.staged_frame and not writing.is_set():
                log.flush()
                wal.released(wal.closed_frame)
        before = staged_frame(log)
        append(log, 4, size=100_000)
        assert staged_frame(log) >= before and wal.stats()["staged_bytes"] > 0
        leave.set()
        while wal.durable_frame < wal.staged_frame:
            log.flush()
            wal.released(wal.closed_frame)
        wal.stop()
    assert waited == [True]


def test_many_threads_append_to_many_logs(tmp_path, io):
    wal = wal_on(tmp_path, io=io, segments=8)
    with joined(tmp_path, wal, partitions=4) as logs:
        wal.start()
        threads = [threading.Thread(target=append, args=(log, 200, 1000)) for log in logs for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        wal.stop()
        assert wal.durable_frame == wal.staged_frame and wal.failure is None
        assert [log.log_end_offset for log in logs] == [400] * 4


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EROFS])
def test_a_failed_write_ends_it_and_says_so(tmp_path, error):
    wal = wal_on(tmp_path)
    with joined(tmp_path, wal) as (log,):
        append(log)
        with failing("write_durable", error), pytest.raises(WalError, match=os.strerror(error)):
            wal.commit()
        assert wal.failure == error and log.high_watermark == 0
        with pytest.raises(LogError, match="write-ahead log"):
            append(log)
        assert log.failed and log.log_end_offset == 1
        assert log.read(0, 1 << 20, "log_end")


def test_short_writes_are_gone_on_with(tmp_path):
    wal = wal_on(tmp_path)

    def make(original):
        return lambda fd, data, size, position: original(fd, data, min(size, 2 * BLOCK), position)

    with joined(tmp_path, wal) as (log,), replaced("write_durable", make):
        append(log, 3, size=20_000)
        assert wal.commit()


def test_a_segment_that_cannot_be_made_leaves_nothing(tmp_path):
    wal = wal_on(tmp_path, segments=0)
    with (
        failing("pwritev", errno.ENOSPC, after=2),
        pytest.raises(WalError, match=r"bowstring\.wal\.0.*No space"),
    ):
        wal.add_segment(0)
    assert not list(tmp_path.glob("bowstring.wal.*"))


def test_io_uring_may_be_missing(tmp_path):
    assert WriteAheadLog(tmp_path, liburing=None).io == "pwrite"
    fallen_back = WriteAheadLog(tmp_path, liburing="/nowhere/liburing.so")
    assert fallen_back.io == "pwrite" and "cannot be loaded" in fallen_back.io_reason
    with pytest.raises(WalError, match="io_uring is unavailable"):
        WriteAheadLog(tmp_path, io="io_uring", liburing=None)
    assert WriteAheadLog(tmp_path, liburing=liburing_path()).io == "io_uring"


def test_settings_that_make_no_sense_are_refused(tmp_path):
    with pytest.raises(ValueError, match="segment_bytes"):
        WriteAheadLog(tmp_path, segment_bytes=1000)
    with pytest.raises(ValueError, match="io must be"):
        WriteAheadLog(tmp_path, io="mmap")
