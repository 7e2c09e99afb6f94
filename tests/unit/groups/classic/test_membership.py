"""Heartbeat, LeaveGroup and session timeouts."""

import pytest

from bowstring.engine.groups.classic.group import GroupState
from bowstring.protocol.errors import Errors
from tests.support.group_harness import Shell


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ({}, Errors.NONE),
        ({"generation": 2}, Errors.ILLEGAL_GENERATION),
        ({"member_id": "stranger"}, Errors.UNKNOWN_MEMBER_ID),
        ({"instance": "stranger"}, Errors.UNKNOWN_MEMBER_ID),
        ({"group": "other"}, Errors.UNKNOWN_MEMBER_ID),
        ({"group": ""}, Errors.INVALID_GROUP_ID),
    ],
)
def test_heartbeat(how, error):
    shell = Shell()
    (member_id,) = shell.stable(1)
    assert shell.heartbeat(**{"member_id": member_id, "generation": 1} | how) == error.code


def test_heartbeat_while_waiting_for_the_assignment():
    shell = Shell()
    leader, _ = shell.members(2)
    assert shell.heartbeat(leader, 1) == 0


def test_heartbeats_keep_the_session():
    shell = Shell()
    (member_id,) = shell.stable(1)
    for _ in range(10):
        shell.advance(9_999)
        assert shell.heartbeat(member_id, 1) == 0
    shell.advance(10_000)
    assert shell.heartbeat(member_id, 1) == Errors.UNKNOWN_MEMBER_ID.code
    assert shell.group().state is GroupState.EMPTY
    assert shell.group().generation == 2


def test_commits_keep_the_session():
    shell = Shell()
    (member_id,) = shell.stable(1)
    for offset in range(5):
        shell.advance(9_000)
        assert shell.commit_error({("t", 0): offset}, member_id=member_id, generation=1) == 0


def test_a_session_ends_in_a_rebalance_of_the_others():
    shell = Shell()
    lives, dies = shell.stable(2)
    shell.advance(5_000)
    shell.heartbeat(lives, 1)
    shell.advance(5_000)
    assert dies not in shell.group().members
    assert shell.heartbeat(lives, 1) == Errors.REBALANCE_IN_PROGRESS.code
    assert shell.ask(shell.join(lives)).generation_id == 2


@pytest.mark.parametrize("first", [True, False])
def test_a_session_restarted_by_one_that_ends_in_the_same_moment(first):
    """Both sessions are due at once: the end of one completes the join that the other's member waits for."""
    shell = Shell()
    members = shell.stable(2)
    lives, dies = members if first else reversed(members)
    token = shell.join(lives, protocols=[("range", b"changed")])
    shell.advance(10_000)
    assert shell.ask(token).generation_id == 2
    assert set(shell.group().members) == {lives}, dies
    assert shell.heartbeat(lives, 2) == 0


def test_parked_requests_stand_in_for_heartbeats():
    shell = Shell()
    waits, slow = shell.stable(2, rebalance_ms=100_000)
    token = shell.join(waits, rebalance_ms=100_000)
    for _ in range(6):
        shell.advance(9_000)
        shell.heartbeat(slow, 1)
    assert token not in shell.answers
    shell.join(slow)
    assert shell.ask(token).error_code == 0


def test_leave_by_id():
    shell = Shell()
    stays, goes = shell.stable(2)
    assert shell.leave(goes) == [0]
    assert shell.group().state is GroupState.PREPARING_REBALANCE
    assert list(shell.group().members) == [stays]
    assert ("session", "g", goes) not in shell.timers


def test_the_leader_leaves():
    shell = Shell()
    leader, follower = shell.stable(2)
    shell.leave(leader)
    answer = shell.ask(shell.join(follower))
    assert (answer.leader, answer.generation_id) == (follower, 2)


def test_leave_many_with_errors_of_their_own():
    shell = Shell()
    (member_id,) = shell.stable(1)
    codes = shell.leave(member_id, "stranger", ("", "stranger"), (member_id, None))
    unknown = Errors.UNKNOWN_MEMBER_ID.code
    assert codes == [0, unknown, unknown, unknown]


def test_leave_of_an_unknown_group():
    assert Shell().leave("a", group="other") == [Errors.UNKNOWN_MEMBER_ID.code]


def test_a_promised_member_may_leave():
    shell = Shell()
    member_id = shell.ask(shell.join()).member_id
    assert shell.leave(member_id) == [0]
    assert not shell.group().pending_join_members
    assert len(shell.timers) == 0


def test_the_last_missing_member_leaves_during_the_join_phase():
    shell = Shell()
    first, second = shell.stable(2)
    token = shell.join(first)
    shell.leave(second)
    assert shell.ask(token).generation_id == 2


def test_a_parked_member_that_leaves_is_told():
    shell = Shell()
    first, _ = shell.stable(2)
    token = shell.join(first)
    shell.leave(first)
    assert shell.ask(token).error_code == Errors.UNKNOWN_MEMBER_ID.code
    assert shell.group().awaiting_join == 0


def test_a_member_parked_in_sync_that_leaves_is_told():
    shell = Shell()
    _, follower = shell.members(2)
    token = shell.sync(follower, 1)
    shell.leave(follower)
    assert shell.ask(token).error_code == Errors.UNKNOWN_MEMBER_ID.code


def test_everyone_gone_during_the_initial_rebalance():
    shell = Shell()
    member_id, token = shell.join_twice()
    shell.leave(member_id)
    assert shell.ask(token).error_code == Errors.UNKNOWN_MEMBER_ID.code
    shell.advance(3_000)
    assert shell.group().state is GroupState.EMPTY


def test_protocols_that_nobody_has_any_more_are_forgotten():
    shell = Shell(group_initial_rebalance_delay_ms=0)
    member_id, _ = shell.join_twice()
    shell.advance(1)
    for number in range(50):
        shell.join(member_id, protocols=[("range", b""), (f"made up {number}", b"")])
        shell.advance(1)
    assert set(shell.group().protocol_counts) == {"range", "made up 49"}
