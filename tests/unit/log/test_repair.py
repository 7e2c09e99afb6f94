"""Corrupt ranges are replaced by the same batches of another replica, where they are."""

import shutil

import pytest

from bowstring._native.log.partition_log import LogError
from bowstring._native.log.repair import corrupt_offsets, write_back
from bowstring._native.log.scrub import scrub_piece
from tests.support.cold_logs import evict, flip, layout, overwrite
from tests.support.log_batches import fill, offsets, open_log

BATCHES = 40


@pytest.fixture
def copies(tmp_path):
    """The closed files of a log of ten segments, twice."""
    (tmp_path / "good").mkdir()
    log = open_log(tmp_path / "good", segment_bytes=5000)
    fill(log, BATCHES)
    log.close()
    shutil.copytree(tmp_path / "good", tmp_path / "bad")
    return tmp_path


def opened(directory):
    log = open_log(directory, segment_bytes=5000, recovery_point=BATCHES * 10)
    log.advance_high_watermark(log.log_end_offset)
    return log


def scrubbed(directory):
    evict(directory)
    log = opened(directory)
    for base_offset, _, _ in log.segments():
        scrub_piece(log, base_offset)
    return log


def whole(log):
    data = b""
    while (offset := offsets(data)[-1][1] + 1 if data else 0) < log.log_end_offset:
        data += log.read(offset, 1 << 20)
    return data


def damaged(directory, which: dict[int, bytes | None]):
    """Damages batches by their index: bytes over the header, or a flipped bit."""
    batches = layout(directory)
    for index, data in which.items():
        path, position, _, _ = batches[index]
        flip(path, position + 100) if data is None else overwrite(path, position, data)
    return scrubbed(directory)


@pytest.mark.parametrize(
    "which",
    [
        {0: None},
        {5: None},
        {6: None, 7: None},
        {3: None},
        {3: bytes(61)},
        {BATCHES - 1: None},
        {
            0: bytes(61),
            1: bytes(61),
            2: bytes(61),
            3: bytes(61),
            9: None,
            11: None,
            21: b"\0\0\1",
        },  # the last is a wrong base offset
    ],
)
def test_the_bytes_of_another_replica_are_served(copies, which):
    good, bad = opened(copies / "good"), damaged(copies / "bad", which)
    corrupt_offsets(bad)  # finds that a batch before a range is bad, too
    places = corrupt_offsets(bad)
    assert places
    assert {k * 10 for k in which} <= {n for place in places for n in range(place[3], place[4])}
    for place in places:
        with pytest.raises(LogError):
            bad.read(place[3], 1)
        data = b""
        while len(data) < place[2]:
            data += good.read(place[3] if not data else offsets(data)[-1][1] + 1, 1)
        assert write_back(bad, place, data)
    assert bad.corrupt_ranges() == []
    assert whole(bad) == whole(good)
    bad.close()
    assert whole(scrubbed(copies / "bad")) == whole(good)


def test_what_does_not_fit_is_not_written(copies):
    good, bad = opened(copies / "good"), damaged(copies / "bad", {5: None})
    (place,) = corrupt_offsets(bad)
    before = [path.read_bytes() for path in sorted((copies / "bad").glob("*.log"))]
    data = good.read(place[3], 1)
    assert len(data) == place[2]
    other = good.read(place[4], 1)
    for wrong in (data[:-1], data + data, other, data[:-1] + bytes([data[-1] ^ 1])):
        with pytest.raises(ValueError, match=r"fit|whole"):
            write_back(bad, place, wrong)
    assert [path.read_bytes() for path in sorted((copies / "bad").glob("*.log"))] == before
    assert len(bad.corrupt_ranges()) == 1


def test_a_log_that_was_cut_meanwhile_is_left_alone(copies):
    good, bad = opened(copies / "good"), damaged(copies / "bad", {BATCHES - 1: None})
    (place,) = corrupt_offsets(bad)
    bad.truncate_to(place[3])
    size = bad.size_bytes
    assert not write_back(bad, place, good.read(place[3], 1))
    assert (bad.size_bytes, bad.log_end_offset) == (size, place[3])
