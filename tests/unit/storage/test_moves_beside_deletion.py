"""Topics that are deleted and created again, and moves that are turned round by several requests, while a thread
moves a partition to another log directory.
"""

import asyncio
import threading

import pytest

from bowstring._native.record.decode import decode_batches
from bowstring._native.record.encode import encode_batch
from bowstring.engine.storage import replica_moves
from bowstring.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from bowstring.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from bowstring.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.support.log_dirs import homes
from tests.support.waiting import FOR_EVER_MS, HANG_S, wait_until

DELETE = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=FOR_EVER_MS)
CREATE = CreateTopicsRequest(
    topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)], timeout_ms=FOR_EVER_MS
)


@pytest.fixture(params=["os", "commit"])
def served(serve, tmp_path, request):
    made = serve(
        log_dirs=f"{tmp_path / 'a'},{tmp_path / 'b'}",
        bowstring_durability=request.param,
        log_segment_delete_delay_ms="0",
    )
    made.create_topic("t")
    produce(made, b"old")
    return made


def produce(served, value):
    records = encode_batch([(None, value, 1, [])])
    assert served.produce("t", records).error_code == 0


def values(served):
    log = served.engine.logs.get("t", 0)
    return [each.value for each in decode_batches(log.read(0, 1 << 20, "log_end"))]


def move(served, there):
    topic = AlterReplicaLogDirTopic(name="t", partitions=[0])
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=str(there), topics=[topic])])
    client = served.connect()
    assert client.ask(request).results[0].partitions[0].error_code == 0
    client.close()


def other(served, tmp_path):
    return tmp_path / ("b" if homes(served)[0] == "a" else "a")


def replace(served):
    """Deletes the topic, creates it again, and sends as many records as the old one had."""
    client = served.connect()
    assert client.ask(DELETE).responses[0].error_code == 0
    assert client.ask(CREATE).topics[0].error_code == 0
    client.close()
    produce(served, b"new")


def check(served, tmp_path):
    """The new topic has its own records alone, also after a start, and nothing of the old one is left."""
    wait_until(lambda: not list(served.engine.moves))
    wait_until(lambda: len(list(tmp_path.glob("[ab]/t-0*"))) == 1, lambda: list(tmp_path.glob("[ab]/t-0*")))
    assert values(served) == [b"new"]
    served.restart()
    assert values(served) == [b"new"]
    assert [each.name for each in tmp_path.glob("[ab]/t-0*")] == ["t-0"]


class Gate:
    """Holds the thread that renames directories at the end of a move."""

    def __init__(self, monkeypatch):
        self.entered, self._may_go_on = threading.Event(), threading.Event()
        self._original = replica_moves.finish
        monkeypatch.setattr(replica_moves, "finish", self._finish)

    def _finish(self, *arguments):
        self.entered.set()
        assert self._may_go_on.wait(HANG_S)
        return self._original(*arguments)

    def open(self):
        self._may_go_on.set()

    def replace_meanwhile(self, served):
        replacing = threading.Thread(target=replace, args=(served,))
        replacing.start()
        wait_until(lambda: not served.engine.logs.of_topic("t"))
        self.open()
        replacing.join(HANG_S)


def test_deleted_while_its_directories_are_renamed(served, tmp_path, monkeypatch):
    gate = Gate(monkeypatch)
    move(served, other(served, tmp_path))
    assert gate.entered.wait(HANG_S)
    gate.replace_meanwhile(served)
    check(served, tmp_path)


def test_turned_round_and_deleted_while_its_directories_are_renamed(served, tmp_path, monkeypatch):
    """A move that waits to be reversed leaves the removed copy alone."""
    discarded = []
    original = replica_moves.discard
    monkeypatch.setattr(
        replica_moves,
        "discard",
        lambda moved, log: discarded.append(log) or original(moved, log),
    )
    here, gate = tmp_path / homes(served)[0], Gate(monkeypatch)
    move(served, other(served, tmp_path))
    assert gate.entered.wait(HANG_S)
    turning = threading.Thread(target=move, args=(served, here))
    turning.start()
    wait_until(lambda: [each.cancelled for each in served.engine.moves] == [True])
    gate.replace_meanwhile(served)
    turning.join(HANG_S)
    check(served, tmp_path)
    assert not any(discarded)


def test_replaced_before_the_copy_becomes_its_log(served, tmp_path, monkeypatch):
    original = replica_moves.ReplicaMoves.assign
    assigned = []

    async def assign(self, moved, directory_id):
        await original(self, moved, directory_id)
        assigned.append(directory_id)
        await asyncio.get_running_loop().run_in_executor(None, replace, served)

    monkeypatch.setattr(replica_moves.ReplicaMoves, "assign", assign)
    move(served, other(served, tmp_path))
    wait_until(lambda: assigned)
    check(served, tmp_path)


def test_turned_round_by_two_requests_at_once(served, tmp_path, monkeypatch):
    """One move follows, not two of the same partition into one directory."""
    opened = []
    original = replica_moves.open_future
    monkeypatch.setattr(replica_moves, "open_future", lambda *of: opened.append(of) or original(*of))
    here, gate = tmp_path / homes(served)[0], Gate(monkeypatch)
    move(served, other(served, tmp_path))
    assert gate.entered.wait(HANG_S)
    started = []
    start = replica_moves.ReplicaMoves.start

    async def counted(self, *of):
        started.append(of)
        await start(self, *of)

    monkeypatch.setattr(replica_moves.ReplicaMoves, "start", counted)
    turning = [threading.Thread(target=move, args=(served, here)) for _ in range(2)]
    for each in turning:
        each.start()
    wait_until(lambda: len(started) == 2)
    gate.open()
    for each in turning:
        each.join(HANG_S)
    wait_until(lambda: not list(served.engine.moves))
    assert len(opened) == 2
    assert homes(served) == {0: here.name}
    assert values(served) == [b"old"]
