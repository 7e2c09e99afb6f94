"""Mapped segments: the same bytes mapped and copied, nothing beyond the end, and errors instead of signals."""

import errno
import gc
import mmap
import os

import pytest

from bowstring._native.client import mapped_pages as mapped
from bowstring.clients.errors import CorruptBatchError
from bowstring.clients.local.mapped_segments import MAPPED_BYTES_MIN, MappedSegment
from bowstring.protocol.local_reads import Segment
from tests.support.descriptors import none_is_left, open_descriptors

SIZE = 1 << 20


@pytest.fixture
def path(tmp_path):
    made = tmp_path / "segment.log"
    made.write_bytes(os.urandom(SIZE))
    return made


def segment(path, start, end, **arguments) -> MappedSegment:
    fd = os.open(path, os.O_RDONLY)
    return MappedSegment(Segment(0, 1, 0, 0, start, end, False, str(path), fd=fd), "t-0", **arguments)


@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize(("start", "end"), [(0, SIZE), (5000, 900_001), (12_345, 12_400), (SIZE - 1, SIZE)])
def test_the_bytes_between(path, start, end, copied):
    data = path.read_bytes()
    made = segment(path, start, end, copied=copied)
    at, found = start, b""
    while at < end:
        window = made.window(at, 100_000)
        assert 0 < len(window) <= 100_000 and window.readonly is (
            not copied and end - start >= MAPPED_BYTES_MIN
        )
        found += window
        at += len(window)
    assert found == data[start:end]
    assert bytes(made.window(start, 1 << 30)) == data[start:end]
    made.close()


def test_memory_lives_as_long_as_something_points_into_it(path):
    data = path.read_bytes()
    made = segment(path, 0, SIZE)
    window = made.window(70_000, 200_000)
    made.close()
    os.unlink(path)
    gc.collect()
    assert bytes(window) == data[70_000:270_000]


def test_a_file_that_is_too_short_is_told_at_once(path):
    before = open_descriptors()
    for _ in range(50):
        with pytest.raises(CorruptBatchError, match="t-0: a segment file ends before byte"):
            segment(path, 0, SIZE + 1)
    assert none_is_left(before, 50)


@pytest.mark.parametrize("copied", [False, True])
def test_a_file_that_becomes_shorter_is_told_before_it_is_looked_at(path, copied):
    made = segment(path, 0, SIZE, copied=copied)
    assert len(made.window(0, 200_000)) == 200_000
    os.truncate(path, 300_000)
    with pytest.raises(CorruptBatchError, match="truncated meanwhile"):
        made.window(250_000, 200_000)
    made.close()


def test_populate_says_what_is_wrong(path):
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), SIZE, prot=mmap.PROT_READ) as memory:
        mapped.expect_sequential(memory)
        with memoryview(memory) as view:
            assert mapped.populate(view) == 0
            assert mapped.populate(view[5000:5001]) == 0
            os.truncate(path, 8192)
            assert mapped.populate(view[:8192]) == 0
            assert mapped.populate(view) == errno.EFAULT
