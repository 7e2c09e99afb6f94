"""ListGroups, DescribeGroups, DeleteGroups; restarts."""

import pytest

from bowstring.engine.groups.administration import GroupFilter
from bowstring.engine.groups.classic.group import GroupState
from bowstring.engine.groups.timers import TimerQueue
from bowstring.protocol.errors import Errors
from tests.support.group_harness import Shell, subscription


@pytest.mark.parametrize(
    ("states", "types", "expected"),
    [
        ([], [], {"stable", "simple", "moving"}),
        (["Stable"], [], {"stable"}),
        (["stable", "EMPTY"], [], {"stable", "simple"}),
        (["PreparingRebalance"], [], {"moving"}),
        (["Dead"], [], set()),
        ([], ["classic"], {"stable", "simple", "moving"}),
        ([], ["Consumer"], set()),
        (["Stable"], ["CLASSIC", "share"], {"stable"}),
    ],
)
def test_list_groups(states, types, expected):
    shell = Shell()
    shell.stable(1, group="stable")
    shell.commit({("t", 0): 1}, group="simple")
    shell.join(group="moving", version=3)
    wanted = GroupFilter()
    for name in states:
        wanted.add_state(name)
    for name in types:
        wanted.add_type(name)
    assert {each.group_id for each in shell.shard.list_groups() if wanted.selects(each)} == expected


def test_describe_a_stable_group():
    shell = Shell()
    ids = shell.stable(2)
    described = shell.shard.describe_group("g", 6)
    assert (described.error_code, described.group_state) == (0, "Stable")
    assert (described.protocol_type, described.protocol_data) == ("consumer", "range")
    assert {member.member_id for member in described.members} == set(ids)
    member = next(each for each in described.members if each.member_id == ids[1])
    assert (member.client_host, member.member_metadata) == ("/127.0.0.1", subscription("t"))
    assert member.member_assignment == b"part 1"
    assert described.authorized_operations == -(2**31), "left to whoever knows the principal"


def test_describe_a_group_that_rebalances():
    shell = Shell()
    ids = shell.stable(2)
    shell.join(ids[0])
    described = shell.shard.describe_group("g", 6)
    assert (described.group_state, described.protocol_data) == ("PreparingRebalance", "")
    assert {member.member_metadata for member in described.members} == {b""}


def test_describe_an_unknown_group():
    shell = Shell()
    described = shell.shard.describe_group("g", 5)
    assert (described.error_code, described.group_state) == (0, "Dead")
    described = shell.shard.describe_group("g", 6)
    assert described.error_code == Errors.GROUP_ID_NOT_FOUND.code
    assert described.error_message == "Group g not found."


def test_delete_groups():
    shell = Shell()
    (member_id,) = shell.stable(1, group="used")
    shell.stable(1, group="busy")
    shell.commit({("t", 0): 1, ("t", 1): 2}, member_id=member_id, generation=1, group="used")
    shell.leave(member_id, group="used")
    codes = shell.delete_groups("used", "busy", "nobody")
    assert codes == [0, Errors.NON_EMPTY_GROUP.code, Errors.GROUP_ID_NOT_FOUND.code]
    assert set(shell.shard.state.groups) == {"busy"}
    assert len(shell.shard.offsets) == 0
    shell.restart()
    assert set(shell.shard.state.groups) == {"busy"}
    assert len(shell.shard.offsets) == 0


def test_a_deletion_that_cannot_be_written():
    shell = Shell()
    shell.commit({("t", 0): 1})
    shell.fail = Errors.NOT_LEADER_OR_FOLLOWER
    assert shell.delete_groups("g", "nobody") == [
        Errors.NOT_COORDINATOR.code,
        Errors.GROUP_ID_NOT_FOUND.code,
    ]
    assert shell.fetched() == {("t", 0): (1, 0)}


def test_a_deleted_group_begins_anew():
    shell = Shell()
    (member_id,) = shell.stable(1)
    shell.leave(member_id)
    shell.delete_groups("g")
    shell.stable(1)
    assert shell.group().generation == 1


def test_members_survive_a_restart():
    shell = Shell()
    leader, follower = shell.stable(2)
    shell.restart()
    assert shell.group().state is GroupState.STABLE
    assert shell.heartbeat(leader, 1) == 0
    answer = shell.ask(shell.sync(follower, 1))
    assert (answer.error_code, answer.assignment) == (0, b"part 1")


def test_members_that_do_not_come_back_after_a_restart_time_out():
    shell = Shell()
    leader, follower = shell.stable(2)
    shell.restart()
    shell.advance(9_999)
    assert shell.heartbeat(leader, 1) == 0
    shell.advance(1)
    assert follower not in shell.group().members


def test_a_restart_in_the_middle_of_a_rebalance():
    """The last generation in the log stands; members find out by their heartbeats and rejoin."""
    shell = Shell()
    leader, follower = shell.stable(2)
    shell.join(follower, protocols=[("range", subscription("u"))])
    shell.join(leader)
    assert shell.group().generation == 2
    shell.restart()
    assert shell.group().generation == 1
    assert shell.heartbeat(leader, 2) == Errors.ILLEGAL_GENERATION.code
    shell.join(leader)
    answer = shell.ask(shell.join(follower))
    assert answer.generation_id == 2


def test_unreadable_records_are_passed_over():
    shell = Shell()
    shell.commit({("t", 0): 1})
    good = shell.log[0]
    shell.log += [
        (b"\x00\x63future", b"x"),
        (b"\x00\x01\x00", b"\x00\x04"),
        (good[0][:-1] + b"\x09", b"\x00\x7fx"),
        (b"", None),
    ]
    shell.restart()
    assert shell.fetched() == {("t", 0): (1, 0)}
    assert len(shell.notes) == 4


def test_offsets_as_old_kafka_wrote_them():
    shell = Shell()
    value = b"\x00\x00" + (7).to_bytes(8, "big") + b"\x00\x01m" + (1000).to_bytes(8, "big")
    shell.log.append((b"\x00\x00\x00\x01g\x00\x01t\x00\x00\x00\x02", value))
    shell.restart()
    assert shell.fetched() == {("t", 2): (7, 0)}


def test_timer_queue():
    timers = TimerQueue()
    timers.set(("a",), 10)
    timers.set(("b",), 5)
    timers.set(("a",), 20)
    timers.set(("c",), 30)
    timers.cancel(("c",))
    assert timers.next_deadline_ms() == 5
    assert list(timers.pop_due(15)) == [("b",)]
    assert list(timers.pop_due(19)) == []
    assert ("a",) in timers
    timers.set(("a",), 16)
    assert timers.deadline_ms(("a",)) == 16
    assert list(timers.pop_due(40)) == [("a",)]
    assert len(timers) == 0
    assert timers.next_deadline_ms() is None


def test_timers_overtaken_by_one_that_was_due_with_them():
    timers = TimerQueue()
    for name in "abcde":
        timers.set((name,), 10)
    fired = []
    for key in timers.pop_due(10):
        fired.append(key)
        if key == ("a",):
            timers.set(("b",), 20)
            timers.cancel(("c",))
            timers.cancel(("d",))
            timers.set(("d",), 30)
    assert fired == [("a",), ("e",)]
    assert timers.next_deadline_ms() == 20
    assert list(timers.pop_due(30)) == [("b",), ("d",)]
    assert len(timers) == 0


def test_timer_queue_stays_small_under_heartbeats():
    timers = TimerQueue()
    for now_ms in range(0, 100_000, 10):
        timers.set(("session",), now_ms + 1_000)
        timers.set(("join",), now_ms + 50)
        list(timers.pop_due(now_ms))
        timers.cancel(("join",))
    assert len(timers._heap) <= 4


def test_timer_queue_forgets_cancelled_timers_that_were_far_away():
    timers = TimerQueue()
    timers.set(("session",), 1_000)
    for number in range(10_000):
        timers.set(("sync member", number), 1 << 31)
        timers.cancel(("sync member", number))
    assert len(timers._heap) < 100
    assert timers.next_deadline_ms() == 1_000
    assert list(timers.pop_due(1 << 32)) == [("session",)]
