"""A checkpoint of the write-ahead log while a partition is deleted."""

from types import SimpleNamespace

import pytest

from bowstring._native.log.partition_log import LogError
from bowstring.engine.storage import directory_wal
from bowstring.engine.storage.directory_wal import DirectoryWal

STORAGE_ERROR = 56


class Syncs:
    """Takes the place of `sync_logs`: fails while one of `bad` is among the logs; `leaves` are discarded meanwhile."""

    def __init__(self, wal, bad, leaves):
        self.wal, self.bad, self.leaves = wal, set(bad), leaves
        self.asked = []

    def __call__(self, logs):
        asked = list(logs)
        self.asked.append(asked)
        for log in self.leaves:
            self.wal.discard(log)
        if self.bad & set(asked):
            raise LogError(STORAGE_ERROR, "1 logs could not be synced and are out of service")


@pytest.fixture
def wal():
    """The logs a, b and c, without files and threads."""
    made = DirectoryWal.__new__(DirectoryWal)
    made._logs = dict.fromkeys("abc")
    made._held = {}
    made.released = []
    made.wal = SimpleNamespace(closed_frame=7, released=made.released.append)
    made._when_checkpointed = lambda: None
    made.checkpoints = 0
    return made


def test_a_log_that_is_deleted_meanwhile_is_passed_over(wal, monkeypatch):
    syncs = Syncs(wal, bad="b", leaves="b")
    monkeypatch.setattr(directory_wal, "sync_logs", syncs)
    wal.checkpoint()
    assert syncs.asked == [["a", "b", "c"], ["a", "c"]]
    assert wal.released == [7] and wal.checkpoints == 1


@pytest.mark.parametrize(("bad", "leaves"), [("b", ""), ("ab", "b")])
def test_a_log_that_stays_and_fails_holds_the_frames(wal, monkeypatch, bad, leaves):
    monkeypatch.setattr(directory_wal, "sync_logs", Syncs(wal, bad, leaves))
    with pytest.raises(LogError):
        wal.checkpoint()
    assert wal.released == [] and wal.checkpoints == 0
