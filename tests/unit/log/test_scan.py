"""Scanning .log files batch by batch."""

import os
import random

import pytest

from bowstring._native.log.scan import scan_file
from tests.support.log_batches import NOW_MS, batch, crash, fill, headers, open_log, segment_name


def written(tmp_path, sizes, records=3):
    """A .log file with batches whose values have these sizes: (its path, its batches)."""
    log = open_log(tmp_path)
    for size in sizes:
        log.append(batch([os.urandom(size)] * records, timestamp=NOW_MS), 1, NOW_MS)
    crash(log)
    path = tmp_path / segment_name(0, ".log")
    return path, headers(path.read_bytes())


def test_a_good_file_is_read_to_its_end(tmp_path):
    path, batches = written(tmp_path, [10, 3000, 400_000, 7, 349_000, 100])
    found = scan_file(path)
    size = path.stat().st_size
    assert found == {"valid_end": size, "batches": 6, "records": 18, "next_offset": 18, "bad": None}
    begin = batches[0].size_bytes + batches[1].size_bytes
    assert scan_file(path, begin)["batches"] == 4
    assert scan_file(path, 0, begin) == {
        "valid_end": begin, "batches": 2, "records": 6, "next_offset": 6, "bad": None,
    }  # fmt: skip


def test_batches_across_every_edge_of_the_window(tmp_path):
    """The window is a mebibyte: sizes that move its edge through every part of a batch."""
    log = open_log(tmp_path)
    rng = random.Random(11)
    for _ in range(900):
        log.append(batch([rng.randbytes(rng.choice([1, 50, 5000, 12_000]))]), 0, NOW_MS)
    crash(log)
    path = tmp_path / segment_name(0, ".log")
    found = scan_file(path)
    assert (found["batches"], found["valid_end"], found["bad"]) == (900, path.stat().st_size, None)


@pytest.mark.parametrize(
    ("at", "value", "why"),
    [
        (16, 9, "no batch header"),
        (8, 0x7F, "the file ends inside it"),
        (11, 1, "no batch header|CRC|inside"),
        (23, 0xFF, "header is invalid"),
        (30, 0xEE, "CRC"),
        (-1, 0xEE, "CRC"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path, at, value, why):
    path, batches = written(tmp_path, [10, 20, 30])
    data = bytearray(path.read_bytes())
    start = batches[0].size_bytes
    data[start + at if at >= 0 else start + batches[1].size_bytes + at] = value
    path.write_bytes(data)
    found = scan_file(path)
    assert found["valid_end"] == start and found["batches"] == 1 and found["next_offset"] == 3
    assert any(part in found["bad"] for part in why.split("|"))


@pytest.mark.parametrize("kept", [1, 16, 17, 60, 61, 99])
def test_a_torn_end(tmp_path, kept):
    path, batches = written(tmp_path, [100, 100])
    os.truncate(path, batches[0].size_bytes + kept)
    found = scan_file(path)
    assert found["valid_end"] == batches[0].size_bytes and "inside it" in found["bad"]


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(FileNotFoundError):
        scan_file(tmp_path / "none.log")
    with pytest.raises(IsADirectoryError):
        scan_file(tmp_path)


def test_many_small_batches(tmp_path):
    """A log of many small batches, as a busy producer without batching leaves it."""
    log = open_log(tmp_path)
    fill(log, 5000, records=1, value=b"")
    crash(log)
    assert scan_file(tmp_path / segment_name(0, ".log"))["records"] == 5000
