"""Truncation and leader epochs: the log, its epochs and its producers as they were at an earlier end."""

import pytest

from tests.support.log_batches import (
    NOW_MS,
    batch,
    fill,
    names,
    offsets,
    open_log,
    segment_name,
    time_entries,
)


@pytest.mark.parametrize("target", [0, 10, 15, 40, 41, 80, 120, 121, 155, 390, 399])
@pytest.mark.parametrize("reopened", [False, True])
def test_truncate_to(tmp_path, target, reopened):
    log = open_log(tmp_path, segment_bytes=5000, index_interval_bytes=1000)
    fill(log, 40)
    if reopened:
        log.close()
        log = open_log(tmp_path, segment_bytes=5000, index_interval_bytes=1000)
    log.advance_high_watermark(400)
    log.truncate_to(target)
    whole = target // 10 * 10
    # A gap would be taken for lost records after an unclean end.
    assert (log.log_end_offset, log.high_watermark, log.last_stable_offset) == (whole, whole, whole)
    data, position = b"", 0
    while position < whole:
        data += log.read(position, 1 << 20, "log_end")
        position = offsets(data)[-1][1] + 1
    assert offsets(data) == [(i, i + 9) for i in range(0, whole, 10)]
    assert log.size_bytes == len(data)
    expected = (NOW_MS + (whole - 10) * 10 + 9, whole - 1, 0) if whole else None
    assert log.max_timestamp() == expected
    assert log.append(batch(timestamp=NOW_MS + 10**6), 0, NOW_MS) == whole
    assert log.offset_for_timestamp(NOW_MS + 10**5)[1] == whole
    log.close()
    log = open_log(tmp_path, segment_bytes=5000, clean=False)
    assert log.log_end_offset == whole + 1


def test_what_follows_a_truncation_inside_a_batch_is_recovered(tmp_path):
    log = open_log(tmp_path)
    log.append(batch([b"a", b"b"]), 0, NOW_MS)
    log.truncate_to(1)
    log.roll()
    log.append(batch([b"c"]), 0, NOW_MS)
    log.close(sync=False)
    log = open_log(tmp_path, clean=False, recovery_point=0)
    assert (log.log_start_offset, log.log_end_offset) == (0, 1)


def test_truncating_above_the_end_does_nothing(tmp_path):
    log = open_log(tmp_path)
    fill(log, 2)
    log.truncate_to(20)
    log.truncate_to(1000)
    assert log.log_end_offset == 20 and log.stats()["truncations"] == 0


def test_a_truncated_segment_is_active_again(tmp_path):
    log = open_log(tmp_path, segment_bytes=5000)
    fill(log, 12)
    log.truncate_to(60)
    assert [base for base, _, _ in log.segments()] == [0, 40]
    fill(log, 2)
    assert [base for base, _, _ in log.segments()] == [0, 40]
    assert segment_name(80, ".log.deleted") in names(tmp_path)
    log.close()
    assert time_entries(tmp_path, 40)[-1] == (NOW_MS + 709, 79)


def test_truncate_fully(tmp_path):
    log = open_log(tmp_path, segment_bytes=5000)
    fill(log, 20)
    log.truncate_fully_and_start_at(1000)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (1000, 1000, 1000)
    assert log.epochs() == [] and log.size_bytes == 0 and log.leader_epoch == -1
    assert log.append(batch(), 4, NOW_MS) == 1000
    assert log.epochs() == [(4, 1000)]


def test_truncating_below_the_first_segment_starts_there(tmp_path):
    log = open_log(tmp_path, start=100)
    fill(log, 2)
    log.truncate_to(50)
    assert (log.log_start_offset, log.log_end_offset) == (50, 50)


def test_producers_go_back(tmp_path):
    log = open_log(tmp_path, segment_bytes=500)
    for sequence in range(20):
        log.append(batch(producer_id=3, epoch=1, sequence=sequence), 0, NOW_MS)
    for target in (15, 11, 7):
        log.truncate_to(target)
        assert log.active_producers() == [(3, 1, target - 1, NOW_MS, -1, -1)]
    assert log.append(batch(producer_id=3, epoch=1, sequence=7), 0, NOW_MS) == 7


def test_stale_cursors_after_truncation(tmp_path):
    """Another batch now begins where the old reader stopped."""
    log = open_log(tmp_path)
    fill(log, 3)
    log.truncate_to(10)
    log.append(batch([b"long" * 40] * 5), 1, NOW_MS)
    assert offsets(log.read(10, 1 << 20, "log_end")) == [(10, 14)]


def test_epochs_follow_the_batches(tmp_path):
    log = open_log(tmp_path)
    for epoch in (0, 0, 2, 5, 5):
        fill(log, 1, epoch=epoch)
    assert log.epochs() == [(0, 0), (2, 20), (5, 30)]
    log.flush()
    assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n3\n0 0\n2 20\n5 30\n"


def test_end_offset_for_epoch(tmp_path):
    log = open_log(tmp_path)
    assert log.end_offset_for_epoch(0) == (-1, -1)
    for epoch in (1, 3, 6):
        fill(log, 1, epoch=epoch)
    answers = {
        -1: (-1, -1),
        0: (0, 0),
        1: (1, 10),
        2: (1, 10),
        3: (3, 20),
        5: (3, 20),
        6: (6, 30),
        7: (-1, -1),
    }
    assert {epoch: log.end_offset_for_epoch(epoch) for epoch in answers} == answers
    assert [log.epoch_for_offset(offset) for offset in (0, 9, 10, 29, 30)] == [1, 1, 3, 6, 6]


def test_assigned_epochs(tmp_path):
    log = open_log(tmp_path)
    log.assign_epoch(0, 0)
    fill(log, 1, epoch=0)
    log.assign_epoch(3, 10)
    assert log.leader_epoch == 3 and log.end_offset_for_epoch(0) == (0, 10)
    log.assign_epoch(4, 10)  # nothing was written in epoch 3
    assert log.epochs() == [(0, 0), (4, 10)]
    log.assign_epoch(2, 5)  # contradicts the entries after it
    assert log.epochs() == [(0, 0), (2, 5)]
    with pytest.raises(ValueError, match="negative"):
        log.assign_epoch(-1, 5)
    log.close()
    assert open_log(tmp_path).epochs() == [(0, 0), (2, 5)]


def test_truncation_and_log_start_cut_epochs(tmp_path):
    log = open_log(tmp_path)
    for epoch in range(5):
        fill(log, 1, epoch=epoch)
    log.truncate_to(30)
    assert log.epochs() == [(0, 0), (1, 10), (2, 20)] and log.leader_epoch == 2
    log.advance_high_watermark(30)
    log.delete_records(15)
    assert log.epochs() == [(1, 15), (2, 20)]
    log.assign_epoch(9, 30)
    log.truncate_to(30)
    assert log.leader_epoch == 2
