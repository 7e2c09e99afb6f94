"""A file that a reader maps is never made shorter: a shorter copy takes its name."""

import fcntl
import mmap
import os

import pytest

from tests.support.log_batches import NOW_MS, batch, fill, headers, names, open_log


def damaged(tmp_path):
    """A log whose second half is lost to recovery; its file, its batches, and the first bad one."""
    log = open_log(tmp_path)
    fill(log, 100)
    path = tmp_path / f"{0:020d}.log"
    data = path.read_bytes()
    found = headers(data)
    good = sum(each.size_bytes for each in found[:50])
    with open(path, "r+b") as file:
        file.seek(good + 90)
        file.write(b"\x00\x01\x02")
    return path, data, good


# As Python's readers take it, as Java's FileChannel.lock does, and not at all.
LOCKS = {
    "flock": lambda file: fcntl.flock(file, fcntl.LOCK_SH),
    "fcntl": lambda file: fcntl.lockf(file, fcntl.LOCK_SH),
    "none": None,
}


@pytest.mark.parametrize("lock", LOCKS)
def test_recovery(tmp_path, lock):
    locked = lock != "none"
    path, data, good = damaged(tmp_path)
    before = path.stat().st_ino
    with open(path, "rb") as file:
        if locked:
            LOCKS[lock](file)
        memory = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        log = open_log(tmp_path, clean=False)
        assert log.log_end_offset == 500
        assert path.read_bytes() == data[:good]
        assert (path.stat().st_ino == before) is not locked
        assert os.fstat(file.fileno()).st_size == (len(data) if locked else good)
        if locked:
            assert memory[good + 200 :] == data[good + 200 :]
        memory.close()
    log.append(batch([b"more"]), 0, NOW_MS)
    log.close()
    assert headers(path.read_bytes())[-1].last_offset == 500
    assert not [name for name in names(tmp_path) if name.endswith(".tmp")]
    assert open_log(tmp_path, clean=True).log_end_offset == 501


def test_a_mapping_alone_keeps_the_lock(tmp_path):
    """The descriptor that the lock was taken by may be closed."""
    path, data, good = damaged(tmp_path)
    fd = os.open(path, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_SH)
    memory = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
    os.close(fd)
    open_log(tmp_path, clean=False)
    assert memory[good + 200 :] == data[good + 200 :]
    memory.close()


def test_truncation(tmp_path):
    log = open_log(tmp_path)
    fill(log, 100)
    path = tmp_path / f"{0:020d}.log"
    data = path.read_bytes()
    with open(path, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        memory = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        log.truncate_to(300)
        assert memory[:] == data
        memory.close()
    assert log.log_end_offset == 300
    fill(log, 2, epoch=1)
    log.advance_high_watermark(log.log_end_offset)
    assert headers(log.read(0, 1 << 20))[-1].last_offset == 319
    log.close()
    assert headers(path.read_bytes())[-1].last_offset == 319
    reopened = open_log(tmp_path, clean=False)
    assert reopened.log_end_offset == 320
