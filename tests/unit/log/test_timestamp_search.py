"""Searches by timestamp: they find what a full scan finds, and hold nothing up while the disk works."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from bowstring._native.cleaner.cleaner import segment_facts
from bowstring._native.log.partition_log import LogError
from bowstring._native.server.recompress import recompress
from bowstring.protocol.errors import Errors
from tests.support import faults
from tests.support.log_batches import CONFIG, NOW_MS, batch, open_log
from tests.support.waiting import HANG_S

INVALID_RECORD = Errors.INVALID_RECORD.code
SMALL = {"segment_bytes": 3000, "index_interval_bytes": 300}


def fill(log, batches: int, seed: int = 1) -> list[tuple[int, int]]:
    """(timestamp, offset) of records that come out of order at times."""
    chance, found = random.Random(seed), []
    for i in range(batches):
        timestamp = NOW_MS + 10 * i + chance.choice((0, 0, 0, 300, -300))
        base = log.append(batch([b"x" * 40] * 3, timestamp=timestamp), 0, NOW_MS)
        found += [(timestamp + k, base + k) for k in range(3)]
    log.advance_high_watermark(log.log_end_offset)
    return found


def expected(records, timestamp: int, start: int):
    return next((each for each in records if each[0] >= timestamp and each[1] >= start), None)


def reopened(log, tmp_path, **config):
    log.close()
    log = open_log(tmp_path, **{**SMALL, **config})
    log.advance_high_watermark(log.log_end_offset)
    return log


@pytest.mark.parametrize("reopen", [False, True])
def test_the_first_record_that_is_not_older(tmp_path, reopen):
    log = open_log(tmp_path, **SMALL)
    records = fill(log, 200)
    if reopen:
        log = reopened(log, tmp_path)
    log.delete_records(100)
    for timestamp in range(NOW_MS - 400, NOW_MS + 2500, 7):
        found = log.offset_for_timestamp(timestamp)
        assert (found[:2] if found else None) == expected(records, timestamp, 100)
    largest = max(timestamp for timestamp, _ in records)
    assert log.max_timestamp()[:2] == next(each for each in records if each[0] == largest)


class Gate:
    """Blocks reads of the named threads until they are released."""

    def __init__(self) -> None:
        self.entered, self.go = threading.Event(), threading.Event()

    def make(self, original):
        def pread(fd, data, size_bytes, position):
            if threading.current_thread().name.startswith("searching"):
                self.entered.set()
                self.go.wait(HANG_S)
            return original(fd, data, size_bytes, position)

        return pread


@pytest.fixture
def gate():
    gate = Gate()
    with faults.replaced("pread", gate.make):
        yield gate
        gate.go.set()


SEARCHES = {
    "offset": lambda log: log.offset_for_timestamp(NOW_MS + 500),
    "largest": lambda log: log.max_timestamp(),
    "retention": lambda log: len(log.apply_retention(NOW_MS + 1000)),
    "segments": lambda log: len(log.segments()),
    "first": lambda log: segment_facts(log, first_timestamps=True)[0],
}


@pytest.mark.parametrize("search", SEARCHES)
def test_nobody_waits_for_a_search_that_waits_for_the_disk(tmp_path, gate, search):
    """Appends, reads from memory and everything else that needs the log's lock continue."""
    log = open_log(tmp_path, **SMALL)
    fill(log, 200)
    log = reopened(log, tmp_path, retention_ms=500)
    log.append(batch(), 0, NOW_MS)  # its end has been checked
    before = SEARCHES[search](log) if search != "retention" else None
    log = reopened(log, tmp_path, retention_ms=500)
    log.append(batch(), 0, NOW_MS)
    with (
        ThreadPoolExecutor(1, thread_name_prefix="searching") as searching,
        ThreadPoolExecutor(1, thread_name_prefix="others") as others,
    ):
        found = searching.submit(SEARCHES[search], log)
        try:
            assert gate.entered.wait(HANG_S)
            end = others.submit(log.append, batch(), 0, NOW_MS).result(HANG_S) + 1
            assert others.submit(log.epoch_for_offset, 5).result(HANG_S) == 0
            others.submit(log.advance_high_watermark, end).result(HANG_S)
            assert not found.done()
        finally:
            gate.go.set()
        assert found.result(HANG_S) == before if before is not None else found.result(HANG_S) > 0
    log.close()


def test_searches_beside_retention_truncation_and_appends(tmp_path):
    """Whatever happens to the log meanwhile, an answer is one that was right at some moment."""
    log = open_log(tmp_path, **{**SMALL, "file_delete_delay_ms": 0})
    stop = threading.Event()
    failures: list[str] = []

    def write() -> None:
        chance, end = random.Random(3), log.log_end_offset
        while not stop.is_set():
            for _ in range(20):
                # Every record's timestamp is its offset, whoever wrote it last.
                end = log.append(batch([b"x" * 60], timestamp=NOW_MS + end), 0, NOW_MS) + 1
            log.advance_high_watermark(end)
            if chance.random() < 0.3:
                end -= 7
                log.truncate_to(end)
            if chance.random() < 0.3:
                log.delete_records(max(log.log_start_offset, end - 100))
                log.apply_retention(NOW_MS)
                log.delete_expired_files(NOW_MS)

    def search() -> None:
        chance = random.Random(4)
        for _ in range(1500):
            start, end = log.log_start_offset, log.log_end_offset
            wanted = chance.randrange(start, end + 1)
            found = log.offset_for_timestamp(NOW_MS + wanted)
            if found is None:
                if wanted < min(end, log.log_end_offset) - 50:
                    failures.append(f"{wanted} of {start}..{end} was not found")
            elif (
                found[0] != NOW_MS + found[1]
                or found[1] < wanted
                or found[1] > max(wanted, log.log_start_offset)
            ):
                failures.append(f"{wanted}: {found}")
            latest = log.max_timestamp()
            if latest is not None and latest[0] != NOW_MS + latest[1]:
                failures.append(f"largest: {latest}")

    log.append(batch([b"x" * 60]), 0, NOW_MS)
    writer = threading.Thread(target=write)
    writer.start()
    try:
        searchers = [threading.Thread(target=search) for _ in range(2)]
        for each in searchers:
            each.start()
        for each in searchers:
            each.join()
    finally:
        stop.set()
        writer.join()
    assert failures == []
    log.close()


def test_records_beyond_the_bound_are_not_searched_until_it_is_raised(tmp_path):
    log = open_log(tmp_path)
    log.append(recompress(batch([b"x" * 500], timestamp=NOW_MS), 4), 0, NOW_MS)
    log.advance_high_watermark(1)
    log.configure(CONFIG | {"max_decompressed_message_bytes": 400})
    for search in (lambda: log.offset_for_timestamp(NOW_MS), log.max_timestamp):
        with pytest.raises(LogError, match=r"max\.decompressed\.message\.bytes=400") as caught:
            search()
        assert caught.value.code == INVALID_RECORD
    log.configure(CONFIG)
    assert log.offset_for_timestamp(NOW_MS)[:2] == log.max_timestamp()[:2] == (NOW_MS, 0)
    log.close()
