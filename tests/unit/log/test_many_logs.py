"""Logs opened or created in bulk equal those opened one by one."""

import errno
import os
import shutil

import pytest

from bowstring._native.disk.directory_health import DirectoryHealth
from bowstring._native.log.many_logs import create_logs, open_logs
from bowstring._native.log.partition_log import LogError, PartitionLog
from tests.support import faults
from tests.support.log_batches import CONFIG, NOW_MS, batch, fill, open_log, segment_name

METADATA = b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA\n"
LOG, INDEX, TIMES = (segment_name(0, suffix) for suffix in (".log", ".index", ".timeindex"))


@pytest.fixture
def health(tmp_path):
    return DirectoryHealth(str(tmp_path))


def created(tmp_path, health, *names):
    return create_logs([(f"{tmp_path}/{name}", METADATA) for name in names], CONFIG, health=health)


def test_a_new_log_has_few_files_until_its_indexes_have_entries(tmp_path, health):
    """A request may be the first of thousands of partitions: others wait while the reactor creates files."""
    (first, second), failure = created(tmp_path, health, "t-0", "t-1")
    assert failure is None and second.health is health
    assert sorted(os.listdir(tmp_path / "t-0")) == [LOG, "partition.metadata"]
    assert (tmp_path / "t-1" / "partition.metadata").read_bytes() == METADATA
    for log in (first, second):
        log.append(batch(), 0, NOW_MS)
    assert not {INDEX, TIMES} & set(os.listdir(tmp_path / "t-0"))
    assert first.read(0, 1000, "log_end")
    first.close()
    second.roll()
    for name in ("t-0", "t-1"):  # Kafka logs each missing one as an error
        assert {INDEX, TIMES} <= set(os.listdir(tmp_path / name))
    (first,) = open_logs([(str(tmp_path / "t-0"), 0, 0)], CONFIG, clean_shutdown=True, health=health)
    assert (first.log_end_offset, first.stats()["rebuilt_indexes"], first.take_findings()) == (1, 0, [])


@pytest.mark.parametrize("flushed", [True, False])
def test_a_crash_before_the_first_entry_of_the_indexes_loses_nothing(tmp_path, health, flushed):
    (log,), _ = created(tmp_path, health, "t-0")
    log.append(batch(), 0, NOW_MS)
    if flushed:
        log.flush()
    shutil.copytree(tmp_path / "t-0", tmp_path / "crashed")
    point = int(flushed)
    (after,) = open_logs([(str(tmp_path / "crashed"), point, 0)], CONFIG, clean_shutdown=False, health=health)
    assert (after.log_end_offset, after.take_findings()) == (1, [])
    assert after.read(0, 1000, "log_end") == log.read(0, 1000, "log_end")
    assert after.offset_for_timestamp(0) == log.offset_for_timestamp(0)


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_without_batches_opens_without_its_indexes(tmp_path, health, clean):
    (log,), _ = created(tmp_path, health, "t-0")
    log.close(sync=False)
    (log,) = open_logs([(str(tmp_path / "t-0"), 0, 0)], CONFIG, clean_shutdown=clean, health=health)
    assert (log.log_end_offset, log.stats()["rebuilt_indexes"], log.take_findings()) == (0, 0, [])
    fill(log, 20)
    log.roll()
    log.close()
    (log,) = open_logs([(str(tmp_path / "t-0"), 0, 0)], CONFIG, clean_shutdown=True, health=health)
    assert (len(log.segments()), log.stats()["rebuilt_indexes"]) == (2, 0)


def test_creation_ends_at_a_directory_that_exists(tmp_path, health):
    (tmp_path / "t-1").mkdir()
    made, failure = created(tmp_path, health, "t-0", "t-1", "t-2")
    assert [os.path.basename(each.directory) for each in made] == ["t-0"]
    assert failure.errno == errno.EEXIST and failure.filename == f"{tmp_path}/t-1"
    assert os.listdir(tmp_path / "t-1") == [] and not (tmp_path / "t-2").exists()


@pytest.mark.parametrize(
    ("name", "kind"), [("/partition.metadata", OSError), (f"/{LOG}", LogError)], ids=["metadata", "log"]
)
def test_creation_ends_at_a_failure(tmp_path, health, name, kind):
    def failing(original):
        return lambda path, flags: (
            -errno.EIO if path.endswith(b"t-1" + name.encode()) else original(path, flags)
        )

    with faults.replaced("open", failing):
        made, failure = created(tmp_path, health, "t-0", "t-1", "t-2")
    assert len(made) == 1 and isinstance(failure, kind) and not (tmp_path / "t-2").exists()
    assert health.failed == (kind is LogError), "the caller knows what an OSError means"


def test_opened_logs_are_those_of_the_constructor(tmp_path, health):
    places = []
    for number in range(3):
        (tmp_path / f"t-{number}").mkdir()
        log = open_log(tmp_path / f"t-{number}", segment_bytes=8000)
        fill(log, 10 * number)
        log.close()
        places.append((str(tmp_path / f"t-{number}"), log.log_end_offset, 0))
    opened = open_logs(places, CONFIG, clean_shutdown=True, health=health)
    for log, (path, _, _) in zip(opened, places, strict=True):
        alone = PartitionLog(path, CONFIG, clean_shutdown=True)
        assert (log.directory, log.health) == (path, health)
        assert (log.log_end_offset, log.segments()) == (alone.log_end_offset, alone.segments())


def test_a_log_that_cannot_be_opened_is_told_beside_the_others(tmp_path, health):
    (log,), _ = created(tmp_path, health, "t-0")
    log.close()
    missing, found = open_logs(
        [(str(tmp_path / "gone"), 0, 0), (log.directory, 0, 0)], CONFIG, clean_shutdown=True, health=health
    )
    assert isinstance(missing, LogError) and "gone" in str(missing)
    assert found.log_end_offset == 0
