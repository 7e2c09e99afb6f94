"""Files of snapshots of the metadata log."""

import errno
from pathlib import Path

import pytest

from bowstring.engine.metadata.image import ClusterImage
from bowstring.engine.metadata.quorum import QuorumFacts
from bowstring.engine.metadata.snapshot import SnapshotId, encode_snapshot
from bowstring.engine.metadata.store.snapshots import MetadataSnapshots


@pytest.fixture
def snapshots(tmp_path):
    made = MetadataSnapshots(tmp_path)
    for end_offset in (4, 7, 9):
        id = SnapshotId(end_offset, 1)
        made.write(id, encode_snapshot(ClusterImage(), QuorumFacts(), id, 1, 1))
    return made


@pytest.mark.parametrize("code", [errno.EMFILE, errno.EIO, errno.ENOMEM])
def test_a_snapshot_that_cannot_be_read_now_gives_way_to_no_older_one(snapshots, monkeypatch, code):
    newest = SnapshotId(9, 1)
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


def test_snapshots_within_bounds_stay(snapshots):
    assert snapshots.retire(1, 2, -1, -1) is None
    assert snapshots.ids() == [SnapshotId(end_offset, 1) for end_offset in (4, 7, 9)]


def test_the_newest_snapshot_stays_whatever_the_bounds(snapshots):
    assert snapshots.retire(1, 2, -1, 1) == SnapshotId(9, 1)
    assert snapshots.ids() == [SnapshotId(9, 1)]
