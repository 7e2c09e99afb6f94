"""Records as Apache Kafka writes them, in any order."""

import random

from bowstring.engine.groups.classic.group import ClassicGroup
from bowstring.engine.groups.consumer import records
from bowstring.engine.groups.consumer.group import ConsumerGroup
from bowstring.engine.groups.consumer.member import Member as GroupMember
from bowstring.engine.groups.consumer.member import MemberState
from tests.support.consumer_group_harness import ConsumerShell, Member, settle

# rack `r`, instance `i`, no topics, assignor uniform, and the mark of a member of the new protocol
KAFKAS_MEMBER = b"\0\0\x02i\x02r\rdifferential\x0b/127.0.0.1\x01\x01\x00\x00u0\x08uniform\x01\x00\x01\x00"
# Kafka 4.2 and before: epoch 7 after 6, state 0, partition 3 of topic `t`, without epochs of assignments
OLD_ASSIGNMENT = b"\0\0" + b"\0\0\0\x07\0\0\0\x06\0" + b"\x02" + b"t" * 16 + b"\x02\0\0\0\x03\0" + b"\x01\0"


def loaded(log):
    shell = ConsumerShell()
    shell.log = list(log)
    shell.restart()
    return shell


def test_what_kafka_writes():
    key = records.member("g", GroupMember("a"))[0]
    assignment = records.assignment("g", GroupMember("a"))[0]
    shell = loaded([records.group_epoch("g", 7, 1), (key, KAFKAS_MEMBER), (assignment, OLD_ASSIGNMENT)])
    member = shell.consumer_group().members["a"]
    assert (member.instance_id, member.rack_id, member.rebalance_timeout_ms) == ("i", "r", 30_000)
    assert (member.assignor, member.classic, member.subscribed_regex) == ("uniform", None, "")
    assert (member.member_epoch, member.previous_member_epoch) == (7, 6)
    assert (member.state, member.assigned) == (MemberState.STABLE, {b"t" * 16: {3: 7}})
    assert records.member("g", member)[1] == KAFKAS_MEMBER


def test_the_order_of_keys_does_not_matter():
    shell = ConsumerShell()
    shell.create("one", 3)
    shell.create("two", 4)
    members = [Member(shell, name, "one", "two") for name in "abc"]
    members.append(Member(shell, "r", subscribed_topic_regex="o.*"))
    for member in members:
        member.step()
    shell.resolve()
    settle(*members)
    members.pop(1).leave()
    settle(*members)
    wanted = shell.consumer_group()
    for seed in range(20):
        last = dict(shell.log)
        log = list(last.items())
        random.Random(seed).shuffle(log)
        found = loaded(log).consumer_group()
        for name in (
            "members",
            "target",
            "partition_epochs",
            "topic_counts",
            "regex_topic_counts",
            "resolved",
        ):
            assert getattr(found, name) == getattr(wanted, name), name
        assert (found.epoch, found.assignment_epoch) == (wanted.epoch, wanted.assignment_epoch)


def test_a_group_that_was_deleted_is_not_there():
    shell = ConsumerShell()
    shell.create("t", 1)
    member = Member(shell, "a", "t")
    member.step()
    member.leave()
    group = shell.consumer_group()
    assert loaded([*shell.log, *records.group_tombstones(group)]).shard.state.groups == {}


def test_offsets_alone_make_a_classic_group_and_members_a_consumer_group():
    shell = ConsumerShell()
    shell.create("t", 1)
    shell.commit({("t", 0): 5})
    assert isinstance(shell.shard.state.groups["g"], ClassicGroup)
    Member(shell, "a", "t").step()
    shell.restart()
    assert isinstance(shell.shard.state.groups["g"], ConsumerGroup)
    assert shell.shard.offsets.get("g", "t", 0).offset == 5


def test_a_state_of_a_newer_version_is_fenced_until_the_member_has_nothing():
    shell = ConsumerShell()
    shell.create("t", 1)
    member = Member(shell, "a", "t")
    member.step()
    odd = shell.consumer_group().members["a"]._replace(state=MemberState(55))
    assert odd.state is MemberState.UNKNOWN
    shell.log.append(records.assignment("g", odd))
    shell.restart()
    assert member.step().error_code
    assert member.epoch == 0
    assert member.step().error_code == 0
    assert member.partitions == [0]
