"""The replica's log on disk, and its synced end."""

import errno
import os

import pytest

from bowstring._native.record.encode import encode_batch
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.metadata.image import ClusterImage
from bowstring.engine.metadata.quorum import QuorumFacts
from bowstring.engine.metadata.snapshot import SnapshotError, SnapshotId, encode_snapshot
from bowstring.engine.metadata.store.log_config import metadata_log_config
from bowstring.engine.quorum.log import MetadataRaftLog
from bowstring.engine.quorum.state_file import QuorumStateFile
from bowstring.engine.quorum.synced_end import FILE_NAME, SyncedEnd
from bowstring.engine.raft.election_state import ElectionState
from bowstring.engine.raft.keys import OffsetAndEpoch, ReplicaKey
from bowstring.engine.raft.log import NotAppendedError
from bowstring.engine.storage.directory_lock import DataDirectoryError
from bowstring.engine.storage.log_directory import LogDirectory
from tests.support import faults


class Opened:
    """The log in a locked directory; `again` opens it as after a crash."""

    def __init__(self, path):
        self.path = path
        self.open()

    def open(self):
        self.directory = LogDirectory(self.path)
        self.directory.open(1)
        try:
            self.log = MetadataRaftLog(self.directory, metadata_log_config(BrokerConfigs({})))
        except BaseException:
            self.directory.close()
            raise

    def close(self):
        self.log.close()
        self.directory.close()

    def again(self):
        self.close()
        self.open()

    def add(self, epoch, count=1):
        entries = [(None, b"value", 1, None) for _ in range(count)]
        self.log.append(encode_batch(entries, base_offset=self.log.end_offset, leader_epoch=epoch))


@pytest.fixture
def opened(tmp_path):
    made = Opened(tmp_path)
    yield made
    made.close()


def snapshot(id):
    return b"".join(encode_snapshot(ClusterImage(), QuorumFacts(), SnapshotId(*id), 1, 1))


def fetch_snapshot(log, id, data):
    log.begin_snapshot(id)
    assert log.append_snapshot(id, data[:10]) == 10
    assert log.append_snapshot(id, data[10:]) == len(data)


def test_offsets_and_epochs_stay_as_the_leader_wrote_them(opened):
    opened.add(1, 2)
    opened.add(1)
    opened.add(4, 3)
    for _ in range(2):
        log = opened.log
        assert (log.start_offset, log.end_offset, log.last_epoch) == (0, 6, 4)
        assert log.end_offset_for_epoch(0) == OffsetAndEpoch(0, 0)
        assert log.end_offset_for_epoch(1) == OffsetAndEpoch(3, 1)
        assert log.end_offset_for_epoch(3) == OffsetAndEpoch(3, 1)
        assert log.end_offset_for_epoch(9) == OffsetAndEpoch(6, 4)
        assert [log.epoch_at(offset) for offset in range(6)] == [1, 1, 1, 4, 4, 4]
        opened.again()


def test_several_batches_are_appended_at_once(opened):
    opened.add(1)
    opened.add(1)
    both = opened.log.read(0, 1 << 20)
    opened.log.truncate_to(0)
    opened.log.append(both)
    assert opened.log.end_offset == 2


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_an_append_that_fails_for_want_of_descriptors_or_memory_may_be_repeated(opened, error):
    opened.add(1)
    opened.again()
    with faults.failing("open", error), pytest.raises(NotAppendedError):
        opened.add(2)
    assert opened.log.end_offset == 1
    opened.add(2)
    assert (opened.log.end_offset, opened.log.last_epoch) == (2, 2)


def test_a_cut_takes_epochs_and_the_synced_end_back(opened):
    opened.add(1, 2)
    opened.add(2, 2)
    opened.log.sync(4, opened.log.synced_end.cuts)
    assert opened.log.synced_end.offset == 4
    opened.log.truncate_to(2)
    assert (opened.log.end_offset, opened.log.last_epoch) == (2, 1)
    assert opened.log.synced_end.offset == 2
    opened.again()
    assert opened.log.end_offset == 2


def test_a_sync_that_was_begun_before_a_cut_claims_nothing(opened):
    opened.add(1, 4)
    cuts = opened.log.synced_end.cuts
    opened.log.truncate_to(0)
    opened.log.sync(4, cuts)
    assert opened.log.synced_end.offset == 0


def test_a_snapshot_is_installed_and_the_log_goes_on_after_it(opened):
    opened.add(1, 3)
    id = OffsetAndEpoch(50, 7)
    fetch_snapshot(opened.log, id, snapshot(id))
    opened.log.install_snapshot(id)
    opened.log.snapshot_installed(id)
    assert (opened.log.start_offset, opened.log.end_offset, opened.log.last_epoch) == (50, 50, 7)
    assert opened.log.end_offset_for_epoch(7) == id
    opened.add(8)
    opened.again()
    assert (opened.log.latest_snapshot_id(), opened.log.end_offset, opened.log.last_epoch) == (id, 51, 8)


def test_a_damaged_snapshot_is_not_installed(opened):
    opened.add(1, 3)
    id = OffsetAndEpoch(50, 7)
    fetch_snapshot(opened.log, id, snapshot(id)[:-5])
    with pytest.raises(SnapshotError):
        opened.log.install_snapshot(id)
    opened.log.snapshot_failed()
    assert opened.log.end_offset == 3
    assert not list(opened.log.path.glob("*.checkpoint*"))


def test_a_start_finishes_what_a_crash_has_left_of_an_installation(opened):
    opened.add(1, 3)
    id = SnapshotId(50, 7)
    opened.log.write_snapshot(OffsetAndEpoch(*id), [snapshot(id)])
    opened.again()
    assert (opened.log.start_offset, opened.log.end_offset, opened.log.last_epoch) == (50, 50, 7)


def test_own_snapshots_replace_records(opened):
    for number in range(3):
        opened.add(1, 2)
        id = OffsetAndEpoch(opened.log.end_offset, 1)
        opened.log.advance_high_watermark(id.offset)
        opened.log.write_snapshot(id, [snapshot(id)])
        opened.log.snapshot_written(id, 10, -1, 1)
        assert opened.log.latest_snapshot_id() == id, number
    assert opened.log.earliest_snapshot_id() == OffsetAndEpoch(6, 1)
    assert opened.log.start_offset == 6
    assert opened.log.snapshot_size(OffsetAndEpoch(6, 1)) == len(snapshot((6, 1)))
    assert opened.log.snapshot_size(OffsetAndEpoch(2, 1)) is None
    assert opened.log.read_snapshot(OffsetAndEpoch(6, 1), 4, 6) == snapshot((6, 1))[4:10]


def test_a_torn_end_is_cut_but_lost_records_stop_the_start(opened):
    opened.add(1, 2)
    opened.log.sync(2, opened.log.synced_end.cuts)
    opened.add(1)
    segment = next(opened.log.path.glob("*.log"))
    file = opened.log.path / FILE_NAME
    before_the_crash = file.read_bytes()
    opened.close()
    file.write_bytes(before_the_crash)
    size = segment.stat().st_size
    os.truncate(segment, size - 3)
    opened.open()
    assert opened.log.end_offset == 2
    opened.close()
    os.truncate(segment, segment.stat().st_size - 3)
    with pytest.raises(DataDirectoryError, match="was synced up to offset 2, but ends at 0"):
        opened.open()
    file.unlink()
    opened.open()


def test_the_synced_end_survives_a_torn_write(tmp_path):
    synced = SyncedEnd(tmp_path)
    synced.raise_to(5, 0)
    synced.raise_to(9, 0)
    synced.close()
    data = bytearray((tmp_path / FILE_NAME).read_bytes())
    newest = max((0, 512), key=lambda at: data[at + 7])
    data[newest + 10] ^= 1
    (tmp_path / FILE_NAME).write_bytes(data)
    again = SyncedEnd(tmp_path)
    assert again.offset == 5
    again.close()


def test_quorum_state(tmp_path):
    file = QuorumStateFile(tmp_path)
    assert file.read() is None
    state = ElectionState(4, 2, ReplicaKey(3, b"x" * 16))
    file.write(state.to_json(1, [1, 2, 3]))
    assert file.read() == state
    (tmp_path / "quorum-state").write_text("{")
    with pytest.raises(DataDirectoryError, match="not known for whom this node has voted"):
        file.read()
