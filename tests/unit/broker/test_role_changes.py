"""Roles that the data plane applies: in short pieces, in order, each partition by itself."""

import asyncio
from collections import defaultdict

import pytest

from bowstring.engine.broker.role_changes import SLICE_NS, RoleChanges
from tests.support.waiting import wait_until_async

COST_NS = 160_000  # of one change, on the clock of the double


class Plane:
    """Applies roles, each for some time on a clock of its own, and notes them by partition."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.calls: dict[tuple[str, int], list[tuple]] = defaultdict(list)
        self.stops: list[int] = []  # how long the reactors stood still, each time
        self.failures: dict[tuple[str, int], list[Exception]] = defaultdict(list)

    def change_roles(self, changes) -> None:
        begin_ns = self.now_ns
        try:
            for method, arguments, named in changes:
                method(*arguments, **named)
        finally:
            self.stops.append(self.now_ns - begin_ns)

    def note(self, what, topic, partition, *facts) -> None:
        self.now_ns += COST_NS
        if self.failures[topic, partition]:
            raise self.failures[topic, partition].pop(0)
        self.calls[topic, partition].append((what, *facts))

    def set_min_in_sync(self, topic, partition, least) -> None:
        self.note("min", topic, partition, least)

    def lead(self, topic, partition, **role) -> None:
        self.note("lead", topic, partition, role["leader_epoch"])

    def follow(self, topic, partition, **role) -> None:
        self.note("follow", topic, partition, role["leader_epoch"])

    def set_isr(self, topic, partition, isr, **changing) -> None:
        self.note("isr", topic, partition, isr)

    def try_join(self, topic, partition, broker_id, *, leader_epoch) -> bool:
        return True

    def stop(self, topic, partition) -> None:
        self.calls[topic, partition].append(("stop",))


@pytest.fixture
def plane():
    return Plane()


@pytest.fixture
def roles(plane):
    return RoleChanges(plane, lambda topic: 2, lambda: plane.now_ns)


def lead(roles, partition, epoch=1):
    roles.lead("topic", partition, leader_epoch=epoch, replicas=(1, 2, 3))


def test_others_have_their_turn_while_thousands_of_partitions_get_their_roles(plane, roles):
    for partition in range(4000):
        lead(roles, partition)

    async def flush():
        longest_ns, last_ns = 0, plane.now_ns
        done = asyncio.ensure_future(roles.flush())
        while not done.done():
            await asyncio.sleep(0)
            longest_ns, last_ns = max(longest_ns, plane.now_ns - last_ns), plane.now_ns
        await done
        return longest_ns

    longest_ns = asyncio.run(flush())
    assert len(plane.calls) == 4000 and not len(roles)
    assert longest_ns <= 4 * SLICE_NS, "of 4,000 roles, which take 1.28 s"
    assert max(plane.stops[1:]) <= SLICE_NS  # before the first its time is not known


def test_a_flush_that_nobody_waits_for_lets_others_have_their_turn_too(plane, roles):
    for partition in range(400):
        lead(roles, partition)

    async def flush():
        roles.flush_soon()
        assert 0 < len(plane.calls) < 400
        await wait_until_async(lambda: not len(roles))

    asyncio.run(flush())
    assert len(plane.calls) == 400


def test_the_changes_of_a_partition_stay_in_order(plane, roles):
    for partition in range(200):
        lead(roles, partition)
        roles.set_isr("topic", partition, (1, 2))
        roles.follow("topic", partition, leader_epoch=2)
    asyncio.run(roles.flush())
    assert set(map(tuple, plane.calls.values())) == {
        (("min", 2), ("lead", 1), ("isr", (1, 2)), ("follow", 2))
    }


def test_a_change_that_fails_as_by_a_bug_loses_none_behind_it(plane, roles, caplog):
    for partition in range(100):
        lead(roles, partition)
    plane.failures["topic", 3] = [KeyError("it is not served here")]
    asyncio.run(roles.flush())
    assert len(plane.calls) == 99
    (line,) = [each for each in caplog.records if "bug: a partition cannot" in each.getMessage()]
    assert line.facts["partition"] == "topic-3"


@pytest.mark.parametrize("failing", [0, 1])
def test_a_lack_of_memory_delays_its_own_partition_which_stays_in_order(plane, caplog, failing):
    roles = RoleChanges(plane, lambda topic: 2, lambda: plane.now_ns, retry_s=0.001)
    for partition in range(100):
        lead(roles, partition)
    failures = [MemoryError(), MemoryError()]
    if failing:
        note = plane.note

        def second(what, topic, partition, *facts):
            if what == "lead" and partition == 3 and failures:
                raise failures.pop()
            note(what, topic, partition, *facts)

        plane.note = second
    else:
        plane.failures["topic", 3] = failures

    async def flush():
        await roles.flush()
        assert len(plane.calls) == 100 - (not failing)
        assert not roles.try_join("topic", 3, 2, leader_epoch=1) and roles.try_join(
            "topic", 4, 2, leader_epoch=1
        )
        roles.set_isr("topic", 3, (1, 2))
        roles.follow("topic", 3, leader_epoch=2)
        await roles.flush()
        await wait_until_async(lambda: len(plane.calls["topic", 3]) == 4)

    asyncio.run(flush())
    assert plane.calls["topic", 3] == [("min", 2), ("lead", 1), ("isr", (1, 2)), ("follow", 2)]
    assert "fix the cause" in caplog.text


def test_a_partition_that_stops_gets_no_role_any_more(plane, roles):
    lead(roles, 0)
    lead(roles, 1)
    roles.stop("topic", 0)
    asyncio.run(roles.flush())
    assert plane.calls["topic", 0] == [("stop",)]
    assert plane.calls["topic", 1] == [("min", 2), ("lead", 1)]


def test_what_waits_is_void_once_the_broker_stops(plane, roles):
    lead(roles, 0)
    roles.close()
    lead(roles, 1)
    asyncio.run(roles.flush())
    assert not plane.calls


def test_a_partition_is_led_when_the_data_plane_has_taken_it_over(plane, roles):
    lead(roles, 0, epoch=3)
    assert roles.epoch_led("topic", 0) is None
    asyncio.run(roles.flush())
    assert roles.epoch_led("topic", 0) == 3
    roles.follow("topic", 0, leader_epoch=4)
    asyncio.run(roles.flush())
    assert roles.epoch_led("topic", 0) is None


def test_a_role_that_waits_does_not_undo_a_later_change_of_the_config(plane):
    least = [1]
    roles = RoleChanges(plane, lambda topic: least[0], lambda: plane.now_ns)
    lead(roles, 0)
    least[0] = 2
    asyncio.run(roles.flush())
    assert plane.calls["topic", 0] == [("min", 2), ("lead", 1)]
