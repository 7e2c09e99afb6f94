"""Members of a consumer group join, follow their assignments, and are fenced."""

import pytest

from bowstring.protocol.errors import Errors
from tests.support.consumer_group_harness import ConsumerShell, Member, settle


@pytest.fixture
def shell():
    shell = ConsumerShell()
    shell.create("t", 6)
    return shell


def test_first_member_gets_all_partitions(shell):
    member = Member(shell, "a", "t")
    answer = member.step()
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "a", 2)
    assert answer.heartbeat_interval_ms == 5_000
    assert member.partitions == [0, 1, 2, 3, 4, 5]
    assert shell.consumer_group().state == "Stable"


def test_second_member_waits_until_the_first_gives_up(shell):
    first, second = Member(shell, "a", "t"), Member(shell, "b", "t")
    first.step()
    answer = second.step()
    assert answer.member_epoch == 3
    assert second.partitions == []
    assert shell.consumer_group().state == "Reconciling"
    # the first keeps its epoch and gets what remains
    answer = shell.beat("a", 2)
    assert answer.member_epoch == 2
    kept = {index for each in answer.assignment.topic_partitions for index in each.partitions}
    assert len(kept) == 3
    # nothing moves before it reports that it has revoked its partitions
    assert shell.beat("a", 2).assignment is None
    assert second.step().assignment is None
    topic_id = shell.image.topics["t"].id
    assert shell.beat("a", 2, owned={topic_id: kept}).member_epoch == 3
    second.step()
    assert set(second.partitions) == set(range(6)) - kept
    assert shell.consumer_group().state == "Stable"


def test_groups_come_back_after_a_restart(shell):
    members = [Member(shell, name, "t") for name in "abc"]
    settle(*members)
    before = shell.consumer_group()
    shell.restart()
    after = shell.consumer_group()
    assert after is not before
    assert after.members == before.members
    assert after.target == before.target
    assert after.partition_epochs == before.partition_epochs
    assert (after.epoch, after.assignment_epoch) == (before.epoch, before.assignment_epoch)
    assert after.metadata_hash == before.metadata_hash
    for member in members:
        assert not member.step().error_code
    assert shell.consumer_group().epoch == before.epoch
    shell.advance(45_000)
    assert shell.consumer_group().members == {}


@pytest.mark.parametrize(
    ("epoch", "error"),
    [(1, Errors.FENCED_MEMBER_EPOCH), (9, Errors.FENCED_MEMBER_EPOCH), (2, Errors.NONE), (0, Errors.NONE)],
)
def test_other_epochs_are_fenced(shell, epoch, error):
    Member(shell, "a", "t").step()
    fields = {"owned": {}, "rebalance_timeout_ms": 1, "subscribed_topic_names": ["t"]} if not epoch else {}
    assert shell.beat("a", epoch, **fields).error_code == error.code
