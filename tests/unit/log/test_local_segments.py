"""Shared segments hold exactly what log.read gives: no byte beyond the limit, and nothing that is known to be bad."""

import fcntl
import os
import random
import threading

import pytest

from bowstring._native.log.local_segments import shared_segments
from bowstring._native.log.partition_log import LogError
from tests.support.descriptors import none_is_left, open_descriptors
from tests.support.log_batches import NOW_MS, TRANSACTIONAL, batch, headers, marker, open_log

SMALL = {"segment_bytes": 2000, "index_interval_bytes": 300}


def bytes_of(log, offset, **arguments) -> tuple[bytes, int]:
    """What the files say, and where the next look begins; the descriptors are closed."""
    *_, next_offset, segments = shared_segments(log, offset, **arguments)
    data = b""
    for base, end, device, inode, start, stop, _, path, checked, fd in segments:
        try:
            facts = os.fstat(fd)
            assert (facts.st_dev, facts.st_ino) == (device, inode)
            assert os.path.samefile(path, f"/proc/self/fd/{fd}")
            assert fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
            assert 0 <= start < stop <= facts.st_size
            assert base < end
            assert all(start <= low < high <= stop for low, high in checked)
            data += os.pread(fd, stop - start, start)
        finally:
            os.close(fd)
    return data, next_offset


def read_all(log, offset, limit) -> bytes:
    data = b""
    while piece := log.read(offset, 500, limit):
        data += piece
        offset = headers(piece)[-1].last_offset + 1
    return data


def shared_all(log, offset, **arguments) -> bytes:
    data, end = b"", log.last_stable_offset if arguments.get("read_committed") else log.high_watermark
    while offset < end:
        piece, following = bytes_of(log, offset, **arguments)
        assert piece and following > offset
        data, offset = data + piece, following
    return data


def fill(log, count, size=50):
    for i in range(count):
        log.append(batch([b"%d" % i + b"x" * size] * (1 + i % 3)), 0, NOW_MS)
    log.advance_high_watermark(log.log_end_offset)


@pytest.mark.parametrize("most", [1, 3, 64])
def test_the_same_bytes_as_a_read(tmp_path, most):
    log = open_log(tmp_path, **SMALL)
    fill(log, 200)
    end = log.log_end_offset
    assert len(log.segments()) > 8
    for offset in random.Random(1).sample(range(end), 40):
        assert shared_all(log, offset, max_segments=most) == read_all(log, offset, "high_watermark")
    assert bytes_of(log, end) == (b"", end)
    with pytest.raises(LogError, match="can't be read"):
        shared_segments(log, end + 1)


def test_nothing_above_the_high_watermark(tmp_path):
    log = open_log(tmp_path, **SMALL)
    fill(log, 50)
    seen = log.high_watermark
    for i in range(50):
        log.append(batch([b"hidden %d" % i]), 0, NOW_MS)
    for offset in (0, seen // 2, seen - 1):
        data = shared_all(log, offset)
        assert data == read_all(log, offset, "high_watermark")
        assert b"hidden" not in data
    assert bytes_of(log, seen) == (b"", seen)
    log.advance_high_watermark(seen + 7)
    assert headers(bytes_of(log, seen)[0])[-1].last_offset == seen + 6


def test_nothing_above_the_last_stable_offset(tmp_path):
    log = open_log(tmp_path, **SMALL)
    fill(log, 30)
    stable = log.log_end_offset
    log.append(batch([b"open"], producer_id=5, epoch=0, sequence=0, attributes=TRANSACTIONAL), 0, NOW_MS)
    fill(log, 30)
    assert log.last_stable_offset == stable
    data = shared_all(log, 0, read_committed=True)
    assert headers(data)[-1].last_offset == stable - 1
    assert data == read_all(log, 0, "last_stable")
    assert bytes_of(log, stable, read_committed=True) == (b"", stable)
    log.append(marker(5, 0, abort=True), 0, NOW_MS)
    log.advance_high_watermark(log.log_end_offset)
    assert shared_all(log, 0, read_committed=True) == read_all(log, 0, "high_watermark")


def test_a_damaged_batch_ends_what_is_shared(tmp_path):
    log = open_log(tmp_path, **SMALL)
    fill(log, 100)
    base, _, _ = log.segments()[2]
    path = tmp_path / f"{base:020d}.log"
    in_segment = headers(path.read_bytes())
    bad = in_segment[3]
    position = sum(each.size_bytes for each in in_segment[:3])
    log.close()
    with open(path, "r+b") as file:
        file.seek(position + 70)
        file.write(b"\xff\xfe\xfd")
    log = open_log(tmp_path, recovery_point=log.log_end_offset, **SMALL)
    log.advance_high_watermark(log.log_end_offset)
    with pytest.raises(LogError, match="damaged"):
        log.read(bad.base_offset, 100)
    data, following = bytes_of(log, 0)
    assert following == -1
    assert headers(data)[-1].last_offset == bad.base_offset - 1
    with pytest.raises(LogError) as caught:
        shared_segments(log, bad.base_offset)
    assert caught.value.code == 2
    behind = bytes_of(log, bad.last_offset + 1)[0]
    assert headers(behind)[0].base_offset == bad.last_offset + 1


def test_files_stay_whole_for_who_has_them(tmp_path):
    log = open_log(tmp_path, retention_bytes=3000, file_delete_delay_ms=0, **SMALL)
    fill(log, 100)
    expected = read_all(log, 0, "high_watermark")
    *_, segments = shared_segments(log, 0, max_segments=64)
    log.apply_retention(NOW_MS)
    log.delete_expired_files(NOW_MS + 10)
    assert log.log_start_offset > 0
    data = b""
    for each in segments:
        data += os.pread(each[9], each[5] - each[4], each[4])
        os.close(each[9])
    assert data == expected
    with pytest.raises(LogError) as caught:
        shared_segments(log, 0)
    assert caught.value.code == 1


def test_shared_while_it_is_written(tmp_path):
    log = open_log(tmp_path, **SMALL)
    fill(log, 5)
    done = threading.Event()

    def write():
        while not done.is_set():
            fill(log, 20)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(150):
            offset = random.randrange(log.high_watermark)
            before = log.high_watermark
            data, following = bytes_of(log, offset)
            found = headers(data)
            assert found[0].base_offset <= offset <= found[0].last_offset
            assert found[-1].last_offset + 1 == following <= log.high_watermark
            assert len(found) >= 1 and (following >= before or len(found) > 16)
    finally:
        done.set()
        writer.join()


def test_no_descriptor_is_left_behind(tmp_path):
    log = open_log(tmp_path, **SMALL)
    fill(log, 60)
    bytes_of(log, 0)
    before = open_descriptors()
    for _ in range(50):
        bytes_of(log, 0)
        with pytest.raises(LogError):
            shared_segments(log, 1 << 40)
        with pytest.raises(ValueError, match="max_segments"):
            shared_segments(log, 0, max_segments=65)
    assert none_is_left(before, 50)
