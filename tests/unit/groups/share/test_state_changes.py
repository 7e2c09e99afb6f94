"""Which share partitions have state: offsets that are set and deleted, deleted groups and topics."""

import pytest

from bowstring.engine.groups.share.state_changes import Alteration, Deletion
from bowstring.protocol.errors import Errors, KafkaError
from tests.support.share_group_harness import ShareMember, ShareShell, settle_share


@pytest.fixture
def shell():
    shell = ShareShell()
    shell.create("t", 2)
    return shell


def topic(shell, name="t"):
    return shell.image.topics[name].id


def alter(shell, *offsets, group="g"):
    wanted = {(topic(shell), index): offset for index, offset in offsets}
    return shell.admin(lambda shard, token: shard.alter_share_offsets(group, wanted, token, shell.now_ms))


def report(shell, *indexes):
    partitions = [(topic(shell), index) for index in indexes]
    assert (
        shell.admin(
            lambda shard, token: shard.share_state_initialized("g", partitions, shell.now_ms, token=token)
        )
        is Errors.NONE
    )


def delete(shell, *names, group="g"):
    return shell.admin(lambda shard, token: shard.delete_share_offsets(group, list(names), token))


def test_offsets_make_a_group(shell):
    answer = alter(shell, (0, 5), (1, 7))
    assert answer == Alteration(1, {(topic(shell), 0): 5, (topic(shell), 1): 7})
    group = shell.share_group()
    assert group.state == "Empty"
    assert set(group.partitions.initializing) == {topic(shell)}
    report(shell, 0, 1)
    assert not group.partitions.initializing
    assert shell.shard.initialized_partitions("g") == {topic(shell): [0, 1]}
    shell.restart()
    assert shell.shard.initialized_partitions("g") == {topic(shell): [0, 1]}


def test_offsets_of_groups_with_members(shell):
    settle_share(ShareMember(shell, "a", "t"))
    for answer in (alter(shell, (0, 5)), delete(shell, "t")):
        assert isinstance(answer, KafkaError)
        assert answer.error is Errors.NON_EMPTY_GROUP


def test_offsets_of_other_groups(shell):
    shell.beat("c", 0, subscribed_topic_names=["t"], rebalance_timeout_ms=1000, owned={})
    for answer in (alter(shell, (0, 5)), delete(shell, "t"), delete(shell, "t", group="h")):
        assert isinstance(answer, KafkaError)
        assert answer.error is Errors.GROUP_ID_NOT_FOUND


def test_deleting_offsets(shell):
    alter(shell, (0, 5), (1, 7))
    report(shell, 0, 1)
    shell.create("u", 1)
    answer = delete(shell, "t", "u", "x")
    unknown = Errors.UNKNOWN_TOPIC_OR_PARTITION
    assert answer == Deletion(((topic(shell), 0), (topic(shell), 1)), {"u": unknown, "x": unknown})
    group = shell.share_group()
    assert (dict(group.partitions.initialized), group.partitions.deleting) == ({}, {topic(shell): "t"})
    assert delete(shell, "t").partitions == ((topic(shell), 0), (topic(shell), 1)), "tried again"
    done = {topic(shell)}
    shell.admin(lambda shard, token: shard.share_state_deleted("g", done, token))
    assert group.partitions.deleting == {}
    assert delete(shell, "t").refused == {"t": unknown}


def test_what_is_initialized_is_not_deleted_any_more(shell):
    alter(shell, (0, 5))
    report(shell, 0)
    delete(shell, "t")
    alter(shell, (0, 6))
    assert shell.share_group().partitions.deleting == {}


def test_deleting_groups(shell):
    settle_share(ShareMember(shell, "a", "t"))
    shell.create("u", 1)

    def begin(*groups):
        return shell.admin(lambda shard, token: shard.delete_share_groups(list(groups), token))

    assert begin("g", "other") == {}, "it has a member"
    shell.share_beat("a", -1)
    assert begin("g", "other") == {"g": ((topic(shell), 0), (topic(shell), 1))}
    assert shell.share_group().partitions.deleting == {topic(shell): "t"}
    assert begin("g") == {"g": ((topic(shell), 0), (topic(shell), 1))}, "tried again"
    answer = shell.admin(lambda shard, token: shard.delete_groups(["g"], token))
    assert [each.error_code for each in answer.results] == [0]
    assert "g" not in shell.shard.state.groups
    shell.restart()
    assert "g" not in shell.shard.state.groups


def test_deleted_topics_are_forgotten(shell):
    member = ShareMember(shell, "a", "t")
    settle_share(member)
    shell.delete("t")
    assert shell.share_group().partitions == ({}, {}, {})
    settle_share(member)
    assert member.partitions == []


def test_share_groups_do_not_expire(shell):
    member = ShareMember(shell, "a", "t")
    settle_share(member)
    shell.share_beat("a", -1)
    shell.now_ms += 10**12
    shell.expire()
    assert shell.share_group().state == "Empty"


def test_reports_for_groups_that_are_gone(shell):
    shell.admin(lambda shard, token: shard.share_state_initialized("no", [(topic(shell), 0)], 0, token=token))
    shell.admin(lambda shard, token: shard.share_state_deleted("no", {topic(shell)}, token))
    assert not shell.shard.state.groups
