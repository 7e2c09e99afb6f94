"""Members of a share group join, follow their assignments, and are fenced."""

import pytest

from bowstring.engine.groups.share.heartbeat import WAITING_INTERVAL_MS
from bowstring.protocol.errors import Errors
from tests.support.share_group_harness import ShareMember, ShareShell, settle_share


@pytest.fixture
def shell():
    shell = ShareShell()
    shell.create("t", 2)
    return shell


def test_a_member_gets_partitions_once_they_have_state(shell):
    member = ShareMember(shell, "a", "t")
    answer = member.step()
    assert (answer.error_code, answer.member_epoch, answer.assignment.topic_partitions) == (0, 2, [])
    assert answer.heartbeat_interval_ms == WAITING_INTERVAL_MS
    (asked,) = shell.asked
    assert (asked.group_id, asked.state_epoch) == ("g", 2)
    assert asked.partitions == tuple((shell.image.topics["t"].id, index) for index in range(2))
    assert member.step().assignment is None
    assert len(shell.asked) == 1, "asked once"
    shell.initialized()
    answer = member.step()
    assert answer.member_epoch == 3
    assert answer.assignment.topic_partitions[0].partitions == [0, 1]
    assert answer.heartbeat_interval_ms == 5_000
    assert member.step().assignment is None


def test_failed_initialization_is_tried_again(shell):
    member = ShareMember(shell, "a", "t")
    member.step()
    shell.initialized(Errors.COORDINATOR_NOT_AVAILABLE)
    member.step()
    assert len(shell.asked) == 1
    shell.initialized()
    member.step()
    assert member.partitions == [0, 1]


def test_initialization_that_is_lost_is_tried_again_later(shell):
    member = ShareMember(shell, "a", "t")
    member.step()
    shell.asked.clear()
    shell.now_ms += 29_999
    member.step()
    assert not shell.asked
    shell.now_ms += 1
    member.step()
    assert len(shell.asked) == 1


def test_new_partitions_and_topics_get_state(shell):
    member = ShareMember(shell, "a", "t", "u")
    settle_share(member)
    shell.grow("t", 3)
    shell.create("u", 1)
    member.step()
    assert [len(each.partitions) for each in shell.asked] == [2]
    settle_share(member)
    assert member.partitions == [0, 0, 1, 2]


def test_members_share_partitions(shell):
    members = [ShareMember(shell, name, "t") for name in "abc"]
    settle_share(*members)
    assert sorted(index for member in members for index in member.partitions) in (
        [0, 0, 1],
        [0, 1, 1],
        [0, 0, 1, 1],
    )
    assert shell.share_group().state == "Stable"
    assert shell.share_beat("a", -1).member_epoch == -1
    settle_share(*members[1:])
    assert sorted(index for member in members[1:] for index in member.partitions) == [0, 1]


def test_epochs(shell):
    member = ShareMember(shell, "a", "t")
    assert shell.share_beat("a", 1).error_code == Errors.GROUP_ID_NOT_FOUND.code
    settle_share(member)
    epoch = member.epoch
    assert shell.share_beat("a", epoch + 1).error_code == Errors.FENCED_MEMBER_EPOCH.code
    assert shell.share_beat("a", epoch - 2).error_code == Errors.FENCED_MEMBER_EPOCH.code
    assert shell.share_beat("a", epoch - 1).member_epoch == epoch, "the answer may have been lost"
    assert shell.share_beat("x", epoch).error_code == Errors.UNKNOWN_MEMBER_ID.code
    assert shell.share_beat("a", 0, "t").member_epoch == epoch, "rejoins"


def test_sessions_end(shell):
    members = [ShareMember(shell, name, "t") for name in "ab"]
    settle_share(*members)
    shell.advance(44_000)
    members[0].step()
    shell.advance(2_000)
    assert set(shell.share_group().members) == {"a"}
    shell.advance(46_000)
    assert shell.share_group().state == "Empty"
    assert members[0].step().error_code == Errors.UNKNOWN_MEMBER_ID.code


def test_own_configs_of_a_group(shell):
    shell.configure("share.session.timeout.ms", "50000")
    shell.configure("share.heartbeat.interval.ms", "6000")
    member = ShareMember(shell, "a", "t")
    member.step()
    shell.initialized()
    assert member.step().heartbeat_interval_ms == 6000
    shell.advance(49_000)
    assert shell.share_group().members
    shell.advance(2_000)
    assert not shell.share_group().members


def test_assignments_wait_for_the_interval():
    shell = ShareShell(group_share_assignment_interval_ms=1000)
    shell.create("t", 1)
    member = ShareMember(shell, "a", "t")
    member.step()
    shell.initialized()
    assert member.step().member_epoch == 3, "an assignment of nothing delays no other"
    assert member.partitions == [0]
    shell.create("u", 1)
    other = ShareMember(shell, "b", "t", "u")
    answer = other.step()
    assert (answer.member_epoch, answer.heartbeat_interval_ms) == (3, WAITING_INTERVAL_MS)
    shell.now_ms += 1000
    assert other.step().member_epoch == 4


def test_full_groups():
    shell = ShareShell(group_share_max_size=1)
    shell.create("t", 1)
    assert not shell.share_beat("a", 0, "t").error_code
    assert shell.share_beat("b", 0, "t").error_code == Errors.GROUP_MAX_SIZE_REACHED.code
    assert not shell.share_beat("a", 0, "t").error_code


def test_other_groups_are_no_share_groups(shell):
    shell.beat("c", 0, subscribed_topic_names=["t"], rebalance_timeout_ms=1000, owned={})
    answer = shell.share_beat("a", 0, "t")
    assert answer.error_code == Errors.GROUP_ID_NOT_FOUND.code
    shell.share_beat("a", 0, "t", group="h")
    answer = shell.beat("c", 0, group="h", subscribed_topic_names=["t"], rebalance_timeout_ms=1000, owned={})
    assert answer.error_code == Errors.GROUP_ID_NOT_FOUND.code


def test_failed_writes_change_nothing(shell):
    shell.fail = Errors.NOT_ENOUGH_REPLICAS
    assert shell.share_beat("a", 0, "t").error_code == Errors.COORDINATOR_NOT_AVAILABLE.code
    assert "g" not in shell.shard.state.groups
    assert not shell.asked, "share coordinators are asked when that is committed"


def test_groups_come_back_after_a_restart(shell):
    members = [ShareMember(shell, name, "t") for name in "ab"]
    settle_share(*members)
    before = shell.share_group()
    shell.restart()
    after = shell.share_group()
    assert after is not before
    assert after.members == before.members
    assert after.target == before.target
    assert after.partitions.initialized.keys() == before.partitions.initialized.keys()
    assert (after.epoch, after.assignment_epoch) == (before.epoch, before.assignment_epoch)
    assert after.metadata_hash == before.metadata_hash
    for member in members:
        assert not member.step().error_code


def test_initialization_goes_on_after_a_restart(shell):
    member = ShareMember(shell, "a", "t")
    member.step()
    shell.asked.clear()
    shell.restart()
    member.step()
    assert len(shell.asked) == 1
    settle_share(member)
    assert member.partitions == [0, 1]


def test_partitions_that_are_added_begin_at_their_start(shell):
    """With share.auto.offset.reset=latest, records from before their state would be left out."""
    member = ShareMember(shell, "a", "t")
    member.step()
    assert shell.asked[0].from_start == frozenset(), "a new topic begins where the group's config says"
    shell.now_ms += 30_000
    member.step()
    assert shell.asked[1].from_start == frozenset(), "as the first time"
    topic_id = shell.create("other", 1)
    shell.grow("t", 3)
    member.step()
    assert shell.asked[2].from_start == {(shell.image.topics["t"].id, 2)}
    settle_share(member)
    shell.grow("t", 4)
    shell.share_beat("a", member.epoch, "t", "other")
    assert shell.asked[0].from_start == {(shell.image.topics["t"].id, 3)}
    assert (topic_id, 0) in shell.asked[0].partitions


def test_an_emptied_group_has_no_assignment_to_make(shell):
    first, second = ShareMember(shell, "a", "t"), ShareMember(shell, "b", "t")
    settle_share(first, second)
    shell.share_beat("a", -1)
    group = shell.share_group()
    assert group.assignment_epoch < group.epoch
    shell.share_beat("b", -1)
    for restart in (False, True):
        if restart:
            shell.restart()
        group = shell.share_group()
        assert (group.assignment_epoch, group.assignment_timestamp_ms) == (group.epoch, 0)
