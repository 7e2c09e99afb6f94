"""Logs that are gone at a start are marked on the disk until the broker has reported them."""

from types import SimpleNamespace

from bowstring.engine.storage import lost_logs
from bowstring.engine.storage.checkpoints import LOST_LOGS, RECOVERY_POINTS, read_offsets, write_offsets
from bowstring.engine.storage.found_logs import Places
from bowstring.engine.storage.log_directory import LogDirectory
from bowstring.engine.storage.log_opener import LogOpener

HERE, ELSEWHERE = bytes(15) + b"\7", bytes(15) + b"\5"
NODE = 1


def topic(name, *directories):
    partitions = [SimpleNamespace(replicas=[NODE], directories=[each]) for each in directories]
    return SimpleNamespace(name=name, partitions=partitions)


def directories_of(home):
    def guard(directory, doing, work):
        work()
        return True

    by_id = {HERE: home}.get
    return SimpleNamespace(opened=[home], all_online=True, by_id=by_id, guard=guard)


def test_what_is_gone_is_marked_until_it_is_reported(tmp_path):
    write_offsets(tmp_path / RECOVERY_POINTS, {("gone", 0): 7, ("there", 0): 7, ("moved", 0): 7})
    home = LogDirectory(tmp_path)
    directories, places = directories_of(home), Places()
    places.live["there", 0] = home
    partitions = [
        (topic("gone", HERE), 0),
        (topic("there", HERE), 0),
        (topic("moved", ELSEWHERE), 0),
        (topic("new", HERE), 0),
    ]
    opener = LogOpener(directories, places)
    lost_logs.mark(directories, opener, places, partitions, NODE)
    assert read_offsets(tmp_path / LOST_LOGS) == {("gone", 0): 7}

    # The broker ends before it reports that; the next start finds an empty log.
    places.live["gone", 0] = home
    opener = LogOpener(directories, places)
    lost_logs.mark(directories, opener, places, partitions, NODE)
    empty = SimpleNamespace(log_start_offset=0, log_end_offset=0)
    for name in ("gone", "there"):
        opener.note_opened(home, (name, 0), empty)
    assert opener.lost(lambda topic, index: empty) == [("gone", 0)]

    lost_logs.forget(directories)
    assert not (tmp_path / LOST_LOGS).exists()
    lost_logs.forget(directories)
