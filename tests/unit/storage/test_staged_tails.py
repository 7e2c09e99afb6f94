"""The pools of a log directory: what a broker leaves and finds there, and its logs when it cannot write."""

import errno
import logging

import pytest

from bowstring._native.disk.directory_health import DirectoryHealth
from bowstring._native.disk.tail_pool import TailMemory
from bowstring._native.log.partition_log import PartitionLog
from bowstring.engine.storage.staged_tails import TAILS_FILE, StagedTails
from tests.support import faults
from tests.support.log_batches import CONFIG, NOW_MS, batch, everything
from tests.support.waiting import wait_until


@pytest.fixture
def health(tmp_path):
    return DirectoryHealth(str(tmp_path))


@pytest.fixture
def tails(tmp_path, health):
    made = StagedTails(tmp_path, health)
    made.pool_bytes, made.from_bytes, made.rest_ms = 1 << 20, 0, 1 << 40
    yield made
    made.close()


def opened(path, health):
    (path / "t-0").mkdir(exist_ok=True)
    return PartitionLog(str(path / "t-0"), CONFIG, health=health)


def size(path):
    return (path / "t-0" / f"{0:020d}.log").stat().st_size


def test_a_clean_stop_leaves_only_kafkas_files(tmp_path, health, tails):
    tails.open()
    assert (tmp_path / TAILS_FILE).exists()
    log = opened(tmp_path, health)
    log.append(batch(), 0, NOW_MS)
    assert size(tmp_path) == 0
    taken = dict(tails.taken_bytes())
    assert taken["os"] > 0 and taken["commit"] == 0
    log.close()
    tails.close()
    assert [each.name for each in tmp_path.iterdir()] == ["t-0"]
    assert size(tmp_path) == len(batch())


def test_what_a_killed_broker_staged_is_there_at_the_next_start(tmp_path, health, tails, caplog):
    tails.in_background = False
    tails.open()
    log = opened(tmp_path, health)
    log.append(batch([b"kept"]), 0, NOW_MS)
    data = everything(log)
    tails.abandon()
    again = StagedTails(tmp_path, DirectoryHealth(str(tmp_path)))
    with caplog.at_level(logging.INFO, "bowstring"):
        again.open()
    assert "a killed broker" in caplog.text
    assert (tmp_path / "t-0" / f"{0:020d}.log").read_bytes() == data
    again.close()


def test_a_partition_at_rest_is_written_out(tmp_path, health, tails):
    tails.rest_ms = 20
    tails.open()
    log = opened(tmp_path, health)
    log.append(batch(), 0, NOW_MS)
    for _ in range(20):  # within 20 ms at least one follows another
        log.append(batch(), 0, NOW_MS)
    wait_until(lambda: size(tmp_path) == log.size_bytes)
    log.close()


def test_a_tail_that_cannot_be_written_is_kept_and_told(tmp_path, health, tails, caplog):
    tails.rest_ms = 1 << 40
    tails.open()
    log = opened(tmp_path, health)
    log.append(batch([b"kept"]), 0, NOW_MS)
    data = everything(log)
    tails.rest_ms = 0
    with caplog.at_level(logging.ERROR, "bowstring"), faults.failing("pwritev", errno.EMFILE):
        wait_until(lambda: "tries again" in caplog.text)
        assert size(tmp_path) == 0 and everything(log) == data
        assert not health.failed
    wait_until(lambda: size(tmp_path) == len(data))
    assert log.append(batch(), 0, NOW_MS) == 1
    log.close()


def test_a_device_that_refuses_a_tail_takes_the_directory_out_of_service(tmp_path, health, tails):
    tails.open()
    log = opened(tmp_path, health)
    log.append(batch([b"kept"]), 0, NOW_MS)
    data = everything(log)
    tails.rest_ms = 0
    with faults.failing("pwritev", errno.EIO):
        wait_until(lambda: health.failed)
        assert health.failure == (errno.EIO, "writing a staged tail", str(tmp_path))
        assert everything(log) == data
    tails.abandon()


def test_without_room_for_the_file_batches_go_to_the_logs(tmp_path, health, tails, monkeypatch, caplog):
    def only_plain(size_bytes, path=None, **settings):
        if path is not None:
            raise OSError(errno.ENOSPC, "No space left on device")
        return TailMemory(size_bytes, **settings)

    monkeypatch.setattr("bowstring.engine.storage.staged_tails.TailMemory", only_plain)
    tails.open()
    assert "make room" in caplog.text
    assert not (tmp_path / TAILS_FILE).exists()
    log = opened(tmp_path, health)
    log.append(batch(), 0, NOW_MS)
    assert size(tmp_path) == log.size_bytes
    log.close()


def test_without_a_boot_id_batches_go_to_the_logs(tmp_path, health, tails, monkeypatch, caplog):
    """The next start would have no proof that the file can be trusted."""
    monkeypatch.setattr("bowstring._native.disk.tail_pool._boot_file", str(tmp_path / "hidden"))
    tails.open()
    assert "cannot be made" in caplog.text
    assert not (tmp_path / TAILS_FILE).exists()
    log = opened(tmp_path, health)
    log.append(batch(), 0, NOW_MS)
    assert size(tmp_path) == log.size_bytes
    log.close()
