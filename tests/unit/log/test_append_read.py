"""What goes in comes out: offsets, epochs, byte ranges, limits, and the index that finds them."""

import struct

import pytest

from bowstring._native.base.crc import crc32c
from bowstring._native.log.partition_log import LogError
from bowstring._native.record.compression import compress
from tests.support.log_batches import (
    NOW_MS,
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


@pytest.fixture
def log(tmp_path):
    opened = open_log(tmp_path)
    yield opened
    opened.close()


def test_an_empty_directory_becomes_a_log(tmp_path):
    log = open_log(tmp_path)
    assert names(tmp_path) == {segment_name(0, s) for s in (".log", ".index", ".timeindex")}
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark, log.size_bytes) == (0, 0, 0, 0)
    assert log.leader_epoch == -1 and not log.failed
    assert log.read(0, 1000) == b""
    assert log.max_timestamp() is None and log.offset_for_timestamp(0) is None


def test_a_log_can_begin_anywhere(tmp_path):
    log = open_log(tmp_path, start=42)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (42, 42, 42)
    assert log.append(batch(), 0, NOW_MS) == 42


def test_offsets_and_epoch_are_written_into_the_batch(log):
    assert log.append(batch([b"a", b"b", b"c"]), 7, NOW_MS) == 0
    assert log.append(batch([b"d"]), 7, NOW_MS) == 3
    first, second = headers(log.read(0, 1 << 20, "log_end"))
    assert (first.base_offset, first.last_offset, first.leader_epoch) == (0, 2, 7)
    assert (second.base_offset, second.leader_epoch) == (3, 7)
    assert log.log_end_offset == 4 and log.leader_epoch == 7
    assert first.data[21:] == batch([b"a", b"b", b"c"])[21:]


def test_reads_end_at_the_limit(log):
    fill(log, 5)
    assert log.read(0, 1 << 20) == b""
    assert log.advance_high_watermark(20) and not log.advance_high_watermark(10)
    assert offsets(log.read(0, 1 << 20)) == [(0, 9), (10, 19)]
    assert offsets(log.read(0, 1 << 20, "log_end")) == [(i, i + 9) for i in range(0, 50, 10)]
    assert log.advance_high_watermark(1000) and log.high_watermark == 50


def test_an_offset_inside_a_batch_gives_the_batch(log):
    fill(log, 30)
    for offset in (0, 1, 9, 10, 155, 299):
        assert offsets(log.read(offset, 1, "log_end")) == [(offset // 10 * 10, offset // 10 * 10 + 9)]


def test_out_of_range(log):
    fill(log, 2)
    assert log.read(20, 100, "log_end") == b""
    for offset in (-1, 21, 1 << 40):
        with pytest.raises(LogError) as raised:
            log.read(offset, 100, "log_end")
        assert raised.value.code == 1


@pytest.mark.parametrize("max_bytes", [1, 1000, 1151, 1152, 2400, 4096, 5000, 20_000, 60_000, 1 << 20])
def test_reads_are_whole_batches_and_use_most_of_what_they_may(log, max_bytes):
    fill(log, 100)
    size = log.size_bytes // 100
    position = 0
    while position < log.log_end_offset:
        data = log.read(position, max_bytes, "log_end")
        found = headers(data)
        assert found[0].base_offset == position
        assert len(data) <= max(max_bytes, size)
        left = (1000 - position) // 10 * size
        assert len(data) >= min(left, max(size, max_bytes - size - 4096 - size))
        position = found[-1].last_offset + 1


def test_index_entries_are_kafkas(tmp_path):
    log = open_log(tmp_path)
    fill(log, 100)
    size = log.size_bytes // 100
    log.close()
    expected, since, largest = [], 0, []
    for i in range(100):
        if since > 4096:
            expected.append((i * 10 + 9, i * size))
            largest.append((NOW_MS + i * 100 + 9, i * 10 + 9))
            since = 0
        since += size
    assert index_entries(tmp_path, 0) == expected
    assert time_entries(tmp_path, 0) == [*largest, (NOW_MS + 9909, 999)]


def test_many_index_entries_go_to_the_file_and_are_found(tmp_path):
    log = open_log(tmp_path, index_interval_bytes=0)
    fill(log, 1500, records=1, value=b"y")
    log.advance_high_watermark(1500)
    assert len(index_entries(tmp_path, 0)) == 1024  # 512 at a time; the rest is in memory
    for offset in (0, 1, 2, 511, 512, 513, 1023, 1024, 1025, 1498, 1499):
        assert offsets(log.read(offset, 1))[0][0] == offset
        assert log.offset_for_timestamp(NOW_MS + offset * 100) == (NOW_MS + offset * 100, offset, 0)
    log.close()
    assert len(index_entries(tmp_path, 0)) == 1499


def test_segments_roll_by_size_and_reads_cross_them(tmp_path):
    log = open_log(tmp_path, segment_bytes=5000)
    fill(log, 40)
    bases = [base for base, _, _ in log.segments()]
    assert bases == [i * 40 for i in range(10)]
    assert all(size <= 5000 for _, size, _ in log.segments())
    position, seen = 0, []
    while position < 400:
        data = log.read(position, 1 << 20, "log_end")
        seen += offsets(data)
        position = seen[-1][1] + 1
    assert seen == [(i, i + 9) for i in range(0, 400, 10)]
    assert {segment_name(b, ".snapshot") for b in bases[1:]} <= names(tmp_path)


def test_a_batch_larger_than_a_segment_is_refused_alone(tmp_path):
    log = open_log(tmp_path, segment_bytes=5000)
    with pytest.raises(LogError) as raised:
        log.append(batch([b"z" * 5000]), 0, NOW_MS)
    assert raised.value.code == 18
    assert log.append(batch(), 0, NOW_MS) == 0


def test_segments_roll_by_time_between_batches(tmp_path):
    log = open_log(tmp_path, segment_ms=1000)
    for timestamp in (0, 1000, 1001, 1500, 2001, 2002):
        log.append(batch(timestamp=NOW_MS + timestamp), 0, NOW_MS)
    assert [base for base, _, _ in log.segments()] == [0, 2, 5]


def test_segments_without_timestamps_roll_by_the_clock(tmp_path):
    log = open_log(tmp_path, segment_ms=1000)
    log.roll()
    log.append(batch(timestamp=-1, step_ms=0), 0, NOW_MS)
    far = 1 << 42
    log.append(batch(timestamp=-1, step_ms=0), 0, far)
    log.append(batch(timestamp=-1, step_ms=0), 0, far + 1000)
    log.append(batch(timestamp=-1, step_ms=0), 0, far + 1001)
    assert [base for base, _, _ in log.segments()] == [0, 1, 3]


def test_segments_roll_when_an_index_is_full(tmp_path):
    log = open_log(tmp_path, index_interval_bytes=0, segment_index_bytes=80)
    fill(log, 60, records=1, value=b"y")
    sizes = [path.stat().st_size for path in tmp_path.glob("*.index")]
    assert len(log.segments()) > 5 and max(sizes) <= 80
    assert max(path.stat().st_size for path in tmp_path.glob("*.timeindex")) <= 80


def test_maybe_roll_and_roll(tmp_path):
    log = open_log(tmp_path, segment_ms=1000)
    assert not log.maybe_roll(NOW_MS + 10_000)
    log.append(batch(timestamp=NOW_MS), 0, NOW_MS)
    assert not log.maybe_roll(NOW_MS + 1000)
    assert log.maybe_roll(NOW_MS + 1001)
    log.roll()
    assert [base for base, _, _ in log.segments()] == [0, 1]


def test_log_append_time_is_stamped(tmp_path):
    log = open_log(tmp_path, log_append_time=1)
    log.append(batch([b"a", b"b"], timestamp=5), 0, NOW_MS + 77)
    (only,) = headers(log.read(0, 1000, "log_end"))
    assert only.max_timestamp == NOW_MS + 77 and only.attributes & 0x08
    assert log.offset_for_timestamp(NOW_MS) == (NOW_MS + 77, 0, 0)
    assert log.max_timestamp() == (NOW_MS + 77, 0, 0)


def test_corrupt_batches_are_not_appended(log):
    good = batch([b"abc"])
    for bad in (b"", good[:-1], good + b"\0", good[:30] + b"\xff" + good[31:]):
        with pytest.raises(LogError):
            log.append(bad, 0, NOW_MS)
    assert log.log_end_offset == 0 and log.size_bytes == 0


def test_bytes_between(tmp_path):
    log = open_log(tmp_path, segment_bytes=20_000)
    fill(log, 100)
    size = log.size_bytes // 100
    assert log.bytes_between(0, 1000) == log.size_bytes
    assert log.bytes_between(1000, 1000) == 0
    for start, end in ((0, 500), (250, 900), (990, 1000)):
        exact = (end - start) // 10 * size
        assert exact <= log.bytes_between(start, end) <= exact + 4096 + 2 * size


def test_timestamps_out_of_order(tmp_path):
    log = open_log(tmp_path, index_interval_bytes=0)
    for timestamp in (100, 300, 200, 300, 50, 400):
        log.append(batch(timestamp=timestamp), 0, NOW_MS)
    answers = {0: 0, 100: 0, 101: 1, 300: 1, 301: 5, 400: 5}
    for wanted, offset in answers.items():
        assert log.offset_for_timestamp(wanted)[1] == offset
    assert log.offset_for_timestamp(401) is None
    assert log.max_timestamp() == (400, 5, 0)
    log.close()
    assert time_entries(tmp_path, 0) == [(300, 1), (400, 5)]


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_timestamps_inside_compressed_batches(log, codec):
    plain = batch([b"v%d" % i for i in range(20)], timestamp=NOW_MS, step_ms=10, attributes=codec)
    body = plain[21:61] + compress(codec, plain[61:])
    data = struct.pack(">qiibI", 0, len(body) + 9, -1, 2, crc32c(body)) + body
    for _ in range(2):
        log.append(data, 3, NOW_MS)
    assert log.offset_for_timestamp(NOW_MS + 51) == (NOW_MS + 60, 6, 3)
    assert log.max_timestamp() == (NOW_MS + 190, 19, 3)


def test_settings_are_checked(tmp_path):
    with pytest.raises(ValueError, match="unknown"):
        open_log(tmp_path, no_such_thing=1)
    with pytest.raises(ValueError, match="segment_bytes"):
        open_log(tmp_path, segment_bytes=0)
    with pytest.raises(LogError, match="listing the directory failed"):
        open_log(tmp_path / "missing")
