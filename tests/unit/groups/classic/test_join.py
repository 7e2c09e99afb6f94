"""JoinGroup: member ids, the initial rebalance, protocols, limits."""

import pytest

from bowstring.engine.groups.classic.group import GroupState
from bowstring.protocol.errors import Errors
from tests.support.group_harness import Shell, subscription


def test_new_member_is_given_an_id_first():
    shell = Shell()
    answer = shell.ask(shell.join(client="app"))
    assert answer.error_code == Errors.MEMBER_ID_REQUIRED.code
    assert answer.member_id == "app-id1"
    assert shell.group().state is GroupState.EMPTY
    assert shell.group().pending_join_members == {"app-id1"}


def test_versions_before_4_join_in_one_step():
    shell = Shell()
    token = shell.join(version=3)
    assert token not in shell.answers
    shell.advance(3_000)
    answer = shell.ask(token)
    assert (answer.error_code, answer.generation_id, answer.leader) == (0, 1, answer.member_id)


def test_version_0_uses_the_session_timeout_to_rebalance():
    shell = Shell()
    shell.join(version=0, session_ms=7_000, rebalance_ms=-1)
    assert shell.group().rebalance_timeout_ms == 7_000


def test_initial_rebalance_waits_the_delay_and_more_while_members_come():
    shell = Shell()
    _, first = shell.join_twice()
    shell.advance(2_000)
    _, second = shell.join_twice()
    shell.advance(1_500)
    assert not {first, second} & set(shell.answers), "a member came in the first delay"
    shell.advance(3_000)
    assert shell.ask(first).generation_id == shell.ask(second).generation_id == 1


def test_initial_rebalance_is_never_longer_than_the_rebalance_timeout():
    shell = Shell()
    tokens = [shell.join_twice(rebalance_ms=10_000)[1]]
    for _ in range(9):
        shell.advance(1_000)
        tokens.append(shell.join_twice(rebalance_ms=10_000)[1])
    shell.advance(1_000)
    assert {shell.ask(token).generation_id for token in tokens} == {1}


def test_no_initial_delay():
    shell = Shell(group_initial_rebalance_delay_ms=0)
    _, token = shell.join_twice()
    shell.advance(0)
    assert shell.ask(token).generation_id == 1


def test_only_the_leader_sees_the_members():
    shell = Shell()
    joins = dict(shell.join_twice(protocols=[("range", subscription(f"t{i}"))]) for i in range(3))
    shell.wait(max(joins.values()))
    leader = shell.group().leader_id
    for member_id, token in joins.items():
        answer = shell.ask(token)
        assert (answer.leader, answer.protocol_name, answer.protocol_type) == (leader, "range", "consumer")
        assert not answer.skip_assignment
        assert [m.member_id for m in answer.members] == (list(joins) if member_id == leader else [])
    metadata = [member.metadata for member in shell.ask(joins[leader]).members]
    assert metadata == [subscription(f"t{i}") for i in range(3)]


def test_protocol_with_most_votes_among_those_everyone_has():
    shell = Shell()
    shell.join_twice(protocols=[("a", b""), ("sticky", b""), ("range", b"")])
    shell.join_twice(protocols=[("range", b""), ("sticky", b"")])
    _, token = shell.join_twice(protocols=[("sticky", b""), ("range", b"")])
    shell.advance(60_000)
    assert shell.ask(token).protocol_name == "sticky"


@pytest.mark.parametrize(
    "how",
    [
        {"protocols": [("roundrobin", b"")]},
        {"protocol_type": "connect"},
        {"protocols": []},
    ],
)
def test_member_without_a_common_protocol(how):
    shell = Shell()
    shell.stable(1)
    assert shell.ask(shell.join(**how)).error_code == Errors.INCONSISTENT_GROUP_PROTOCOL.code
    assert shell.group().state is GroupState.STABLE


@pytest.mark.parametrize("how", [{"protocols": []}, {"protocol_type": ""}])
def test_empty_group_needs_a_type_and_protocols(how):
    shell = Shell()
    assert shell.ask(shell.join(**how)).error_code == Errors.INCONSISTENT_GROUP_PROTOCOL.code


def test_another_protocol_type_may_use_the_group_once_it_is_empty():
    shell = Shell()
    (member_id,) = shell.stable(1)
    shell.leave(member_id)
    _, token = shell.join_twice(protocol_type="connect", protocols=[("default", b"x")])
    shell.advance(3_000)
    assert shell.ask(token).protocol_type == "connect"


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ({"session_ms": 5_999}, Errors.INVALID_SESSION_TIMEOUT),
        ({"session_ms": 1_800_001}, Errors.INVALID_SESSION_TIMEOUT),
        ({"group": ""}, Errors.INVALID_GROUP_ID),
        ({"member_id": "made-up"}, Errors.UNKNOWN_MEMBER_ID),
    ],
)
def test_refused_requests_leave_no_group(how, error):
    shell = Shell()
    answer = shell.ask(shell.join(**how))
    assert answer.error_code == error.code
    assert answer.member_id == how.get("member_id", "")
    assert not shell.shard.state.groups


def test_unknown_member_of_a_known_group():
    shell = Shell()
    shell.stable(1)
    assert shell.ask(shell.join("made-up")).error_code == Errors.UNKNOWN_MEMBER_ID.code


def test_promised_member_that_never_comes_is_forgotten():
    shell = Shell()
    member_id = shell.ask(shell.join()).member_id
    shell.advance(9_999)
    assert shell.group().pending_join_members
    shell.advance(1)
    assert not shell.group().pending_join_members
    assert shell.ask(shell.join(member_id)).error_code == Errors.UNKNOWN_MEMBER_ID.code


def test_a_promised_member_holds_the_rebalance_up_until_it_joins_or_times_out():
    shell = Shell()
    first, second = shell.stable(2)
    shell.ask(shell.join())
    tokens = [shell.join(first, protocols=[("range", subscription("u"))]), shell.join(second)]
    assert not set(tokens) & set(shell.answers)
    shell.advance(10_000)
    assert {shell.ask(token).generation_id for token in tokens} == {2}


def test_new_member_parked_too_long_is_dropped():
    """Its connection may be long gone, and it cannot send heartbeats."""
    shell = Shell(group_initial_rebalance_delay_ms=1_000_000)
    token = shell.join(version=3, rebalance_ms=2_000_000)
    shell.advance(299_999)
    assert token not in shell.answers
    shell.advance(1)
    assert shell.ask(token).error_code == Errors.UNKNOWN_MEMBER_ID.code
    assert not shell.group().members


def test_group_max_size():
    shell = Shell(group_max_size=2)
    ids = shell.stable(2)
    assert shell.ask(shell.join()).error_code == Errors.GROUP_MAX_SIZE_REACHED.code
    again = shell.join(ids[0], protocols=[("range", subscription("u"))])
    assert again not in shell.answers, "a member of the group may always rejoin"
    assert shell.ask(shell.join("")).member_id, "one waits, there is room for one more"


def test_group_max_size_in_the_join_phase_counts_those_who_wait():
    shell = Shell(group_max_size=2)
    first, second = shell.stable(2)
    shell.join(first, protocols=[("range", subscription("u"))])
    other = shell.join(version=3)
    assert shell.ask(shell.join(second)).error_code == Errors.GROUP_MAX_SIZE_REACHED.code
    assert second not in shell.group().members
    assert other not in shell.answers or shell.ask(other).error_code == 0


def test_group_over_capacity_after_a_restart_rebalances():
    shell = Shell()
    ids = shell.stable(3)
    shell.config = type(shell.config)(group_max_size=2)
    shell.restart()
    assert shell.group().state is GroupState.PREPARING_REBALANCE
    tokens = [shell.join(member_id) for member_id in ids]
    assert shell.ask(tokens[2]).error_code == Errors.GROUP_MAX_SIZE_REACHED.code


def test_new_group_is_in_the_log_before_anything_else():
    shell = Shell()
    shell.join()
    shell.restart()
    assert shell.group().is_simple
    assert shell.group().generation == 0


def test_new_group_that_cannot_be_written_never_was():
    shell = Shell()
    shell.fail = Errors.NOT_ENOUGH_REPLICAS
    token = shell.join(version=3)
    answer = shell.ask(token)
    assert (answer.error_code, answer.member_id) == (Errors.COORDINATOR_NOT_AVAILABLE.code, "")
    assert not shell.shard.state.groups
    assert len(shell.timers) == 0


def test_a_request_sent_again_while_parked_replaces_the_first():
    shell = Shell()
    first, _ = shell.stable(2)
    parked = shell.join(first)
    again = shell.join(first)
    assert shell.ask(parked).error_code == Errors.REBALANCE_IN_PROGRESS.code
    assert again not in shell.answers
    assert shell.group().awaiting_join == 1


@pytest.mark.parametrize("client", ["c" * 32767, "é" * 16383])
def test_a_member_id_fits_into_messages_and_records(client):
    shell = Shell()
    member_id = shell.ask(shell.join(client=client)).member_id
    assert 32700 < len(member_id.encode()) <= 32767
    assert member_id.endswith("-id1")


def test_a_protocol_that_is_named_twice_counts_once():
    shell = Shell()
    first, token = shell.join_twice(protocols=[("range", subscription("t")), ("range", subscription("u"))])
    shell.advance(10_000)
    assert shell.answers[token].error_code == 0
    second = shell.ask(shell.join(protocols=[("other", b""), ("range", b"")])).member_id
    tokens = shell.join(second, protocols=[("other", b""), ("range", b"")]), shell.join(first)
    assert [shell.answers[each].protocol_name for each in tokens] == ["range", "range"]
