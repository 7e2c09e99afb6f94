"""Replay restores what a crash left: everything that was durable, nothing twice, nothing half."""

import os
import shutil

import pytest

from bowstring._native.log import durability as log_durability
from bowstring._native.log.durability import join
from bowstring._native.log.replay import rewrite_unsynced
from bowstring._native.log.wal_replay import replay, supersede, survey
from bowstring._native.wal.write_ahead_log import WalError
from tests.support.compacted_logs import clean
from tests.support.faults import all_replaced
from tests.support.joined_wal import (
    BLOCK,
    SEGMENT_BYTES,
    TOPIC_ID,
    append,
    contents,
    crash,
    joined,
    put_back,
    wal_on,
)
from tests.support.log_batches import NOW_MS, batch, headers, open_log


def damage(path, position, data=b"\xff"):
    with open(path, "r+b") as file:
        file.seek(position)
        file.write(data)


@pytest.mark.parametrize("io", ["pwrite", "io_uring"])
def test_what_the_page_cache_lost_comes_back(tmp_path, io):
    (tmp_path / "a").mkdir()
    wal = wal_on(tmp_path / "a", io=io)
    with joined(tmp_path / "a", wal, partitions=3) as logs:
        for _ in range(5):
            for log in logs:
                append(log, 4)
            wal.commit()
        wanted = [contents(log) for log in logs]
        for keep_bytes in (0, 1, 777, len(wanted[0])):
            to = tmp_path / str(keep_bytes)
            found = crash(tmp_path / "a", to, keep_bytes=keep_bytes, partitions=3)
            result = put_back(to, found)
            assert [contents(log) for log in found] == wanted
            assert result["frames"] == 5 and result["unknown"] == 0
            again = put_back(to, found)
            assert [contents(log) for log in found] == wanted
            assert all(batches == 0 for batches, *_ in again["logs"].values())


def test_what_was_not_durable_is_whole_or_absent(tmp_path):
    source = tmp_path / "a"
    source.mkdir()
    wal = wal_on(source)
    with joined(source, wal) as (log,):
        append(log, 3)
        wal.commit()
        durable = contents(log)
        append(log, 40, size=1000)
        wal.commit()
        everything = contents(log)
    frame_bytes = wal.stats()["written_bytes"] - BLOCK
    for blocks in range(frame_bytes // BLOCK):
        to = tmp_path / str(blocks)
        (found,) = crash(source, to, keep_bytes=0)
        damage(to / "bowstring.wal.0", BLOCK * (1 + blocks), bytes(BLOCK))
        put_back(to, [found])
        assert contents(found) == durable
    (found,) = crash(source, tmp_path / "whole", keep_bytes=0)
    put_back(tmp_path / "whole", [found])
    assert contents(found) == everything


@pytest.mark.parametrize("lost", ["all", "tail", "nothing"])
def test_a_batch_in_pieces_comes_back(tmp_path, lost):
    source = tmp_path / "a"
    source.mkdir()
    wal = wal_on(source, segments=4)
    with joined(source, wal, partitions=2, max_message_bytes=1 << 30) as logs:
        for log in logs:
            append(log, 2)
            log.append(batch([b"large" * 400_000]), 0, NOW_MS)
            append(log, 2)
        while wal.commit():
            pass
        wanted = [contents(log) for log in logs]
    keep_bytes = {"all": 0, "tail": len(wanted[0]) // 2, "nothing": None}[lost]
    found = crash(source, tmp_path / "b", keep_bytes=keep_bytes, partitions=2)
    put_back(tmp_path / "b", found)
    assert [contents(log) for log in found] == wanted


def test_a_batch_whose_last_piece_is_missing_was_never_acknowledged(tmp_path):
    source = tmp_path / "a"
    source.mkdir()
    wal = wal_on(source, segments=4)
    with joined(source, wal, max_message_bytes=1 << 30) as (log,):
        append(log, 2)
        wal.commit()
        wanted = contents(log)
        log.append(batch([bytes(6 << 20)]), 0, NOW_MS)
        wal.commit()  # four frames at once
        assert wal.durable_frame < log_durability.staged_frame(log)
    (found,) = crash(source, tmp_path / "b", keep_bytes=0)
    put_back(tmp_path / "b", [found])
    assert contents(found) == wanted


def holes(source, to, batches):
    """A crash after a roll: the newer segment's name is there, the end of the older one is not."""
    shutil.copytree(source, to)
    first, *later = sorted((to / "t-0").glob("*.log"))
    kept = headers(first.read_bytes())[:batches]
    with open(first, "r+b") as file:
        file.truncate(sum(each.size_bytes for each in kept))
    for path in later:
        with open(path, "r+b") as file:
            file.truncate(0)


@pytest.mark.parametrize("compacted", [0, 1])
@pytest.mark.parametrize("after_roll", [0, 3])
@pytest.mark.parametrize("kept", [0, 7])
def test_a_segment_behind_a_hole_hides_nothing(tmp_path, compacted, after_roll, kept):
    source = tmp_path / "a"
    source.mkdir()
    wal = wal_on(source)
    with joined(source, wal, compacted=compacted) as (log,):
        append(log, 20, keys=[b"k"])
        wal.commit()
        log.roll()
        append(log, after_roll, keys=[b"k"])
        wal.commit()
        wanted = contents(log)
    holes(source, tmp_path / "b", kept)
    found = open_log(tmp_path / "b" / "t-0", clean=False, compacted=compacted)
    result = put_back(tmp_path / "b", [found])
    assert contents(found) == wanted
    assert (result["logs"][TOPIC_ID, 0][4] is not None) == bool(compacted)
    # and once more, with the files that a start leaves
    found.close()
    (again,) = crash(tmp_path / "b", tmp_path / "c")
    put_back(tmp_path / "c", [again])
    assert contents(again) == wanted


def test_gaps_of_compaction_below_the_recovery_point_stay(tmp_path):
    source = tmp_path / "a"
    source.mkdir()
    wal = wal_on(source)
    with joined(source, wal, compacted=1) as (log,):
        for i in range(20):
            append(log, keys=[b"%d" % (i % 3)])
        log.roll()
        append(log, 2, keys=[b"other"])
        wal.commit()
        log_durability.durable_to(log, log.log_end_offset)
        log.flush()
        point = log.recovery_point
        clean(log)
        wanted = contents(log)
        assert len(headers(wanted)) < 22
    shutil.copytree(source, tmp_path / "b")
    found = open_log(tmp_path / "b" / "t-0", clean=False, compacted=1, recovery_point=point)
    put_back(tmp_path / "b", [found])
    assert contents(found) == wanted


def test_what_is_there_is_written_again(tmp_path):
    """A failed sync may have left pages in the page cache that no later sync writes."""
    source = tmp_path / "a"
    source.mkdir()
    wal = wal_on(source)
    with joined(source, wal, segment_bytes=2000) as (log,):
        for _ in range(30):
            append(log)
            wal.commit()
        wanted = contents(log)
    to = tmp_path / "b"
    shutil.copytree(source, to)
    found = open_log(to / "t-0", clean=False)
    written = bytearray(len(wanted))
    names = {}

    def opened(original):
        def call(path, flags):
            fd = original(path, flags)
            names[fd] = path
            return fd

        return call

    def pwritev(original):
        def call(fd, parts, n, position):
            count = original(fd, parts, n, position)
            base = int(os.path.basename(names[fd]).split(b".")[0])
            start = len(b"".join(h.data for h in headers(wanted) if h.base_offset < base)) + position
            written[start : start + count] = wanted[start : start + count]
            return count

        return call

    found.close(sync=False)
    with all_replaced({"open": opened, "pwritev": pwritev}):
        found = open_log(to / "t-0", clean=False)
        written[:] = bytes(len(wanted))
        put_back(to, [found])
    assert bytes(written) == wanted == contents(found)


def test_all_above_the_recovery_point_is_written_again(tmp_path):
    """Including what the write-ahead log never had: from now on it counts as being on the medium."""
    (tmp_path / "t-0").mkdir()
    log = open_log(tmp_path / "t-0", segment_bytes=2000)
    append(log, 30)
    point = headers(contents(log))[11].base_offset
    wanted = contents(log)
    log.close(sync=False)
    found = open_log(tmp_path / "t-0", segment_bytes=2000, clean=False, recovery_point=point)
    written = []

    def pwritev(original):
        return lambda fd, parts, n, position: written.append(original(fd, parts, n, position)) or written[-1]

    with all_replaced({"pwritev": pwritev}):
        rewrite_unsynced([found])
    assert sum(written) == sum(len(each.data) for each in headers(wanted) if each.base_offset >= point)
    assert contents(found) == wanted
    written.clear()
    found.flush()
    with all_replaced({"pwritev": pwritev}):
        rewrite_unsynced([found])
    assert not written
    found.close()


def test_a_smaller_segment_size_refuses_nothing_that_was_acknowledged(tmp_path):
    source = tmp_path / "a"
    source.mkdir()
    wal = wal_on(source)
    with joined(source, wal) as (log,):
        append(log, 3, size=10_000)
        wal.commit()
        wanted = contents(log)
    shutil.copytree(source, tmp_path / "b")
    (tmp_path / "b" / "t-0" / f"{0:020d}.log").write_bytes(b"")
    found = open_log(tmp_path / "b" / "t-0", clean=False, segment_bytes=5000)
    put_back(tmp_path / "b", [found])
    assert contents(found) == wanted and len(found.segments()) == 3


def test_records_that_were_deleted_stay_deleted(tmp_path):
    source = tmp_path / "a"
    source.mkdir()
    wal = wal_on(source)
    with joined(source, wal) as (log,):
        log.append(batch([b"%d" % i for i in range(10)]), 0, NOW_MS)
        append(log, 1)
        wal.commit()
    shutil.copytree(source, tmp_path / "b")
    (tmp_path / "b" / "t-0" / f"{0:020d}.log").write_bytes(b"")
    found = open_log(tmp_path / "b" / "t-0", clean=False, start=5)
    put_back(tmp_path / "b", [found])
    assert (found.log_start_offset, found.log_end_offset) == (5, 11)
    assert [h.base_offset for h in headers(found.read(5, 1 << 20, "log_end"))] == [0, 10]


def test_producers_and_epochs_come_back(tmp_path):
    source = tmp_path / "a"
    source.mkdir()
    wal = wal_on(source)
    with joined(source, wal) as (log,):
        for sequence in range(10):
            log.append(batch(producer_id=5, epoch=2, sequence=sequence), 3 + sequence // 5, NOW_MS)
        wal.commit()
        producers, epochs = log.active_producers(), log.epochs()
    (found,) = crash(source, tmp_path / "b", keep_bytes=0)
    put_back(tmp_path / "b", [found])
    assert found.active_producers() == producers and found.epochs() == epochs
    assert found.append(batch(producer_id=5, epoch=2, sequence=8), 4, NOW_MS) == 8
    assert found.log_end_offset == 10


def test_log_append_time_is_not_stamped_again(tmp_path):
    source = tmp_path / "a"
    source.mkdir()
    wal = wal_on(source)
    with joined(source, wal, log_append_time=1) as (log,):
        append(log, 2)
        wal.commit()
        wanted = contents(log)
    (found,) = crash(source, tmp_path / "b", keep_bytes=0)
    put_back(tmp_path / "b", [found])
    assert contents(found) == wanted


def test_recycled_segments_and_their_checkpoint(tmp_path):
    source = tmp_path / "a"
    source.mkdir()
    wal = wal_on(source, segments=3)
    with joined(source, wal) as (log,):
        for i in range(120):
            append(log, 2, size=100_000)
            wal.commit()
            if i % 10 == 9:
                log.flush()
                wal.released(wal.closed_frame)
                synced_bytes = log.size_bytes
        append(log, 2)
        wal.commit()
        wanted = contents(log)
    (found,) = crash(source, tmp_path / "b", keep_bytes=synced_bytes)
    result = put_back(tmp_path / "b", [found])
    assert contents(found) == wanted and 0 < result["frames"] < 40


def test_a_first_write_into_a_recycled_segment_may_be_torn(tmp_path):
    """The checkpoint that allowed it is on the medium already, in the segment written before."""
    source = tmp_path / "a"
    source.mkdir()
    wal = wal_on(source, segments=2)
    with joined(source, wal) as (log,):
        before = wal.stats()["full_segments"]
        while wal.stats()["full_segments"] == before:
            append(log, 2, size=100_000)
            wal.commit()
        log.flush()
        wal.released(wal.closed_frame)
        append(log, 2)
        wal.commit()
        wanted = contents(log)
        while wal.stats()["full_segments"] == 0:
            append(log, 2, size=100_000)
            wal.commit()
    to = tmp_path / "b"
    (found,) = crash(source, to, keep_bytes=len(wanted))
    damage(to / "bowstring.wal.0", 0, bytes(SEGMENT_BYTES - BLOCK))
    put_back(to, [found])
    assert contents(found).startswith(wanted)


def test_damage_to_what_was_acknowledged_is_an_error(tmp_path):
    source = tmp_path / "a"
    source.mkdir()
    wal = wal_on(source)
    with joined(source, wal) as (log,):
        for _ in range(4):
            append(log)
            wal.commit()
    (found,) = crash(source, tmp_path / "b", keep_bytes=0)
    damage(tmp_path / "b" / "bowstring.wal.0", BLOCK + 100)
    with pytest.raises(WalError, match=r"bowstring\.wal\.0 is damaged at position 4096.*Restore"):
        put_back(tmp_path / "b", [found])
    (found,) = crash(source, tmp_path / "c", keep_bytes=0)
    damage(tmp_path / "c" / "bowstring.wal.0", 3 * BLOCK + 100)
    assert put_back(tmp_path / "c", [found])["frames"] == 3  # the last one: torn, as far as replay can see


@pytest.mark.parametrize("lost", [0, 1])
def test_a_missing_file_is_an_error(tmp_path, lost):
    source = tmp_path / "a"
    source.mkdir()
    wal = wal_on(source, segments=3)
    with joined(source, wal) as (log,):
        while wal.stats()["full_segments"] < 2:
            append(log, 2, size=100_000)
            wal.commit()
    (found,) = crash(source, tmp_path / "b", keep_bytes=0)
    (tmp_path / "b" / f"bowstring.wal.{lost}").unlink()
    with pytest.raises(WalError, match=r"Restore"):
        put_back(tmp_path / "b", [found])


def test_a_clean_end_leaves_nothing_to_put_back(tmp_path):
    wal = wal_on(tmp_path)
    with joined(tmp_path, wal) as (log,):
        append(log, 5)
        wal.commit()
        log.flush()
    wal.stop()
    wal.mark_clean()
    assert put_back(tmp_path, [])["frames"] == 0


def test_the_next_run_begins_where_no_torn_frame_can_be_taken_for_its_own(tmp_path):
    source = tmp_path / "a"
    source.mkdir()
    wal = wal_on(source)
    with joined(source, wal) as (log,):
        append(log, 5)
        wal.commit()
        wanted = contents(log)
    (found,) = crash(source, tmp_path / "b", keep_bytes=0)
    result = put_back(tmp_path / "b", [found])
    found.flush()
    supersede(tmp_path / "b", *result["superseded"])
    again = wal_on(tmp_path / "b", last_frame=result["last_frame"])
    # nothing of the new run is there yet, and the old one's is no longer needed
    assert put_back(tmp_path / "b", [found])["frames"] == 0
    join(found, again, TOPIC_ID, 0)
    append(found, 3)
    again.commit()
    everything = contents(found)
    join(found, None, TOPIC_ID, 0)
    (last,) = crash(tmp_path / "b", tmp_path / "c", keep_bytes=len(wanted))
    assert put_back(tmp_path / "c", [last])["frames"] == 1
    assert contents(last) == everything
    assert survey(tmp_path / "c") > result["last_frame"]


def test_what_a_later_run_superseded_stays_so_without_the_files_of_that_run(tmp_path):
    """A full disk costs the segments in which the run began; then an older run's are the newest."""
    source = tmp_path / "a"
    source.mkdir()
    wal = wal_on(source)
    with joined(source, wal) as (log,):
        append(log, 3)
        wal.commit()
    newest = survey(source) + (5 << 20)
    supersede(source, 4711, newest)
    (found,) = crash(source, tmp_path / "b", keep_bytes=0)
    result = put_back(tmp_path / "b", [found])
    assert result["frames"] == 0 and found.log_end_offset == 0
    assert result["last_frame"] > newest and survey(tmp_path / "b") >= newest


def test_frames_lie_above_what_was_superseded_where_no_frame_is_left(tmp_path):
    source = tmp_path / "a"
    source.mkdir()
    wal_on(source).stop()
    supersede(source, 4711, 9 << 20)
    assert put_back(source, [])["last_frame"] > 9 << 20
    assert survey(source) >= 9 << 20


def test_what_was_cut_off_stays_off(tmp_path):
    source = tmp_path / "a"
    source.mkdir()
    wal = wal_on(source)
    with joined(source, wal) as (log,):
        append(log, 10)
        wal.commit()
        log.truncate_to(4)
        append(log, 2, size=50)
        wal.commit()
        wanted = contents(log)
    for keep_bytes in (0, None):
        (found,) = crash(source, tmp_path / str(keep_bytes), keep_bytes=keep_bytes)
        put_back(tmp_path / str(keep_bytes), [found])
        assert contents(found) == wanted and found.log_end_offset == 6


def test_what_was_truncated_later_is_not_told_as_missing(tmp_path):
    """The recovery point in the checkpoint is older than the truncation, and above it."""
    source, to = tmp_path / "a", tmp_path / "b"
    source.mkdir()
    wal = wal_on(source)
    with joined(source, wal) as (log,):
        append(log, 5)
        wal.commit()
        log.flush()
        wal.released(wal.durable_frame)
        append(log, 5)
        wal.commit()
        log.truncate_to(3)
        log.append(batch([b"a", b"b", b"c", b"d"]), 1, NOW_MS)
        append(log, 2)
        wal.commit()
        wanted = contents(log)
    shutil.copytree(source, to)
    found = open_log(to / "t-0", clean=False, recovery_point=5)
    *_, missing, cut = put_back(to, [found])["logs"][TOPIC_ID, 0]
    assert (contents(found), found.log_end_offset) == (wanted, 9)
    assert (missing, cut) == (None, None)


def test_a_log_that_began_anew(tmp_path):
    source = tmp_path / "a"
    source.mkdir()
    wal = wal_on(source)
    with joined(source, wal) as (log,):
        append(log, 10)
        log.truncate_fully_and_start_at(100)
        append(log, 2)
        wal.commit()
        wanted = contents(log)
    (found,) = crash(source, tmp_path / "b")
    put_back(tmp_path / "b", [found])
    assert (found.log_start_offset, found.log_end_offset, contents(found)) == (100, 102, wanted)


@pytest.mark.parametrize("compacted", [0, 1])
def test_partitions_that_are_gone_and_gaps_are_reported(tmp_path, compacted):
    """A follower's copy of a compacted log has the gaps of its leader: nothing is missing there."""
    source = tmp_path / "a"
    source.mkdir()
    wal = wal_on(source)
    with joined(source, wal, partitions=2, compacted=compacted) as logs:
        join(logs[0], None, TOPIC_ID, 0)
        append(logs[0], 5)  # acknowledged from the page cache
        join(logs[0], wal, TOPIC_ID, 0)
        for log in logs:
            append(log, 2)
        wal.commit()
    found, _ = crash(source, tmp_path / "b", keep_bytes=0, partitions=2, compacted=compacted)
    result = replay([tmp_path / "b"], {(TOPIC_ID, 0): found})[tmp_path / "b"]
    assert result["unknown"] == 2
    assert result["logs"][TOPIC_ID, 0][0] == 2
    assert result["logs"][TOPIC_ID, 0][3] == (None if compacted else (0, 5))
    assert found.log_end_offset == 7


def test_a_directory_without_one(tmp_path):
    assert replay([tmp_path], {})[tmp_path]["frames"] == 0
    assert survey(tmp_path) == 0
