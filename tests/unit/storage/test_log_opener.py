"""Which logs are gone when a broker starts: their directory is not there, and its checkpoints say it was."""

from types import SimpleNamespace

import pytest

from bowstring.engine.storage.checkpoints import RECOVERY_POINTS, write_offsets
from bowstring.engine.storage.log_directory import LogDirectory
from bowstring.engine.storage.log_opener import LogOpener
from bowstring.engine.storage.log_placement import Places

KEY = "t", 0


def log(start, end):
    return SimpleNamespace(log_start_offset=start, log_end_offset=end)


@pytest.mark.parametrize(
    ("points", "found", "lost"),
    [
        ({}, log(0, 0), []),  # new: a crash came before it was created
        ({("u", 0): 7}, log(0, 0), []),
        ({KEY: 7}, log(0, 0), [KEY]),
        ({KEY: 7}, log(0, 12), [KEY]),  # the write-ahead log had what came after the recovery point
        ({KEY: 0}, log(0, 12), []),  # and all of this one
        ({KEY: 0}, log(0, 0), [KEY]),
        ({KEY: 0}, None, [KEY]),
        (None, log(0, 0), [KEY]),  # an emptied directory
    ],
)
def test_what_is_gone(tmp_path, points, found, lost):
    if points is not None:
        write_offsets(tmp_path / RECOVERY_POINTS, points)
    directory = LogDirectory(tmp_path)
    opener = LogOpener(SimpleNamespace(opened=[directory]), Places())
    assert opener.is_first == (points is None)
    opener.note_created(directory, KEY)
    assert opener.lost(lambda topic, index: found) == lost


def test_a_partition_without_a_place_is_not_lost(tmp_path):
    opener = LogOpener(SimpleNamespace(opened=[]), Places())
    opener.note_created(None, KEY)
    assert opener.lost(lambda topic, index: None) == []
