"""Which logs are gone when a broker starts: their directory is not there, and its checkpoints say it was."""

from types import SimpleNamespace

import pytest

from bowstring.engine.storage.checkpoints import LOST_LOGS, RECOVERY_POINTS, write_offsets
from bowstring.engine.storage.found_logs import Places
from bowstring.engine.storage.log_directory import DELETED_SUFFIX, STRAY_SUFFIX, LogDirectory
from bowstring.engine.storage.log_opener import LogOpener

KEY = "t", 0


def log(start, end):
    return SimpleNamespace(log_start_offset=start, log_end_offset=end)


@pytest.mark.parametrize(
    ("points", "found", "lost"),
    [
        ({}, log(0, 0), []),  # new: a crash came before it was created
        ({("u", 0): 7}, log(0, 0), []),
        ({KEY: 7}, log(0, 0), [KEY]),
        ({KEY: 7}, log(0, 12), [KEY]),  # the write-ahead log had the records after the recovery point
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
    assert opener.is_superseded == (points is None)
    opener.note_created(directory, KEY)
    assert opener.lost(lambda topic, index: found) == lost


@pytest.mark.parametrize("topic", ["t", "t" * 249])
def test_a_recovery_point_of_an_earlier_topic_says_nothing_of_the_new_one(tmp_path, topic):
    """Else the partition gets no leader, although there were no records."""
    key = topic, 0
    write_offsets(tmp_path / RECOVERY_POINTS, {key: 7, ("u", 0): 7})
    directory = LogDirectory(tmp_path)
    (tmp_path / directory.retired_name(*key, DELETED_SUFFIX)).mkdir()
    (tmp_path / directory.retired_name("u", 0, STRAY_SUFFIX)).mkdir()  # of any time before
    opener = LogOpener(SimpleNamespace(opened=[directory]), Places())
    for each in (key, ("u", 0)):
        opener.note_created(directory, each)
    assert opener.lost(lambda topic, index: log(0, 0)) == [("u", 0)]


def test_a_directory_of_an_earlier_topic_found_at_start_says_so_too(tmp_path):
    write_offsets(tmp_path / RECOVERY_POINTS, {KEY: 7})
    directory = LogDirectory(tmp_path)
    places = Places()
    places.strays.append((directory, *KEY))
    opener = LogOpener(SimpleNamespace(opened=[directory]), places)
    opener.note_created(directory, KEY)
    assert opener.lost(lambda topic, index: log(0, 0)) == []


@pytest.mark.parametrize(
    ("marked", "opened", "lost"),
    [
        (
            {KEY: 7},
            log(0, 0),
            [KEY],
        ),  # an earlier start has created it, and ended before it could report that
        ({KEY: 0}, log(0, 0), [KEY]),
        ({}, log(0, 0), []),  # a follower has cut it, and ended before the next checkpoint
        ({KEY: 7}, log(0, 5), []),  # has what others had
        ({KEY: 7}, log(9, 9), []),
    ],
)
def test_a_marked_log_that_is_empty_is_gone(tmp_path, marked, opened, lost):
    write_offsets(tmp_path / RECOVERY_POINTS, {KEY: 7})
    write_offsets(tmp_path / LOST_LOGS, marked)
    directory = LogDirectory(tmp_path)
    opener = LogOpener(SimpleNamespace(opened=[directory]), Places())
    opener.note_opened(directory, KEY, opened)
    assert opener.lost(lambda topic, index: opened) == lost


@pytest.mark.parametrize(
    ("points", "marks"),
    [({KEY: 7}, {KEY: 7}), ({("u", 0): 7}, None), (None, {KEY: 0})],
)
def test_a_log_that_is_gone_is_marked_before_it_is_created(tmp_path, points, marks):
    """None: it was not there before."""
    if points is not None:
        write_offsets(tmp_path / RECOVERY_POINTS, points)
    directory = LogDirectory(tmp_path)
    opener = LogOpener(SimpleNamespace(opened=[directory]), Places())
    assert opener.marks([(directory, KEY)]) == ({} if marks is None else {directory: marks})
    if marks is not None:
        write_offsets(tmp_path / LOST_LOGS, marks)
        assert LogOpener(SimpleNamespace(opened=[directory]), Places()).marks([(directory, KEY)]) == {}


def test_a_partition_without_a_place_is_not_lost(tmp_path):
    opener = LogOpener(SimpleNamespace(opened=[]), Places())
    opener.note_created(None, KEY)
    assert opener.lost(lambda topic, index: None) == []
