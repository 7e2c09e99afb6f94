"""The coordinator on replicated partitions: commits wait for followers, and groups move with the leader."""

import asyncio
import random

import pytest

from bowstring._native.log.durability import cuts, durable_to, join, staged_frame
from bowstring.engine.metadata.names import GROUPS_TOPIC as TOPIC
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages.heartbeat import HeartbeatRequest
from bowstring.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.support.coordinators import TOPIC_ID, Coordinators
from tests.support.group_service import commit, error_of, fetched, refusal
from tests.support.group_service import join as join_group
from tests.support.joined_wal import wal_on
from tests.support.waiting import pause_async, wait_until_async


async def still_waits(*answers):
    await pause_async(0.05, "none may be answered; they are answered at any moment")
    assert not any(each.done() for each in answers)


def later(answer):
    return asyncio.ensure_future(answer)


def test_a_commit_waits_for_the_followers(tmp_path):
    brokers = Coordinators(tmp_path)

    async def main():
        brokers.lead(0)
        for each in (1, 2):
            brokers.follow(each, fetches=False)
        writing, reading = later(commit(brokers[0])), later(fetched(brokers[0]))
        brokers.follow(1)
        await wait_until_async(lambda: brokers[1].log.log_end_offset == brokers[0].log.log_end_offset)
        await still_waits(writing, reading)
        brokers.follow(2)
        assert error_of(await writing) == 0
        assert await reading == {("t", 0): 5}
        await brokers.equal()

    brokers.run(main)


def test_commits_one_after_the_other(tmp_path):
    """A lost wake-up would leave the last one waiting."""
    brokers = Coordinators(tmp_path)

    async def main():
        await brokers.elect(0)
        for offset in range(300):
            assert error_of(await commit(brokers[0], f"g{offset % 7}", offset)) == 0
            assert brokers[0].log.high_watermark == brokers[0].log.log_end_offset
        many = [later(commit(brokers[0], f"g{i % 7}", i)) for i in range(300)]
        assert not any(map(error_of, await asyncio.gather(*many)))
        await brokers.equal()

    brokers.run(main)


def test_a_follower_that_leaves_the_isr_holds_nothing_up(tmp_path):
    brokers = Coordinators(tmp_path, count=2)

    async def main():
        brokers.lead(0)
        brokers.follow(1, fetches=False)
        writing = later(commit(brokers[0]))
        await still_waits(writing)
        brokers[0].replicas.set_isr(TOPIC, 0, [0], ineligible=[1])
        assert error_of(await writing) == 0

    brokers.run(main)


def test_too_few_in_sync_replicas(tmp_path):
    brokers = Coordinators(tmp_path, count=2, **{"offsets.commit.timeout.ms": "100"})

    async def main():
        brokers.lead(0)
        brokers.follow(1, fetches=False)
        brokers[0].replicas.set_min_in_sync(TOPIC, 0, 2)
        writing = later(commit(brokers[0], offset=7))
        await asyncio.sleep(0)
        brokers[0].replicas.set_isr(TOPIC, 0, [0], ineligible=[1])
        assert error_of(await writing) == Errors.COORDINATOR_NOT_AVAILABLE.code
        end_offset = brokers[0].log.log_end_offset
        assert error_of(await commit(brokers[0], offset=8)) == Errors.COORDINATOR_NOT_AVAILABLE.code
        assert brokers[0].log.log_end_offset == end_offset, "nothing is written with too few"
        assert await refusal(fetched(brokers[0])) is Errors.COORDINATOR_NOT_AVAILABLE
        brokers.follow(1)
        await wait_until_async(lambda: brokers[1].log.log_end_offset == end_offset)
        brokers[0].replicas.set_isr(TOPIC, 0, [0, 1], ineligible=[])
        await wait_until_async(lambda: brokers[0].log.high_watermark == end_offset)
        assert await fetched(brokers[0]) == {("t", 0): 7}, "it was committed later"

    brokers.run(main)


def test_offsets_and_members_move_with_the_leader(tmp_path):
    brokers = Coordinators(tmp_path)

    async def main():
        await brokers.elect(0)
        joined = await join_group(brokers[0])
        request = SyncGroupRequest(
            group_id="g",
            generation_id=1,
            member_id=joined.member_id,
            assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")],
        )
        answer = await brokers[0].groups.ask("g", lambda shard, token, now: shard.sync(request, token, now))
        assert answer.error_code == 0
        assert error_of(await commit(brokers[0], "other", 7)) == 0
        await brokers.elect(1)
        assert await refusal(fetched(brokers[0], "other")) is Errors.NOT_COORDINATOR
        assert await fetched(brokers[1], "other") == {("t", 0): 7}
        beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=joined.member_id)
        answer = await brokers[1].groups.ask("g", lambda shard, token, now: shard.heartbeat(beat, token))
        assert answer.error_code == 0
        assert brokers[1].groups.is_alarm_set and not brokers[0].groups.is_alarm_set
        answer = await brokers[1].groups.ask("g", lambda shard, token, now: shard.sync(request, token, now))
        assert answer.assignment == b"mine"
        await brokers.equal()

    brokers.run(main)


def test_what_was_not_committed_is_refused_and_goes(tmp_path):
    brokers = Coordinators(tmp_path, count=2)

    async def main():
        await brokers.elect(0)
        assert error_of(await commit(brokers[0], offset=7)) == 0
        await brokers.equal()
        brokers.lead(0)
        brokers.follow(1, fetches=False)
        writing, reading = later(commit(brokers[0], offset=8)), later(fetched(brokers[0]))
        await still_waits(writing, reading)
        brokers.lead(1)
        await brokers.loaded()
        writing_at_1 = later(commit(brokers[1], offset=9))
        brokers.follow(0, tell=False)
        await wait_until_async(lambda: brokers[0].log.leader_epoch == brokers.leader_epoch)
        await wait_until_async(lambda: brokers[0].log.high_watermark == brokers[0].log.log_end_offset)
        await still_waits(writing, reading)
        brokers[0].groups.role_changed(0)
        assert error_of(await writing) == Errors.NOT_COORDINATOR.code
        assert await refusal(reading) is Errors.NOT_COORDINATOR
        assert error_of(await writing_at_1) == 0
        assert await fetched(brokers[1]) == {("t", 0): 9}
        await brokers.equal()

    brokers.run(main)


def test_the_next_epoch_of_the_same_leader_goes_on(tmp_path):
    brokers = Coordinators(tmp_path, count=2)

    async def main():
        brokers.lead(0)
        brokers.follow(1, fetches=False)
        shard = brokers[0].groups.shard_of("g")
        writing = later(commit(brokers[0]))
        await asyncio.sleep(0)
        brokers.lead(0, tell=False)
        assert await refusal(fetched(brokers[0])) is Errors.NOT_COORDINATOR
        brokers[0].groups.role_changed(0)
        await still_waits(writing)
        brokers.follow(1)
        assert error_of(await writing) == 0
        assert brokers[0].groups.shard_of("g") is shard
        await brokers.elect(0, epoch=9)
        assert brokers[0].groups.shard_of("g") is not shard
        assert await fetched(brokers[0]) == {("t", 0): 5}

    brokers.run(main)


def test_a_partition_that_is_stopped(tmp_path):
    brokers = Coordinators(tmp_path, count=2)

    async def main():
        brokers.lead(0)
        brokers.follow(1, fetches=False)
        writing = later(commit(brokers[0]))
        await asyncio.sleep(0)
        brokers[0].replicas.stop(TOPIC, 0)
        assert brokers[0].plane.led_epoch(TOPIC, 0) == -1
        assert await refusal(fetched(brokers[0])) is Errors.NOT_COORDINATOR
        brokers[0].groups.role_changed(0)
        assert error_of(await writing) == Errors.NOT_COORDINATOR.code

    brokers.run(main)


# ---------------------------------------------------------------- commit mode


class ManualWal:
    """A write-ahead log of one broker, with commits called by the test."""

    def __init__(self, broker):
        self.broker = broker
        self.wal = wal_on(broker.served.directory, segments=4)
        broker.plane.wake_by(self.wal)
        broker.plane.set_durability(TOPIC, 0, broker.log, self.wal)
        self.waiting = []
        broker.logs.durability = self

    def when_durable(self, log, done, failed):
        self.waiting.append((log.log_end_offset, cuts(log), done))

    async def commit(self):
        """Waits until something is staged, and commits it."""
        await wait_until_async(lambda: self.wal.staged_frame > self.wal.durable_frame)
        assert self.wal.commit()
        assert staged_frame(self.broker.log) <= self.wal.durable_frame
        waiting, self.waiting = self.waiting, []
        for end_offset, cut, done in waiting:
            durable_to(self.broker.log, end_offset, cuts=cut, advance=False)
            done()

    def close(self):
        self.wal.stop()
        join(self.broker.log, None, TOPIC_ID, 0)


def test_a_commit_waits_for_both_media_in_commit_mode(tmp_path):
    brokers = Coordinators(tmp_path, count=2)
    wals = [ManualWal(each) for each in brokers]

    async def main():
        brokers.lead(0)
        brokers.follow(1)
        for first in (0, 1):
            writing, reading = later(commit(brokers[0], offset=first)), later(fetched(brokers[0]))
            await wait_until_async(lambda: brokers[1].log.log_end_offset == brokers[0].log.log_end_offset)
            await still_waits(writing, reading)
            await wals[first].commit()
            await still_waits(writing, reading)
            assert brokers[0].log.high_watermark < brokers[0].log.log_end_offset
            await wals[1 - first].commit()
            assert error_of(await writing) == 0
            assert await reading == {("t", 0): first}
        await brokers.equal()
        for each in wals:
            each.broker.plane.stop()
            each.close()

    brokers.run(main)


def test_a_leader_without_followers_in_commit_mode(tmp_path):
    brokers = Coordinators(tmp_path, count=1)
    wal = ManualWal(brokers[0])

    async def main():
        brokers.lead(0)
        writing, reading = later(commit(brokers[0])), later(fetched(brokers[0]))
        await still_waits(writing, reading)
        await wal.commit()
        assert error_of(await writing) == 0
        assert await reading == {("t", 0): 5}
        brokers[0].plane.stop()
        wal.close()

    brokers.run(main)


# ---------------------------------------------------------------- any order


@pytest.mark.parametrize("seed", range(6))
def test_committed_offsets_never_go_back(tmp_path, seed):
    """Elections among the ISR, followers that stop and resume fetching, and commits throughout."""
    brokers = Coordinators(tmp_path)
    chance = random.Random(seed)

    async def main():
        asked: dict[str, list[int]] = {f"g{i}": [-1] for i in range(3)}
        acknowledged = dict.fromkeys(asked, -1)
        answers: set[asyncio.Task[None]] = set()

        async def write(group: str, offset: int) -> None:
            try:
                answer = await commit(brokers[brokers.leader], group, offset)
            except KafkaError as error:
                assert error.error in (Errors.NOT_COORDINATOR, Errors.COORDINATOR_LOAD_IN_PROGRESS)
                return
            if error_of(answer) == 0:
                acknowledged[group] = max(acknowledged[group], offset)

        await brokers.elect(0)
        for step in range(60):
            what = chance.random()
            if what < 0.7:
                group = chance.choice(list(asked))
                asked[group].append(step)
                answers.add(later(write(group, step)))
            elif what < 0.85:
                broker = chance.choice([each for each in range(3) if each != brokers.leader])
                brokers.follow(broker, fetches=chance.random() < 0.6)
            else:
                leader = chance.choice(range(3))
                brokers.lead(leader, tell=chance.random() < 0.5)
                for each in range(3):
                    if each != leader:
                        brokers.follow(each, fetches=chance.random() < 0.7, tell=chance.random() < 0.5)
                brokers[leader].groups.role_changed(0)
            for _ in range(chance.randrange(4)):
                await pause_async(chance.choice((0, 0.002)), "fetches and elections meet in any order")
        await brokers.elect(chance.choice(range(3)))
        for each in brokers:
            each.groups.role_changed(0)
        await asyncio.gather(*answers)
        for group, offset in acknowledged.items():
            found = (await fetched(brokers[brokers.leader], group)).get(("t", 0), -1)
            assert found >= offset and found in asked[group]
        await brokers.equal()

    brokers.run(main)
