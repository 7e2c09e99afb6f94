"""Opening a log again: after a clean shutdown, a crash, damage, and with files missing."""

import os
import random
import shutil

import pytest

from bowstring._native.log.partition_log import LogError
from tests.support.faults import replaced
from tests.support.log_batches import (
    NOW_MS,
    batch,
    crash,
    everything,
    fill,
    index_entries,
    names,
    offsets,
    open_log,
    segment_name,
    time_entries,
)


def made(directory):
    directory.mkdir()
    return directory


def test_clean_reopen_keeps_all_and_reads_little(tmp_path):
    log = open_log(tmp_path, segment_bytes=5000)
    fill(log, 50, epoch=3)
    before, segments = everything(log), log.segments()
    log.close()
    files = names(tmp_path)
    log = open_log(tmp_path, segment_bytes=5000)
    stats = log.stats()
    assert (stats["recovered_segments"], stats["rebuilt_indexes"], stats["recovery_point"]) == (0, 0, 500)
    assert everything(log) == before and log.segments() == segments
    assert log.leader_epoch == 3 and log.epochs() == [(3, 0)]
    assert log.append(batch(), 3, NOW_MS) == 500
    assert files <= names(tmp_path)


def test_closing_twice_and_using_a_closed_log(tmp_path):
    log = open_log(tmp_path)
    fill(log, 3)
    log.close()
    log.close()
    with pytest.raises(LogError) as raised:
        log.append(batch(), 0, NOW_MS)
    assert raised.value.code == 56
    with pytest.raises(LogError):
        log.read(0, 100, "log_end")


def test_a_crash_loses_nothing_that_was_written(tmp_path):
    log = open_log(tmp_path, segment_bytes=5000)
    fill(log, 20, epoch=1)
    log.flush()
    fill(log, 30, epoch=2)
    before = everything(log)
    crash(log)
    log = open_log(tmp_path, segment_bytes=5000, clean=False, recovery_point=200)
    stats = log.stats()
    assert stats["recovered_segments"] < len(log.segments()) and stats["truncated_bytes"] == 0
    assert everything(log) == before and log.log_end_offset == 500
    assert log.epochs() == [(1, 0), (2, 200)]
    assert log.recovery_point == 200


def test_recovery_rebuilds_the_same_indexes(tmp_path):
    log = open_log(made(tmp_path / "a"), index_interval_bytes=500)
    fill(log, 40)
    log.close()
    shutil.copy(tmp_path / "a" / segment_name(0, ".log"), made(tmp_path / "b"))
    log = open_log(tmp_path / "b", clean=False, index_interval_bytes=500)
    log.close()
    assert index_entries(tmp_path / "a", 0) == index_entries(tmp_path / "b", 0)
    assert time_entries(tmp_path / "a", 0) == time_entries(tmp_path / "b", 0)


def test_a_tail_torn_at_any_byte_is_cut_off(tmp_path):
    log = open_log(made(tmp_path / "whole"))
    fill(log, 3, records=2, value=b"abc")
    size = log.size_bytes // 3
    crash(log)
    data = (tmp_path / "whole" / segment_name(0, ".log")).read_bytes()
    for kept in range(2 * size, 3 * size + 1):
        directory = tmp_path / "torn"
        shutil.rmtree(directory, ignore_errors=True)
        made(directory)
        (directory / segment_name(0, ".log")).write_bytes(data[:kept])
        log = open_log(directory, clean=False)
        whole = kept // size
        assert log.log_end_offset == 2 * whole and log.size_bytes == whole * size
        assert log.stats()["truncated_bytes"] == kept - whole * size
        assert (directory / segment_name(0, ".log")).read_bytes() == data[: whole * size]
        assert log.append(batch(), 0, NOW_MS) == 2 * whole


def test_any_flipped_byte_cuts_the_log_before_its_batch(tmp_path):
    log = open_log(tmp_path)
    fill(log, 4, records=2, value=b"abc")
    size = log.size_bytes // 4
    crash(log)
    path = tmp_path / segment_name(0, ".log")
    data = path.read_bytes()
    # The first batch's base offset is below any other; its leader epoch and base offset have no CRC.
    for at in [*range(2 * size + 8, 2 * size + 12), *range(2 * size + 16, 3 * size)]:
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x41]) + data[at + 1 :])
        log = open_log(tmp_path, clean=False)
        assert log.log_end_offset == 4, at
        assert path.read_bytes() == data[: 2 * size]


@pytest.mark.parametrize("junk", [b"\0" * 5000, b"\xff" * 5000, random.Random(5).randbytes(5000)])
def test_junk_behind_the_log_is_cut_off(tmp_path, junk):
    log = open_log(tmp_path)
    fill(log, 10)
    size = log.size_bytes
    crash(log)
    with (tmp_path / segment_name(0, ".log")).open("ab") as file:
        file.write(junk)
    log = open_log(tmp_path, clean=False)
    assert log.log_end_offset == 100 and log.size_bytes == size
    assert log.stats()["truncated_bytes"] == 5000


def test_damage_drops_later_segments(tmp_path):
    log = open_log(tmp_path, segment_bytes=5000)
    fill(log, 50)
    bases = [base for base, _, _ in log.segments()]
    crash(log)
    path = tmp_path / segment_name(bases[3], ".log")
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)
    log = open_log(tmp_path, segment_bytes=5000, clean=False, recovery_point=bases[2])
    assert log.log_end_offset == bases[4] - 10
    assert [base for base, _, _ in log.segments()] == bases[:4]
    assert log.stats()["dropped_segments"] == len(bases) - 4
    assert segment_name(bases[4], ".log.deleted") in names(tmp_path)
    assert segment_name(bases[4], ".snapshot") not in names(tmp_path)
    assert log.append(batch(), 0, NOW_MS) == bases[4] - 10


def test_damage_below_the_recovery_point_is_not_looked_for(tmp_path):
    log = open_log(tmp_path, segment_bytes=5000)
    fill(log, 50)
    point = log.flush()
    crash(log)
    path = tmp_path / segment_name(0, ".log")
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    log = open_log(tmp_path, segment_bytes=5000, clean=False, recovery_point=point)
    assert log.log_end_offset == 500 and log.stats()["recovered_segments"] == 1


@pytest.mark.parametrize("suffixes", [[".index"], [".timeindex"], [".index", ".timeindex"]])
@pytest.mark.parametrize("which", [0, 2, -1])
@pytest.mark.parametrize("damage", ["missing", "odd size"])
def test_indexes_missing_after_a_clean_shutdown_are_rebuilt(tmp_path, suffixes, which, damage):
    log = open_log(tmp_path, segment_bytes=20_000, index_interval_bytes=1000)
    fill(log, 80)
    bases = [base for base, _, _ in log.segments()]
    before = everything(log)
    log.close()
    expected = {}
    for suffix in suffixes:
        path = tmp_path / segment_name(bases[which], suffix)
        expected[path] = path.read_bytes()
        if damage == "missing":
            path.unlink()
        else:
            path.write_bytes(path.read_bytes()[:-1])
    log = open_log(tmp_path, segment_bytes=20_000, index_interval_bytes=1000)
    assert log.stats()["rebuilt_indexes"] == 1 and log.stats()["dropped_segments"] == 0
    assert everything(log) == before
    assert {path: path.read_bytes() for path in expected} == expected
    log.close()


def test_an_index_that_lies_is_not_believed(tmp_path):
    log = open_log(tmp_path, index_interval_bytes=500)
    fill(log, 40)
    log.close()
    path = tmp_path / segment_name(0, ".index")
    data = bytearray(path.read_bytes())
    for at in range(7, len(data), 8):
        data[at] ^= 0x10
    path.write_bytes(data)
    log = open_log(tmp_path, index_interval_bytes=500)
    for offset in (0, 105, 233, 399):
        assert offsets(log.read(offset, 1, "log_end"))[0][0] == offset // 10 * 10


def test_orphaned_and_temporary_files_go(tmp_path):
    log = open_log(tmp_path)
    fill(log, 5)
    log.close()
    strays = [
        segment_name(77, ".index"), segment_name(77, ".timeindex"), segment_name(9, ".log.deleted"),
        segment_name(50, ".snapshot.tmp"), segment_name(3, ".snapshot"),
    ]  # fmt: skip
    for name in strays:
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "partition.metadata").write_text("version: 0\n")
    log = open_log(tmp_path)
    assert not names(tmp_path) & set(strays)
    assert "partition.metadata" in names(tmp_path) and log.log_end_offset == 50


def test_a_log_start_above_the_log_begins_anew(tmp_path):
    log = open_log(tmp_path)
    fill(log, 5)
    log.close()
    log = open_log(tmp_path, start=80)
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (80, 80, 0)
    assert log.epochs() == [] and [base for base, _, _ in log.segments()] == [80]
    assert log.append(batch(), 0, NOW_MS) == 80


def test_a_log_start_inside_the_log_is_kept(tmp_path):
    log = open_log(tmp_path)
    fill(log, 5)
    log.close()
    log = open_log(tmp_path, start=23)
    assert log.log_start_offset == 23 and log.high_watermark == 23
    with pytest.raises(LogError):
        log.read(22, 100, "log_end")
    assert offsets(log.read(23, 1, "log_end")) == [(20, 29)]
    assert log.epochs() == [(0, 23)]


@pytest.mark.parametrize("text", ["", "0\n", "0\n2\n1 0\n", "7\n0\n", "0\n1\nx y\n"])
def test_a_lost_epoch_file_is_found_again_in_the_batches(tmp_path, text):
    log = open_log(tmp_path)
    for epoch in (1, 4, 9):
        fill(log, 3, epoch=epoch)
    log.close()
    (tmp_path / "leader-epoch-checkpoint").write_text(text)
    log = open_log(tmp_path)
    assert log.epochs() == [(1, 0), (4, 30), (9, 60)] and log.leader_epoch == 9


def test_old_message_formats_are_refused_and_left_alone(tmp_path):
    message = b"\0" * 8 + (22).to_bytes(4, "big") + b"\x12\x34\x56\x78" + b"\x01\0" + b"\0" * 8 + b"\xff" * 8
    path = tmp_path / segment_name(0, ".log")
    path.write_bytes(message)
    with pytest.raises(LogError, match="format 0 or 1"):
        open_log(tmp_path, clean=False)
    assert path.read_bytes() == message


def test_an_interrupted_swap_is_completed(tmp_path):
    """Compacted segments that were renamed to .swap replace those they were made from."""
    log = open_log(tmp_path, segment_bytes=5000)
    fill(log, 12)
    before = everything(log)
    log.close()
    bases = sorted(int(name[:20]) for name in names(tmp_path) if name.endswith(".log"))
    for suffix in (".log", ".index", ".timeindex"):
        path = tmp_path / segment_name(0, suffix)
        shutil.copy(path, str(path) + ".swap")
        (tmp_path / segment_name(bases[1], suffix + ".cleaned")).write_bytes(b"")
    log = open_log(tmp_path, segment_bytes=5000)
    assert everything(log) == before
    assert not [name for name in names(tmp_path) if name.endswith((".swap", ".cleaned"))]


def test_what_can_not_be_read_is_named(tmp_path):
    (tmp_path / segment_name(0, ".log")).mkdir()
    with pytest.raises(LogError, match=r"loading the segments failed in .*: Is a directory"):
        open_log(tmp_path, clean=False)


def test_a_flush_after_an_unclean_stop_syncs_the_segment_that_ends_at_the_recovery_point(tmp_path):
    """It was flushed while it was active, and rolled before the stop: its indexes were never synced."""
    log = open_log(tmp_path)
    fill(log, 5)
    point = log.flush()
    log.roll()
    fill(log, 1)
    crash(log)
    log = open_log(tmp_path, clean=False, recovery_point=point)
    synced = set()

    def make(original):
        def call(fd):
            synced.add(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))
            return original(fd)

        return call

    with replaced("sync", make):
        assert log.flush() == point + 10
    assert {segment_name(0, ".index"), segment_name(0, ".timeindex"), segment_name(point, ".log")} <= synced
