"""The scrubber, and what damage does to a running broker."""

import logging
import os
import time

import pytest

from bowstring._native.log.checkpoint import flush_logs
from bowstring._native.log.index_rebuild import rebuild_indexes
from bowstring._native.log.partition_log import distrusted_indexes
from bowstring._native.log.scrub import scrub_piece
from bowstring._native.record.encode import encode_batch
from tests.support.cold_logs import flip
from tests.support.log_batches import (
    batch,
    fill,
    headers,
    index_entries,
    names,
    offsets,
    open_log,
    segment_name,
    time_entries,
)
from tests.support.waiting import wait_until


def scrubbed(log):
    """All pieces of all segments: (damage by segment, bytes)."""
    damage, read = {}, 0
    for base, _, _ in log.segments():
        position, next_offset, done = 0, -1, False
        while not done:
            piece = scrub_piece(log, base, position=position, next_offset=next_offset, max_bytes=2000)
            read += piece["position"] - position
            position, next_offset, done = piece["position"], piece["next_offset"], piece["done"]
            damage.setdefault(base, []).extend(piece["damage"])
    return damage, read


def test_a_good_log_is_read_whole_and_what_is_not_on_the_medium_left_out(tmp_path):
    log = open_log(tmp_path, segment_bytes=8000)
    fill(log, 40)
    damage, read = scrubbed(log)
    closed = sum(size for _, size, _ in log.segments()[:-1])
    assert read == closed and not any(damage.values())
    flush_logs([log])
    assert scrubbed(log)[1] == log.size_bytes
    assert scrub_piece(log, 12345) is None


@pytest.mark.parametrize("which", ["payload", "header", "page"])
def test_damage_is_found_marked_and_passed(tmp_path, which):
    log = open_log(tmp_path, segment_bytes=8000)
    fill(log, 40)
    base = log.segments()[2][0]
    path = tmp_path / segment_name(base, ".log")
    each = headers(path.read_bytes())
    at = sum(h.size_bytes for h in each[:3])
    if which == "page":
        with path.open("r+b") as file:
            file.seek(at)
            file.write(bytes(2 * each[0].size_bytes))
    else:
        flip(path, at + (200 if which == "payload" else 16))
    damage, read = scrubbed(log)
    (found,) = damage.pop(base)
    bad = 2 if which == "page" else 1
    assert not any(damage.values()) and read == sum(size for _, size, _ in log.segments()[:-1])
    assert (found["position"], found["size_bytes"]) == (at, bad * each[0].size_bytes)
    assert (found["first_offset"], found["end_offset"]) == (base + 30, base + 30 + 10 * bad)
    assert log.corrupt_ranges() == [(path.name, at, bad * each[0].size_bytes)]
    after = base + 30 + 10 * bad
    assert offsets(log.read(after, 1, "log_end")) == [(after, after + 9)]


def test_what_opening_found_is_out_of_service(tmp_path):
    log = open_log(tmp_path)
    fill(log, 10)
    flush_logs([log])
    del log
    path = tmp_path / segment_name(0, ".log")
    flip(path, 500)
    (tmp_path / segment_name(0, ".timeindex")).write_bytes(bytes(12))
    log = open_log(tmp_path, clean=False, recovery_point=100)
    (found,) = [each for each in log.take_findings() if each["out_of_service"]]
    assert log.corrupt_ranges() == [(path.name, found["position"], found["size_bytes"])]
    assert offsets(log.read(found["end_offset"], 1, "log_end")) == [(10, 19)]


def fill_mebibytes(log, n):
    for _ in range(n * 4):
        log.append(batch([os.urandom(1 << 18)], timestamp=1_700_000_000_000 + log.log_end_offset), 0, 0)


@pytest.mark.parametrize("damage", ["gone", "empty", "short", "lies"])
def test_an_index_lost_under_a_running_broker_is_made_anew(tmp_path, damage):
    log = open_log(tmp_path, segment_bytes=20 << 20)
    fill_mebibytes(log, 24)
    base, end = log.segments()[0][0], log.segments()[1][0]
    log.close()
    log = open_log(tmp_path, segment_bytes=20 << 20)
    path = tmp_path / segment_name(base, ".index")
    before = index_entries(tmp_path, base), time_entries(tmp_path, base)
    if damage == "gone":
        path.unlink()
    elif damage == "lies":
        path.write_bytes(bytes(byte ^ 5 for byte in path.read_bytes()))
    else:
        os.truncate(path, 0 if damage == "empty" else 24)
    told = distrusted_indexes()
    assert offsets(log.read(end - 1, 1, "log_end")) == [(end - 1, end - 1)]
    assert distrusted_indexes() == told + 1
    assert rebuild_indexes(log) == [base]
    assert (index_entries(tmp_path, base), time_entries(tmp_path, base)) == before
    assert rebuild_indexes(log) == []
    assert offsets(log.read(end - 1, 1, "log_end")) == [(end - 1, end - 1)]
    assert not [name for name in names(tmp_path) if name.endswith(".tmp")]


# ---------------------------------------------------------------- in a broker


def batch_of(i):
    return encode_batch([(None, b"%05d" % i + b"v" * 500, time.time_ns() // 1_000_000, [])])


def test_a_round_in_a_broker_reports_damage_once(serve, caplog):
    served = serve(log_initial_task_delay_ms="300", bowstring_scrub_interval_ms="1000")
    served.create_topic("t", internal_segment_bytes="2000")
    served.create_topic("empty")
    for i in range(40):
        served.produce("t", batch_of(i))
    directory = served.directory / "t-0"
    bases = sorted(int(path.name[:20]) for path in directory.glob("*.log"))
    flip(directory / segment_name(bases[1], ".log"), 300)
    scrubber = served.engine.scrubber
    with caplog.at_level(logging.ERROR, "bowstring"):
        wait_until(lambda: scrubber.rounds >= 2)
    assert scrubber.damaged_ranges == 1 and scrubber.scrubbed_bytes > 0 and scrubber.round_ended_s > 0
    (line,) = [record for record in caplog.records if "are not served" in record.getMessage()]
    assert line.facts["partition"] == "t-0"
    assert line.facts["file"] == str(directory / segment_name(bases[1], ".log"))
    assert line.facts["position"] == 0 and line.facts["first_offset"] == bases[1]
