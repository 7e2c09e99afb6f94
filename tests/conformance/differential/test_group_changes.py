"""Changes of groups that no member requests: timeouts, restarts of static members, too many members."""

from typing import Any

from tests.conformance.differential.compare import conversation
from tests.conformance.differential.membership import (
    NOBODY,
    begin_join,
    describe,
    enter,
    heartbeat,
    join,
    leave,
    protocols,
    stable,
    sync,
)
from tests.conformance.differential.settings import LARGEST_GROUP, SHORTEST_SESSION_MS
from tests.conformance.differential.talk import Pending, Talk
from tests.support.waiting import pause

VERSIONS = range(9, 10)
# All sessions and rebalances here are short.
ATTEMPTS = 5
SHORT: dict[str, Any] = {
    "session_timeout_ms": SHORTEST_SESSION_MS,
    "rebalance_timeout_ms": SHORTEST_SESSION_MS,
}
QUICK_REBALANCE: dict[str, Any] = {"rebalance_timeout_ms": SHORTEST_SESSION_MS}


def until_state(talk: Talk, group: str, state: str) -> None:
    """Waits until DescribeGroups returns that state."""
    talk.until(lambda answer: answer.groups[0].group_state == state, "DescribeGroups", 5, groups=[group])


def until_rebalancing(talk: Talk, group: str, member: str, generation: int) -> None:
    """Waits until the member's Heartbeat is answered with REBALANCE_IN_PROGRESS."""
    fields: dict[str, Any] = {"group_id": group, "generation_id": generation, "member_id": member}
    talk.until(lambda answer: answer.error_code == 27, "Heartbeat", 4, **fields)


@conversation(VERSIONS, attempts=ATTEMPTS)
def test_a_session_ends(talk: Talk) -> None:
    for note, instance in (("dynamic", None), ("static", "i")):
        group = talk.name(note)
        mine, generation = stable(talk, group, group_instance_id=instance, **SHORT)
        until_state(talk, group, "Empty")
        describe(talk, note, group)
        heartbeat(talk, note, group, mine, generation, group_instance_id=instance)
        join(talk, note, group, mine, group_instance_id=instance)


@conversation(VERSIONS, attempts=ATTEMPTS)
def test_an_id_is_not_used(talk: Talk) -> None:
    group = talk.name("g")
    mine = join(talk, "without id", group, **SHORT).member_id
    pause(5 * SHORTEST_SESSION_MS / 1000, "nobody uses the id, which no request shows")
    join(talk, "too late", group, mine)
    describe(talk, "afterwards", group)


@conversation(VERSIONS, attempts=ATTEMPTS)
def test_a_member_does_not_join_again(talk: Talk) -> None:
    group = talk.name("g")
    one, _ = stable(talk, group, on="a", **QUICK_REBALANCE)
    two = enter(talk, "second", group, on="b", **QUICK_REBALANCE).answer().member_id
    heartbeat(talk, "first", group, one, 1)
    heartbeat(talk, "first, new generation", group, one, 2)
    sync(talk, "second", group, two, 2, {two: b"all"}).answer()
    describe(talk, "second alone", group)
    leave(talk, "second", group, two)


@conversation(VERSIONS, attempts=ATTEMPTS)
def test_a_member_does_not_sync(talk: Talk) -> None:
    group = talk.name("g")
    mine = enter(talk, "join", group, **QUICK_REBALANCE).answer().member_id
    until_state(talk, group, "Empty")
    describe(talk, "afterwards", group)
    heartbeat(talk, "afterwards", group, mine, 1)
    sync(talk, "afterwards", group, mine, 1, {mine: b"x"}).answer()


@conversation(VERSIONS, attempts=ATTEMPTS)
def test_a_leader_does_not_sync(talk: Talk) -> None:
    group = talk.name("g")
    one, _ = stable(talk, group, on="a", **QUICK_REBALANCE)
    pending = enter(talk, "second", group, on="b", **QUICK_REBALANCE)
    until_rebalancing(talk, group, one, 1)
    begin_join(talk, "first again", group, one, on="a", **QUICK_REBALANCE).answer()
    two = pending.answer().member_id
    sync(talk, "second", group, two, 2, {}, on="b").answer()
    heartbeat(talk, "first", group, one, 2)
    join(talk, "second again", group, two, on="b")
    leave(talk, "second", group, two)


def two_static(talk: Talk, group: str) -> tuple[str, str]:
    """A stable group of i1, the leader, and i2; returns their member ids."""
    one, _ = stable(talk, group, on="a", group_instance_id="i1")
    pending = begin_join(talk, "i2", group, on="b", group_instance_id="i2")
    until_rebalancing(talk, group, one, 1)
    begin_join(talk, "i1 again", group, one, on="a", group_instance_id="i1").answer()
    two = pending.answer().member_id
    waiting = sync(talk, "i2", group, two, 2, {}, on="b", group_instance_id="i2")
    sync(talk, "i1", group, one, 2, {one: b"1", two: b"2"}, on="a", group_instance_id="i1").answer()
    waiting.answer()
    return one, two


@conversation(VERSIONS)
def test_a_static_follower_restarts(talk: Talk) -> None:
    group = talk.name("g")
    one, two = two_static(talk, group)
    answer = join(talk, "i2 restarts", group, on="b", group_instance_id="i2")
    heartbeat(talk, "i2 by its old id", group, two, 2, group_instance_id="i2")
    heartbeat(talk, "i1 needs to do nothing", group, one, 2, group_instance_id="i1")
    sync(talk, "i2", group, answer.member_id, 2, {}, on="b", group_instance_id="i2").answer()
    describe(talk, "after the restart", group)
    other: dict[str, Any] = {"group_instance_id": "i2", "protocols": protocols("sticky", "range")}
    join(talk, "i2 restarts with another preference", group, on="b", **other)
    heartbeat(talk, "i1 still needs to do nothing", group, one, 2, group_instance_id="i1")
    answer = join(talk, "i1 restarts, the leader", group, on="a", group_instance_id="i1")
    describe(talk, "after both restarts", group)
    leave(talk, "both", group, *({"member_id": "", "group_instance_id": each} for each in ("i1", "i2")))


@conversation(VERSIONS)
def test_a_static_member_restarts_while_joining(talk: Talk) -> None:
    group = talk.name("g")
    one, two = two_static(talk, group)
    first = begin_join(talk, "i1 joins again", group, one, on="a", group_instance_id="i1")
    until_rebalancing(talk, group, two, 2)
    again = begin_join(talk, "i1 restarts", group, on="c", group_instance_id="i1")
    first.answer()
    begin_join(talk, "i2", group, two, on="b", group_instance_id="i2").answer()
    new = again.answer().member_id
    waiting = sync(talk, "i2 waits", group, two, 3, {}, on="b", group_instance_id="i2")
    talk.until(
        lambda answer: answer.groups[0].group_state == "CompletingRebalance",
        "DescribeGroups",
        5,
        groups=[group],
    )
    restarted: Pending = begin_join(talk, "i2 restarts while it waits", group, on="c", group_instance_id="i2")
    waiting.answer()
    heartbeat(talk, "i1", group, new, 3, group_instance_id="i1")
    describe(talk, "a new rebalance", group)
    begin_join(talk, "i1 once more", group, new, on="a", group_instance_id="i1").answer()
    restarted.answer()
    leave(talk, "both", group, *({"member_id": "", "group_instance_id": each} for each in ("i1", "i2")))


@conversation(VERSIONS)
def test_too_many_members(talk: Talk) -> None:
    group = talk.name("g")
    names = [f"i{number}" for number in range(LARGEST_GROUP)]
    one, _ = stable(talk, group, on=names[0], group_instance_id=names[0])
    pending = [begin_join(talk, name, group, on=name, group_instance_id=name) for name in names[1:]]
    talk.until(
        lambda answer: len(answer.groups[0].members) == LARGEST_GROUP, "DescribeGroups", 5, groups=[group]
    )
    another = join(talk, "one more while it rebalances", group).member_id
    # The rebalance would wait for it.
    leave(talk, "one more", group, another)
    begin_join(talk, "the first", group, one, on=names[0], group_instance_id=names[0]).answer()
    for each in pending:
        each.answer()
    join(talk, "one more", group)
    join(talk, "one more, static", group, group_instance_id="more")
    join(talk, "one more, once member", group, NOBODY)
    leave(talk, "all", group, *({"member_id": "", "group_instance_id": name} for name in names))
