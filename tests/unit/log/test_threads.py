"""One thread appends, others read, roll, delete and look on."""

import threading

from bowstring._native.log.partition_log import LogError
from tests.support.log_batches import NOW_MS, batch, headers, open_log
from tests.support.waiting import HANG_S

BATCHES = 1500


def run_all(*functions):
    failures = []

    def guard(function):
        try:
            function()
        except BaseException as error:  # handed to the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=guard, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_S)
    if failures:
        raise failures[0]


def test_readers_see_a_prefix_while_another_thread_appends(tmp_path):
    log = open_log(tmp_path, segment_bytes=20_000, index_interval_bytes=500)
    done = threading.Event()

    def append():
        for i in range(BATCHES):
            log.append(batch([b"%d" % i] * 3, timestamp=NOW_MS + i), i // 500, NOW_MS)
            log.advance_high_watermark(log.log_end_offset)
        done.set()

    def read():
        position = 0
        while position < BATCHES * 3:
            for found in headers(log.read(position, 5000)):
                assert found.base_offset == position
                assert found.max_timestamp == NOW_MS + position // 3 + 2
                position = found.last_offset + 1

    def look():
        while not done.is_set():
            log.stats()
            log.segments()
            log.epochs()
            log.flush()
            log.offset_for_timestamp(NOW_MS + 100)
            log.end_offset_for_epoch(0)

    run_all(append, read, read, look)
    assert log.log_end_offset == BATCHES * 3


def test_two_threads_append(tmp_path):
    log = open_log(tmp_path, segment_bytes=20_000)
    bases = [[], []]

    def append(which):
        for i in range(BATCHES // 2):
            bases[which].append(log.append(batch(producer_id=which, epoch=0, sequence=i), 0, NOW_MS))

    run_all(lambda: append(0), lambda: append(1))
    assert sorted(bases[0] + bases[1]) == list(range(BATCHES // 2 * 2))
    assert [p[2] for p in log.active_producers()] == [BATCHES // 2 - 1] * 2


def test_retention_under_readers(tmp_path):
    log = open_log(tmp_path, segment_bytes=3000, retention_bytes=9000, file_delete_delay_ms=0)
    done = threading.Event()

    def append():
        for i in range(BATCHES):
            log.append(batch([b"%d" % i] * 3), 0, NOW_MS)
            log.advance_high_watermark(log.log_end_offset)
            if i % 20 == 0:
                log.apply_retention(NOW_MS)
                log.delete_expired_files(NOW_MS + 1)
        done.set()

    def read():
        position = 0
        while not done.is_set():
            try:
                found = headers(log.read(position, 4000))
            except LogError as error:
                assert error.code == 1
                position = log.log_start_offset
                continue
            if found:
                assert found[0].base_offset <= position <= found[0].last_offset
                position = found[-1].last_offset + 1

    run_all(append, read, read)
    assert log.size_bytes < 9000 + 2 * 3000


def test_logs_open_in_several_threads(tmp_path):
    for i in range(40):
        (tmp_path / str(i)).mkdir()
    logs = {}

    def open_some(start):
        for i in range(start, 40, 4):
            logs[i] = open_log(tmp_path / str(i))
            logs[i].append(batch(), 0, NOW_MS)

    run_all(*(lambda start=start: open_some(start) for start in range(4)))
    assert [logs[i].log_end_offset for i in range(40)] == [1] * 40
