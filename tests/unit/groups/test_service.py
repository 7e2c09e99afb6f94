"""The shell keeps its contract with the core: appends, high watermark, timers, loading, shutdown."""

import asyncio
import itertools

import pytest

from bowstring._native.log.partition_log import LogError
from bowstring._native.record.decode import decode_batches
from bowstring._native.record.encode import encode_batch
from bowstring.engine.coordinators.runtime import wall_ms
from bowstring.engine.groups import records
from bowstring.engine.groups.classic.membership import only_kept_alive
from bowstring.engine.groups.config import GroupConfig
from bowstring.engine.groups.log_replay import replay_log
from bowstring.engine.groups.offsets.store import CommittedOffset
from bowstring.engine.groups.replay import NO_PRODUCER, Replay
from bowstring.engine.groups.shard import GroupShard
from bowstring.engine.metadata.names import GROUPS_TOPIC as TOPIC
from bowstring.protocol.errors import Errors, KafkaError
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
from tests.support.waiting import pause_async, wait_until_async


def test_topic_is_made_once_on_first_use():
    async def main():
        broker = FakeBroker()
        broker.groups.start()
        with pytest.raises(KafkaError) as refused:
            await commit(broker)
        assert refused.value.error is Errors.NOT_COORDINATOR
        await asyncio.gather(*(broker.groups.ensure_topic() for _ in range(3)))
        ((name, partitions, configs), *more) = broker.created
        assert (name, partitions) == (TOPIC, 2)
        assert configs["cleanup.policy"] == "compact"
        assert configs["compression.type"] == "producer"
        assert not more or len(broker.open_logs) == 2
        assert error_of(await commit(broker)) == 0
        await broker.groups.stop()

    asyncio.run(main())


def test_a_commit_goes_to_the_groups_partition_and_survives():
    async def main():
        broker = await started()
        assert error_of(await commit(broker, "g", 7)) == 0
        partition = broker.groups.partition_of("g")
        assert [len(log.batches) for log in broker.open_logs] == [int(i == partition) for i in range(2)]
        assert broker.plane.appended == [(TOPIC, partition, broker.open_logs[partition].size_bytes)]
        assert broker.logs.control_writes == 1
        await broker.groups.stop()

        again = FakeBroker()
        again.host(broker.open_logs)
        again.groups.start()
        assert await fetched(again) == {("t", 0): 7}
        await again.groups.stop()

    asyncio.run(main())


def test_answers_wait_for_the_high_watermark():
    async def main():
        broker = await started()
        partition = broker.groups.partition_of("g")
        log = broker.open_logs[partition]
        log.held = True
        writing = asyncio.ensure_future(commit(broker))
        reading = asyncio.ensure_future(fetched(broker))
        await pause_async(0.01, "neither may be answered")
        assert not writing.done()
        assert not reading.done()
        broker.groups.advanced(partition)
        await asyncio.sleep(0)
        assert not writing.done(), "nothing has advanced"
        log.high_watermark = log.log_end_offset
        broker.groups.advanced(partition)
        assert error_of(await writing) == 0
        assert await reading == {("t", 0): 5}
        await broker.groups.stop()

    asyncio.run(main())


def test_an_append_that_is_not_committed_in_time():
    async def main():
        broker = await started(**{"offsets.commit.timeout.ms": "30"})
        broker.open_logs[broker.groups.partition_of("g")].held = True
        assert error_of(await commit(broker)) == Errors.COORDINATOR_NOT_AVAILABLE.code
        await broker.groups.stop()

    asyncio.run(main())


def test_a_failed_append_is_the_clients_error():
    async def main():
        broker = await started()
        broker.open_logs[broker.groups.partition_of("g")].error = LogError(
            Errors.KAFKA_STORAGE_ERROR.code, "no space left on device"
        )
        assert error_of(await commit(broker)) == Errors.NOT_COORDINATOR.code
        assert await fetched(broker) == {}
        await broker.groups.stop()

    asyncio.run(main())


class MemoryDurability:
    """A write-ahead log whose failure the test causes."""

    def __init__(self):
        self.waiting = []

    def when_durable(self, log, done, failed):
        self.waiting.append(failed)

    def fail(self):
        waiting, self.waiting = self.waiting, []
        for failed in waiting:
            failed()


def test_a_write_ahead_log_that_fails_unloads_the_partition():
    """Otherwise every later answer queues behind one that never comes."""

    async def main():
        broker = await started()
        broker.logs.durability = durability = MemoryDurability()
        log = broker.open_logs[broker.groups.partition_of("g")]
        log.held = log.in_commit_mode = True
        writing = [asyncio.ensure_future(commit(broker)) for _ in range(2)]
        reading = asyncio.ensure_future(fetched(broker))
        await asyncio.sleep(0)
        assert broker.groups.coordinates("g")
        log.failed = True
        durability.fail()
        for each in writing:
            assert error_of(await each) == Errors.NOT_COORDINATOR.code
        with pytest.raises(KafkaError, match="NOT_COORDINATOR"):
            await reading
        with pytest.raises(KafkaError, match="NOT_COORDINATOR"):
            await commit(broker)
        assert not broker.groups.coordinates("g")
        other = next(f"g{i}" for i in range(100) if broker.groups.coordinates(f"g{i}"))
        assert error_of(await commit(broker, other)) == 0
        await broker.groups.stop()

    asyncio.run(main())


def test_a_log_that_takes_no_more_records_unloads_the_partition():
    async def main():
        broker = await started()
        log = broker.open_logs[broker.groups.partition_of("g")]
        log.failed = True
        log.error = LogError(Errors.KAFKA_STORAGE_ERROR.code, "no space left on device")
        assert error_of(await commit(broker)) == Errors.NOT_COORDINATOR.code
        await asyncio.sleep(0)
        with pytest.raises(KafkaError, match="NOT_COORDINATOR"):
            await fetched(broker)
        assert not broker.groups.coordinates("g")
        await broker.groups.stop()

    asyncio.run(main())


def test_a_log_whose_end_was_compacted_away_is_read():
    async def main():
        broker = await started()
        assert error_of(await commit(broker, "g", 7)) == 0
        log = broker.open_logs[broker.groups.partition_of("g")]
        log.log_end_offset += 5
        log.high_watermark = log.log_end_offset
        await broker.groups.stop()
        again = FakeBroker()
        again.host(broker.open_logs)
        again.groups.start()
        assert await fetched(again) == {("t", 0): 7}
        await again.groups.stop()

    asyncio.run(main())


def test_a_group_is_not_written_with_fewer_replicas_than_are_asked_for():
    async def main():
        broker = await started(**{"min.insync.replicas": "2"})
        assert error_of(await commit(broker)) == Errors.COORDINATOR_NOT_AVAILABLE.code
        assert await fetched(broker) == {}
        assert not any(log.batches for log in broker.open_logs)
        await broker.groups.stop()
        alone = await started(replicas=(1,), **{"min.insync.replicas": "2"})
        assert error_of(await commit(alone)) == 0
        await alone.groups.stop()

    asyncio.run(main())


def test_a_group_too_large_for_a_batch():
    async def main():
        broker = await started(**{"message.max.bytes": "100"})
        assert error_of(await commit(broker)) == Errors.UNKNOWN_SERVER_ERROR.code
        await broker.groups.stop()

    asyncio.run(main())


def test_expired_offsets_go_in_batches_that_fit():
    async def main():
        broker = await started(**{"message.max.bytes": "2000"})
        for i in range(100):
            assert error_of(await commit(broker, f"group-{i}")) == 0
        await broker.groups.expire(wall_ms() + 8 * 24 * 3600 * 1000)
        assert not any(shard.state.groups for _, shard in broker.groups.shards())
        assert all(len(batch) <= 2000 for log in broker.open_logs for _, batch in log.batches)
        await broker.groups.stop()

    asyncio.run(main())


def test_timers_run_on_the_loop():
    async def main():
        broker = await started(**{"group.min.session.timeout.ms": "1"})
        first = await join(broker, session_ms=50)
        assert (first.error_code, first.generation_id) == (0, 1)
        assert broker.groups.is_alarm_set
        group = broker.groups.shard_of("g").state.classic("g")
        await wait_until_async(lambda: not group.members, "its session does not end")
        assert not broker.groups.is_alarm_set, "an idle coordinator sets no alarm"
        await broker.groups.stop()

    asyncio.run(main())


def test_a_bug_in_the_timer_of_one_group_leaves_the_others_theirs(monkeypatch):
    async def main():
        broker = await started(**{"group.min.session.timeout.ms": "1"})
        names = [f"group-{number}" for number in range(6)]
        for name in names:
            assert (await join(broker, name, session_ms=50)).error_code == 0
        groups = {name: broker.groups.shard_of(name).state.classic(name) for name in names}
        monkeypatch.setattr(groups[names[0]], "members", None)
        await wait_until_async(
            lambda: not any(groups[name].members for name in names[1:]), "they wait for it"
        )
        await broker.groups.stop()

    asyncio.run(main())


def test_a_timer_rings_once():
    """Rounding through seconds may make a time one ms earlier; a timer that is due then must still fire."""
    session_ms = 50
    due_ms = next(
        each
        for each in range(1_000_000, 2_000_000)
        if int(each / 1000 * 1000) < each and int((each - session_ms) / 1000 * 1000) == each - session_ms
    )

    async def main():
        loop = asyncio.get_running_loop()
        loop.time = lambda: (due_ms - session_ms) / 1000
        broker = await started(**{"group.min.session.timeout.ms": "1"})
        await join(broker, session_ms=session_ms)
        group = broker.groups.shard_of("g").state.classic("g")
        loop.time = lambda: due_ms / 1000
        for _ in range(5):
            await asyncio.sleep(0)
        assert not group.members, "its session does not end while the clock stands still"
        await broker.groups.stop()

    asyncio.run(main())


def test_stopping_answers_those_who_wait():
    async def main():
        broker = await started(**{"group.initial.rebalance.delay.ms": "60000"})
        waiting = asyncio.ensure_future(join(broker))
        broker.open_logs[broker.groups.partition_of("other")].held = True
        writing = asyncio.ensure_future(commit(broker, "other"))
        await pause_async(0.01, "both begin to wait; they are answered at any moment")
        await broker.groups.stop()
        assert (await waiting).error_code == Errors.NOT_COORDINATOR.code
        assert error_of(await writing) == Errors.NOT_COORDINATOR.code
        with pytest.raises(KafkaError):
            await fetched(broker)

    asyncio.run(main())


def test_a_stopped_coordinator_does_not_come_back_without_its_offsets():
    """Requests taken before the stop are handled after it: FindCoordinator must not load the shard again."""

    async def main():
        broker = await started()
        assert error_of(await commit(broker, offset=7)) == 0
        await broker.groups.stop()
        with pytest.raises(KafkaError, match="COORDINATOR_NOT_AVAILABLE"):
            await broker.groups.ensure_topic()
        with pytest.raises(KafkaError, match="NOT_COORDINATOR"):
            await fetched(broker)

    asyncio.run(main())


def test_a_stop_while_the_topic_is_made():
    async def main():
        broker = FakeBroker()
        broker.groups.start()
        making = asyncio.ensure_future(broker.groups.ensure_topic())
        await asyncio.sleep(0)
        await broker.groups.stop()
        with pytest.raises(KafkaError, match="COORDINATOR_NOT_AVAILABLE"):
            await making

    asyncio.run(main())


def test_a_handler_that_went_away_is_not_answered():
    async def main():
        broker = await started(**{"group.initial.rebalance.delay.ms": "20"})
        waiting = asyncio.ensure_future(join(broker))
        await asyncio.sleep(0)
        waiting.cancel()
        group = broker.groups.shard_of("g").state.classic("g")
        await wait_until_async(lambda: group.generation == 1)
        await broker.groups.stop()

    asyncio.run(main())


def test_offsets_go_with_their_topic_and_groups_with_theirs():
    async def main():
        broker = await started()
        await commit(broker)
        broker.groups.topic_deleted("t", b"i" * 16)
        assert await fetched(broker) == {}
        del broker.topics[TOPIC]
        broker.groups.topic_deleted(TOPIC, b"o" * 16)
        with pytest.raises(KafkaError):
            await fetched(broker)
        await broker.groups.ensure_topic()
        assert await fetched(broker) == {}
        await broker.groups.stop()

    asyncio.run(main())


def test_large_logs_are_read_beside_the_control_thread():
    async def main():
        first = await started()
        for i in range(300):
            await commit(first, f"group-{i}", i)
        await first.groups.stop()
        broker = FakeBroker(replayed_at_once_bytes=0, read_bytes=1_000)
        broker.host(first.open_logs)
        broker.groups.start()
        with pytest.raises(KafkaError) as refused:
            await fetched(broker, "group-0")
        assert refused.value.error is Errors.COORDINATOR_LOAD_IN_PROGRESS
        with pytest.raises(KafkaError):
            list(broker.groups.shards())
        await wait_until_async(lambda: not broker.groups.is_loading)
        for i in range(300):
            assert await fetched(broker, f"group-{i}") == {("t", 0): i}
        await broker.groups.stop()

    asyncio.run(main())


def test_stopping_while_logs_are_read():
    async def main():
        first = await started()
        await commit(first)
        await first.groups.stop()
        broker = FakeBroker(replayed_at_once_bytes=0)
        broker.host(first.open_logs)
        broker.groups.start()
        await broker.groups.stop()
        assert not broker.groups.is_loading

    asyncio.run(main())


def test_a_log_that_cannot_be_read_takes_only_its_own_groups(caplog):
    async def main():
        first = await started()
        groups = {}
        for i in itertools.count():
            groups.setdefault(first.groups.partition_of(f"group-{i}"), f"group-{i}")
            if len(groups) == 2:
                break
        for group in groups.values():
            await commit(first, group)
        await first.groups.stop()
        (base_offset, batch) = first.open_logs[0].batches[0]
        first.open_logs[0].batches[0] = (base_offset, batch[:-1] + bytes([batch[-1] ^ 1]))
        broker = FakeBroker()
        broker.host(first.open_logs)
        broker.groups.start()
        assert await fetched(broker, groups[1]) == {("t", 0): 5}
        assert await refusal(fetched(broker, groups[0])) is Errors.COORDINATOR_NOT_AVAILABLE
        await broker.groups.stop()

    asyncio.run(main())
    assert f"{TOPIC}-0" in " ".join(str(record.__dict__.get("facts")) for record in caplog.records)


def record(group, offset):
    committed = CommittedOffset(offset, -1, "", 0, -1, bytes(16), -1)
    key, value = records.offset_commit(group, "t", 0, committed)
    return key, value, 0, ()


def test_replay_of_transactions():
    log = MemoryLog()
    marker = {"control": True, "transactional": True}
    log.append(encode_batch([record("a", 1), record("b", 1)]), 0, 0)
    log.append(encode_batch([record("a", 2)], transactional=True, producer_id=7, producer_epoch=0), 0, 0)
    log.append(encode_batch([record("b", 2)], transactional=True, producer_id=8, producer_epoch=0), 0, 0)
    log.append(encode_batch([record("c", 2)], transactional=True, producer_id=9, producer_epoch=0), 0, 0)
    log.append(encode_batch([(b"\0\0\0\1", b"\0\0\0\0\0\0", 0, ())], producer_id=7, **marker), 0, 0)
    log.append(encode_batch([(b"\0\0\0\0", b"\0\0\0\0\0\0", 0, ())], producer_id=8, **marker), 0, 0)
    shard = GroupShard(GroupConfig(), str)
    replay_log(log, shard.replay, lambda: True)
    shard.loaded(0)
    assert shard.offsets.get("a", "t", 0).offset == 2
    assert shard.offsets.get("b", "t", 0).offset == 1
    assert shard.offsets.get("c", "t", 0) is None
    assert shard.offsets.is_unstable("c", "t", 0)
    assert not shard.offsets.has_open_transactions("a")


def test_replay_reads_what_compaction_has_thinned():
    log = MemoryLog()
    log.append(encode_batch([record("a", 1)]), 0, 0)
    log.log_end_offset = 10
    log.append(encode_batch([record("a", 2)]), 0, 0)
    seen = []

    class Spy(Replay):
        def add(self, offsets, keys, values, producer_id=NO_PRODUCER):
            seen.extend(offsets)
            super().add(offsets, keys, values, producer_id)

    shard = GroupShard(GroupConfig(), str)
    replay_log(log, Spy(shard.state), lambda: True)
    assert seen == [0, 10]
    assert decode_batches(log.read(10, 1, ""))[0].offset == 10
    assert shard.offsets.get("a", "t", 0).record_offset == 10


def test_sync_through_the_shell():
    async def main():
        broker = await started()
        joined = await join(broker)
        request = SyncGroupRequest(group_id="g", generation_id=1, member_id=joined.member_id)
        answer = await broker.groups.ask("g", lambda shard, token, now: shard.sync(request, token, now))
        assert answer.error_code == 0
        (listed,) = [each for _, shard in broker.groups.shards() for each in shard.list_groups()]
        assert listed.group_state == "Stable"
        await broker.groups.stop()

    asyncio.run(main())


def test_heartbeats_that_change_nothing_are_answered_at_once():
    async def main():
        broker = await started(**{"group.min.session.timeout.ms": "1"})
        joined = await join(broker, session_ms=60)
        partition = broker.groups.partition_of("g")
        log = broker.open_logs[partition]
        neighbour = next(
            each for each in map(str, range(99)) if broker.groups.partition_of(each) == partition
        )
        sync = SyncGroupRequest(group_id="g", generation_id=1, member_id=joined.member_id)
        await broker.groups.ask("g", lambda shard, token, now: shard.sync(sync, token, now))

        def beat(member_id=joined.member_id, generation=1):
            request = HeartbeatRequest(group_id="g", generation_id=generation, member_id=member_id)
            return broker.groups.heartbeat_at_once(
                "g", member_id, lambda state: only_kept_alive(state, request)
            )

        for _ in range(10):
            await pause_async(0.02, "longer than the session in all")
            assert beat().response.error_code == 0
        assert beat("other") is None and beat(generation=2) is None, "errors are told by the long way"
        log.held = True
        writing = asyncio.ensure_future(commit(broker, neighbour))
        await pause_async(0.01, "until it is written")
        assert beat() is None, "its answer waits for what was written before"
        log.high_watermark = log.log_end_offset
        broker.groups.advanced(partition)
        await writing
        assert beat().response.error_code == 0
        group = broker.groups.shard_of("g").state.classic("g")
        await wait_until_async(lambda: not group.members, "its session does not end")
        assert beat() is None
        await broker.groups.stop()

    asyncio.run(main())
