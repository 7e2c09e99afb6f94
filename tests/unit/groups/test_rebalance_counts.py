"""Rebalances are counted by group type, as Kafka counts them."""

from tests.support.consumer_group_harness import ConsumerShell, Member
from tests.support.group_harness import Shell
from tests.support.share_group_harness import ShareMember, ShareShell
from tests.support.streams_group_harness import StreamsMember, StreamsShell
from tests.support.streams_topologies import subtopology, topology


def counted(shell):
    return dict(shell.shard.state.rebalances)


def test_a_classic_groups_count_when_its_assignment_is_there():
    shell = Shell()
    shell.members(2)
    assert counted(shell) == {}
    shell.assign(list(shell.group().members))
    assert counted(shell) == {"classic": 1}


def test_a_consumer_groups_count_when_members_join_but_not_when_they_leave():
    shell = ConsumerShell()
    shell.create("t", 2)
    first, second = Member(shell, "a", "t"), Member(shell, "b", "t")
    for member in (first, first, second):
        member.step()
    assert counted(shell) == {"consumer": 2}
    shell.beat("b", -1)
    assert counted(shell) == {"consumer": 2}


def test_a_share_groups_count_again_when_its_partitions_have_state():
    shell = ShareShell()
    shell.create("t", 2)
    member = ShareMember(shell, "a", "t")
    member.step()
    shell.initialized()
    member.step()
    member.step()
    assert counted(shell) == {"share": 2}


def test_a_streams_groups_count():
    shell = StreamsShell()
    shell.create("t", 4)
    member = StreamsMember(shell, "a", topology(subtopology("0", ["t"])))
    member.step()
    member.step()
    assert counted(shell) == {"streams": 1}
