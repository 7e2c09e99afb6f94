"""Moves between log directories: everything arrives while it is in use, whenever a crash comes."""

import contextlib
import errno
import os
import shutil
import threading
import time

import pytest

from bowstring import Broker
from bowstring._native.log import future_replica
from bowstring._native.log.durability import staged_frame
from bowstring._native.log.partition_log import LogError
from bowstring._native.record.decode import decode_batches
from bowstring._native.record.encode import encode_batch, with_producer
from bowstring.engine.storage import checkpoints, log_directories
from bowstring.engine.storage import replica_moves as log_moves
from bowstring.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from bowstring.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.support import faults
from tests.support.embedded import engine_of
from tests.support.log_dirs import described, homes
from tests.support.waiting import pause, wait_until

NOW_MS = time.time_ns() // 1_000_000


@pytest.fixture(params=["os", "commit"])
def durability(request):
    return request.param


@pytest.fixture
def serve_on(serve, tmp_path):
    def start(**config):
        dirs = ",".join(str(tmp_path / name) for name in "ab")
        return serve(log_dirs=dirs, **config)

    return start


def batch(first: int, count: int = 10) -> bytes:
    return encode_batch([(None, b"%09d" % (first + i) + b"x" * 90, NOW_MS, []) for i in range(count)])


def fill(served, batches: int, topic="t") -> None:
    for _ in range(batches):
        end = log_of(served, topic).log_end_offset
        plain = with_producer(batch(end), 7, 0, end)
        assert served.produce(topic, plain).error_code == 0


def log_of(served, topic="t"):
    return served.engine.logs.get(topic, 0)


def values(log) -> list[int]:
    found = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        for record in decode_batches(log.read(offset, 1 << 20, "log_end")):
            if record.offset >= offset:
                assert record.offset == offset
                found.append(int(record.value[:9]))
                offset += 1
    return found


def move(served, to, topic="t", index=0) -> int:
    path = str(to)
    wanted = AlterReplicaLogDirTopic(name=topic, partitions=[index])
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=[wanted])])
    (result,) = served.ask(request).results
    return result.partitions[0].error_code


def other(served, tmp_path):
    return tmp_path / ("b" if homes(served)[0] == "a" else "a")


def is_copied_to(served, there) -> bool:
    """Whether the partition is partly there."""
    topics = described(served)[there.name].topics
    return bool(topics) and topics[0].partitions[0].partition_size > 0


def wait_for_move(served) -> None:
    wait_until(lambda: not list(served.engine.moves), "it moves")


def left_over(tmp_path) -> list[str]:
    return [p.name for p in tmp_path.glob("[ab]/*") if p.name.endswith(("-future", "-stray"))]


def test_everything_moves(serve_on, tmp_path, durability):
    served = serve_on(bowstring_durability=durability)
    served.create_topic("t", internal_segment_bytes="20000", file_delete_delay_ms="0")
    fill(served, 100)
    deleted = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=333)])
    served.ask(DeleteRecordsRequest(topics=[deleted], timeout_ms=1000))
    old = log_of(served)
    facts = (old.log_start_offset, old.high_watermark, old.epochs(), old.active_producers())
    there = other(served, tmp_path)
    assert move(served, there) == 0
    wait_for_move(served)
    log = log_of(served)
    assert log is not old and log.directory == str(there / "t-0")
    assert (log.log_start_offset, log.high_watermark, log.epochs(), log.active_producers()) == facts
    assert values(log) == list(range(333, 1000))
    assert homes(served) == {0: there.name}
    wait_until(lambda: len(list(tmp_path.glob("[ab]/t-0*"))) == 1)  # the old one is deleted
    # a duplicate is still detected, and appends continue
    assert served.produce("t", with_producer(batch(990), 7, 0, 990)).base_offset == 990
    fill(served, 5)
    served.restart()
    assert values(log_of(served)) == list(range(333, 1050))
    assert homes(served) == {0: there.name}


def test_produce_and_fetch_go_on_while_it_moves(serve_on, tmp_path, durability):
    served = serve_on(bowstring_durability=durability)
    served.create_topic("t", segment_bytes="1048576")
    client = served.connect()
    stopping = threading.Event()
    sent = []

    def produce():
        while not stopping.is_set():
            answer = served.produce("t", batch(len(sent) * 10))
            assert answer.error_code == 0 and answer.base_offset == len(sent) * 10
            sent.append(answer.base_offset)
            pause(0.0005, "the pace of the load")

    thread = threading.Thread(target=produce)
    try:
        thread.start()
        wanted = AlterReplicaLogDirTopic(name="t", partitions=[0])
        for name in "babab":
            before = len(sent)
            wait_until(lambda before=before: len(sent) > before + 20, "the producer stands still")
            dirs = [AlterReplicaLogDir(path=str(tmp_path / name), topics=[wanted])]
            assert client.ask(AlterReplicaLogDirsRequest(dirs=dirs)).results[0].partitions[0].error_code == 0
            wait_for_move(served)
            assert log_of(served).directory == str(tmp_path / name / "t-0")
    finally:
        stopping.set()
        thread.join()
    assert values(log_of(served)) == list(range(len(sent) * 10))
    served.restart()
    assert values(log_of(served)) == list(range(len(sent) * 10))


def test_refusals(serve_on, tmp_path):
    served = serve_on(cordoned_log_dirs=str(tmp_path / "b"))
    served.create_topic("t", internal_segment_bytes="20000")
    assert move(served, tmp_path / "elsewhere") == 57
    assert move(served, tmp_path / "b") == 39
    assert move(served, tmp_path / "a") == 0
    assert move(served, tmp_path / "a", "unknown") == 9
    assert move(served, tmp_path / "a", "x" * 249) == 17
    served.engine.directories.all[1].health.fail(errno.EIO, "a test", "here")
    assert move(served, tmp_path / "b") == 56


def test_where_a_partition_is_made_may_be_said_before(serve_on, tmp_path):
    served = serve_on()
    for name in "tuv":
        assert move(served, tmp_path / "b", name) == 9
        served.create_topic(name)
        assert homes(served, name) == {0: "b"}


def test_of_partitions_to_be_made_the_last_are_remembered(serve_on, tmp_path, monkeypatch):
    """Requests that name endless partitions do not fill the broker's memory."""
    monkeypatch.setattr(log_directories, "MOST_PREFERRED", 2)
    served = serve_on()
    for index in (0, 1, 0, 2):
        assert move(served, tmp_path / "b", "t", index) == 9
    assert list(served.engine.directories.preferred) == [("t", 0), ("t", 2)]


def test_a_throttled_move_shows_as_a_future_replica_and_turns_round(serve_on, tmp_path):
    served = serve_on(replica_alter_log_dirs_io_max_bytes_per_second="20000")
    served.create_topic("t", internal_segment_bytes="20000")
    fill(served, 100)
    home, there = homes(served)[0], other(served, tmp_path)
    assert move(served, there) == 0
    wait_until(lambda: is_copied_to(served, there))
    (part,) = described(served)[there.name].topics[0].partitions
    assert part.is_future_key and 0 < part.offset_lag < 1000
    assert move(served, tmp_path / home) == 0  # back again
    wait_for_move(served)
    assert homes(served) == {0: home} and not left_over(tmp_path)
    assert move(served, there) == 0
    wait_until(lambda: is_copied_to(served, there))
    served.stop()  # does not wait for the rest
    assert left_over(tmp_path)
    served.config["replica.alter.log.dirs.io.max.bytes.per.second"] = str(1 << 30)
    served.start()  # and the copy is taken up
    wait_until(lambda: homes(served) == {0: there.name})
    wait_for_move(served)
    assert values(log_of(served)) == list(range(1000)) and not left_over(tmp_path)


def test_the_throttle_is_for_all_moves_together(serve_on, tmp_path):
    served = serve_on(replica_alter_log_dirs_io_max_bytes_per_second="400000")
    for topic in ("t", "u"):
        served.create_topic(topic)
        fill(served, 300, topic=topic)
    copied_bytes = sum(log_of(served, topic).size_bytes for topic in ("t", "u"))
    started = time.monotonic()
    for topic in ("t", "u"):
        there = "b" if homes(served, topic)[0] == "a" else "a"
        assert move(served, tmp_path / there, topic=topic) == 0
    wait_for_move(served)
    # The rest at the end, and one turn of each, need not wait.
    free_bytes = 2 * (1 << 18) + 2 * 100_000
    assert time.monotonic() - started >= (copied_bytes - free_bytes) / 400_000


def test_a_copy_that_is_no_part_of_the_partition_is_set_aside(serve_on, tmp_path):
    served = serve_on(replica_alter_log_dirs_io_max_bytes_per_second="20000")
    served.create_topic("t", internal_segment_bytes="20000")
    fill(served, 100)
    there = other(served, tmp_path)
    assert move(served, there) == 0
    wait_until(lambda: is_copied_to(served, there))
    served.stop()
    (future,) = there.glob("t-0.*-future")
    for path in future.glob("*.log"):
        data = bytearray(path.read_bytes())
        data[-1:] = b"y"
        path.write_bytes(data)
    for name in ("*.index", "*.timeindex", "*.snapshot"):
        for path in future.glob(name):
            path.unlink()
    served.config["replica.alter.log.dirs.io.max.bytes.per.second"] = str(1 << 30)
    served.start()
    wait_until(lambda: homes(served) == {0: there.name})
    wait_for_move(served)
    assert values(log_of(served)) == list(range(1000))


@pytest.mark.parametrize("left", [b"\xa5" * 40, None], ids=["damaged", "missing"])
def test_a_resumed_copy_gets_its_topic_id_again(serve_on, tmp_path, left):
    """The file is not synced while the copy grows: power loss leaves anything of it."""
    served = serve_on(replica_alter_log_dirs_io_max_bytes_per_second="20000")
    served.create_topic("t", internal_segment_bytes="20000")
    fill(served, 100)
    home, there = tmp_path / homes(served)[0], other(served, tmp_path)
    assert move(served, there) == 0
    wait_until(lambda: is_copied_to(served, there))
    served.stop()
    (future,) = there.glob("t-0.*-future")
    wanted, metadata = (home / "t-0/partition.metadata").read_bytes(), future / "partition.metadata"
    if left is None:
        metadata.unlink()
    else:
        metadata.write_bytes(left)
    served.config["replica.alter.log.dirs.io.max.bytes.per.second"] = str(1 << 30)
    served.start()
    wait_until(lambda: homes(served) == {0: there.name})
    wait_for_move(served)
    assert (there / "t-0/partition.metadata").read_bytes() == wanted and not left_over(tmp_path)


def test_a_topic_deleted_on_its_way(serve_on, tmp_path):
    served = serve_on(replica_alter_log_dirs_io_max_bytes_per_second="20000")
    served.create_topic("t", internal_segment_bytes="20000", file_delete_delay_ms="0")
    fill(served, 100)
    assert move(served, other(served, tmp_path)) == 0
    wait_until(lambda: list(tmp_path.glob("[ab]/*-future")))
    from bowstring.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

    served.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000))
    wait_for_move(served)
    wait_until(lambda: not list(tmp_path.glob("[ab]/t-0*")))


def test_the_other_disk_fails_on_the_way(serve_on, tmp_path):
    served = serve_on()
    served.create_topic("t", internal_segment_bytes="20000")
    fill(served, 50)
    home, there = homes(served)[0], other(served, tmp_path)

    def make(original):
        def fails(fd, *arguments):
            at = os.readlink(f"/proc/self/fd/{fd}")
            return -errno.ENOSPC if "-future/" in at else original(fd, *arguments)

        return fails

    with faults.replaced("pwritev", make):
        assert move(served, there) == 0
        wait_for_move(served)
    assert homes(served) == {0: home}
    assert described(served)[there.name].error_code == 56
    fill(served, 5)
    assert values(log_of(served)) == list(range(550))


# ---------------------------------------------------------------- crashes


class Crash(Exception):
    """The process dies here."""


STEPS = ("open_future", "copy_turn", "flush", "assigned", "swapped", "renamed", "retired", "none")


def crash_at(step, monkeypatch, snapshot) -> None:
    """Copies the directories as they are at a step of a move: what a killed process leaves."""

    def wrap(name, before=False):
        original = getattr(log_moves, name)

        def wrapped(*arguments):
            if before:
                snapshot()
            result = original(*arguments)
            if not before:
                snapshot()
            return result

        monkeypatch.setattr(log_moves, name, wrapped)

    if step in ("open_future", "copy_turn"):
        wrap(step)
    elif step == "flush":
        original = log_moves.ReplicaMoves.assign

        async def assign(self, *arguments):
            snapshot()
            await original(self, *arguments)

        monkeypatch.setattr(log_moves.ReplicaMoves, "assign", assign)
    elif step == "assigned":
        original_assign = log_moves.ReplicaMoves.assign

        async def assigned(self, *arguments):
            await original_assign(self, *arguments)
            snapshot()

        monkeypatch.setattr(log_moves.ReplicaMoves, "assign", assigned)
    elif step == "swapped":
        wrap("finish", before=True)
    elif step in ("renamed", "retired"):
        calls = []
        original_move = future_replica.move_directory

        def moved(*arguments):
            original_move(*arguments)
            calls.append(1)
            if len(calls) == 1 + (step == "retired"):
                snapshot()

        monkeypatch.setattr(future_replica, "move_directory", moved)


@pytest.mark.parametrize("step", STEPS)
def test_a_crash_at_any_step_leaves_one_good_copy(serve_on, tmp_path, monkeypatch, step, durability):
    served = serve_on(bowstring_durability=durability)
    served.create_topic("t", internal_segment_bytes="20000")
    fill(served, 60)
    there = other(served, tmp_path)
    crashed = tmp_path / "crashed"
    taken = []

    def snapshot():
        if not taken:
            taken.append(log_of(served).log_end_offset)
            if step == "swapped":  # appended to the copy, acknowledged, and then the power went
                fill_from_here(served)
            copy_directories(tmp_path, crashed)

    def fill_from_here(served):
        log = log_of(served)
        for _ in range(5):
            end = log.log_end_offset
            log.append(with_producer(batch(end), 7, 0, end), 0, NOW_MS)
        taken[0] = log.log_end_offset
        wals = served.engine.logs.durability.wals.values()
        wait_until(
            lambda: all(each.wal.durable_frame >= staged_frame(log) for each in wals if each.serves(log))
        )

    crash_at(step, monkeypatch, snapshot)
    assert move(served, there) == 0
    wait_for_move(served)
    if step == "none":
        snapshot()
    assert taken
    monkeypatch.undo()
    end = taken[0]
    dirs = ",".join(str(crashed / name) for name in "ab")
    config = {**served.config, "log.dirs": dirs}
    with Broker(data_dir=crashed / "a", config=config) as broker:
        inner = engine_of(broker)
        wait_until(lambda: not list(inner.moves))
        log = inner.logs.get("t", 0)
        assert values(log) == list(range(end))
        assert log.active_producers()[0][:3] == (7, 0, end - 1)
        live = list(crashed.glob("[ab]/t-0"))
        assert len(live) == 1 and log.directory == str(live[0])
        assert not list(crashed.glob("[ab]/*-future"))


def test_of_two_copies_the_one_with_the_later_epoch_is_right(serve_on, tmp_path, monkeypatch, durability):
    """A follower that cut its log after the move may be shorter than what it left behind."""
    served = serve_on(bowstring_durability=durability)
    served.create_topic("t", internal_segment_bytes="20000")
    fill(served, 60)
    crashed = tmp_path / "crashed"
    original = log_moves.finish

    def finish(*arguments):
        log = log_of(served)
        log.truncate_to(300)
        log.append(batch(300), 5, NOW_MS)
        wals = served.engine.logs.durability.wals.values()
        wait_until(
            lambda: all(each.wal.durable_frame >= staged_frame(log) for each in wals if each.serves(log))
        )
        copy_directories(tmp_path, crashed)
        return original(*arguments)

    monkeypatch.setattr(log_moves, "finish", finish)
    assert move(served, other(served, tmp_path)) == 0
    wait_for_move(served)
    config = {**served.config, "log.dirs": ",".join(str(crashed / name) for name in "ab")}
    with Broker(data_dir=crashed / "a", config=config) as broker:
        inner = engine_of(broker)
        wait_until(lambda: not list(inner.moves))
        assert values(inner.logs.get("t", 0)) == list(range(310))


def offsets_in(directory, name):
    return checkpoints.read_offsets(directory / name)


def test_a_partition_is_in_the_checkpoints_of_the_directory_it_has_not_left(
    serve_on, tmp_path, monkeypatch, durability
):
    """After a crash it may be there again: then its deleted records must not be."""
    served = serve_on(bowstring_durability=durability)
    served.create_topic("t")
    fill(served, 20)
    assert log_of(served).delete_records(130) == 130
    here, there = tmp_path / homes(served)[0], other(served, tmp_path)
    original = log_moves.finish
    seen = []

    def finish(*arguments):
        for name in (checkpoints.LOG_START_OFFSETS, checkpoints.RECOVERY_POINTS):
            served.engine.logs.checkpoint(name)()
            seen.append(offsets_in(here, name).get(("t", 0)))
        return original(*arguments)

    monkeypatch.setattr(log_moves, "finish", finish)
    assert move(served, there) == 0
    wait_for_move(served)
    assert seen[0] == 130 and seen[1] is not None
    for name in (checkpoints.LOG_START_OFFSETS, checkpoints.RECOVERY_POINTS):
        served.engine.logs.checkpoint(name)()
        assert ("t", 0) not in offsets_in(here, name)
        assert ("t", 0) in offsets_in(there, name)


def test_a_directory_with_what_a_move_left_behind_is_not_clean(serve_on, tmp_path, monkeypatch):
    """The log there was not closed: it has no producer snapshot at its end."""
    served = serve_on()
    served.create_topic("t")
    fill(served, 5)
    here = tmp_path / homes(served)[0]

    def finish(*_):
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(log_moves, "finish", finish)
    assert move(served, other(served, tmp_path)) == 0
    wait_for_move(served)
    served.broker.stop()
    assert not (here / ".kafka_cleanshutdown").exists()
    with Broker(data_dir=tmp_path / "a", config=served.config) as broker:
        inner = engine_of(broker)
        wait_until(lambda: not list(inner.moves))
        log = inner.logs.get("t", 0)
        assert log.active_producers()[0][:3] == (7, 0, 49)


def test_a_partition_that_cannot_leave_its_directory_keeps_the_frames_of_the_new_one(
    serve_on, tmp_path, monkeypatch, caplog
):
    """A replay begins with the old write-ahead log, so the new one must have everything since the move."""
    served = serve_on(bowstring_durability="commit")
    served.create_topic("t")
    fill(served, 20)
    there = other(served, tmp_path)

    def finish(*_):
        raise OSError(errno.EIO, "the disk")

    monkeypatch.setattr(log_moves, "finish", finish)
    assert move(served, there) == 0
    wait_for_move(served)
    assert "cannot leave its old directory" in caplog.text
    fill(served, 5)
    wal = served.engine.logs.durability.wals[str(there)]
    wait_until(lambda: wal.wal.durable_frame >= staged_frame(log_of(served)))
    held = wal.wal.stats()["checkpoint_frame"]
    wal.ask_checkpoint().result()
    assert wal.wal.stats()["checkpoint_frame"] == held < wal.wal.closed_frame


def test_a_moved_partition_has_its_recovery_point_before_its_name(
    serve_on, tmp_path, monkeypatch, durability
):
    """Below it, the records in the write-ahead log are older than the compacted ones."""
    served = serve_on(bowstring_durability=durability)
    served.create_topic("t")
    fill(served, 20)
    there = other(served, tmp_path)
    original = future_replica.move_directory
    seen = []

    def moved(log, path):
        seen.append(offsets_in(there, checkpoints.RECOVERY_POINTS).get(("t", 0)))
        original(log, path)

    monkeypatch.setattr(future_replica, "move_directory", moved)
    assert move(served, there) == 0
    wait_for_move(served)
    assert seen == [200, 200]


def copy_directories(tmp_path, crashed):
    """What a kill leaves: both log directories as they are."""
    for name in "ab":
        shutil.copytree(
            tmp_path / name,
            crashed / name,
            copy_function=copy_quietly,
            ignore=shutil.ignore_patterns("*.sock"),
        )


def copy_quietly(source, target):
    """Files come and go beside the copying."""
    with contextlib.suppress(FileNotFoundError):
        shutil.copy2(source, target)


def test_a_swapped_log_takes_nothing_any_more(serve_on, tmp_path):
    served = serve_on()
    served.create_topic("t", internal_segment_bytes="20000")
    fill(served, 3)
    old = log_of(served)
    assert move(served, other(served, tmp_path)) == 0
    wait_for_move(served)
    with pytest.raises(LogError):
        old.append(batch(0), 0, NOW_MS)
