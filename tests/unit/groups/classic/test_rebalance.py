"""From one generation to the next: SyncGroup, slow members, changes of the leader."""

import pytest

from bowstring.engine.groups.classic.group import GroupState
from bowstring.protocol.errors import Errors
from tests.support.group_harness import Shell, subscription


def changed(*topics):
    return [("range", subscription(*topics))]


def test_sync_hands_out_the_leaders_assignment():
    shell = Shell()
    ids = shell.stable(3)
    group = shell.group()
    assert [group.members[each].assignment for each in ids] == [b"part 0", b"part 1", b"part 2"]
    # a repeated request in a stable group gets the same answer
    assert shell.ask(shell.sync(ids[2], 1)).assignment == b"part 2"


def test_followers_wait_for_the_leader():
    shell = Shell()
    leader, follower = shell.members(2)
    token = shell.sync(follower, 1)
    assert token not in shell.answers
    shell.sync(leader, 1, {leader: b"a", follower: b"b"})
    answer = shell.ask(token)
    assert (answer.assignment, answer.protocol_type, answer.protocol_name) == (b"b", "consumer", "range")


def test_members_the_leader_left_out_get_nothing():
    shell = Shell()
    leader, follower = shell.members(2)
    token = shell.sync(follower, 1)
    shell.sync(leader, 1, {leader: b"a", "stranger": b"x"})
    assert (shell.ask(token).error_code, shell.ask(token).assignment) == (0, b"")


def test_assignment_counts_only_once_it_is_committed():
    shell = Shell()
    leader, follower = shell.members(2)
    token = shell.sync(follower, 1)
    shell.hold = True
    shell.sync(leader, 1, {follower: b"b"})
    assert token not in shell.answers
    assert shell.group().state is GroupState.COMPLETING_REBALANCE
    shell.release()
    assert shell.ask(token).assignment == b"b"
    assert shell.group().state is GroupState.STABLE


def test_a_member_that_joins_while_the_assignment_is_being_written():
    shell = Shell()
    leader, follower = shell.members(2)
    parked = shell.sync(follower, 1)
    shell.hold = True
    shell.sync(leader, 1, {follower: b"b"})
    shell.join(version=3)
    shell.release()
    assert shell.ask(parked).error_code == Errors.REBALANCE_IN_PROGRESS.code
    assert shell.group().state is GroupState.PREPARING_REBALANCE


def test_assignment_that_cannot_be_written():
    shell = Shell()
    leader, follower = shell.members(2)
    parked = shell.sync(follower, 1)
    shell.fail = Errors.KAFKA_STORAGE_ERROR
    own = shell.sync(leader, 1, {follower: b"b"})
    for token in (parked, own):
        assert shell.ask(token).error_code == Errors.NOT_COORDINATOR.code
    assert shell.group().state is GroupState.PREPARING_REBALANCE


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ({"generation": 0}, Errors.ILLEGAL_GENERATION),
        ({"generation": 2}, Errors.ILLEGAL_GENERATION),
        ({"member_id": "stranger"}, Errors.UNKNOWN_MEMBER_ID),
        ({"protocol": "sticky"}, Errors.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect"}, Errors.INCONSISTENT_GROUP_PROTOCOL),
        ({"instance": "i"}, Errors.UNKNOWN_MEMBER_ID),
        ({"group": ""}, Errors.INVALID_GROUP_ID),
        ({"group": "other"}, Errors.UNKNOWN_MEMBER_ID),
        ({"protocol": None, "protocol_type": None}, Errors.NONE),
    ],
)
def test_refused_syncs(how, error):
    shell = Shell()
    (member_id,) = shell.stable(1)
    assert shell.ask(shell.sync(**{"member_id": member_id, "generation": 1} | how)).error_code == error.code


def test_sync_during_the_join_phase():
    shell = Shell()
    first, second = shell.stable(2)
    shell.join(first)
    assert shell.ask(shell.sync(second, 1)).error_code == Errors.REBALANCE_IN_PROGRESS.code


def test_a_follower_that_rejoins_unchanged_gets_the_present_generation():
    shell = Shell()
    _, follower = shell.stable(2)
    answer = shell.ask(shell.join(follower))
    assert (answer.error_code, answer.generation_id, answer.members) == (0, 1, [])
    assert shell.group().state is GroupState.STABLE


def test_a_follower_with_new_metadata_starts_a_rebalance():
    shell = Shell()
    leader, follower = shell.stable(2)
    token = shell.join(follower, protocols=changed("u"))
    assert shell.group().state is GroupState.PREPARING_REBALANCE
    assert shell.heartbeat(leader, 1) == Errors.REBALANCE_IN_PROGRESS.code
    other = shell.join(leader)
    assert shell.ask(token).generation_id == shell.ask(other).generation_id == 2
    assert shell.group().subscribed_topics == {"t", "u"}


def test_the_leader_can_ask_for_a_new_assignment():
    shell = Shell()
    leader, _ = shell.stable(2)
    shell.join(leader)
    assert shell.group().state is GroupState.PREPARING_REBALANCE


def test_join_again_after_a_lost_answer():
    """In CompletingRebalance, unchanged members get the current generation again: the answer may be lost."""
    shell = Shell()
    leader, follower = shell.members(2)
    assert len(shell.ask(shell.join(leader)).members) == 2
    assert shell.ask(shell.join(follower)).members == []
    assert shell.group().state is GroupState.COMPLETING_REBALANCE


def test_new_metadata_while_others_wait_for_their_assignment():
    shell = Shell()
    _, follower, other = shell.members(3)
    parked = shell.sync(other, 1)
    shell.join(follower, protocols=changed("u"))
    assert shell.ask(parked).error_code == Errors.REBALANCE_IN_PROGRESS.code
    assert shell.group().state is GroupState.PREPARING_REBALANCE


def test_a_slow_member_is_left_behind_after_the_rebalance_timeout():
    shell = Shell()
    leader, slow = shell.stable(2, rebalance_ms=30_000)
    token = shell.join(leader, rebalance_ms=30_000)
    for _ in range(10):
        # its heartbeats keep its session alive, but it does not rejoin
        assert token not in shell.answers
        assert shell.heartbeat(slow, 1) == Errors.REBALANCE_IN_PROGRESS.code
        shell.advance(3_000)
    answer = shell.ask(token)
    assert answer.generation_id == 2
    assert [member.member_id for member in answer.members] == [leader]
    assert shell.heartbeat(slow, 1) == Errors.UNKNOWN_MEMBER_ID.code


def test_a_silent_member_is_left_behind_after_its_session():
    shell = Shell()
    leader, _ = shell.stable(2)
    token = shell.join(leader)
    shell.advance(9_999)
    assert token not in shell.answers
    shell.advance(1)
    assert shell.ask(token).generation_id == 2


def test_a_leader_that_does_not_rejoin_is_replaced():
    shell = Shell()
    leader, follower = shell.stable(2)
    token = shell.join(follower, protocols=changed("u"))
    shell.advance(60_000)
    answer = shell.ask(token)
    assert answer.leader == follower
    assert leader not in shell.group().members


def test_members_that_do_not_sync_are_removed_after_the_rebalance_timeout():
    shell = Shell()
    leader, silent = shell.members(2, session_ms=100_000)
    shell.sync(leader, 1, {})
    assert shell.group().state is GroupState.STABLE
    shell.advance(59_999)
    assert silent in shell.group().members
    shell.advance(1)
    assert silent not in shell.group().members
    assert shell.group().state is GroupState.PREPARING_REBALANCE


def test_a_leader_that_never_syncs():
    shell = Shell()
    leader, follower = shell.members(2, session_ms=100_000)
    parked = shell.sync(follower, 1)
    shell.advance(60_000)
    assert shell.ask(parked).error_code == Errors.REBALANCE_IN_PROGRESS.code
    assert leader not in shell.group().members
    assert shell.ask(shell.join(follower)).generation_id == 2


def test_everyone_leaves_and_comes_back():
    shell = Shell()
    ids = shell.stable(2)
    assert shell.leave(*ids) == [0, 0]
    group = shell.group()
    assert (group.state, group.generation, group.leader_id) == (GroupState.EMPTY, 2, None)
    _, token = shell.join_twice()
    shell.advance(2_999)
    assert token not in shell.answers, "the group was empty: the initial delay applies again"
    shell.advance(1)
    assert shell.ask(token).generation_id == 3


def test_cooperative_members_rejoin_after_revoking():
    """Cooperative-sticky is two rebalances in a row; owned partitions travel in the metadata."""
    shell = Shell()
    ids = shell.stable(2)
    newcomer, token = shell.join_twice()
    for each in ids:
        shell.join(each)
    assert shell.ask(token).generation_id == 2
    shell.assign([*ids, newcomer])
    shell.join(ids[1], protocols=changed("t", "owned-less"))
    for each in (ids[0], newcomer):
        assert shell.heartbeat(each, 2) == Errors.REBALANCE_IN_PROGRESS.code
        last = shell.join(each)
    assert shell.ask(last).generation_id == 3
    shell.assign([*ids, newcomer])


def test_unloading_answers_everyone_who_waits():
    shell = Shell()
    leader, follower = shell.members(2)
    parked = shell.sync(follower, 1)
    joining = shell.join(group="h", version=3)
    shell.unload()
    assert shell.ask(parked).error_code == Errors.NOT_COORDINATOR.code
    assert shell.ask(joining).error_code == Errors.NOT_COORDINATOR.code
    assert shell.heartbeat(leader, 1) == Errors.COORDINATOR_NOT_AVAILABLE.code
    assert shell.ask(shell.join()).error_code == Errors.COORDINATOR_NOT_AVAILABLE.code
