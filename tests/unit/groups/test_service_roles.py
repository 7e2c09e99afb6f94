"""The shell follows the data plane's roles: it loads what this broker leads, and resigns from the rest."""

import asyncio
import errno
import gc
import weakref

from bowstring.engine.metadata.image import PartitionImage
from bowstring.engine.metadata.names import GROUPS_TOPIC as TOPIC
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.heartbeat import HeartbeatRequest
from bowstring.protocol.messages.sync_group import SyncGroupRequest
from tests.support.group_service import (
    FakeBroker,
    MemoryLog,
    commit,
    error_of,
    fetched,
    join,
    refusal,
    started,
)
from tests.support.waiting import FOR_EVER_MS, pause_async, wait_until_async


def groups_by_partition(broker):
    """Returns one group for each partition."""
    found = {}
    for i in range(100):
        found.setdefault(broker.groups.partition_of(f"group-{i}"), f"group-{i}")
    return found


def set_role(broker, partition, leader_epoch):
    """Leads the partition in an epoch, or with -1 leaves it to another broker."""
    broker.plane.led[partition] = leader_epoch
    broker.groups.role_changed(partition)


async def loaded(broker):
    await wait_until_async(lambda: not broker.groups.is_loading)


def sync(broker, member_id, group="g"):
    request = SyncGroupRequest(group_id=group, generation_id=1, member_id=member_id)
    return broker.groups.ask(group, lambda shard, token, now: shard.sync(request, token, now))


def heartbeat(broker, member_id, group="g"):
    request = HeartbeatRequest(group_id=group, generation_id=1, member_id=member_id)
    return broker.groups.ask(group, lambda shard, token, now: shard.heartbeat(request, token))


async def written(commits):
    """Returns the logs of a broker that has committed these offsets."""
    broker = await started()
    for group, offset in commits.items():
        assert error_of(await commit(broker, group, offset)) == 0
    await broker.groups.stop()
    return broker.open_logs


async def started_without_roles(logs, **settings):
    """Returns a broker that has these logs and leads none of them."""
    broker = FakeBroker(**settings)
    broker.host(logs)
    broker.plane.led.clear()
    broker.groups.start()
    return broker


def test_only_led_partitions_are_coordinated():
    async def main():
        groups = groups_by_partition(FakeBroker())
        broker = await started_without_roles(await written(dict.fromkeys(groups.values(), 7)))
        assert not list(broker.groups.shards())
        set_role(broker, 1, 3)
        assert await refusal(fetched(broker, groups[0])) is Errors.NOT_COORDINATOR
        await loaded(broker)
        assert await fetched(broker, groups[1]) == {("t", 0): 7}
        assert [partition for partition, _ in broker.groups.shards()] == [1]
        assert broker.groups.coordinates(groups[1]) and not broker.groups.coordinates(groups[0])
        await broker.groups.stop()

    asyncio.run(main())


def test_others_are_answered_while_a_log_is_read():
    async def main():
        groups = groups_by_partition(FakeBroker())
        logs = await written(dict.fromkeys(groups.values(), 7))
        broker = await started_without_roles(logs)
        set_role(broker, 0, 3)
        await loaded(broker)
        logs[1].may_read.clear()
        set_role(broker, 1, 3)
        for _ in range(3):
            assert await refusal(fetched(broker, groups[1])) is Errors.COORDINATOR_LOAD_IN_PROGRESS
            assert error_of(await commit(broker, groups[0], 8)) == 0
        logs[1].may_read.set()
        await loaded(broker)
        assert await fetched(broker, groups[1]) == {("t", 0): 7}
        await broker.groups.stop()

    asyncio.run(main())


def test_resigning_answers_those_who_wait_and_ends_timers():
    async def main():
        broker = await started(**{"group.initial.rebalance.delay.ms": str(FOR_EVER_MS)})
        partition = broker.groups.partition_of("g")
        log = broker.open_logs[partition]
        other = next(f"g{i}" for i in range(99) if broker.groups.partition_of(f"g{i}") == partition)
        joining = asyncio.ensure_future(join(broker))
        log.held = True
        writing = asyncio.ensure_future(commit(broker, other))
        reading = asyncio.ensure_future(fetched(broker))
        await asyncio.sleep(0)
        assert broker.groups.is_alarm_set
        for _ in range(2):
            set_role(broker, partition, -1)
        assert (await joining).error_code == Errors.NOT_COORDINATOR.code
        assert error_of(await writing) == Errors.NOT_COORDINATOR.code
        assert await refusal(reading) is Errors.NOT_COORDINATOR
        assert not broker.groups.is_alarm_set
        log.high_watermark = log.log_end_offset
        broker.groups.advanced(partition)
        assert await refusal(fetched(broker)) is Errors.NOT_COORDINATOR
        await broker.groups.stop()

    asyncio.run(main())


def test_a_resigned_partition_may_be_led_again():
    async def main():
        broker = await started()
        partition = broker.groups.partition_of("g")
        joined = await join(broker)
        assert (await sync(broker, joined.member_id)).error_code == 0
        set_role(broker, partition, -1)
        set_role(broker, partition, 5)
        await loaded(broker)
        assert (await heartbeat(broker, joined.member_id)).error_code == 0, "its session begins anew"
        assert broker.groups.is_alarm_set
        await broker.groups.stop()

    asyncio.run(main())


def test_resigning_while_the_log_is_read():
    async def main():
        logs = await written({"g": 7})
        broker = await started_without_roles(logs)
        partition = broker.groups.partition_of("g")
        logs[partition].may_read.clear()
        set_role(broker, partition, 3)
        await asyncio.sleep(0)
        set_role(broker, partition, -1)
        assert await refusal(fetched(broker)) is Errors.NOT_COORDINATOR
        set_role(broker, partition, 5)
        assert await refusal(fetched(broker)) is Errors.COORDINATOR_LOAD_IN_PROGRESS
        logs[partition].may_read.set()
        await loaded(broker)
        assert await fetched(broker) == {("t", 0): 7}
        await broker.groups.stop()

    asyncio.run(main())


def test_the_next_epoch_goes_on_and_a_later_one_reads_the_log_anew():
    async def main():
        broker = await started()
        partition = broker.groups.partition_of("g")
        assert error_of(await commit(broker, offset=7)) == 0
        first = broker.groups.shard_of("g")
        set_role(broker, partition, 4)
        assert broker.groups.shard_of("g") is first
        set_role(broker, partition, 4)
        assert broker.groups.shard_of("g") is first
        assert error_of(await commit(broker, offset=8)) == 0
        set_role(broker, partition, 6)
        assert await refusal(fetched(broker)) is Errors.COORDINATOR_LOAD_IN_PROGRESS
        await loaded(broker)
        assert broker.groups.shard_of("g") is not first
        assert await fetched(broker) == {("t", 0): 8}
        await broker.groups.stop()

    asyncio.run(main())


def test_an_epoch_that_changes_while_the_log_is_read():
    async def main():
        logs = await written({"g": 7})
        broker = await started_without_roles(logs)
        partition = broker.groups.partition_of("g")
        logs[partition].may_read.clear()
        for leader_epoch in (3, 4, 7):
            set_role(broker, partition, leader_epoch)
            await asyncio.sleep(0)
        logs[partition].may_read.set()
        await loaded(broker)
        assert await fetched(broker) == {("t", 0): 7}
        assert error_of(await commit(broker, offset=8)) == 0, "the newest epoch counts"
        await broker.groups.stop()

    asyncio.run(main())


def test_nothing_is_answered_in_a_role_that_the_data_plane_has_lost():
    """Between the change in the data plane and the call, the high watermark may be above other records."""

    async def main():
        broker = await started()
        partition = broker.groups.partition_of("g")
        log = broker.open_logs[partition]
        log.held = True
        writing = asyncio.ensure_future(commit(broker))
        await asyncio.sleep(0)
        broker.plane.led[partition] = -1
        log.high_watermark = log.log_end_offset
        broker.groups.advanced(partition)
        assert await refusal(fetched(broker)) is Errors.NOT_COORDINATOR
        assert not list(each for each, _ in broker.groups.shards() if each == partition)
        assert not writing.done()
        broker.groups.role_changed(partition)
        assert error_of(await writing) == Errors.NOT_COORDINATOR.code
        await broker.groups.stop()

    asyncio.run(main())


def test_what_was_committed_meanwhile_is_answered_in_the_next_epoch():
    async def main():
        broker = await started()
        partition = broker.groups.partition_of("g")
        log = broker.open_logs[partition]
        log.held = True
        writing = asyncio.ensure_future(commit(broker))
        await asyncio.sleep(0)
        broker.plane.led[partition] = 4
        log.high_watermark = log.log_end_offset
        broker.groups.advanced(partition)
        assert not writing.done()
        broker.groups.role_changed(partition)
        assert error_of(await writing) == 0
        await broker.groups.stop()

    asyncio.run(main())


def test_a_log_is_read_to_its_end_and_answers_wait_for_the_high_watermark():
    async def main():
        logs = await written({"g": 7})
        broker = await started_without_roles(logs)
        partition = broker.groups.partition_of("g")
        logs[partition].high_watermark = 0
        set_role(broker, partition, 3)
        await loaded(broker)
        reading = asyncio.ensure_future(fetched(broker))
        await pause_async(0.01, "it may not be answered")
        assert not reading.done()
        assert broker.plane.watched[partition] == logs[partition].log_end_offset
        logs[partition].high_watermark = logs[partition].log_end_offset
        broker.groups.advanced(partition)
        assert await reading == {("t", 0): 7}
        await broker.groups.stop()

    asyncio.run(main())


def test_answers_do_not_wait_for_ever():
    async def main():
        broker = await started(**{"offsets.commit.timeout.ms": "30"})
        partition = broker.groups.partition_of("g")
        log = broker.open_logs[partition]
        log.held = True
        writing = asyncio.ensure_future(commit(broker))
        await asyncio.sleep(0)
        for answer in (fetched(broker), broker.groups.committed(partition)):
            assert await refusal(answer) is Errors.COORDINATOR_NOT_AVAILABLE
        assert error_of(await writing) == Errors.COORDINATOR_NOT_AVAILABLE.code
        assert not broker.groups.is_alarm_set
        assert await refusal(fetched(broker)) is Errors.COORDINATOR_NOT_AVAILABLE, "it is still not committed"
        log.high_watermark = log.log_end_offset
        assert await fetched(broker) == {("t", 0): 5}, "it was committed later"
        await broker.groups.stop()

    asyncio.run(main())


def test_partitions_that_are_added_move_no_group():
    async def main():
        broker = await started()
        before = {f"g{i}": broker.groups.partition_of(f"g{i}") for i in range(50)}
        broker.open_logs.append(MemoryLog())
        broker.topics[TOPIC].partitions.append(PartitionImage((1, 2), (1,), 1, 3, 0, ()))
        set_role(broker, 2, 0)
        assert {group: broker.groups.partition_of(group) for group in before} == before
        assert [partition for partition, _ in broker.groups.shards()] == [0, 1, 2]
        await broker.groups.stop()

    asyncio.run(main())


def test_a_topic_that_is_deleted_and_made_anew_is_another_one():
    async def main():
        broker = await started()
        assert error_of(await commit(broker)) == 0
        broker.host([MemoryLog() for _ in range(5)])
        broker.topics[TOPIC].id = b"n" * 16
        broker.groups.roles_changed()
        assert broker.groups.partitions == 5
        assert await fetched(broker) == {}
        await broker.groups.stop()

    asyncio.run(main())


def test_topics_that_are_deleted_while_a_log_is_read():
    async def main():
        logs = await written({"g": 7})
        broker = await started_without_roles(logs)
        partition = broker.groups.partition_of("g")
        logs[partition].may_read.clear()
        set_role(broker, partition, 3)
        broker.groups.topic_deleted("t", b"i" * 16)
        logs[partition].may_read.set()
        await loaded(broker)
        assert await fetched(broker) == {}
        await broker.groups.stop()

    asyncio.run(main())


def test_a_log_that_cannot_be_read_is_tried_again_after_a_pause(monkeypatch, caplog):
    """Whatever is the reason: a lack of descriptors or of memory passes."""
    monkeypatch.setattr("bowstring.engine.coordinators.runtime._FIRST_PAUSE_S", 0.01)
    failures = [OSError(errno.EMFILE, "too many open files"), MemoryError(), RecursionError("a bug"), None]

    class BadLog(MemoryLog):
        def read(self, offset, max_bytes, limit):
            if failures and (failure := failures.pop(0)) is not None:
                raise failure
            return super().read(offset, max_bytes, limit)

    async def main():
        logs = await written({"g": 7, "h": 8, "i": 9, "j": 10})
        bad = BadLog()
        bad.__dict__ |= logs[0].__dict__
        broker = await started_without_roles([bad, logs[1]])
        of_bad, of_other = ([g for g in "ghij" if broker.groups.partition_of(g) == p] for p in (0, 1))
        set_role(broker, 0, 3)
        set_role(broker, 1, 3)
        await loaded(broker)
        assert await refusal(fetched(broker, of_bad[0])) is Errors.COORDINATOR_NOT_AVAILABLE
        assert await fetched(broker, of_other[0])
        assert list(broker.groups.shards()), "the others are listed"
        await wait_until_async(lambda: broker.groups.coordinates(of_bad[0]) and not failures)
        await loaded(broker)
        assert await fetched(broker, of_bad[0])
        await broker.groups.stop()

    asyncio.run(main())
    failures = [each.exc_info[1] for each in caplog.records if each.exc_info]
    assert RecursionError in map(type, failures), "a bug comes with its traceback"


def test_a_stop_ends_what_is_tried_again():
    async def main():
        logs = await written({"g": 7})
        for log in logs:
            log.batches = [(base, batch[:-1] + bytes([batch[-1] ^ 1])) for base, batch in log.batches]
        broker = await started_without_roles(logs)
        partition = broker.groups.partition_of("g")
        set_role(broker, partition, 3)
        await loaded(broker)
        await broker.groups.stop()
        set_role(broker, partition, 4)
        assert await refusal(fetched(broker)) is Errors.NOT_COORDINATOR

    asyncio.run(main())


def test_a_log_that_cannot_be_read_is_tried_again_in_another_epoch(caplog):
    async def main():
        logs = await written({"g": 7})
        broker = await started_without_roles(logs)
        partition = broker.groups.partition_of("g")
        (base_offset, batch) = logs[partition].batches[0]
        logs[partition].batches[0] = (base_offset, batch[:-1] + bytes([batch[-1] ^ 1]))
        for _ in range(3):
            set_role(broker, partition, 3)
            await loaded(broker)
        assert await refusal(fetched(broker)) is Errors.COORDINATOR_NOT_AVAILABLE
        assert sum("cannot be read" in record.message for record in caplog.records) == 1
        set_role(broker, partition, -1)
        assert await refusal(fetched(broker)) is Errors.NOT_COORDINATOR
        logs[partition].batches[0] = (base_offset, batch)
        set_role(broker, partition, 4)
        await loaded(broker)
        assert await fetched(broker) == {("t", 0): 7}
        await broker.groups.stop()

    asyncio.run(main())


def test_a_shard_that_has_moved_away_is_freed_in_steps_without_the_collector():
    async def main():
        logs = await written({f"group-{i}": i for i in range(5_000)})
        broker = await started_without_roles(logs)
        set_role(broker, 0, 3)
        await loaded(broker)
        await join(
            broker, next(group for group in map(str, range(99)) if broker.groups.partition_of(group) == 0)
        )
        ((_, shard),) = broker.groups.shards()
        state, watched = shard.state, weakref.ref(shard)
        groups = len(state.groups)
        gc.collect()
        gc.disable()
        try:
            set_role(broker, 0, -1)
            assert 0 < len(state.groups) < groups
            await wait_until_async(lambda: not state.groups and not len(state.offsets))
            del shard
            await wait_until_async(lambda: watched() is None)
        finally:
            gc.enable()
        await broker.groups.stop()

    asyncio.run(main())
