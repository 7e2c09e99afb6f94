"""Transactions as the log sees them: last stable offset, markers, the .txnindex, and after a restart."""

import errno
import os
import struct

import pytest

from bowstring._native.log.partition_log import LogError
from tests.support.faults import replaced
from tests.support.log_batches import (
    NOW_MS,
    TRANSACTIONAL,
    batch,
    crash,
    marker,
    names,
    offsets,
    open_log,
    segment_name,
)


def write(log, producer_id, sequence, *, records=1, epoch=0):
    data = batch(
        [b"t"] * records, producer_id=producer_id, epoch=epoch, sequence=sequence, attributes=TRANSACTIONAL
    )
    return log.append(data, 0, NOW_MS)


def end(log, producer_id, *, abort, epoch=0, coordinator_epoch=0):
    return log.append(marker(producer_id, epoch, abort=abort, coordinator_epoch=coordinator_epoch), 0, NOW_MS)


def committed(log):
    log.advance_high_watermark(log.log_end_offset)
    return log.last_stable_offset


def aborted_entries(directory, base_offset=0):
    """(producer id, first offset, last offset, last stable offset) in a .txnindex."""
    data = (directory / segment_name(base_offset, ".txnindex")).read_bytes()
    entries = list(struct.iter_unpack(">hqqqq", data))
    assert all(entry[0] == 0 for entry in entries)
    return [entry[1:] for entry in entries]


def test_the_last_stable_offset_waits_for_the_marker_and_the_high_watermark(tmp_path):
    log = open_log(tmp_path)
    log.append(batch(), 0, NOW_MS)
    write(log, 5, 0)
    log.append(batch(), 0, NOW_MS)
    assert committed(log) == 1
    assert offsets(log.read(0, 1000, "last_stable")) == [(0, 0)]
    end(log, 5, abort=False)
    assert log.last_stable_offset == 1  # the marker is not below the high watermark yet
    assert committed(log) == 4
    assert segment_name(0, ".txnindex") not in names(tmp_path)


def test_aborted_transactions_are_indexed(tmp_path):
    log = open_log(tmp_path)
    write(log, 1, 0)  # 0
    write(log, 2, 0)  # 1
    end(log, 1, abort=True)  # 2
    write(log, 1, 1)  # 3
    end(log, 2, abort=True)  # 4
    end(log, 1, abort=False)  # 5
    write(log, 2, 1)  # 6
    end(log, 2, abort=True)  # 7
    assert aborted_entries(tmp_path) == [(1, 0, 2, 1), (2, 1, 4, 3), (2, 6, 7, 8)]
    assert committed(log) == 8
    assert log.aborted_transactions(0, 8) == [(1, 0), (2, 1), (2, 6)]
    assert log.aborted_transactions(3, 5) == [(2, 1)]
    assert log.aborted_transactions(5, 6) == []
    assert log.aborted_transactions(0, 1) == [(1, 0)]


def test_markers_are_checked(tmp_path):
    log = open_log(tmp_path)
    write(log, 1, 0, epoch=3)
    with pytest.raises(LogError) as raised:
        end(log, 1, abort=True, epoch=2)
    assert raised.value.code == 47
    end(log, 1, abort=True, epoch=4, coordinator_epoch=6)
    with pytest.raises(LogError) as raised:
        end(log, 1, abort=True, epoch=4, coordinator_epoch=5)
    assert raised.value.code == 52
    assert write(log, 1, 0, epoch=4) == 2  # the marker's epoch counts: it begins at 0 again


def test_plain_batches_of_a_producer_in_a_transaction_are_refused(tmp_path):
    log = open_log(tmp_path)
    write(log, 1, 0)
    with pytest.raises(LogError) as raised:
        log.append(batch(producer_id=1, epoch=0, sequence=1), 0, NOW_MS)
    assert raised.value.code == 48
    end(log, 1, abort=False)
    assert log.append(batch(producer_id=1, epoch=0, sequence=1), 0, NOW_MS) == 2


def test_a_marker_without_a_transaction_changes_nothing_readers_see(tmp_path):
    log = open_log(tmp_path)
    end(log, 9, abort=True)
    assert committed(log) == 1 and log.aborted_transactions(0, 10) == []
    assert log.active_producers() == [(9, 0, -1, NOW_MS, 0, -1)]


@pytest.mark.parametrize("clean", [True, False])
def test_transactions_survive_a_restart(tmp_path, clean):
    log = open_log(tmp_path, segment_bytes=400)
    write(log, 1, 0)
    write(log, 2, 0)
    for i in range(1, 10):
        write(log, 3, i - 1)
        end(log, 3, abort=i % 2 == 0)
    end(log, 1, abort=True)
    pairs, producers = log.aborted_transactions(0, 100), log.active_producers()
    indexes = {path.name: path.read_bytes() for path in tmp_path.glob("*.txnindex")}
    assert len(indexes) > 1
    log.close() if clean else crash(log)
    if not clean:
        for path in tmp_path.glob("*.txnindex"):
            path.write_bytes(b"junk")
    log = open_log(tmp_path, segment_bytes=400, clean=clean)
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.txnindex")} == indexes
    assert log.aborted_transactions(0, 100) == pairs and log.active_producers() == producers
    assert committed(log) == 1  # producer 2 is still under way
    end(log, 2, abort=False)
    assert committed(log) == log.log_end_offset


def test_a_damaged_transaction_index_is_rebuilt(tmp_path):
    log = open_log(tmp_path)
    write(log, 1, 0)
    end(log, 1, abort=True)
    log.close()
    path = tmp_path / segment_name(0, ".txnindex")
    good = path.read_bytes()
    path.write_bytes(good[:-3])
    log = open_log(tmp_path)
    assert log.stats()["rebuilt_indexes"] == 1 and path.read_bytes() == good


def test_truncation_reopens_a_transaction(tmp_path):
    log = open_log(tmp_path)
    write(log, 1, 0)
    end(log, 1, abort=True)
    write(log, 1, 1)
    end(log, 1, abort=True)
    log.truncate_to(3)
    assert aborted_entries(tmp_path) == [(1, 0, 1, 2)]
    assert committed(log) == 2 and log.stats()["ongoing_transactions"] == 1
    log.truncate_to(1)
    assert segment_name(0, ".txnindex") not in names(tmp_path)
    assert committed(log) == 0
    end(log, 1, abort=False)
    assert committed(log) == 2


def test_a_truncation_opens_no_transaction_that_has_ended(tmp_path):
    """The records read again ended below the high watermark, which may not move again for long."""
    log = open_log(tmp_path)
    write(log, 5, 0)
    end(log, 5, abort=True)
    log.append(batch(), 0, NOW_MS)
    assert committed(log) == 3
    log.append(batch(), 0, NOW_MS)
    log.truncate_to(3)
    assert (log.high_watermark, log.last_stable_offset) == (3, 3)


def test_a_process_that_ends_within_a_truncation_loses_no_aborted_transaction(tmp_path):
    """Batches are cut before their entries: below the recovery point no start would find that entries are missing."""
    log = open_log(tmp_path)
    for sequence in range(3):
        write(log, 1, sequence)
        end(log, 1, abort=True)
    point = log.flush()
    path = os.path.realpath(tmp_path / segment_name(0, ".log"))

    def make(original):
        return lambda fd, size: (
            -errno.EIO if os.readlink(f"/proc/self/fd/{fd}") == path else original(fd, size)
        )

    with replaced("truncate", make), pytest.raises(LogError):
        log.truncate_to(2)
    crash(log)
    log = open_log(tmp_path, clean=False, recovery_point=point)
    assert log.log_end_offset == point == 6
    assert log.aborted_transactions(0, 6) == [(1, 0), (1, 2), (1, 4)]


def test_log_start_above_an_open_transaction(tmp_path):
    log = open_log(tmp_path)
    for i in range(5):
        write(log, 1, i)
    assert committed(log) == 0
    log.delete_records(3)
    assert log.last_stable_offset == 3
