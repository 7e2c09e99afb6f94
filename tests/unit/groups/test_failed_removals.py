"""Members stay known until their removal is in the log: a removal that cannot be written happens later."""

import pytest

from bowstring.engine.groups.classic.group import ClassicGroup
from bowstring.engine.groups.consumer.group import ConsumerGroup
from bowstring.protocol.errors import Errors
from tests.support.consumer_group_harness import ConsumerShell, Member, settle
from tests.support.share_group_harness import ShareShell
from tests.support.streams_group_harness import StreamsMember, StreamsShell
from tests.support.streams_topologies import subtopology, topology

# longer than every session of these tests
SILENCE_MS = 60_000
REFUSED = Errors.COORDINATOR_NOT_AVAILABLE.code


class Silent:
    """A group of each type with one member, which falls silent."""

    def __init__(self, kind):
        self.kind = kind
        self.shell = {"consumer": ConsumerShell, "share": ShareShell, "streams": StreamsShell}[kind]()
        self.shell.create("t", 2)
        if kind == "consumer":
            Member(self.shell, "m", "t").step()
        elif kind == "share":
            self.shell.share_beat("m", 0, "t")
        else:
            StreamsMember(self.shell, "m", topology(subtopology("0", ["t"])), "p").step()

    def leave(self):
        """Returns the error code."""
        if self.kind == "streams":
            return self.shell.streams_beat("m", -1).error_code
        return (self.shell.share_beat if self.kind == "share" else self.shell.beat)("m", -1).error_code

    @property
    def members(self):
        return list(self.shell.shard.state.groups["g"].members)


@pytest.mark.parametrize("kind", ["consumer", "share", "streams"])
def test_a_session_that_ends_while_nothing_can_be_written(kind):
    silent = Silent(kind)
    silent.shell.fail = Errors.NOT_ENOUGH_REPLICAS
    silent.shell.advance(SILENCE_MS)
    assert silent.members == ["m"]
    silent.shell.fail = None
    silent.shell.advance(1_000)
    assert silent.members == []
    assert len(silent.shell.timers) == 0


@pytest.mark.parametrize("kind", ["consumer", "share", "streams"])
def test_a_member_whose_leaving_cannot_be_written(kind):
    silent = Silent(kind)
    silent.shell.fail = Errors.NOT_ENOUGH_REPLICAS
    assert silent.leave() == REFUSED
    silent.shell.fail = None
    assert silent.members == ["m"]
    silent.shell.advance(SILENCE_MS)
    assert silent.members == []


def mixed():
    """A shell with a classic and a new member in one group."""
    shell = ConsumerShell(group_initial_rebalance_delay_ms=0)
    shell.create("t", 4)
    old, new = shell.classic_member("t"), Member(shell, "new", "t")
    for members in ((old,), (new, old)):
        for _ in range(16):
            for member in members:
                member.step()
            shell.advance(1)
    assert sorted(old.partitions + new.partitions) == [0, 1, 2, 3]
    return shell, old, new


def test_a_downgrade_that_cannot_be_written_is_tried_again():
    shell, old, _ = mixed()
    shell.fail = Errors.NOT_ENOUGH_REPLICAS
    for _ in range(20):  # the new member is silent
        shell.advance(SILENCE_MS // 20)
        old.step()
    assert isinstance(shell.shard.state.groups["g"], ConsumerGroup)
    shell.fail = None
    for _ in range(8):
        shell.advance(1_000)
        old.step()
    assert isinstance(shell.shard.state.groups["g"], ClassicGroup)
    assert (old.error, old.partitions) == (0, [0, 1, 2, 3])


def test_who_leaves_hears_that_the_downgrade_could_not_be_written():
    shell, old, new = mixed()
    shell.fail = Errors.NOT_ENOUGH_REPLICAS
    assert new.leave().error_code == REFUSED
    shell.fail = None
    for _ in range(20):
        shell.advance(SILENCE_MS // 20)
        old.step()
    assert (old.error, old.partitions) == (0, [0, 1, 2, 3])


def test_a_downgrade_in_the_log_stays_although_its_answer_comes_too_late():
    """The log and the state must not differ."""
    shell, old, _ = mixed()
    shell.hold = True
    token = shell.send_beat("new", -1)
    shell.release(Errors.REQUEST_TIMED_OUT)
    assert shell.ask(token).error_code == REFUSED
    assert isinstance(shell.shard.state.groups["g"], ClassicGroup)
    shell.restart()
    for _ in range(8):
        shell.advance(1_000)
        old.step()
    assert (old.error, old.partitions) == (0, [0, 1, 2, 3])


def test_a_downgraded_group_rebalances_although_the_coordinator_moves():
    """The partitions of the member that left have no owner until then."""
    shell, old, new = mixed()
    new.leave()
    shell.restart()
    for _ in range(8):
        shell.advance(1_000)
        old.step()
    assert (old.error, old.partitions) == (0, [0, 1, 2, 3])
    shell.restart()
    old.step()
    assert (old.error, old.partitions) == (0, [0, 1, 2, 3])


def test_classic_members_alone_in_a_consumer_group_share_all_partitions():
    """No member sends the new protocol's heartbeats, which assign; Kafka 4.3.1 assigns nothing."""
    shell = ConsumerShell(group_initial_rebalance_delay_ms=0, group_consumer_migration_policy="upgrade")
    shell.create("t", 4)
    olds = [shell.classic_member("t") for _ in range(2)]
    new = Member(shell, "new", "t")

    def together(*members):
        for _ in range(20):
            for member in members:
                member.step()
            shell.advance(1)
        return sorted(index for member in members for index in member.partitions)

    assert together(*olds) == [0, 1, 2, 3]
    assert together(*olds, new) == [0, 1, 2, 3]
    new.leave()
    assert together(*olds) == [0, 1, 2, 3]
    assert isinstance(shell.shard.state.groups["g"], ConsumerGroup)
    shell.grow("t", 6)
    assert together(*olds) == [0, 1, 2, 3, 4, 5]


def test_members_that_stay_keep_their_partitions_meanwhile():
    shell = ConsumerShell()
    shell.create("t", 4)
    stays, dies = Member(shell, "a", "t"), Member(shell, "b", "t")
    settle(stays, dies)
    shell.fail = Errors.NOT_ENOUGH_REPLICAS
    for _ in range(20):
        shell.advance(SILENCE_MS // 20)
        stays.step()
    assert len(stays.partitions) == 2
    shell.fail = None
    shell.advance(1_000)
    settle(stays)
    assert stays.partitions == [0, 1, 2, 3]


def test_a_group_whose_deletion_cannot_be_written_keeps_its_timers():
    """An id that was given to a member is forgotten when its session ends; the group can go only then."""
    shell = ConsumerShell()
    assert shell.ask(shell.join()).error_code == Errors.MEMBER_ID_REQUIRED.code
    shell.fail = Errors.NOT_ENOUGH_REPLICAS
    assert shell.delete_groups("g") == [REFUSED]
    shell.fail = None
    shell.advance(SILENCE_MS)
    assert not shell.group().pending_join_members
    assert shell.delete_groups("g") == [0]
    assert len(shell.timers) == 0
