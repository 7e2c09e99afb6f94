"""The metadata log on disk: epochs, snapshots, their retention, and the handling of damage."""

import asyncio
import errno
import json
import threading
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from bowstring._native.log.partition_log import LogError
from bowstring._native.record.decode import decode_batches
from bowstring._native.record.encode import encode_batch
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.metadata.image import MetadataError
from bowstring.engine.metadata.quorum import control_record, quorum_epoch
from bowstring.engine.metadata.store.log import MetadataLog
from bowstring.engine.metadata.store.reader import read_metadata
from bowstring.engine.metadata.store.snapshots import MetadataSnapshots
from bowstring.engine.storage.directory_lock import DataDirectoryError
from bowstring.engine.storage.log_directory import LogDirectory
from bowstring.protocol.records.cluster_metadata.markers import BeginTransactionRecord, EndTransactionRecord
from bowstring.protocol.records.cluster_metadata.settings import ConfigRecord, FeatureLevelRecord
from bowstring.protocol.records.cluster_metadata.topics import RemoveTopicRecord, TopicRecord
from bowstring.protocol.records.control import VotersRecord, VotersRecordVoter
from bowstring.protocol.records.control_batch import ControlRecordType, decode_control_key
from tests.support import faults


@pytest.fixture
def directory(tmp_path):
    made = LogDirectory(tmp_path / "data")
    made.open(node_id=1)
    yield made
    made.close()


@contextmanager
def opened(directory, **configs):
    log = MetadataLog()
    log.open(directory, BrokerConfigs({name.replace("_", "."): value for name, value in configs.items()}))
    try:
        yield log
    finally:
        log.close()


def config(name, value="v"):
    return ConfigRecord(resource_type=2, resource_name="t", name=name, value=value)


def checkpoints(directory):
    return sorted(path.name for path in (directory.path / "__cluster_metadata-0").glob("*.checkpoint"))


def names(log):
    return set(log.image.resource_configs(2, "t"))


def test_each_start_is_an_epoch_that_says_who_leads(directory):
    for epoch in (1, 2):
        with opened(directory) as log:
            assert log.leader_epoch == log.log.leader_epoch == epoch
            (record,) = decode_batches(log.log.read(log.end_offset - 1, 1000, "log_end"))
    assert record.control and decode_control_key(record.key) is ControlRecordType.LEADER_CHANGE
    assert record.value[2:6] == (1).to_bytes(4, "big")
    state = (directory.path / "__cluster_metadata-0/quorum-state").read_text()
    assert json.loads(state)["leaderId"] == 1 and quorum_epoch(state) == 2


def test_an_epoch_seen_elsewhere_is_passed(directory):
    with opened(directory):
        pass
    state = directory.path / "__cluster_metadata-0/quorum-state"
    state.write_text(state.read_text().replace('"leaderEpoch":1', '"leaderEpoch":9'))
    with opened(directory) as log:
        assert log.leader_epoch == 10
    state.write_text("{")
    with opened(directory) as log:
        assert log.leader_epoch == 11


def test_a_snapshot_stands_for_what_is_before_it(directory):
    with opened(directory) as log:
        log.commit_alone([FeatureLevelRecord(name="metadata.version", feature_level=30), config("a")])
        snapshot = log.write_snapshot()
        assert (snapshot.end_offset, snapshot.epoch) == (log.end_offset, 1)
        log.commit_alone([config("b")])
    assert len(checkpoints(directory)) == 1
    with opened(directory) as log:
        assert names(log) == {"a", "b"}
    state = read_metadata(directory.path / "__cluster_metadata-0")
    assert set(state.image.resource_configs(2, "t")) == {"a", "b"}
    assert (state.end_offset, state.epoch, state.torn_bytes) == (5, 2, 0)


@pytest.mark.parametrize("cut", [0, 40, -10])
def test_a_damaged_snapshot_gives_way_to_the_one_before_and_to_the_log(directory, caplog, cut):
    with opened(directory) as log:
        log.commit_alone([config("a")])
        first = log.write_snapshot()
        log.commit_alone([config("b")])
        second = log.write_snapshot()
    folder = directory.path / "__cluster_metadata-0"
    for id in (second, first):
        path = folder / f"{id.end_offset:020d}-{id.epoch:010d}.checkpoint"
        path.write_bytes(path.read_bytes()[:cut])
        with opened(directory) as log:
            assert names(log) == {"a", "b"}
        assert any("cannot be read" in each.message for each in caplog.records)
        caplog.clear()


@pytest.mark.parametrize("code", [errno.EMFILE, errno.EIO, errno.ENOMEM])
def test_a_snapshot_that_cannot_be_read_now_gives_way_to_no_older_one(directory, monkeypatch, code):
    with opened(directory) as log:
        log.commit_alone([config("a")])
        log.write_snapshot()
        log.commit_alone([config("b")])
        newest = log.write_snapshot()
    snapshots = MetadataSnapshots(directory.path / "__cluster_metadata-0")
    read = Path.read_bytes

    def failing(path):
        if path == snapshots.path(newest):
            raise OSError(code, "on purpose", str(path))
        return read(path)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", failing)
        with pytest.raises(OSError, match="on purpose"):
            snapshots.load_newest()
    assert snapshots.load_newest().id == newest


def test_without_the_log_before_it_a_damaged_snapshot_is_fatal(directory):
    with opened(directory) as log:
        log.commit_alone([config("a")])
        snapshot = log.write_snapshot()
        log.log.roll()
        log.log.advance_high_watermark(log.end_offset)
        log.log.delete_records(snapshot.end_offset)
        log.log.apply_retention(0)
    (name,) = checkpoints(directory)
    with opened(directory) as log:
        assert names(log) == {"a"}
    path = directory.path / "__cluster_metadata-0" / name
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataDirectoryError, match="no usable snapshot"), opened(directory):
        pass


def test_a_log_that_ends_before_its_snapshot_begins_anew(directory):
    with opened(directory) as log:
        log.commit_alone([config("a"), config("b")])
        snapshot = log.write_snapshot()
    for path in (directory.path / "__cluster_metadata-0").glob("00000000000000000000.*"):
        path.unlink()
    with opened(directory) as log:
        assert names(log) == {"a", "b"}
        assert log.log.log_start_offset == snapshot.end_offset
        log.commit_alone([config("c")])
    with opened(directory) as log:
        assert names(log) == {"a", "b", "c"}


def test_old_snapshots_go_and_the_log_below_them(directory):
    with opened(directory, metadata_max_retention_bytes="1") as log:
        for round in range(4):
            log.commit_alone([config(f"n{round}")])
            log.log.roll()
            log.log.advance_high_watermark(log.end_offset)
            last = log.write_snapshot()
        assert log.log.log_start_offset == last.end_offset
        assert len(log.log.segments()) == 1
    assert checkpoints(directory) == [f"{last.end_offset:020d}-{last.epoch:010d}.checkpoint"]
    with opened(directory) as log:
        assert names(log) == {"n0", "n1", "n2", "n3"}


def test_snapshots_within_bounds_stay(directory):
    with opened(directory) as log:
        for round in range(3):
            log.commit_alone([config(f"n{round}")])
            log.write_snapshot()
        assert log.log.log_start_offset == 0
    assert len(checkpoints(directory)) == 3


def test_what_a_crash_left_of_a_snapshot_goes(directory):
    with opened(directory):
        pass
    part = directory.path / "__cluster_metadata-0/00000000000000000009-0000000001.checkpoint.part"
    part.write_bytes(b"half")
    with opened(directory):
        assert not part.exists()


def test_a_transaction_that_never_ended_is_aborted(directory):
    with opened(directory) as log:
        log.commit_alone(
            [BeginTransactionRecord(name="t"), TopicRecord(name="half", topic_id=bytes(15) + b"\7")]
        )
    for _ in range(2):
        with opened(directory) as log:
            assert not log.image.in_transaction and not log.image.topics
            log.commit_alone([config("a")])
            assert names(log) == {"a"}


def test_a_newer_metadata_version_is_refused(directory):
    with opened(directory) as log:
        log.commit_alone([FeatureLevelRecord(name="metadata.version", feature_level=34)])
    with pytest.raises(DataDirectoryError, match=r"metadata\.version 34"), opened(directory):
        pass


def test_a_log_of_several_controllers_is_refused(directory):
    with opened(directory) as log:
        voters = VotersRecord(
            version=0, voters=[VotersRecordVoter(voter_id=id, voter_directory_id=bytes(16)) for id in (1, 2)]
        )
        key, value = control_record(ControlRecordType.KRAFT_VOTERS, voters)
        log.log.append(encode_batch([(key, value, 0, None)], control=True), log.leader_epoch, 0)
    with pytest.raises(DataDirectoryError, match="controllers 1, 2"), opened(directory):
        pass


# ------------------------------------------------------------ changes that fail, or end early


def topic(name, number=1):
    return TopicRecord(name=name, topic_id=bytes([number]) * 16)


async def change(log, *records):
    async with log.changing() as changing:
        await changing.commit(records)


def test_a_record_that_does_not_apply_is_not_written(directory):
    with opened(directory) as log:
        asyncio.run(change(log, topic("t")))
        end = log.end_offset
        for wrong in (topic("t", 2), RemoveTopicRecord(topic_id=b"?" * 16), EndTransactionRecord()):
            with pytest.raises(MetadataError):
                asyncio.run(change(log, config("a"), wrong))
            with pytest.raises(MetadataError):
                log.commit_alone([config("a"), wrong])
        assert log.end_offset == end and names(log) == set()
    with opened(directory) as log:
        assert set(log.image.topics) == {"t"}


def test_a_change_is_written_although_its_task_is_cancelled(directory):
    """Otherwise the image would lack records of the log, and the next decision would write them again."""
    syncing, may_go_on = threading.Event(), threading.Event()

    def slow(original):
        def sync(file):
            syncing.set()
            may_go_on.wait()
            return original(file)

        return sync

    async def scenario(log):
        with faults.replaced("sync", slow):
            writing = asyncio.ensure_future(change(log, topic("t")))
            await asyncio.to_thread(syncing.wait)
            writing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await writing
            following = asyncio.ensure_future(change(log, topic("t", 2)))
            await asyncio.sleep(0)
            assert not following.done()
            may_go_on.set()
            with pytest.raises(MetadataError):
                await following
        await log.settle()
        assert set(log.image.topics) == {"t"}

    with opened(directory) as log:
        asyncio.run(scenario(log))
    with opened(directory) as log:
        assert log.image.topics["t"].id == topic("t").topic_id


LARGE = [topic("t"), *(config(f"{number}", "v" * 100) for number in range(4))]


class FailingThirdAppend:
    """A log whose third append fails, as for want of a descriptor; the directory stays in service."""

    def __init__(self, log):
        self.log, self.appends = log, 0

    def __getattr__(self, name):
        return getattr(self.log, name)

    def append(self, *arguments):
        self.appends += 1
        if self.appends == 3:
            raise LogError(56, "Too many open files")
        return self.log.append(*arguments)


@pytest.mark.parametrize("level", [12, 20])
def test_nothing_is_left_of_a_change_whose_later_batches_fail(directory, level, monkeypatch):
    """Else the request, sent again, would create the topic a second time in the log."""
    monkeypatch.setattr("bowstring.engine.metadata.store.log.MAX_BATCH_BYTES", 200)
    with opened(directory) as log:
        log.commit_alone([FeatureLevelRecord(name="metadata.version", feature_level=level)])
        end = log.end_offset
        log._log = FailingThirdAppend(log._log)
        with pytest.raises(LogError):
            asyncio.run(change(log, *LARGE))
        assert log.end_offset == end and not log.image.topics
        asyncio.run(change(log, *LARGE))
    with opened(directory) as log:
        assert names(log) == {"0", "1", "2", "3"}


@pytest.mark.parametrize("operation", ["pwritev", "sync"])
def test_a_full_disk_leaves_nothing_of_a_change(directory, operation, monkeypatch):
    """The log writes no more before a restart."""
    monkeypatch.setattr("bowstring.engine.metadata.store.log.MAX_BATCH_BYTES", 200)
    log = MetadataLog()
    log.open(directory, BrokerConfigs({}))
    with faults.failing(operation, errno.ENOSPC, after=2), pytest.raises(LogError):
        asyncio.run(change(log, *LARGE))
    for _ in range(2):
        with pytest.raises(LogError):
            asyncio.run(change(log, *LARGE))
    assert not log.image.topics
    with suppress(LogError):  # when it cannot be synced
        log.close()
    directory.close()
    again = LogDirectory(directory.path)
    again.open(node_id=1)
    with opened(again) as log:
        assert not log.image.topics and not names(log)
        asyncio.run(change(log, *LARGE))
    again.close()


def test_a_crash_leaves_all_of_a_large_change_or_nothing(directory, monkeypatch):
    monkeypatch.setattr("bowstring.engine.metadata.store.log.MAX_BATCH_BYTES", 200)
    with opened(directory) as log:
        batches = log.prepared([config(f"{number}", "v" * 100) for number in range(4)])
        assert len(batches) > 4
        for batch in batches[:-1]:
            log.log.append(batch, log.leader_epoch, 0)
    with opened(directory) as log:
        assert names(log) == set()
        log.commit_alone([config(f"{number}", "v" * 100) for number in range(4)])
    with opened(directory) as log:
        assert names(log) == {"0", "1", "2", "3"}
