"""Lags of groups are measured in portions, and of the partitions most behind."""

import asyncio
import struct

import pytest

from bowstring.engine.broker import group_lags
from bowstring.engine.broker.group_lags import GroupLags, Lag
from bowstring.engine.groups.offsets.store import NO_EXPIRY, ZERO_TOPIC_ID, CommittedOffset, OffsetStore
from bowstring.protocol.errors import Errors, KafkaError
from tests.support.waiting import wait_until_async


class FakeLog:
    log_start_offset = 5
    high_watermark = 100

    def __init__(self):
        self.reads = []

    def read(self, offset, max_bytes):
        self.reads.append(offset)
        return bytes(27) + struct.pack(">q", offset * 1000) + bytes(50)


class Shard:
    def __init__(self, offsets):
        self.offsets = OffsetStore()
        for (group, topic, partition), offset in offsets.items():
            stored = CommittedOffset(offset, -1, "", 0, NO_EXPIRY, ZERO_TOPIC_ID, 0)
            self.offsets.put(group, topic, partition, stored)


def test_records_and_seconds():
    log = FakeLog()
    shard = Shard(
        {("g", "t", 0): 90, ("g", "t", 1): 100, ("h", "t", 0): 1, ("h", "gone", 0): 3, ("m", "t", 0): -1}
    )
    lags = GroupLags(
        lambda: [(0, shard)], lambda topic, _: log if topic == "t" else None, clock=lambda: 200.0
    )
    expected = [Lag("h", "t", 0, 95, 195.0), Lag("g", "t", 0, 10, 110.0), Lag("g", "t", 1, 0, 0.0)]
    assert list(lags.rows()) == expected
    assert list(lags.rows()) == expected and sorted(log.reads) == [5, 90], "times are remembered"
    assert lags.left_out == 0


def test_many_groups_are_measured_in_portions(monkeypatch):
    monkeypatch.setattr(group_lags, "ROWS_MAX", 3)
    log = FakeLog()
    shard = Shard({(f"g{number}", "t", 0): number for number in range(2_000)})
    lags = GroupLags(lambda: [(0, shard)], lambda *_: log, clock=lambda: 100.0)

    async def main():
        assert list(lags.rows()) == [], "the scrape does not wait"
        await wait_until_async(lambda: _all_known(lags))

    asyncio.run(main())
    assert [row.records for row in lags.rows()] == [95, 95, 95] and lags.left_out == 97


async def _all_known(lags):
    rows = list(lags.rows())
    return len(rows) == 3 and all(row.seconds is not None for row in rows)


def test_while_a_shard_is_loaded_nothing_is_said():
    def loading():
        raise KafkaError(Errors.COORDINATOR_LOAD_IN_PROGRESS)
        yield

    assert list(GroupLags(loading, lambda *_: FakeLog()).rows()) == []


@pytest.mark.parametrize("data", [b"", bytes(20)])
def test_a_record_that_cannot_be_read_has_no_age(data):
    log = FakeLog()
    log.read = lambda offset, max_bytes: data
    lags = GroupLags(lambda: [(0, Shard({("g", "t", 0): 90}))], lambda *_: log)
    assert list(lags.rows()) == [Lag("g", "t", 0, 10, None)]


def test_records_that_a_share_group_has_done_are_not_behind():
    shares = [("s", "t", 0, 90, 4), ("s", "t", 1, 99, 9), ("s", "gone", 0, 1, 0)]
    lags = GroupLags(
        list, lambda topic, _: FakeLog() if topic == "t" else None, lambda: shares, lambda: 100.0
    )
    assert list(lags.rows()) == [Lag("s", "t", 0, 6, 10.0), Lag("s", "t", 1, 0, 0.0)]
