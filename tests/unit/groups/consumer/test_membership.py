"""Members of a consumer group leave, fall silent, keep partitions for too long, and come back."""

import pytest

from bowstring.engine.groups.consumer import records
from bowstring.engine.groups.consumer.member import MemberState
from bowstring.protocol.errors import Errors
from tests.support.consumer_group_harness import ConsumerShell, Member, settle


@pytest.fixture
def shell():
    shell = ConsumerShell()
    shell.create("t", 4)
    return shell


def test_a_silent_member_is_removed_after_its_session(shell):
    first, second = Member(shell, "a", "t"), Member(shell, "b", "t")
    settle(first, second)
    epoch = shell.consumer_group().epoch
    shell.advance(40_000)
    second.step()
    shell.advance(10_000)
    assert set(shell.consumer_group().members) == {"b"}
    assert shell.consumer_group().epoch == epoch + 1
    settle(second)
    assert second.partitions == [0, 1, 2, 3]
    assert first.step().error_code == Errors.UNKNOWN_MEMBER_ID.code


@pytest.mark.parametrize(("silent_ms", "gets"), [(4_500, "c"), (20_000, "b")])
def test_what_is_free_goes_to_those_whose_heartbeats_come_soonest(shell, silent_ms, gets):
    """Partitions of a member that dies are read again soon, also if `c` has died with it."""
    shell.create("u", 4)
    members = {name: Member(shell, name, "t", "u") for name in "abcd"}
    settle(*members.values())
    members["c"].step()
    shell.advance(silent_ms - 2_000)
    members["b"].step()
    shell.advance(1_000)
    members["a"].step()
    shell.advance(1_000)
    members.pop("d").leave()
    given = {name for name, each in members.items() if each.step().assignment is not None}
    assert given == {"a", gets}
    sizes = {name: sum(map(len, each.owned.values())) for name, each in members.items()}
    assert sizes == {"a": 2, "b": 2, "c": 2} | {"a": 3, gets: 3}


def test_sessions_follow_the_config_of_the_group(shell):
    shell.configure("consumer.session.timeout.ms", "50000")
    shell.configure("consumer.heartbeat.interval.ms", "7000")
    answer = Member(shell, "a", "t").step()
    assert answer.heartbeat_interval_ms == 7_000
    shell.advance(49_000)
    assert not shell.consumer_group().is_empty
    shell.advance(1_000)
    assert shell.consumer_group().is_empty


@pytest.mark.parametrize("gives_up", [False, True])
def test_partitions_must_be_given_up_within_the_rebalance_timeout(shell, gives_up):
    first, second = Member(shell, "a", "t", rebalance_timeout_ms=3_000), Member(shell, "b", "t")
    first.step()
    second.step()
    first.step()
    assert shell.consumer_group().members["a"].state is MemberState.UNREVOKED_PARTITIONS
    if gives_up:
        first.step()
    shell.advance(2_999)
    assert "a" in shell.consumer_group().members
    shell.advance(1)
    assert ("a" in shell.consumer_group().members) == gives_up


def test_a_restart_does_not_prolong_a_revocation_for_ever(shell):
    first, second = Member(shell, "a", "t", rebalance_timeout_ms=3_000), Member(shell, "b", "t")
    first.step()
    second.step()
    first.step()
    shell.restart()
    shell.advance(3_000)
    assert "a" not in shell.consumer_group().members


def test_a_static_member_keeps_its_place_while_it_is_away(shell):
    member = Member(shell, "a", "t", instance_id="i")
    other = Member(shell, "b", "t")
    settle(member, other)
    had, epoch = member.partitions, shell.consumer_group().epoch
    assert member.leave(-2).member_epoch == -2
    other.step()
    assert (shell.consumer_group().epoch, other.step().error_code) == (epoch, 0)
    again = Member(shell, "c", "t", instance_id="i")
    again.step()
    assert again.partitions == had
    assert shell.consumer_group().epoch == epoch
    assert member.step().error_code == Errors.UNRELEASED_INSTANCE_ID.code


def test_a_static_member_that_stays_away_is_removed(shell):
    member = Member(shell, "a", "t", instance_id="i")
    member.step()
    member.leave(-2)
    shell.restart()
    shell.advance(45_000)
    assert shell.consumer_group().is_empty
    assert shell.consumer_group().static_members == {}


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({}, Errors.NONE),
        ({"instance_id": "i"}, Errors.UNKNOWN_MEMBER_ID),
        ({"member": "b"}, Errors.UNKNOWN_MEMBER_ID),
        ({"group": "none"}, Errors.GROUP_ID_NOT_FOUND),
    ],
)
def test_leaving(shell, fields, error):
    Member(shell, "a", "t").step()
    member = fields.pop("member", "a")
    assert shell.beat(member, -1, **fields).error_code == error.code
    assert shell.consumer_group().is_empty == (not error)


def test_the_previous_epoch_counts_while_its_answer_may_be_lost(shell):
    first, second = Member(shell, "a", "t"), Member(shell, "b", "t")
    first.step()
    second.step()
    first.step()
    owned = dict(first.owned)
    assert first.step().member_epoch == 3  # this answer is lost
    assert shell.beat("a", 2, owned=owned).member_epoch == 3
    topic_id = shell.image.topics["t"].id
    error = shell.beat("a", 2, owned={topic_id: {0, 1, 2, 3}}).error_code
    assert error == Errors.FENCED_MEMBER_EPOCH.code
    assert shell.beat("a", 2).error_code == Errors.FENCED_MEMBER_EPOCH.code


def test_nothing_changes_when_the_log_takes_no_records(shell):
    first = Member(shell, "a", "t")
    first.step()
    before = shell.consumer_group()
    members, target, epochs = dict(before.members), dict(before.target), dict(before.partition_epochs)
    shell.fail = Errors.NOT_ENOUGH_REPLICAS
    assert Member(shell, "b", "t").step().error_code == Errors.COORDINATOR_NOT_AVAILABLE.code
    assert first.leave().error_code == Errors.COORDINATOR_NOT_AVAILABLE.code
    after = shell.consumer_group()
    assert (after.members, after.target, after.partition_epochs) == (members, target, epochs)
    assert after.epoch == 2
    shell.fail = None
    assert shell.beat("a", 2).error_code == 0


def test_a_new_group_that_could_not_be_written_does_not_exist(shell):
    shell.fail = Errors.NOT_LEADER_OR_FOLLOWER
    assert Member(shell, "a", "t").step().error_code == Errors.NOT_COORDINATOR.code
    assert shell.shard.state.groups == {}


def test_answers_wait_until_their_records_are_committed(shell):
    shell.hold = True
    token = shell.send_beat("a", 0, owned={}, rebalance_timeout_ms=1_000, subscribed_topic_names=["t"])
    assert token not in shell.answers
    shell.release()
    assert shell.ask(token).member_epoch == 2


def test_assignments_do_not_follow_each_other_faster_than_the_interval():
    shell = ConsumerShell(group_consumer_assignment_interval_ms=1_000)
    shell.create("t", 4)
    first, second = Member(shell, "a", "t"), Member(shell, "b", "t")
    first.step()
    second.step()
    assert (shell.consumer_group().epoch, shell.consumer_group().assignment_epoch) == (3, 2)
    assert shell.consumer_group().state == "Assigning"
    shell.advance(1_000)
    first.step()
    assert shell.consumer_group().assignment_epoch == 3
    shell.configure("consumer.assignment.interval.ms", "0")
    Member(shell, "c", "t").step()
    assert shell.consumer_group().assignment_epoch == 4


def test_a_full_group():
    shell = ConsumerShell(group_consumer_max_size=1)
    shell.create("t", 1)
    member = Member(shell, "a", "t")
    member.step()
    assert Member(shell, "b", "t").step().error_code == Errors.GROUP_MAX_SIZE_REACHED.code
    assert member.step().error_code == 0


def test_new_partitions_and_deleted_topics_make_new_epochs(shell):
    member = Member(shell, "a", "t", "u")
    member.step()
    shell.grow("t", 6)
    assert member.step().member_epoch == 3
    assert member.partitions == [0, 1, 2, 3, 4, 5]
    shell.create("other", 1)
    assert member.step().member_epoch == 3
    shell.create("u", 1)
    member.step()
    assert (member.epoch, len(member.owned)) == (4, 2)
    shell.delete("t")
    settle(member)
    assert member.epoch == 5
    assert list(member.owned) == [shell.image.topics["u"].id]


def test_the_metadata_hash_stays_over_a_restart(shell):
    member = Member(shell, "a", "t")
    member.step()
    assert shell.consumer_group().metadata_hash
    shell.restart()
    assert member.step().member_epoch == 2


def test_a_group_without_members_and_offsets_goes(shell):
    member = Member(shell, "a", "t")
    member.step()
    member.leave()
    shell.restart()
    assert shell.consumer_group().is_empty
    shell.expire()
    assert shell.shard.state.groups == {}
    shell.restart()
    assert shell.shard.state.groups == {}


@pytest.mark.parametrize("silent", [False, True])
def test_an_emptied_group_has_no_assignment_to_make(silent):
    shell = ConsumerShell(group_consumer_assignment_interval_ms=10_000)
    shell.create("t", 4)
    first, second = Member(shell, "a", "t"), Member(shell, "b", "t")
    first.step()
    second.step()
    first.leave()
    group = shell.consumer_group()
    assert group.assignment_epoch < group.epoch
    if silent:
        shell.advance(45_000)
    else:
        second.leave()
    for restart in (False, True):
        if restart:
            shell.restart()
        group = shell.consumer_group()
        assert group.is_empty
        assert (group.assignment_epoch, group.assignment_timestamp_ms) == (group.epoch, 0)
    first.step()
    assert first.partitions == [0, 1, 2, 3], "the next assignment waits for no interval"


def test_an_assignor_that_wins_makes_an_epoch(shell):
    first, second = Member(shell, "a", "t"), Member(shell, "b", "t")
    settle(first, second)
    epoch = shell.consumer_group().epoch
    answer = shell.beat("a", first.epoch, owned=first.owned, server_assignor="uniform")
    assert (answer.member_epoch, shell.consumer_group().epoch) == (epoch, epoch), "it was the default"
    shell.beat("a", first.epoch, owned=first.owned, server_assignor="range")
    assert shell.consumer_group().epoch == epoch + 1
    shell.beat("b", second.epoch, owned=second.owned, server_assignor="range")
    assert shell.consumer_group().epoch == epoch + 1
    settle(first, second)
    assert shell.consumer_group().state == "Stable"


def test_a_static_member_that_comes_back_gets_one_target_record(shell):
    first, second = Member(shell, "a", "t", instance_id="i"), Member(shell, "b", "t")
    settle(first, second)
    first.leave(-2)
    shell.grow("t", 5)
    before = len(shell.log)
    target = dict(shell.consumer_group().target["a"])
    shell.create("other", 1)
    Member(shell, "c", "t", instance_id="i").step()
    own = [value for key, value in shell.log[before:] if key == records.target("g", "c", {})[0]]
    changed = shell.consumer_group().target["c"] != target
    assert len(own) == 1 + changed, "one of the place that it takes, and one only if its target changed"
