"""What a crash left is put back: everything that was durable, nothing twice, nothing half."""

import pytest

from bowstring._native.log_durability import join
from bowstring._native.wal import WalError
from bowstring._native.wal_replay import replay, supersede, survey
from tests.unit.log.batches import NOW_MS, batch
from tests.unit.wal.joined import (
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
    assert put_back(tmp_path / "c", [found])["frames"] == 3  # the last one: torn, as far as anyone can tell


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
    # nothing of the new run is there yet, and the old one's is not needed any more
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


def test_partitions_that_are_gone_and_gaps_are_told(tmp_path):
    source = tmp_path / "a"
    source.mkdir()
    wal = wal_on(source)
    with joined(source, wal, partitions=2) as logs:
        join(logs[0], None, TOPIC_ID, 0)
        append(logs[0], 5)  # acknowledged from the page cache
        join(logs[0], wal, TOPIC_ID, 0)
        for log in logs:
            append(log, 2)
        wal.commit()
    found, _ = crash(source, tmp_path / "b", keep_bytes=0, partitions=2)
    result = replay(tmp_path / "b", {(TOPIC_ID, 0): found})
    assert result["unknown"] == 2
    assert result["logs"][TOPIC_ID, 0][0] == 2 and result["logs"][TOPIC_ID, 0][3] == (0, 5)
    assert found.log_end_offset == 7


def test_a_directory_without_one(tmp_path):
    assert replay(tmp_path, {})["frames"] == 0
    assert survey(tmp_path) == 0
