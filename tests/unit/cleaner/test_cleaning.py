"""One run at a time: its effects on files, what it leaves alone, and what may happen meanwhile."""

import os
import random
import threading
import time

import pytest

from bowstring._native.cleaner.cleaner import Cleaning, CleaningStopped, IoThrottle, UncleanableLog
from bowstring._native.log.partition_log import LogError
from tests.support.compacted_logs import batches_of, clean, compacted, newest, put, records_of, stored
from tests.support.faults import failing, replaced
from tests.support.log_batches import CONFIG, NOW_MS, headers, index_entries, names, open_files, time_entries
from tests.support.waiting import HANG_S


def filled(directory, *, batches=200, keys=40, seed=1, **config):
    """A log of several segments whose keys come again and again; closed segments end before the last batches."""
    log = compacted(directory, **config)
    rng = random.Random(seed)
    for i in range(batches):
        pairs = [(b"key%d" % rng.randrange(keys), b"%d" % i) for _ in range(5)]
        put(log, pairs, timestamp=NOW_MS + i)
    return log


def test_keeps_the_newest_of_every_key_where_it_is(tmp_path):
    log = filled(tmp_path / "t-0")
    before, end = newest(records_of(log)), log.segments()[-1][0]
    figures = clean(log)
    assert newest(records_of(log)) == before
    closed = [offset for offset, _, _ in records_of(log) if offset < end]
    assert len(closed) <= 40 and closed == sorted(closed)
    assert figures["end_offset"] == end and figures["written_bytes"] < figures["read_bytes"]
    assert log.size_bytes == sum(size for _, size, _ in log.segments()) == len(stored(log))


def test_many_small_segments_become_one(tmp_path):
    log = filled(tmp_path / "t-0", segment_bytes=1000)
    log.configure(config_of(segment_bytes=1 << 20))
    many = len(log.segments())
    figures = clean(log)
    assert many > 20 and len(log.segments()) == 2
    assert figures["removed_segments"] == many - 2
    log.delete_expired_files(NOW_MS + 1)
    assert {name.split(".", 1)[0] for name in names(tmp_path / "t-0") if name.endswith(".log")} == {
        f"{base:020}" for base, *_ in log.segments()
    }


def config_of(**changes):
    return (
        CONFIG
        | {"compacted": 1, "delete_enabled": 0, "index_interval_bytes": 200, "file_delete_delay_ms": 0}
        | changes
    )


def test_indexes_of_a_cleaned_segment_are_kafkas(tmp_path):
    directory = tmp_path / "t-0"
    log = filled(directory, batches=400, keys=900, segment_bytes=20_000)
    clean(log)
    for base, size, largest in log.segments()[:-1]:
        data = (directory / f"{base:020}.log").read_bytes()
        assert len(data) == size
        ends = {}
        position = 0
        for each in headers(data):
            ends[each.last_offset] = position
            position += each.size_bytes
        entries = index_entries(directory, base)
        assert entries and all(ends[offset] == at for offset, at in entries)
        times = time_entries(directory, base)
        assert times[-1][0] == largest == max(each.max_timestamp for each in headers(data))
        assert times == sorted(times)


def test_whole_batches_are_copied_byte_for_byte(tmp_path):
    log = compacted(tmp_path / "t-0")
    for i in range(40):
        put(log, [(b"%d-%d" % (i, k), b"value" * k) for k in range(5)], codec=i % 5)
    before = stored(log)
    clean(log)
    assert stored(log) == before


def test_a_second_run_with_nothing_new_changes_nothing(tmp_path):
    log = filled(tmp_path / "t-0")
    end = clean(log)["end_offset"]
    before = stored(log)
    assert clean(log, end) == clean(log, end) and clean(log, end)["end_offset"] == end
    assert stored(log) == before


def test_only_the_last_committed_batch_stays_when_it_is_empty(tmp_path):
    log = compacted(tmp_path / "t-0")
    for segment in ([(b"k", b"1")], [(None, b"2")]), ([(b"z", b"3")], [(None, b"4")]):
        for pairs in segment:
            put(log, pairs)
        log.roll()
    figures = Cleaning(
        log, first_dirty_offset=0, first_uncleanable_offset=2, now_ms=NOW_MS, delete_retention_ms=0
    ).run()
    assert figures["end_offset"] == 2
    assert [(each.base_offset, len(each.records)) for each in batches_of(log)] == [
        (0, 1),
        (2, 1),
        (3, 1),
    ]
    clean(log, 2)
    assert [(each.base_offset, len(each.records)) for each in batches_of(log)] == [
        (0, 1),
        (2, 1),
        (3, 0),
    ]


def test_a_small_table_takes_several_runs_and_loses_nothing(tmp_path):
    log = filled(tmp_path / "t-0", keys=300)
    before, end, dirty, runs = newest(records_of(log)), log.segments()[-1][0], 0, 0
    while dirty < end:
        further = clean(log, dirty, dedupe_bytes=24 * 60)["end_offset"]
        assert further > dirty
        dirty, runs = further, runs + 1
        assert newest(records_of(log)) == before
    assert runs > 2


def test_a_table_too_small_for_one_batch_is_said(tmp_path):
    log = compacted(tmp_path / "t-0")
    put(log, [(b"%d" % i, b"v") for i in range(100)])
    log.roll()
    with pytest.raises(UncleanableLog, match=r"log\.cleaner\.dedupe\.buffer\.size"):
        clean(log, dedupe_bytes=24 * 50)


def test_a_corrupt_batch_is_named_and_nothing_is_replaced(tmp_path):
    directory = tmp_path / "t-0"
    log = filled(directory)
    second = log.segments()[1][0]
    with (directory / f"{second:020}.log").open("r+b") as file:
        file.seek(70)
        file.write(b"!")
    with pytest.raises(UncleanableLog, match=f"{second:020}.log.*position 0 fails its CRC-32C"):
        clean(log)
    assert not [name for name in names(directory) if name.endswith((".cleaned", ".swap", ".deleted"))]


def test_readers_go_on_while_it_cleans(tmp_path):
    log = filled(tmp_path / "t-0", batches=1500, keys=100, segment_bytes=4000)
    before, wrong, stop = newest(records_of(log)), [], threading.Event()

    def read():
        while not stop.is_set():
            found = records_of(log)
            if newest(found) != before or [o for o, _, _ in found] != sorted({o for o, _, _ in found}):
                wrong.append(found)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for _ in range(3):
        clean(log)
    stop.set()
    for reader in readers:
        reader.join()
    assert not wrong


def test_appends_go_on_while_it_cleans(tmp_path):
    log = filled(tmp_path / "t-0", batches=1500, keys=100, segment_bytes=4000)
    run = threading.Thread(target=clean, args=(log,))
    run.start()
    i = 0
    while run.is_alive():
        put(log, [(b"new", b"%d" % i)])
        i += 1
    run.join()
    assert records_of(log)[-1][1:] == (b"new", b"%d" % (i - 1)) and i > 1
    offsets = [offset for offset, _, _ in records_of(log)]
    assert offsets == sorted(set(offsets))


def test_truncation_deletion_and_stop_end_it(tmp_path):
    for change in (lambda log, _: log.truncate_fully_and_start_at(0), lambda _, run: run.stop()):
        log = filled(tmp_path / "t-0")
        run = Cleaning(
            log,
            first_dirty_offset=0,
            first_uncleanable_offset=log.log_end_offset,
            now_ms=NOW_MS,
            delete_retention_ms=0,
            throttle=IoThrottle(2_000.0),
        )
        failed, begun = [], threading.Event()

        def seen(original, begun=begun):
            def read(*arguments):
                begun.set()
                return original(*arguments)

            return read

        def go(run=run, failed=failed):
            try:
                run.run()
            except CleaningStopped as stopped:
                failed.append(stopped)

        thread = threading.Thread(target=go)
        with replaced("pread", seen):
            thread.start()
            assert begun.wait(HANG_S)  # it would run for many seconds
            change(log, run)
            thread.join(HANG_S)
        assert len(failed) == 1
        assert not [name for name in names(tmp_path / "t-0") if name.endswith((".cleaned", ".swap"))]
        log.truncate_fully_and_start_at(0)
        log.close()


def test_the_throttle_holds(tmp_path):
    log = filled(tmp_path / "t-0")
    size = log.size_bytes
    started = time.monotonic()
    clean(log, throttle=IoThrottle(size * 10.0))
    assert time.monotonic() - started > 0.15  # both passes read nearly all of it


def test_a_full_disk_costs_nothing(tmp_path):
    directory = tmp_path / "t-0"
    log = filled(directory)
    before = newest(records_of(log))
    with (
        failing("pwritev", 28),
        pytest.raises(LogError, match="free space on the disk, compaction is retried"),
    ):
        clean(log)
    assert newest(records_of(log)) == before and not log.failed
    assert not [name for name in names(directory) if name.endswith((".cleaned", ".swap"))]
    clean(log)
    assert newest(records_of(log)) == before


def test_no_descriptor_is_left_open(tmp_path):
    log = filled(tmp_path / "t-0")
    clean(log)
    before = open_files(tmp_path / "t-0")
    for _ in range(5):
        clean(log)
    assert open_files(tmp_path / "t-0") <= before + 1


def test_the_replaced_files_keep_their_age(tmp_path):
    directory = tmp_path / "t-0"
    log = filled(directory, segment_bytes=1 << 14)
    path = directory / f"{0:020}.log"
    os.utime(path, (1000, 1000))
    clean(log)
    assert path.stat().st_mtime == 1000


def test_records_beyond_the_bound_wait_until_it_is_raised(tmp_path):
    """As in Kafka, a bound below records that are stored stops compaction, for as long as it is."""
    log = compacted(tmp_path / "t-0")
    for i in range(40):
        put(log, [(b"key", b"%d" % i * 500)], codec=4)
    before = newest(records_of(log))
    log.configure(config_of(segment_bytes=2000, max_decompressed_message_bytes=400))
    with pytest.raises(LogError, match=r"larger than max\.decompressed\.message\.bytes; raise it"):
        clean(log)
    assert len(stored(log)) > 0 and newest(records_of(log)) == before
    log.configure(config_of(segment_bytes=2000))
    clean(log)
    assert newest(records_of(log)) == before
