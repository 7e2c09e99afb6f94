"""Static members of streams groups go away and come back with another member id."""

import pytest

from bowstring.protocol.errors import Errors
from tests.support.streams_group_harness import StreamsMember, StreamsShell, settle
from tests.support.streams_topologies import subtopology, topology

READING = topology(subtopology("0", ["t"]))


@pytest.fixture
def shell():
    shell = StreamsShell()
    shell.create("t", 4)
    return shell


@pytest.fixture
def away(shell):
    """Two members; the static one, with instance id i, is away."""
    first, second = static(shell, "a"), StreamsMember(shell, "b", READING)
    settle(first, second)
    answer = first.leave(-2)
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "a", -2)
    return first, second


def static(shell, member_id, process="p-i", **fields):
    return StreamsMember(shell, member_id, READING, process, instance_id="i", **fields)


@pytest.mark.parametrize("restart", [False, True])
def test_a_static_member_gets_its_tasks_back(shell, away, restart):
    _, second = away
    epoch, had = shell.streams_group().epoch, shell.streams_group().target["a"]
    if restart:
        shell.restart()
    assert shell.streams_group().state == "Reconciling"
    again = static(shell, "c")
    again.step()
    group = shell.streams_group()
    assert again.active == {"0": set(had.active["0"])}
    assert (group.epoch, again.epoch) == (epoch, epoch), "no rebalance"
    assert group.members.keys() == {"b", "c"}
    assert group.static_members == {"i": "c"}
    settle(again, second)
    assert group.state == "Stable"
    shell.restart()
    assert shell.streams_group().members.keys() == {"b", "c"}
    assert shell.described().members[1].instance_id == "i"


def test_what_matters_for_the_assignment_begins_a_rebalance(shell, away):
    epoch = shell.streams_group().epoch
    static(shell, "c", rebalance_timeout_ms=1).step()
    assert shell.streams_group().epoch == epoch
    assert shell.streams_beat("c", -2, instance_id="i").error_code == 0
    static(shell, "d", "another process").step()
    assert shell.streams_group().epoch == epoch + 1
    assert shell.streams_group().assignment_epoch == epoch + 1
    assert shell.streams_group().target.keys() == {"b", "d"}


def test_a_member_that_has_not_left_keeps_its_place(shell):
    first = static(shell, "a")
    first.step()
    assert shell.join_streams("c", READING, instance_id="i").error_code == Errors.UNRELEASED_INSTANCE_ID.code
    beat = shell.streams_beat("c", first.epoch, instance_id="i")
    assert beat.error_code == Errors.FENCED_INSTANCE_ID.code
    unknown = shell.streams_beat("a", first.epoch, instance_id="j")
    assert unknown.error_code == Errors.UNKNOWN_MEMBER_ID.code
    for epoch in (-1, -2):
        left = shell.streams_beat("c", epoch, instance_id="i")
        assert left.error_code == Errors.FENCED_INSTANCE_ID.code
    assert shell.streams_group().members.keys() == {"a"}
    assert first.leave().error_code == 0
    assert not shell.streams_group().members
    assert not shell.streams_group().static_members


def test_a_static_member_that_stays_away_is_removed(shell, away):
    _, second = away
    for _ in range(4):
        shell.advance(15_000)
        second.step()
    settle(second)
    assert shell.streams_group().members.keys() == {"b"}
    assert second.active == {"0": {0, 1, 2, 3}}


def test_a_full_group_takes_back_its_static_members():
    shell = StreamsShell(group_streams_max_size=1)
    shell.create("t", 4)
    first = static(shell, "a")
    first.step()
    first.leave(-2)
    assert static(shell, "c").step().error_code == 0
    assert shell.join_streams("d", READING).error_code == Errors.GROUP_MAX_SIZE_REACHED.code


def test_a_place_that_cannot_be_written_stays_with_who_had_it(shell, away):
    shell.fail = Errors.NOT_ENOUGH_REPLICAS
    answer = shell.join_streams("c", READING, "p-i", instance_id="i")
    assert answer.error_code == Errors.COORDINATOR_NOT_AVAILABLE.code
    shell.fail = Errors.NONE
    group = shell.streams_group()
    assert group.members.keys() == {"a", "b"}
    assert group.static_members == {"i": "a"}


def test_a_member_that_went_while_it_gave_tasks_up_is_not_timed(shell):
    first, second = static(shell, "a", rebalance_timeout_ms=1_000), StreamsMember(shell, "b", READING)
    first.step()
    second.step()
    shell.streams_beat("a", first.epoch, owned={"0": {0, 1, 2, 3}}, instance_id="i")
    first.leave(-2)
    for restart in (False, True):
        if restart:
            shell.restart()
        shell.advance(2_000)
        assert shell.streams_group().members.keys() == {"a", "b"}
    again = static(shell, "c")
    settle(again, second)
    assert shell.streams_group().state == "Stable"
