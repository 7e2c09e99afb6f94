"""Checkpoints of many logs, and recovery that begins at the recovery point."""

import errno
import os
import random
import shutil
import struct

import pytest

from bowstring._native.log.checkpoint import flush_logs, flush_rolled
from tests.support import faults
from tests.support.cold_logs import flip
from tests.support.log_batches import (
    NOW_MS,
    TRANSACTIONAL,
    batch,
    crash,
    everything,
    fill,
    headers,
    index_entries,
    marker,
    names,
    offsets,
    open_log,
    segment_name,
    time_entries,
)


def snapshots(directory):
    return sorted(int(name[:20]) for name in names(directory) if name.endswith(".snapshot"))


def indexes(directory, base=0):
    return index_entries(directory, base), time_entries(directory, base)


def reopened(directory, point, **config):
    return open_log(directory, clean=False, recovery_point=point, index_interval_bytes=500, **config)


# ---------------------------------------------------------------- checkpoints


@pytest.mark.parametrize("bulk_from", [1, 100])
def test_a_checkpoint_advances_what_is_new_and_passes_over_the_rest(tmp_path, bulk_from):
    logs = []
    for i in range(12):
        (tmp_path / f"t-{i}").mkdir()
        logs.append(open_log(tmp_path / f"t-{i}"))
        fill(logs[-1], i)
    outcome = flush_logs(logs, bulk_from=bulk_from)
    assert outcome == {"flushed": 11, "failed": 0, "file_systems": 1 if bulk_from == 1 else 0}
    assert [log.recovery_point for log in logs] == [10 * i for i in range(12)]
    assert [snapshots(tmp_path / f"t-{i}") for i in range(3)] == [[], [10], [20]]
    assert flush_logs(logs, bulk_from=bulk_from) == {"flushed": 0, "failed": 0, "file_systems": 0}
    fill(logs[3], 1)
    assert flush_logs(logs, bulk_from=bulk_from)["flushed"] == 1 and logs[3].recovery_point == 40


def test_a_checkpoint_writes_index_tails_and_epochs_out(tmp_path):
    log = open_log(tmp_path, index_interval_bytes=500)
    fill(log, 40, epoch=4)
    assert index_entries(tmp_path, 0) == []
    flush_logs([log])
    assert len(index_entries(tmp_path, 0)) == 39 and len(time_entries(tmp_path, 0)) == 39
    assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n1\n4 0\n"


def test_only_the_last_two_snapshots_are_kept(tmp_path):
    log = open_log(tmp_path, segment_bytes=8000)
    for _ in range(5):
        fill(log, 1)
        flush_logs([log])
    assert snapshots(tmp_path) == [40, 50]
    log.append(batch(producer_id=7, epoch=0, sequence=0), 0, NOW_MS)
    for _ in range(4):
        fill(log, 1)
        flush_logs([log])
    bases = [base for base, _, _ in log.segments()]
    assert snapshots(tmp_path) == sorted({*bases[1:], 81, 91})
    log.close()
    log = open_log(tmp_path, segment_bytes=8000)
    for _ in range(3):
        fill(log, 1)
        flush_logs([log])
    bases = [base for base, _, _ in log.segments()]
    assert snapshots(tmp_path) == sorted({*bases[1:], 111, 121})


def test_closing_makes_no_file_for_producers_that_never_were(tmp_path):
    """A clean start without snapshots begins without producers, as Kafka's does."""
    log = open_log(tmp_path)
    fill(log, 2)
    log.close()
    assert snapshots(tmp_path) == []
    assert open_log(tmp_path).log_end_offset == 20


def test_closing_renames_an_empty_snapshot_of_a_checkpoint(tmp_path):
    log = open_log(tmp_path)
    fill(log, 2)
    flush_logs([log])
    (before,) = tmp_path.glob("*.snapshot")
    number = before.stat().st_ino
    fill(log, 1)
    log.close()
    assert snapshots(tmp_path) == [30]
    (after,) = tmp_path.glob("*.snapshot")
    assert after.stat().st_ino == number


def test_a_snapshot_that_a_segment_begins_with_is_left_alone(tmp_path):
    log = open_log(tmp_path)
    fill(log, 2)
    flush_logs([log])
    log.roll()
    for _ in range(4):
        fill(log, 1)
        flush_logs([log])
    assert snapshots(tmp_path) == [20, 50, 60]


@pytest.mark.parametrize("bulk_from", [1, 100])
def test_a_log_that_cannot_be_flushed_fails_alone(tmp_path, bulk_from):
    logs = []
    for i in range(3):
        (tmp_path / f"t-{i}").mkdir()
        logs.append(open_log(tmp_path / f"t-{i}"))
        fill(logs[-1], 1)
    bad = {os.stat(tmp_path / "t-1" / segment_name(0, ".log")).st_ino}

    def breaking(original):
        return lambda fd: -errno.EIO if os.fstat(fd).st_ino in bad else original(fd)

    with (
        faults.replaced("sync", breaking),
        faults.failing("sync_file_system", errno.EIO),
    ):
        outcome = flush_logs(logs, bulk_from=bulk_from)
    assert outcome == {"flushed": 2, "failed": 1, "file_systems": 0}
    assert [log.failed for log in logs] == [False, True, False]
    assert [log.recovery_point for log in logs] == [10, 0, 10]
    assert "flushing the log" in logs[1].stats()["failure"]


def test_rolled_segments_are_flushed_and_the_active_one_is_not(tmp_path):
    log = open_log(tmp_path, segment_bytes=5000)
    fill(log, 3)
    assert flush_rolled([log]) == 0 and log.recovery_point == 0
    fill(log, 30)
    bases = [base for base, _, _ in log.segments()]
    assert flush_rolled([log]) == 1 and log.recovery_point == bases[-1]
    assert flush_rolled([log]) == 0
    with faults.failing("sync", errno.EIO):
        fill(log, 10)
        assert flush_rolled([log]) == 0 and log.failed


def test_closed_and_deleted_logs_are_passed_over(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
    a, b = open_log(tmp_path / "a"), open_log(tmp_path / "b")
    fill(a, 1)
    fill(b, 1)
    a.close()
    (tmp_path / "b").rename(tmp_path / "gone")
    b.mark_deleted(tmp_path / "gone")
    assert flush_logs([a, b])["flushed"] == 0
    assert flush_logs([]) == {"flushed": 0, "failed": 0, "file_systems": 0}
    with pytest.raises(TypeError):
        flush_logs(["a log"])


# ---------------------------------------------------------------- beginning at the recovery point


def filled(directory, before, after, *, checkpoint=True, **config):
    """A log with `before` batches, a checkpoint (or a flush), and `after` more; crashed. (recovery point, its bytes)."""
    log = open_log(directory, index_interval_bytes=500, **config)
    fill(log, before, epoch=1)
    log.append(batch(producer_id=5, epoch=2, sequence=0), 1, NOW_MS)
    point = flush_logs([log]) and log.recovery_point if checkpoint else log.flush()
    below = log.size_bytes
    fill(log, after, epoch=2)
    log.append(batch(producer_id=6, epoch=0, sequence=0), 2, NOW_MS)
    log.append(batch(producer_id=5, epoch=2, sequence=1), 2, NOW_MS)
    crash(log)
    return point, below


@pytest.mark.parametrize("checkpoint", [True, False])
def test_only_what_was_written_since_is_read_and_all_is_as_before(tmp_path, checkpoint):
    for name in "ab":
        (tmp_path / name).mkdir()
    point, below = filled(tmp_path / "a", 60, 30, checkpoint=checkpoint)
    shutil.copytree(tmp_path / "a", tmp_path / "b", dirs_exist_ok=True)
    whole, resumed = reopened(tmp_path / "a", 0), reopened(tmp_path / "b", point)
    assert whole.stats()["recovered_bytes"] == whole.size_bytes
    assert resumed.stats()["recovered_bytes"] == resumed.size_bytes - below
    assert resumed.active_producers() == whole.active_producers() != []
    assert resumed.epochs() == whole.epochs() == [(1, 0), (2, 601)]
    assert everything(resumed) == everything(whole)
    assert resumed.segments() == whole.segments() and resumed.max_timestamp() == whole.max_timestamp()
    assert resumed.recovery_point == point and resumed.take_findings() == []
    assert resumed.append(batch(producer_id=5, epoch=2, sequence=1), 2, NOW_MS) == 902  # a duplicate
    for log in (whole, resumed):
        fill(log, 30)
        log.close()
    assert indexes(tmp_path / "a") == indexes(tmp_path / "b")


@pytest.mark.parametrize("kept", [0, 8, 12, 100, -8, -1])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_what_an_index_lost_is_entered_again(tmp_path, suffix, kept):
    for name in "ab":
        (tmp_path / name).mkdir()
    point, _ = filled(tmp_path / "a", 60, 30)
    shutil.copytree(tmp_path / "a", tmp_path / "b", dirs_exist_ok=True)
    path = tmp_path / "b" / segment_name(0, suffix)
    os.truncate(path, kept % path.stat().st_size)
    whole, resumed = reopened(tmp_path / "a", 0), reopened(tmp_path / "b", point)
    assert everything(whole) == everything(resumed)
    assert indexes(tmp_path / "a") == indexes(tmp_path / "b")


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("junk", [b"\0" * 4000, b"\xff" * 4000, random.Random(3).randbytes(4000)])
@pytest.mark.parametrize("where", ["instead", "behind", "middle"])
def test_an_index_of_junk_is_found_out(tmp_path, suffix, junk, where):
    for name in "ab":
        (tmp_path / name).mkdir()
    point, _ = filled(tmp_path / "a", 60, 30)
    shutil.copytree(tmp_path / "a", tmp_path / "b", dirs_exist_ok=True)
    path = tmp_path / "b" / segment_name(0, suffix)
    data = path.read_bytes()
    path.write_bytes(
        {"instead": junk, "behind": data + junk, "middle": data[:120] + junk + data[120:]}[where]
    )
    whole, resumed = reopened(tmp_path / "a", 0), reopened(tmp_path / "b", point)
    assert everything(whole) == everything(resumed)
    assert indexes(tmp_path / "a") == indexes(tmp_path / "b")


def test_a_point_of_another_log_is_not_believed(tmp_path):
    """A topic that was deleted and made anew, and a crash before the checkpoint file was written again."""
    point, below = filled(tmp_path, 20, 5)
    path = tmp_path / segment_name(0, ".log")
    data = path.read_bytes()
    for wrong in (point + 3, 10**6):
        path.write_bytes(data[:-10])
        log = reopened(tmp_path, wrong)
        assert log.log_end_offset == 252 and log.stats()["recovered_bytes"] > below
        assert log.stats()["truncated_bytes"] > 0
        assert log.recovery_point <= 252
        crash(log)


def test_damaged_snapshots_do_not_matter(tmp_path):
    point, _ = filled(tmp_path, 20, 5)
    (path,) = [tmp_path / segment_name(at, ".snapshot") for at in snapshots(tmp_path)]
    expected = reopened(tmp_path, 0).active_producers()
    for content in (b"", b"junk" * 20, None):
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_bytes(content)
        log = reopened(tmp_path, point)
        assert log.active_producers() == expected and log.log_end_offset == 253
        crash(log)
        for at in snapshots(tmp_path):
            (tmp_path / segment_name(at, ".snapshot")).unlink()


def test_a_torn_tail_above_the_point_is_cut_off_and_said(tmp_path):
    point, below = filled(tmp_path, 20, 5)
    path = tmp_path / segment_name(0, ".log")
    os.truncate(path, path.stat().st_size - 7)
    log = reopened(tmp_path, point)
    assert log.log_end_offset == 252
    (found,) = log.take_findings()
    assert found["file"] == path.name and found["position"] == log.size_bytes > below
    assert found["first_offset"] == 252 and not found["out_of_service"]
    assert log.take_findings() == []


def test_zeroed_pages_above_the_point(tmp_path):
    point, below = filled(tmp_path, 60, 60)
    path = tmp_path / segment_name(0, ".log")
    data = bytearray(path.read_bytes())
    start = (below + 8191) // 4096 * 4096
    data[start : start + 4096] = bytes(4096)
    path.write_bytes(data)
    log = reopened(tmp_path, point)
    assert point < log.log_end_offset < 1200 and log.size_bytes <= start
    assert offsets(everything(log))[-1][1] == log.log_end_offset - 1


def transactions(directory):
    log = open_log(directory, index_interval_bytes=500)
    for round_ in range(6):
        for producer in (1, 2):
            log.append(
                batch(producer_id=producer, epoch=0, sequence=round_, attributes=TRANSACTIONAL), 0, NOW_MS
            )
            log.append(marker(producer, 0, abort=producer == 1), 0, NOW_MS)
        fill(log, 3)
        if round_ == 3:
            flush_logs([log])
    log.append(batch(producer_id=3, epoch=0, sequence=0, attributes=TRANSACTIONAL), 0, NOW_MS)
    point = log.recovery_point
    crash(log)
    return point


@pytest.mark.parametrize("damage", [None, "odd", "more", "junk", "gone above"])
def test_transactions_are_the_same_again(tmp_path, damage):
    for name in "ab":
        (tmp_path / name).mkdir()
    point = transactions(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b", dirs_exist_ok=True)
    path = tmp_path / "b" / segment_name(0, ".txnindex")
    data = path.read_bytes()
    if damage == "odd":
        path.write_bytes(data[:-3])
    elif damage == "more":
        path.write_bytes(data + data[-34:])
    elif damage == "junk":
        path.write_bytes(b"\x07" * len(data))
    elif damage == "gone above":
        path.write_bytes(data[: 4 * 34])
    whole, resumed = reopened(tmp_path / "a", 0), reopened(tmp_path / "b", point)
    assert resumed.aborted_transactions(0, 1 << 40) == whole.aborted_transactions(0, 1 << 40) != []
    assert path.read_bytes() == (tmp_path / "a" / path.name).read_bytes() == data
    assert resumed.stats()["ongoing_transactions"] == whole.stats()["ongoing_transactions"] == 1
    assert resumed.active_producers() == whole.active_producers()


def test_a_lost_epoch_file_is_found_again_after_a_crash(tmp_path):
    point, _ = filled(tmp_path, 20, 5)
    (tmp_path / "leader-epoch-checkpoint").unlink()
    assert reopened(tmp_path, point).epochs() == [(1, 0), (2, 201)]


# ---------------------------------------------------------------- damage below the recovery point


def test_damage_below_the_point_stays_and_the_log_goes_on(tmp_path):
    """An index that is in doubt makes recovery read the whole segment, and come upon it."""
    point, _ = filled(tmp_path, 20, 5)
    path = tmp_path / segment_name(0, ".log")
    size = path.stat().st_size
    found = headers(path.read_bytes())
    at = sum(each.size_bytes for each in found[:4])
    flip(path, at + 300)
    (tmp_path / segment_name(0, ".index")).write_bytes(struct.pack(">ii", 5, 3) + bytes(80))
    (tmp_path / segment_name(0, ".timeindex")).write_bytes(bytes(24))
    log = reopened(tmp_path, point)
    (damage,) = log.take_findings()
    assert (damage["file"], damage["position"], damage["size_bytes"]) == (path.name, at, found[4].size_bytes)
    assert (damage["first_offset"], damage["end_offset"]) == (40, 50) and damage["out_of_service"]
    assert path.stat().st_size == size and log.log_end_offset == 253


@pytest.mark.parametrize("batches", [1, 3])
def test_headers_zeroed_below_the_point_stay_too(tmp_path, batches):
    point, _ = filled(tmp_path, 20, 5)
    path = tmp_path / segment_name(0, ".log")
    found = headers(path.read_bytes())
    at = sum(each.size_bytes for each in found[:18])
    data = bytearray(path.read_bytes())
    wiped = sum(each.size_bytes for each in found[18 : 18 + batches]) - 5
    data[at : at + wiped] = bytes(wiped)
    path.write_bytes(data)
    os.truncate(tmp_path / segment_name(0, ".index"), 8)
    log = reopened(tmp_path, point)
    assert log.log_end_offset == 253 and path.stat().st_size == len(data)
    damage = [each for each in log.take_findings() if each["out_of_service"]]
    assert damage[0]["position"] == at and damage[0]["size_bytes"] == wiped + 5
    assert (damage[0]["first_offset"], damage[0]["end_offset"]) == (180, min(180 + 10 * batches, 201))


def test_a_log_whose_end_below_the_point_is_destroyed_goes_on_behind_it(tmp_path):
    log = open_log(tmp_path)
    fill(log, 10)
    flush_logs([log])
    crash(log)
    path = tmp_path / segment_name(0, ".log")
    data = bytearray(path.read_bytes())
    at = sum(each.size_bytes for each in headers(bytes(data))[:8])
    data[at:] = bytes(len(data) - at)
    path.write_bytes(data)
    log = reopened(tmp_path, 100)
    assert [base for base, _, _ in log.segments()] == [0, 100] and log.log_end_offset == 100
    assert path.read_bytes() == data
    assert log.append(batch(), 0, NOW_MS) == 100
    assert offsets(log.read(100, 1000, "log_end")) == [(100, 100)]
    crash(log)
    assert reopened(tmp_path, 100).log_end_offset == 101


def test_a_log_start_above_the_log_is_reported(tmp_path):
    log = open_log(tmp_path)
    fill(log, 5)
    log.close()
    log = open_log(tmp_path, start=80)
    (found,) = log.take_findings()
    assert "log-start-offset-checkpoint" in found["what"]
    assert (found["first_offset"], found["end_offset"]) == (50, 80) and log.log_end_offset == 80


def test_a_missing_segment_is_reported(tmp_path):
    log = open_log(tmp_path, segment_bytes=5000)
    fill(log, 50)
    flush_logs([log])
    bases = [base for base, _, _ in log.segments()]
    crash(log)
    (tmp_path / segment_name(bases[2], ".log")).unlink()
    log = reopened(tmp_path, 500, segment_bytes=5000)
    (hole,) = [each for each in log.take_findings() if "missing" in each["what"]]
    assert (hole["first_offset"], hole["end_offset"]) == (bases[2], bases[3])
    assert hole["file"] == segment_name(bases[3], ".log")
    assert log.log_end_offset == 500
    assert offsets(log.read(bases[2], 1, "log_end"))[0][0] == bases[3]
