"""Staged tails: random lives beside a plain model (staged/), and untrustworthy contents of a pool's file.

`python -m tests.simulation.staged` tries thousands of seeds; BOWSTRING_SEED runs one here.
"""

import errno
import os
import random
import struct

import pytest

from bowstring._native.disk.tail_pool import restore
from bowstring._native.log.partition_log import LogError
from bowstring.engine.storage.staged_tails import TAILS_FILE
from tests.simulation.disk.commit_workload import CommitWorkload
from tests.simulation.disk.crashes import scratch
from tests.simulation.disk.disk import Disk, Fault
from tests.simulation.disk.pool_images import FIELDS, HEADER, MAGIC, data_at, header_crc, headers_of
from tests.simulation.staged.home import Home
from tests.simulation.staged.lives import Lives
from tests.support.faults import failing
from tests.support.log_batches import NOW_MS, batch, everything, headers

SEEDS = 80
TESTS = 8
POOL_BYTES = 256 << 10
KAFKA_STORAGE_ERROR = 56


@pytest.mark.parametrize("part", range(TESTS))
def test_random_lives(part):
    chosen = os.environ.get("BOWSTRING_SEED")
    for seed in [int(chosen)] if chosen else range(1 + part, 1 + SEEDS, TESTS):
        Lives(seed).run()


@pytest.fixture
def home():
    with scratch() as root:
        yield Home(root, random.Random(1), POOL_BYTES, 0)


def put(log, *, count=1, value=b"v" * 100, **producer):
    for _ in range(count):
        log.append(batch([value], **producer), 0, NOW_MS)


def file_of(home, name="t-0", base_offset=0):
    return home.root / name / f"{base_offset:020d}.log"


# ---------------------------------------------------------------- damaged headers

# Field -> its place in a header, and its size.
PLACES = {
    "length": (0, 8), "magic": (8, 4), "crc": (12, 4), "inode": (16, 8), "position": (24, 8), "base offset": (32, 8),
    "name": (40, 384),
}  # fmt: skip


class Recycled:
    """A pool with one chunk that another log used before, with that log's header and bytes still in it."""

    def __init__(self, home: Home) -> None:
        self.home = home
        other = home.open("another-topic-5", {}, clean=True)
        put(other, count=9, value=b"o" * 300)
        self.of_other = home.file.read_bytes()
        home.rest()
        log = home.open("t-0", {}, clean=True)
        put(log, count=3)
        home.rest()
        put(log, count=5)
        self.data = everything(log)
        self.pool = home.file.read_bytes()
        self.at = next(at for at in headers_of(self.pool) if HEADER.unpack_from(self.pool, at)[0] > 0)
        assert HEADER.unpack_from(self.of_other, self.at)[1] == MAGIC, "it is the same chunk"
        self.files = {each: each.read_bytes() for each in home.root.glob("*/*.log")}

    def left(self, header: bytes) -> bytes:
        """Restores a pool with this header; returns the contents of t-0, and undoes everything."""
        size = len(header)
        self.home.file.write_bytes(self.pool[: self.at] + header + self.pool[self.at + size :])
        restore(self.home.file, self.home.root)
        found = file_of(self.home).read_bytes()
        for path, content in self.files.items():
            assert path == file_of(self.home) or path.read_bytes() == content
            path.write_bytes(content)
        return found

    @property
    def header(self) -> bytes:
        return self.pool[self.at : self.at + HEADER.size + FIELDS.size]

    @property
    def old_header(self) -> bytes:
        return self.of_other[self.at : self.at + HEADER.size + FIELDS.size]


@pytest.fixture
def recycled(home):
    found = Recycled(home)
    assert found.left(found.header) == found.data, "without damage it is restored"
    return found


@pytest.mark.parametrize("field", [field for field in PLACES if field not in ("length", "magic")])
def test_a_header_with_a_field_of_the_last_log_restores_nothing(recycled, field):
    """The whole field, and each number of its bytes: a store may be torn."""
    at, size = PLACES[field]
    new, old = recycled.header, recycled.old_header
    assert new[at : at + size] != old[at : at + size] or field == "base offset"
    before = recycled.files[file_of(recycled.home)]
    for cut in range(1, size + 1):
        for mixed in (
            new[:at] + old[at : at + cut] + new[at + cut :],
            new[: at + size - cut] + old[at + size - cut : at + size] + new[at + size :],
        ):
            if mixed != new:
                assert recycled.left(mixed) == before, f"{cut} bytes of the {field}"


def test_a_header_with_any_byte_changed_restores_nothing(recycled):
    before = recycled.files[file_of(recycled.home)]
    header = recycled.header
    for at in range(PLACES["magic"][0], len(header)):
        for bit in (0x01, 0x80):
            flipped = header[:at] + bytes([header[at] ^ bit]) + header[at + 1 :]
            assert recycled.left(flipped) == before, f"byte {at}"


def test_a_header_of_any_age_restores_what_its_length_says(recycled):
    """Up to any batch: that is what the process had acknowledged when it died."""
    before = recycled.files[file_of(recycled.home)]
    batch_bytes = len(batch([b"v" * 100]))
    for length in range(0, 5 * batch_bytes + 1, batch_bytes):
        found = recycled.left(struct.pack("<q", length) + recycled.header[8:])
        assert found == recycled.data[: len(before) + length]
    for length in (-1, -(1 << 63), (256 << 10) + 1, (1 << 63) - 1):
        assert recycled.left(struct.pack("<q", length) + recycled.header[8:]) == before


def test_bytes_of_the_last_log_behind_the_length_are_not_restored(recycled):
    """The chunk still has batches of the other log behind its own."""
    data = data_at(recycled.pool, recycled.at)
    length = HEADER.unpack_from(recycled.pool, recycled.at)[0]
    assert any(recycled.pool[data + length : data + length + 100])
    log = recycled.home.root / "t-0"
    recycled.home.kill()
    assert recycled.home.restored == 1
    assert (log / f"{0:020d}.log").read_bytes() == recycled.data


# ---------------------------------------------------------------- chunks of earlier runs


def test_a_chunk_of_an_older_run_is_not_restored_again(home):
    """The first run was killed and restored; the second one continued, cut the log, and was killed, too."""
    log = home.open("t-0", {}, clean=True)
    put(log, count=5, value=b"first")
    stale = home.file.read_bytes()
    home.kill()
    log = home.open("t-0", {}, clean=False)
    assert home.restored == 1
    log.truncate_to(2)
    put(log, count=2, value=b"again")
    home.rest()
    data = everything(log)
    home.kill()
    assert home.restored == 0 and file_of(home).read_bytes() == data
    # Not even if a copy of the old pool returns.
    home.file.write_bytes(stale)
    assert restore(home.file, home.root) == 0
    assert file_of(home).read_bytes() == data


@pytest.mark.parametrize("made_again", [False, True])
def test_a_chunk_of_a_deleted_topic_goes_nowhere(home, made_again):
    """Also if another topic of that name exists: its file has the length of the first one's."""
    log = home.open("t-0", {}, clean=True)
    put(log, count=3, value=b"deleted")
    path = home.root / "t-0.0123456789abcdef-delete"
    (home.root / "t-0").rename(path)  # the kill comes before the rename reaches the log
    if made_again:
        home.open("t-0", {}, clean=True)
    home.kill()
    assert home.restored == 0
    if made_again:
        again = home.open("t-0", {}, clean=False)
        assert again.log_end_offset == 0 and file_of(home).stat().st_size == 0
    else:
        assert not (home.root / "t-0").exists()


def test_a_chunk_that_was_a_deleted_topics_restores_the_next_ones(home):
    """The chunk is used again before the kill: its header names the new topic."""
    log = home.open("t-0", {}, clean=True)
    put(log, count=9, value=b"deleted" * 100)
    path = home.root / "t-0.0123456789abcdef-delete"
    (home.root / "t-0").rename(path)
    log.mark_deleted(str(path))
    log.close(sync=False)
    log = home.open("t-0", {}, clean=True)
    put(log, count=2, value=b"new")
    data = everything(log)
    home.kill()
    assert home.restored == 1 and file_of(home).read_bytes() == data


# ---------------------------------------------------------------- cuts


@pytest.mark.parametrize("target", range(8))
def test_truncation_and_a_kill(home, target):
    """Into the chunk, to its beginning, and before it; producers are as the remaining batches leave them."""
    log = home.open("t-0", {}, clean=True)
    for sequence in range(4):
        put(log, producer_id=7, epoch=0, sequence=sequence)
    home.rest()
    for sequence in range(4, 8):
        put(log, producer_id=7, epoch=0, sequence=sequence)
    log.truncate_to(target)
    put(log, producer_id=7, epoch=0, sequence=target, value=b"other")
    data = everything(log)
    home.kill()
    log = home.open("t-0", {}, clean=False)
    assert everything(log) == data and [h.base_offset for h in headers(data)] == list(range(target + 1))
    assert [each[:3] for each in log.active_producers()] == [(7, 0, target)]
    last = batch([b"other"], producer_id=7, epoch=0, sequence=target)
    assert log.append(last, 0, NOW_MS) == target, "a duplicate"
    with pytest.raises(LogError):
        put(log, producer_id=7, epoch=0, sequence=target + 2)
    put(log, producer_id=7, epoch=0, sequence=target + 1)
    assert log.log_end_offset == target + 2


# ---------------------------------------------------------------- full disks


def test_a_disk_that_is_full_when_a_chunk_is_written_out(home):
    """The partition fails as in Kafka, and keeps everything acknowledged; so does the next start."""
    log = home.open("t-0", {}, clean=True)
    acked = 0
    with failing("pwritev", errno.ENOSPC), pytest.raises(LogError) as caught:
        while acked < 100:
            put(log, value=b"%d" % acked * 400)
            acked += 1
    assert caught.value.code == KAFKA_STORAGE_ERROR and log.failed and 10 < acked < 100
    data = everything(log)
    assert len(headers(data)) == acked == log.log_end_offset
    with pytest.raises(LogError):
        put(log)
    home.kill()
    log = home.open("t-0", {}, clean=False)
    assert everything(log) == data and not log.failed


def test_a_disk_that_is_full_at_the_next_start(home):
    """Nothing is lost: the start fails, and the next one tries again."""
    log = home.open("t-0", {}, clean=True)
    put(log, count=5)
    data = everything(log)
    with failing("pwritev", errno.ENOSPC), pytest.raises(OSError) as caught:
        home.kill()
    assert caught.value.errno == errno.ENOSPC
    home.start()
    assert home.restored == 1 and file_of(home).read_bytes() == data


def test_a_disk_that_is_full_when_a_chunk_is_written_out_in_commit_mode():
    """The write-ahead log has the batches: they are there after a kill."""
    with scratch() as root:
        disk = Disk(root)
        workload = CommitWorkload(disk, 1)
        with disk.watched():
            workload.start()
            for _ in range(3):
                workload.append_some()
                workload.commit()
            log = workload.broker.logs["t-1"]
            assert workload.staged_bytes > 0
            disk.watcher = lambda operation, path: (
                Fault(errno.ENOSPC) if operation == "pwritev" and path.startswith("t-1/") else None
            )
            with pytest.raises(LogError):
                while len(workload.live["t-1"]) < 100:
                    workload.append_some()
                    workload.commit()
            assert log.failed
            acked = [each for each in workload.live["t-1"] if each.last < log.high_watermark]
            assert [each.base_offset for each in headers(everything(log))][: len(acked)] == [
                a.base for a in acked
            ]
            disk.watcher = lambda operation, path: None
            workload.kill()
            found = headers(everything(workload.broker.logs["t-1"]))
            assert [each.data[17:] for each in found][: len(acked)] == [each.body for each in acked]
            assert len(acked) > 10


def test_the_pool_is_where_a_broker_has_it(home):
    """The layout that these tests read is the one that the pool writes."""
    log = home.open("t-0", {}, clean=True)
    put(log, count=2)
    pool = (home.root / TAILS_FILE).read_bytes()
    at = next(headers_of(pool))
    length, magic, crc = HEADER.unpack_from(pool, at)
    inode, position, base_offset, name = FIELDS.unpack_from(pool, at + HEADER.size)
    assert (magic, crc) == (MAGIC, header_crc(pool, at))
    assert (inode, position, base_offset, name.rstrip(b"\0")) == (file_of(home).stat().st_ino, 0, 0, b"t-0")
    assert pool[data_at(pool, at) :][:length] == everything(log)
