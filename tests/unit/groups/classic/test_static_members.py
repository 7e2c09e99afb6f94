"""Members with a group.instance.id (KIP-345, KIP-814)."""

import pytest

from bowstring.engine.groups.classic.group import GroupState
from bowstring.protocol.errors import Errors
from tests.support.group_harness import Shell, snapshot, subscription


def static_group(shell, *instances, **how):
    """A stable group of static members; id by instance."""
    tokens = {each: shell.join(instance=each, **how) for each in instances}
    ids = {each: shell.wait(token).member_id for each, token in tokens.items()}
    leader = shell.group().leader_id
    shell.assign(sorted(ids.values(), key=lambda member_id: member_id != leader))
    return ids


def test_static_members_need_no_second_join():
    shell = Shell()
    answer = shell.wait(shell.join(instance="i", client="c"))
    assert (answer.error_code, answer.generation_id) == (0, 1)
    assert answer.member_id.startswith("i-")
    assert [member.group_instance_id for member in answer.members] == ["i"]


@pytest.mark.parametrize("version", [5, 8, 9])
@pytest.mark.parametrize("instance", ["a", "b"])
def test_a_restarted_instance_takes_its_place_without_a_rebalance(version, instance):
    shell = Shell()
    ids = static_group(shell, "a", "b")
    leads = shell.group().leader_id == ids[instance]
    old_leader = shell.group().leader_id
    part = shell.group().members[ids[instance]].assignment
    answer = shell.ask(shell.join(instance=instance, version=version))
    assert (answer.error_code, answer.generation_id) == (0, 1)
    assert answer.member_id not in ids.values()
    assert shell.group().state is GroupState.STABLE
    assert shell.ask(shell.sync(answer.member_id, 1, instance=instance)).assignment == part
    if version >= 9:
        assert (answer.leader, answer.skip_assignment) == (shell.group().leader_id, leads)
        assert len(answer.members) == (2 if leads else 0)
    else:
        assert (answer.leader, answer.skip_assignment, answer.members) == (old_leader, False, [])


def test_the_old_id_is_fenced():
    shell = Shell()
    ids = static_group(shell, "a", "b")
    shell.join(instance="a")
    fenced = Errors.FENCED_INSTANCE_ID.code
    old = ids["a"]
    assert shell.heartbeat(old, 1, instance="a") == fenced
    assert shell.ask(shell.sync(old, 1, instance="a")).error_code == fenced
    assert shell.ask(shell.join(old, instance="a")).error_code == fenced
    assert shell.commit_error({("t", 0): 1}, member_id=old, generation=1, instance="a") == fenced
    assert shell.leave((old, "a")) == [fenced]
    # without its instance id it is simply unknown
    assert shell.heartbeat(old, 1) == Errors.UNKNOWN_MEMBER_ID.code


def test_the_log_learns_the_new_id():
    shell = Shell()
    static_group(shell, "a", "b")
    shell.join(instance="a")
    live = snapshot(shell.shard)
    shell.restart()
    assert snapshot(shell.shard) == live


def test_topics_that_the_restarted_instance_subscribes_to_are_in_use_at_once():
    shell = Shell()
    static_group(shell, "a", "b")
    shell.join(instance="a", protocols=[("range", subscription("t", "u"))])
    assert shell.group().subscribed_topics == {"t", "u"}
    live = snapshot(shell.shard)
    shell.restart()
    assert snapshot(shell.shard) == live


def test_the_answer_waits_for_the_log():
    shell = Shell()
    static_group(shell, "a")
    shell.hold = True
    token = shell.join(instance="a")
    assert token not in shell.answers
    shell.release()
    assert shell.ask(token).error_code == 0


def test_a_replacement_that_cannot_be_written_is_undone():
    shell = Shell()
    ids = static_group(shell, "a", "b")
    before = snapshot(shell.shard)
    shell.fail = Errors.NOT_ENOUGH_REPLICAS
    answer = shell.ask(shell.join(instance="a", protocols=[("range", subscription("u")), ("x", b"")]))
    assert (answer.error_code, answer.member_id) == (Errors.COORDINATOR_NOT_AVAILABLE.code, "")
    assert snapshot(shell.shard) == before
    assert shell.heartbeat(ids["a"], 1, instance="a") == 0
    assert shell.group().awaiting_join == 0


def test_a_replacement_that_changes_the_protocol_rebalances():
    shell = Shell()
    how = [("range", b""), ("sticky", b"")]
    static_group(shell, "a", "b", protocols=how)
    token = shell.join(instance="b", protocols=[("sticky", b"")])
    assert shell.group().state is GroupState.PREPARING_REBALANCE
    assert token not in shell.answers


def test_an_instance_that_restarts_while_it_is_being_assigned():
    shell = Shell()
    tokens = {each: shell.join(instance=each) for each in "ab"}
    ids = {each: shell.wait(token).member_id for each, token in tokens.items()}
    follower = next(each for each in "ab" if ids[each] != shell.group().leader_id)
    leader = ids["a" if follower == "b" else "b"]
    parked = shell.sync(ids[follower], 1, instance=follower)
    shell.join(instance=follower)
    assert shell.ask(parked).error_code == Errors.FENCED_INSTANCE_ID.code
    assert shell.group().state is GroupState.PREPARING_REBALANCE
    assert shell.heartbeat(leader, 1) == Errors.REBALANCE_IN_PROGRESS.code


def test_two_processes_with_one_instance_id():
    """The second to join wins; the first learns it where it waits."""
    shell = Shell()
    first = shell.join(instance="a")
    second = shell.join(instance="a")
    assert shell.ask(first).error_code == Errors.FENCED_INSTANCE_ID.code
    assert shell.wait(second).error_code == 0
    assert len(shell.group().members) == 1


def test_static_members_survive_a_rebalance_they_miss():
    shell = Shell()
    ids = static_group(shell, "a", "b", session_ms=100_000)
    leader = shell.group().leader_id
    silent = next(each for each in ids.values() if each != leader)
    token = shell.join(leader, instance=next(k for k in ids if ids[k] == leader), session_ms=100_000)
    shell.advance(60_000)
    answer = shell.ask(token)
    assert answer.generation_id == 2
    assert silent in [member.member_id for member in answer.members]


def test_only_silent_static_members_left():
    """No one can lead: the group waits until one of them is back or their sessions end."""
    shell = Shell()
    ids = static_group(shell, "a", session_ms=200_000)
    _, token = shell.join_twice()
    member_id = next(each for each in shell.group().members if each != ids["a"])
    shell.leave(member_id)
    assert shell.ask(token).error_code == Errors.UNKNOWN_MEMBER_ID.code
    shell.advance(60_000)
    assert shell.group().state is GroupState.PREPARING_REBALANCE
    shell.advance(140_000)
    assert shell.group().state is GroupState.EMPTY


def test_session_of_a_static_member_ends():
    shell = Shell()
    static_group(shell, "a")
    shell.advance(10_000)
    assert shell.group().state is GroupState.EMPTY
    assert not shell.group().static_members


def test_an_admin_removes_an_instance_without_knowing_its_id():
    shell = Shell()
    static_group(shell, "a", "b")
    assert shell.leave(("", "a"), ("", "nobody")) == [0, Errors.UNKNOWN_MEMBER_ID.code]
    assert list(shell.group().static_members) == ["b"]


def test_known_id_under_another_instance_id():
    shell = Shell()
    ids = static_group(shell, "a", "b")
    assert shell.ask(shell.join(ids["a"], instance="b")).error_code == Errors.FENCED_INSTANCE_ID.code
    assert shell.ask(shell.join(ids["a"], instance="c")).error_code == Errors.UNKNOWN_MEMBER_ID.code
