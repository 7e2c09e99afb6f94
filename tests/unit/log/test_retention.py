"""What leaves a log: retention by time, size and log start, DeleteRecords, and files unlinked after their delay."""

import pytest

from bowstring._native.log.partition_log import LogError
from tests.support.log_batches import NOW_MS, batch, fill, names, offsets, open_files, open_log, segment_name

DAY_MS = 86400000


def filled(directory, **config):
    """Ten segments of 40 records; segment i's largest timestamp is NOW_MS + i * 4000 + 3909."""
    log = open_log(directory, segment_bytes=5000, **config)
    fill(log, 40, step_ms=1000)
    log.advance_high_watermark(400)
    assert [base for base, _, _ in log.segments()] == list(range(0, 400, 40))
    return log


def test_nothing_goes_by_default(tmp_path):
    log = filled(tmp_path)
    assert log.apply_retention(NOW_MS + 1000 * DAY_MS) == []


def test_retention_by_time(tmp_path):
    log = filled(tmp_path, retention_ms=10_000)
    largest = [timestamp for _, _, timestamp in log.segments()]
    assert log.apply_retention(largest[2] + 10_000) == [(0, "retention-ms"), (40, "retention-ms")]
    assert log.log_start_offset == 80 and log.epochs() == [(0, 80)]
    assert log.apply_retention(largest[2] + 10_000) == []
    with pytest.raises(LogError):
        log.read(79, 100)
    assert offsets(log.read(80, 1)) == [(80, 89)]


def test_everything_past_retention_rolls_first(tmp_path):
    log = filled(tmp_path, retention_ms=10_000)
    assert len(log.apply_retention(NOW_MS + DAY_MS)) == 10
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (400, 400, 0)
    assert [base for base, _, _ in log.segments()] == [400]
    assert log.apply_retention(NOW_MS + 2 * DAY_MS) == []
    assert log.append(batch(), 0, NOW_MS) == 400


def test_retention_by_size_keeps_at_least_that_much(tmp_path):
    log = filled(tmp_path, retention_bytes=20_000)
    size = log.segments()[0][1]
    gone = log.apply_retention(NOW_MS)
    assert {reason for _, reason in gone} == {"retention-bytes"}
    assert 20_000 <= log.size_bytes < 20_000 + size


def test_what_is_not_committed_stays(tmp_path):
    log = open_log(tmp_path, segment_bytes=5000, retention_ms=1000)
    fill(log, 40)
    log.advance_high_watermark(85)
    assert [base for base, _ in log.apply_retention(NOW_MS + DAY_MS)] == [0, 40]
    assert log.log_start_offset == 80


def test_without_the_delete_policy_only_the_log_start_counts(tmp_path):
    log = filled(tmp_path, retention_ms=1000, retention_bytes=1, delete_enabled=0)
    assert log.apply_retention(NOW_MS + DAY_MS) == []
    log.delete_records(100)
    assert log.apply_retention(NOW_MS) == [(0, "start-offset"), (40, "start-offset")]


def test_delete_records(tmp_path):
    log = filled(tmp_path)
    assert log.delete_records(85) == 85
    assert log.delete_records(10) == 85
    for offset in (401, -2):
        with pytest.raises(LogError) as raised:
            log.delete_records(offset)
        assert raised.value.code == 1
    assert offsets(log.read(85, 1)) == [(80, 89)]
    assert log.offset_for_timestamp(0)[1] == 85
    assert log.delete_records(-1) == 400
    assert log.read(400, 100) == b""
    log.close()
    log = open_log(tmp_path, start=400)
    assert (log.log_start_offset, log.log_end_offset) == (400, 400)


def test_segments_without_timestamps_age_by_their_file(tmp_path):
    log = open_log(tmp_path, retention_ms=DAY_MS)
    log.append(batch(timestamp=-1, step_ms=0), 0, NOW_MS)
    log.advance_high_watermark(1)
    written_ms = int((tmp_path / segment_name(0, ".log")).stat().st_mtime * 1000)
    assert log.apply_retention(written_ms + DAY_MS - 1000) == []
    assert log.apply_retention(written_ms + DAY_MS + 1000) == [(0, "retention-ms")]


def test_files_wait_for_their_delay(tmp_path):
    log = filled(tmp_path, retention_ms=10_000, file_delete_delay_ms=500)
    now = NOW_MS + 15_000
    assert [base for base, _ in log.apply_retention(now)] == [0]
    renamed = {segment_name(0, s + ".deleted") for s in (".log", ".index", ".timeindex")}
    assert renamed <= names(tmp_path) and segment_name(0, ".log") not in names(tmp_path)
    assert log.stats()["deleted_files"] == 3
    assert log.delete_expired_files(now + 499) == 0
    assert log.delete_expired_files(now + 500) == 3
    assert not renamed & names(tmp_path) and log.stats()["deleted_files"] == 0


def test_snapshots_go_with_their_segments(tmp_path):
    log = filled(tmp_path, retention_ms=10_000)
    log.apply_retention(NOW_MS + 30_000)
    start = log.log_start_offset
    kept = {int(name[:20]) for name in names(tmp_path) if name.endswith(".snapshot")}
    assert kept == set(range(start, 400, 40))


def test_deleted_segments_give_their_files_back(tmp_path):
    log = filled(tmp_path, retention_ms=10_000)
    for base in range(0, 400, 40):
        log.read(base, 1)
    assert open_files(tmp_path) > 5
    log.apply_retention(NOW_MS + DAY_MS)
    log.close()
    assert open_files(tmp_path) == 0


def test_configure(tmp_path):
    log = filled(tmp_path)
    from tests.support.log_batches import CONFIG

    log.configure(CONFIG | {"retention_bytes": 5000})
    assert len(log.apply_retention(NOW_MS)) == 8
