"""Classic groups become consumer groups and classic ones again."""

import pytest

from bowstring._native.protocol.message_codec import encode
from bowstring.engine.groups.classic.group import ClassicGroup, GroupState
from bowstring.engine.groups.consumer.group import ConsumerGroup
from bowstring.engine.groups.consumer.member import MemberState
from bowstring.engine.groups.consumer_protocol import encoded_assignment
from bowstring.protocol.errors import Errors
from bowstring.protocol.records.consumer_protocol import (
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from tests.support.consumer_group_harness import ConsumerShell, Member


def shell_with(policy="bidirectional", **config):
    shell = ConsumerShell(
        group_consumer_migration_policy=policy, group_initial_rebalance_delay_ms=0, **config
    )
    shell.create("t", 4)
    return shell


def classic(shell, rounds=8):
    member = shell.classic_member("t")
    for _ in range(rounds):
        member.step()
        shell.advance(1)
    assert member.partitions == [0, 1, 2, 3]
    return member


def together(shell, *members, rounds=20):
    for _ in range(rounds):
        for member in members:
            member.step()
        shell.advance(1)


def test_up_and_down():
    shell = shell_with()
    old = classic(shell)
    new = Member(shell, "new", "t")
    together(shell, old, new)
    assert sorted(old.partitions + new.partitions) == [0, 1, 2, 3]
    assert len(old.partitions) == 2
    shell.restart()
    group = shell.consumer_group()
    assert (group.classic_count, len(group.members)) == (1, 2)
    together(shell, old, new)
    assert shell.consumer_group().epoch == group.epoch
    new.leave()
    assert isinstance(shell.shard.state.groups["g"], ClassicGroup)
    together(shell, old)
    assert old.partitions == [0, 1, 2, 3]
    shell.restart()
    assert isinstance(shell.shard.state.groups["g"], ClassicGroup)
    together(shell, old)
    assert (old.error, old.partitions) == (0, [0, 1, 2, 3])


@pytest.mark.parametrize(
    ("policy", "up", "down"),
    [
        ("bidirectional", True, True),
        ("upgrade", True, False),
        ("downgrade", False, True),
        ("disabled", False, False),
    ],
)
def test_the_policy(policy, up, down):
    shell = shell_with(policy)
    old = classic(shell)
    answer = Member(shell, "new", "t").step()
    assert answer.error_code == (0 if up else Errors.GROUP_ID_NOT_FOUND.code)
    assert isinstance(shell.shard.state.groups["g"], ConsumerGroup if up else ClassicGroup)
    old.leave()
    other = Member(shell, "o", "t")
    other.shell.beat("o", 0, group="h", owned={}, rebalance_timeout_ms=9, subscribed_topic_names=["t"])
    joined = shell.ask(shell.join("c", group="h"))
    assert joined.error_code == (0 if policy != "disabled" else Errors.INCONSISTENT_GROUP_PROTOCOL.code)
    shell.beat("o", -1, group="h")
    kind = ClassicGroup if down and policy != "disabled" else ConsumerGroup
    assert isinstance(shell.shard.state.groups["h"], kind)


def test_a_failed_upgrade_leaves_the_classic_group():
    shell = shell_with()
    old = classic(shell)
    shell.fail = Errors.NOT_ENOUGH_REPLICAS
    assert Member(shell, "new", "t").step().error_code == Errors.COORDINATOR_NOT_AVAILABLE.code
    shell.fail = None
    assert isinstance(shell.shard.state.groups["g"], ClassicGroup)
    together(shell, old)
    assert (old.error, old.partitions) == (0, [0, 1, 2, 3])


def test_a_failed_downgrade_leaves_the_consumer_group():
    shell = shell_with()
    old, new = classic(shell), Member(shell, "new", "t")
    together(shell, old, new)
    before = shell.consumer_group()
    shell.fail = Errors.NOT_ENOUGH_REPLICAS
    new.leave()
    shell.fail = None
    assert shell.consumer_group() is before


def test_members_that_join_for_the_first_time_are_waited_for():
    shell = ConsumerShell(group_initial_rebalance_delay_ms=5_000)
    shell.create("t", 1)
    shell.join_twice()
    error = Member(shell, "new", "t").step().error_code
    assert error == Errors.COORDINATOR_LOAD_IN_PROGRESS.code
    shell.advance(5_000)
    assert Member(shell, "new", "t").step().error_code == 0


def test_a_classic_member_that_does_not_rejoin_is_removed():
    shell = shell_with()
    old, new = classic(shell), Member(shell, "new", "t")
    new.step()
    assert shell.heartbeat(old.member_id, old.generation) == Errors.REBALANCE_IN_PROGRESS.code
    for _ in range(8):
        shell.advance(9_000)
        shell.heartbeat(old.member_id, old.generation)
        new.step()
    assert set(shell.consumer_group().members) == {"new"}


def test_a_classic_member_that_does_not_sync_is_removed():
    shell = shell_with()
    old, new = classic(shell), Member(shell, "new", "t")
    new.step()
    joined = shell.ask(shell.join(old.member_id, rebalance_ms=2_000))
    shell.advance(1_999)
    assert old.member_id in shell.consumer_group().members
    shell.advance(1)
    assert old.member_id not in shell.consumer_group().members
    assert shell.ask(shell.sync(old.member_id, joined.generation_id)).error_code == (
        Errors.UNKNOWN_MEMBER_ID.code
    )


def cooperative(*owned):
    """How a cooperative consumer joins that still has partitions."""
    topics = [ConsumerProtocolSubscriptionTopicPartition(topic="t", partitions=list(owned))] if owned else []
    body = ConsumerProtocolSubscription(topics=["t"], owned_partitions=topics, generation_id=1)
    return {"protocols": [("range", b"\x00\x02" + encode(body, 2))]}


def rejoined(shell, old):
    """Lets another classic member join, and `old` rejoin with its partitions; returns ids and generation."""
    other, waits = shell.join_twice(**cooperative())
    assert shell.heartbeat(old.member_id, old.generation) == Errors.REBALANCE_IN_PROGRESS.code
    joined = shell.ask(shell.join(old.member_id, **cooperative(0, 1, 2, 3)))
    assert shell.ask(waits).generation_id == joined.generation_id
    assert joined.leader == old.member_id
    return other, joined.generation_id


def test_an_upgrade_in_a_rebalance_leaves_members_what_they_use():
    """A rebalance that restarts before its leader has assigned makes no partition free."""
    shell = shell_with()
    old = classic(shell)
    rejoined(shell, old)
    shell.join_twice(**cooperative())
    new = Member(shell, "new", "t")
    new.step()
    assert new.partitions == []
    member = shell.consumer_group().members[old.member_id]
    assert [sorted(indexes) for indexes in member.assigned.values()] == [[0, 1, 2, 3]]


def test_an_upgrade_waits_for_what_a_member_is_about_to_give_up():
    """Cooperative members use partitions until they have the assignment without them, and then rejoin."""
    shell = shell_with()
    old = classic(shell)
    other, generation = rejoined(shell, old)
    plan = {old.member_id: encoded_assignment(1, {"t": [0, 1]}), other: encoded_assignment(1, {})}
    assert shell.ask(shell.sync(old.member_id, generation, plan)).error_code == 0
    new = Member(shell, "new", "t")
    new.step()
    new.step()
    assert new.partitions == []
    assert shell.consumer_group().members[old.member_id].state is MemberState.UNREVOKED_PARTITIONS
    shell.restart()
    assert shell.heartbeat(old.member_id, generation) == Errors.REBALANCE_IN_PROGRESS.code
    assert shell.ask(shell.join(old.member_id, **cooperative(0, 1))).error_code == 0
    new.step()
    assert new.partitions != []


def test_a_downgrade_by_a_static_member_rebalances_who_waits():
    """A stable classic group leaves partitions unassigned if a member still waited for them."""
    shell = shell_with()
    static = Member(shell, "s1", "t", instance_id="i")
    together(shell, static)
    olds = [shell.classic_member("t")]
    together(shell, *olds, static)
    olds.append(shell.classic_member("t"))
    for _ in range(3):
        olds[1].step()  # it waits for partitions of the others
    waiting = shell.consumer_group().members[olds[1].member_id]
    assert waiting.state is MemberState.UNRELEASED_PARTITIONS
    static.leave(-2)
    shell.join(instance="i")
    assert isinstance(shell.shard.state.groups["g"], ClassicGroup)
    assert shell.group().state is GroupState.PREPARING_REBALANCE


def test_a_classic_member_that_was_removed_hears_so_when_it_rejoins():
    """A cooperative one would keep its partitions until it has synced."""
    shell = shell_with()
    old, new = classic(shell), Member(shell, "new", "t")
    new.step()
    shell.leave(old.member_id)
    again = shell.ask(shell.join(old.member_id, **cooperative(0, 1, 2, 3)))
    assert again.error_code == Errors.UNKNOWN_MEMBER_ID.code
    assert shell.ask(shell.join("given before", **cooperative())).error_code == 0
