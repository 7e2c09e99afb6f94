"""ListGroups and DescribeGroups report the groups that this broker coordinates, once they are committed."""

import asyncio
from functools import partial
from types import SimpleNamespace

import pytest

from bowstring.engine.api import describe_groups, list_groups
from bowstring.engine.requests.binding import bound
from bowstring.engine.requests.listeners import Listener
from bowstring.engine.requests.request import Request
from bowstring.engine.requests.time_slices import TimeSlices
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages.describe_groups import DescribeGroupsRequest
from bowstring.protocol.messages.list_groups import ListGroupsRequest
from tests.support.fake_authorizer import ALLOWS_ALL
from tests.support.group_service import commit, error_of, started
from tests.support.waiting import pause_async

GROUPS = [f"group-{i}" for i in range(8)]


async def coordinator():
    """Returns a shell of two partitions with groups in both, and the parts that handlers state."""
    broker = await started()
    for group in GROUPS:
        assert error_of(await commit(broker, group)) == 0
    return broker, SimpleNamespace(groups=broker.groups, time_slices=TimeSlices(), authorizer=ALLOWS_ALL)


async def answered(parts, handler, body, version):
    request = Request(api_key=0, version=version, body=body, listener=Listener("PLAINTEXT", "", 0))
    handle = bound(handler.handle, partial(getattr, parts))
    return [each async for each in (await handle(request)).groups]


async def listed(parts):
    return {each.group_id for each in await answered(parts, list_groups, ListGroupsRequest(), 5)}


async def described(parts):
    body = DescribeGroupsRequest(groups=GROUPS)
    return {each.group_id: each.error_code for each in await answered(parts, describe_groups, body, 6)}


@pytest.mark.parametrize("partition", [0, 1])
def test_only_what_this_broker_coordinates(partition):
    async def main():
        broker, parts = await coordinator()
        own = {group for group in GROUPS if broker.groups.partition_of(group) != partition}
        assert await listed(parts) == set(GROUPS)
        broker.plane.led[partition] = -1
        for _ in range(2):
            assert await listed(parts) == own
            errors = await described(parts)
            assert {group for group in GROUPS if errors[group] == 0} == own
            assert set(errors.values()) == {0, Errors.NOT_COORDINATOR.code}
            broker.groups.role_changed(partition)
        await broker.groups.stop()

    asyncio.run(main())


def test_what_is_not_committed_is_not_told():
    async def main():
        broker, parts = await coordinator()
        for log in broker.open_logs:
            log.held = True
        writing = [asyncio.ensure_future(commit(broker, f"{group}-new")) for group in GROUPS]
        telling = [asyncio.ensure_future(each(parts)) for each in (listed, described)]
        await pause_async(0.02, "nothing may be answered")
        assert not any(each.done() for each in (*writing, *telling))
        for partition, log in enumerate(broker.open_logs):
            log.high_watermark = log.log_end_offset
            broker.groups.advanced(partition)
        assert await telling[0] == {*GROUPS, *(f"{group}-new" for group in GROUPS)}
        assert set((await telling[1]).values()) == {0}
        await broker.groups.stop()

    asyncio.run(main())


def test_a_shard_that_moves_away_meanwhile_is_left_out():
    async def main():
        broker, parts = await coordinator()
        broker.open_logs[0].held = True
        writing = asyncio.ensure_future(
            commit(broker, next(g for g in GROUPS if broker.groups.partition_of(g) == 0))
        )
        telling = asyncio.ensure_future(listed(parts))
        await pause_async(0.01, "it begins to wait; it is answered at any moment")
        broker.plane.led[0] = -1
        broker.groups.role_changed(0)
        assert await telling == {group for group in GROUPS if broker.groups.partition_of(group) == 1}
        assert error_of(await writing) == Errors.NOT_COORDINATOR.code
        await broker.groups.stop()

    asyncio.run(main())


def test_groups_are_not_listed_while_a_log_is_read():
    async def main():
        broker, parts = await coordinator()
        broker.open_logs[0].may_read.clear()
        broker.plane.led[0] += 2
        broker.groups.role_changed(0)
        with pytest.raises(KafkaError, match="COORDINATOR_LOAD_IN_PROGRESS"):
            await listed(parts)
        broker.open_logs[0].may_read.set()
        await broker.groups.stop()

    asyncio.run(main())
