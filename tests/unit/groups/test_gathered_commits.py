"""Commits of one pass of the control loop, written as one batch: each gets its own answer, whatever happens."""

import asyncio

from bowstring._native.log.partition_log import LogError
from bowstring._native.protocol.commit_requests import decode_commit
from bowstring.engine.groups import service
from bowstring.protocol import encode
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from bowstring.protocol.partitioning import coordinator_partition
from tests.support.group_service import commit, commit_request, error_of, fetched, join, started
from tests.support.waiting import wait_until_async

VERSION = 9


def groups_of_one_partition(count):
    names = (f"g{number}" for number in range(1000))
    return [name for name in names if coordinator_partition(name, 2) == 0][:count]


def gather(broker, group, offset, answers, **fields):
    """Gathers a commit of t-0; returns whether it was taken."""
    request = commit_request(group, offset)
    for name, value in fields.items():
        setattr(request, name, value)
    decoded = decode_commit(VERSION, encode(request, VERSION))
    for topic in decoded.topics:
        topic.topic_id = bytes(16)
    return broker.groups.gather_commit(decoded, lambda error: answers.append((group, offset, error)))


async def with_groups(count=3, **configs):
    """Returns a broker and groups of one partition that have committed before."""
    broker = await started(**configs)
    groups = groups_of_one_partition(count)
    for each in groups:
        assert error_of(await commit(broker, each, 1)) == 0
    return broker, groups


async def finish(broker):
    await broker.groups.stop()


def test_they_are_one_batch_in_their_order():
    async def main():
        broker, groups = await with_groups()
        before = len(broker.plane.appended)
        answers = []
        for offset in (5, 6):
            for each in groups:
                assert gather(broker, each, offset, answers)
        assert not answers, "nothing is answered before it is written"
        broker.groups.write_gathered()
        assert len(broker.plane.appended) == before + 1
        assert answers == [(each, offset, Errors.NONE) for offset in (5, 6) for each in groups]
        for each in groups:
            assert await fetched(broker, each) == {("t", 0): 6}
        shard = broker.groups.shard_of(groups[-1])
        assert shard.offsets.get(groups[-1], "t", 0).record_offset == broker.open_logs[0].log_end_offset - 1
        await finish(broker)

    asyncio.run(main())


def test_they_wait_for_the_high_watermark():
    async def main():
        broker, groups = await with_groups()
        log = broker.open_logs[0]
        log.held = True
        answers = []
        for each in groups:
            assert gather(broker, each, 5, answers)
        broker.groups.write_gathered()
        assert not answers
        reading = asyncio.ensure_future(fetched(broker, groups[0]))
        await asyncio.sleep(0)
        assert not reading.done(), "what is not committed is not answered"
        log.high_watermark = log.log_end_offset
        broker.groups.advanced(0)
        assert answers == [(each, 5, Errors.NONE) for each in groups]
        assert await reading == {("t", 0): 5}
        await finish(broker)

    asyncio.run(main())


def test_a_write_that_fails_answers_each():
    async def main():
        broker, groups = await with_groups()
        broker.open_logs[0].error = LogError(Errors.NOT_ENOUGH_REPLICAS.code, "too few")
        answers = []
        for each in groups:
            assert gather(broker, each, 5, answers)
        broker.groups.write_gathered()
        assert answers == [(each, 5, Errors.COORDINATOR_NOT_AVAILABLE) for each in groups]
        broker.open_logs[0].error = None
        for each in groups:
            assert await fetched(broker, each) == {("t", 0): 1}, "nothing has changed"
        await finish(broker)

    asyncio.run(main())


def test_an_answer_that_fails_stops_no_other():
    async def main():
        broker, groups = await with_groups()
        answers = []
        request = decode_commit(VERSION, encode(commit_request(groups[0], 5), VERSION))
        request.topics[0].topic_id = bytes(16)
        assert broker.groups.gather_commit(request, lambda error: 1 / 0)
        assert gather(broker, groups[1], 5, answers)
        broker.groups.write_gathered()
        assert answers == [(groups[1], 5, Errors.NONE)]
        await finish(broker)

    asyncio.run(main())


def test_the_leader_changes_while_they_wait():
    async def main():
        broker, groups = await with_groups()
        broker.open_logs[0].held = True
        answers = []
        for each in groups:
            assert gather(broker, each, 5, answers)
        broker.groups.write_gathered()
        del broker.plane.led[0]
        broker.groups.role_changed(0)
        assert answers == [(each, 5, Errors.NOT_COORDINATOR) for each in groups]
        assert not gather(broker, groups[0], 6, answers)
        await finish(broker)

    asyncio.run(main())


def test_the_leader_changes_before_they_are_written():
    async def main():
        broker, groups = await with_groups()
        answers = []
        for each in groups:
            assert gather(broker, each, 5, answers)
        end_offset = broker.open_logs[0].log_end_offset
        del broker.plane.led[0]
        broker.groups.role_changed(0)
        assert answers == [(each, 5, Errors.NOT_COORDINATOR) for each in groups]
        assert broker.open_logs[0].log_end_offset == end_offset
        broker.groups.write_gathered()
        assert len(answers) == len(groups)
        await finish(broker)

    asyncio.run(main())


def test_too_few_followers_within_the_time():
    async def main():
        broker, groups = await with_groups(**{"offsets.commit.timeout.ms": "50"})
        broker.open_logs[0].held = True
        answers = []
        for each in groups:
            assert gather(broker, each, 5, answers)
        broker.groups.write_gathered()
        await wait_until_async(lambda: len(answers) == len(groups))
        assert {error for _, _, error in answers} == {Errors.COORDINATOR_NOT_AVAILABLE}
        broker.open_logs[0].high_watermark = broker.open_logs[0].log_end_offset
        broker.groups.advanced(0)
        assert len(answers) == len(groups), "none is answered twice"
        await finish(broker)

    asyncio.run(main())


def test_a_request_behind_them_sees_them():
    """A member that leaves in the same pass: its commit came first, and is written first."""

    async def main():
        broker, (group, *_) = await with_groups()
        member_id = (await join(broker, group)).member_id
        answers = []
        commits = {"member_id": member_id, "generation_id_or_member_epoch": 1}
        leaving = LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=member_id)])
        shard = broker.groups.shard_of(group)
        assert not gather(broker, group, 5, answers, **commits), "the group rebalances"
        shard.state.groups[group].state = shard.state.groups[group].state.STABLE
        assert gather(broker, group, 5, answers, **commits)
        left = await broker.groups.ask(group, lambda shard, token, now: shard.leave(leaving, token, now))
        assert left.members[0].error_code == 0
        assert answers == [(group, 5, Errors.NONE)]
        assert not gather(broker, group, 6, answers, **commits), "it is fenced now"
        assert await fetched(broker, group) == {("t", 0): 5}
        await finish(broker)

    asyncio.run(main())


def test_what_together_is_too_large_for_a_batch():
    async def main():
        broker, groups = await with_groups(**{"message.max.bytes": "180"})
        before = len(broker.plane.appended)
        answers = []
        for each in groups:
            assert gather(broker, each, 5, answers)
        broker.groups.write_gathered()
        assert answers == [(each, 5, Errors.NONE) for each in groups]
        assert len(broker.plane.appended) > before + 1
        await finish(broker)

    asyncio.run(main())


def test_what_has_an_error_is_not_taken():
    async def main():
        broker, (group, *_) = await with_groups(**{"offset.metadata.max.bytes": "3"})
        answers = []
        assert not gather(broker, group, 5, answers, member_id="unknown", generation_id_or_member_epoch=1)
        assert not gather(broker, "a new group", 5, answers)
        request = commit_request(group, 5)
        request.topics[0].partitions[0].committed_metadata = "long"
        decoded = decode_commit(VERSION, encode(request, VERSION))
        assert not broker.groups.gather_commit(decoded, answers.append)
        broker.groups.write_gathered()
        assert not answers
        await finish(broker)

    asyncio.run(main())


def test_small_requests_with_large_records_are_written_before_the_pass_ends():
    """Each record has the name of the group: what is gathered has a bound in bytes of records."""

    async def main():
        name = "g" * 8_000
        broker = await started()
        assert error_of(await commit(broker, name, 1)) == 0
        before = len(broker.plane.appended)
        answers = []

        def large(count):
            request = commit_request(name, 5)
            request.topics[0].partitions *= count
            decoded = decode_commit(VERSION, encode(request, VERSION))
            decoded.topics[0].topic_id = bytes(16)
            return broker.groups.gather_commit(decoded, answers.append)

        assert not large(80), "it has 650 kB of records"
        for _ in range(10):
            assert large(40)
        assert len(answers) >= 9
        broker.groups.write_gathered()
        assert answers == [Errors.NONE] * 10
        written = [size for _, _, size in broker.plane.appended[before:]]
        assert len(written) >= 8 and max(written) <= 512 << 10
        await finish(broker)

    asyncio.run(main())


def test_without_memory_they_are_sent_again(monkeypatch):
    async def main():
        broker, groups = await with_groups()
        monkeypatch.setattr(service, "commit_rows", out_of_memory)
        answers = []
        for each in groups:
            assert gather(broker, each, 5, answers)
        broker.groups.write_gathered()
        assert answers == [(each, 5, Errors.COORDINATOR_NOT_AVAILABLE) for each in groups]
        await finish(broker)

    def out_of_memory(requests, now_ms):
        raise MemoryError

    asyncio.run(main())
