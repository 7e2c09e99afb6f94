"""Logs that meet passing errors: they refuse what they cannot take, and continue without a restart."""

import errno

import pytest

from bowstring._native.log.heal import heal, may_heal
from bowstring._native.log.partition_log import LogError
from tests.support import faults
from tests.support.acknowledged_batches import acknowledged_until_it_fails, values
from tests.support.log_batches import NOW_MS, TRANSACTIONAL, batch, fill, marker, open_log

PASSING = [errno.EMFILE, errno.ENFILE, errno.ENOMEM]


@pytest.mark.parametrize("operation", ["open", "pwritev", "stat"])
@pytest.mark.parametrize("error", PASSING)
def test_after_an_error_that_passes_a_log_goes_on(tmp_path, operation, error):
    for seed in range(8):
        directory = tmp_path / str(seed)
        directory.mkdir()
        log = open_log(directory, segment_bytes=4000, index_interval_bytes=300, flush_messages=9)
        with faults.failing(operation, error, after=seed * 11):
            taken = acknowledged_until_it_fails(log, seed)
        assert may_heal(log) or not log.failed, log.stats()["failure"]
        heal(log)
        assert not log.failed
        sequences = {p[0]: p[2] + 1 for p in log.active_producers()}
        for producer in (5, 6):
            data = batch([b"later"], producer_id=producer, epoch=0, sequence=sequences.get(producer, 0))
            taken.append((log.append(data, 0, NOW_MS), b"later"))
        for again in (log, None):
            if again is None:
                log.close(sync=False)
                again = open_log(directory, segment_bytes=4000, index_interval_bytes=300, clean=False)
            there = values(again)
            assert [base for base, _ in there] == list(range(again.log_end_offset))
            for base, value in taken:
                assert value in dict(there)[base], (operation, error, seed, base)
        again.close(sync=False)


@pytest.mark.parametrize("error", PASSING)
@pytest.mark.parametrize("after", range(6))
def test_a_roll_without_descriptors_is_tried_again(tmp_path, after, error):
    log = open_log(tmp_path, segment_bytes=400)
    end_offset = log.append(batch([b"x" * 300]), 0, NOW_MS) + 1
    with faults.failing("open", error, after=after):
        while True:
            try:
                log.append(batch([b"x" * 300]), 0, NOW_MS)
                end_offset += 1
            except LogError as refused:
                assert refused.code == 56
                break
    assert not log.failed and log.log_end_offset == end_offset
    log.append(batch([b"x" * 300]), 0, NOW_MS)
    assert log.log_end_offset == end_offset + 1


def test_an_abort_marker_waits_for_its_index(tmp_path):
    """In the log without an entry of the index, readers of committed records would get aborted ones."""
    log = open_log(tmp_path)
    log.append(batch([b"a"], producer_id=7, epoch=0, sequence=0, attributes=TRANSACTIONAL), 0, NOW_MS)
    with faults.failing("open", errno.EMFILE), pytest.raises(LogError):
        log.append(marker(7, 0, abort=True), 0, NOW_MS)
    assert log.log_end_offset == 1 and not log.failed
    log.append(marker(7, 0, abort=True), 0, NOW_MS)
    log.advance_high_watermark(log.log_end_offset)
    assert log.aborted_transactions(0, 2) == [(7, 0)]


def test_a_flush_without_descriptors_is_tried_again(tmp_path):
    log = open_log(tmp_path)
    fill(log, 3)
    with faults.failing("open", errno.EMFILE), pytest.raises(LogError):
        log.flush()
    assert not log.failed and log.recovery_point < log.log_end_offset
    log.flush()
    assert log.recovery_point == log.log_end_offset


def test_a_read_without_descriptors_leaves_the_log_in_service(tmp_path):
    log = open_log(tmp_path)
    fill(log, 3)
    log.close(sync=True)
    log = open_log(tmp_path, clean=True)
    with faults.failing("open", errno.EMFILE), pytest.raises(LogError):
        log.read(0, 1000, "log_end")
    assert not log.failed
    assert log.read(0, 1000, "log_end")


def test_aborted_transactions_survive_a_truncation_without_descriptors(tmp_path):
    log = open_log(tmp_path)
    log.append(batch([b"a"], producer_id=7, epoch=0, sequence=0, attributes=TRANSACTIONAL), 0, NOW_MS)
    log.append(marker(7, 0, abort=True), 0, NOW_MS)
    fill(log, 2)
    opened = []

    def no_index(original):
        def call(path, flags):
            if path.endswith(b".txnindex"):
                opened.append(path)
                return -errno.EMFILE
            return original(path, flags)

        return call

    with faults.replaced("open", no_index), pytest.raises(LogError):
        log.truncate_to(2)
    assert opened and may_heal(log)
    heal(log)
    assert log.log_end_offset == 2
    log.advance_high_watermark(2)
    assert log.aborted_transactions(0, 2) == [(7, 0)]


def test_a_log_that_lost_its_file_to_a_truncation_gets_another(tmp_path):
    log = open_log(tmp_path)
    fill(log, 3)
    with faults.failing("open", errno.EMFILE), pytest.raises(LogError):
        log.truncate_fully_and_start_at(500)
    assert may_heal(log)
    heal(log)
    assert log.append(batch([b"v"]), 0, NOW_MS) == 500
    log.close(sync=True)
    assert open_log(tmp_path, clean=True).log_end_offset == 501


def test_a_log_of_a_device_that_fails_is_not_healed(tmp_path):
    log = open_log(tmp_path)
    fill(log, 1)
    with faults.failing("pwritev", errno.EIO), pytest.raises(LogError):
        fill(log, 1)
    assert log.failed and not may_heal(log)
    heal(log)
    assert log.failed
