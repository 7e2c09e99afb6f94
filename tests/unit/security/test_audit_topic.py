"""The audit topic: what waits, what is written, what is dropped."""

import asyncio
import json
from collections import defaultdict

import pytest

from bowstring.engine.security import audit_topic
from bowstring.engine.security.audit_topic import QUEUE_BYTES_MAX, QUEUE_MAX, AuditTopic, AuditWriteError
from bowstring.engine.security.decided import Decided
from tests.support.waiting import wait_until_async

DENIED = Decided("User:ä", "10.0.0.1", 4, 2, "t\n1", False, 0)
OWN_WRITE = Decided("User:node", "10.0.0.2", 4, 2, "audit", True, 0)


class Writer:
    """A topic in memory.

    Attributes:
        failing: Why each partition cannot be written; None: the topic itself.
        most: Records in a batch.
        attempts: How often the topic was looked at.
    """

    def __init__(self, count=2):
        self.count = count
        self.failing = {}
        self.most = 1000
        self.logs = defaultdict(list)
        self.closed = False
        self.tried = False
        self.attempts = 0

    async def partitions(self):
        self.attempts += 1
        self._check(None)
        return self.count

    def partition_of(self, key, partitions):
        return len(key) % partitions

    async def write(self, partition, records):
        self._check(partition)
        await asyncio.sleep(0)
        taken = records[: self.most]
        self.logs[partition] += taken
        return len(taken)

    def close(self):
        self.closed = True

    def _check(self, partition):
        self.tried = self.tried or partition is not None
        failure = self.failing.get(partition)
        if failure is not None:
            raise failure

    @property
    def values(self):
        return [json.loads(each.value) for log in self.logs.values() for each in log]


def topic():
    made = AuditTopic("audit", 7, lambda principal, host: principal == "User:node")
    made.passing_s = 0.0
    return made


def with_name(name):
    return DENIED._replace(principal=name)


def run(work):
    asyncio.run(asyncio.wait_for(work, 30))


def test_records_have_the_principal_as_key_and_name_the_node():
    async def work():
        audit, writer = topic(), Writer()
        audit.note(DENIED)  # before the node serves
        audit.start(writer)
        await audit.stop()
        (record,) = writer.logs[len("User:ä") % 2]
        assert record.key == "User:ä".encode()
        (value,) = writer.values
        assert value.pop("time").endswith("Z")
        assert value == {
            "node": 7,
            "principal": "User:ä",
            "host": "10.0.0.1",
            "operation": "Write",
            "resource_type": "Topic",
            "resource": "t\n1",
            "allowed": False,
            "api": "Produce",
        }
        assert (audit.written, audit.dropped, writer.closed) == (1, 0, True)

    run(work())


def test_writing_the_topic_makes_no_record():
    async def work():
        audit, writer = topic(), Writer()
        audit.start(writer)
        audit.note(OWN_WRITE)
        others = [
            OWN_WRITE._replace(principal="User:eve"),
            OWN_WRITE._replace(allowed=False),
            OWN_WRITE._replace(name="other"),
        ]
        for each in others:
            audit.note(each)
        await audit.stop()
        assert len(writer.values) == len(others)

    run(work())


def test_a_partition_that_fails_delays_no_other_and_is_written_later(caplog):
    async def work():
        audit, writer = topic(), Writer()
        writer.failing[1] = AuditWriteError("it has no leader")
        audit.start(writer)
        for name in ("ab", "abc", "abcd"):
            audit.note(with_name(name))
        await wait_until_async(lambda: len(writer.logs[0]) == 2)
        assert not writer.logs[1]
        writer.failing.clear()
        await wait_until_async(lambda: writer.logs[1])
        await audit.stop()
        assert audit.written == 3

    caplog.set_level("INFO", "bowstring")
    run(work())
    assert "cannot be written" in caplog.text
    assert "written again" in caplog.text


def test_a_drain_waits_for_what_waits_but_not_for_a_topic_that_fails():
    async def work():
        audit, writer = topic(), Writer()
        await audit.drain()
        audit.start(writer)
        audit.note(DENIED)
        await audit.drain()
        assert audit.written == 1
        writer.failing[None] = AuditWriteError("no leader")
        audit.note(DENIED)
        await wait_until_async(lambda: audit.is_failing)
        await asyncio.wait_for(audit.drain(), 1)
        writer.failing.clear()
        await audit.stop()

    run(work())


def test_a_bug_ends_nothing(monkeypatch):
    async def work():
        audit, writer = topic(), Writer()
        monkeypatch.setattr("bowstring.engine.background._PAUSE_S", 0.001)
        writer.failing[0] = RuntimeError("a bug")
        audit.start(writer)
        audit.note(with_name("ab"))
        await asyncio.sleep(0)
        await wait_until_async(lambda: not writer.failing or writer.failing.popitem())
        await wait_until_async(lambda: writer.logs[0])
        await audit.stop()

    run(work())


@pytest.mark.parametrize("size", [1, QUEUE_BYTES_MAX // 200])
def test_what_finds_no_room_is_counted_logged_and_said(size, caplog):
    async def work():
        audit, writer = topic(), Writer(1)
        named = DENIED._replace(name="n" * size)
        for _ in range(QUEUE_MAX + 3):
            audit.note(named)
        kept = QUEUE_MAX + 3 - audit.dropped
        assert kept == QUEUE_MAX if size == 1 else kept < 200
        audit.note_lost(2)
        dropped = audit.dropped
        audit.start(writer)
        await audit.stop()
        assert audit.written == kept
        assert [each["dropped"] for each in writer.values if "dropped" in each] == [dropped]

    run(work())
    assert "are missing in the audit topic" in caplog.text


@pytest.mark.parametrize("partition", [None, 0])
def test_drops_take_no_memory_while_the_topic_is_unavailable(partition, monkeypatch):
    monkeypatch.setattr(audit_topic, "QUEUE_MAX", 3)

    async def work():
        audit, writer = topic(), Writer(1)
        writer.failing[partition] = AuditWriteError("no leader")
        audit.start(writer)
        for _ in range(3):
            audit.note(DENIED)
        for dropped in range(1, 5):
            audit.note(DENIED)
            before = writer.attempts
            await wait_until_async(lambda before=before: writer.attempts > before)
            assert audit.dropped == dropped
        writer.failing.clear()
        await audit.stop()
        drops = [each["dropped"] for each in writer.values if "dropped" in each]
        assert sum(drops) == 4
        assert len(drops) <= 2

    run(work())


def test_what_the_topic_does_not_accept_is_dropped_and_the_rest_written():
    async def work():
        audit, writer = topic(), Writer(1)
        writer.most = 0
        audit.start(writer)
        audit.note(with_name("a"))
        await wait_until_async(lambda: audit.dropped)
        writer.most = 1
        for name in ("b", "c"):
            audit.note(with_name(name))
        await audit.stop()
        written = [each.get("principal") for each in writer.values]
        assert written == ["b", "c", None] or written == [None, "b", "c"]

    run(work())


def test_a_topic_with_more_partitions_takes_over_what_waits():
    async def work():
        audit, writer = topic(), Writer(1)
        writer.failing[0] = AuditWriteError("not yet")
        audit.start(writer)
        for name in ("a", "ab", "abc"):
            audit.note(with_name(name))
        await wait_until_async(lambda: writer.tried)
        writer.count = 3
        writer.failing.clear()
        await audit.stop()
        assert {place: len(log) for place, log in writer.logs.items()} == {0: 1, 1: 1, 2: 1}

    run(work())


def test_what_a_stop_cannot_write_is_counted(caplog):
    async def work():
        audit, writer = topic(), Writer()
        writer.failing[None] = AuditWriteError("it cannot be created")
        audit.note(DENIED)
        audit.start(writer)
        await audit.stop()
        assert audit.dropped == 1

    run(work())
    assert "stops before all decisions" in caplog.text
