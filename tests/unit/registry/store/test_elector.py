"""A member of the group of registries with the broker's own coordinator, request by request."""

from collections.abc import Iterator
from typing import Any

import pytest

from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.heartbeat import HeartbeatResponse
from bowstring.protocol.messages.join_group import JoinGroupRequest
from bowstring.registry.store.elector import REPLACED_PAUSE_S, Elector, GroupTimes, Step
from bowstring.registry.store.member_identity import MemberIdentity
from tests.support.group_harness import Shell
from tests.support.registry_world import TARGET, SimulatedLoop, World

TIMES = GroupTimes(session_timeout_s=10.0, rebalance_timeout_s=30.0, heartbeat_interval_s=1.0)


@pytest.fixture
def world() -> Iterator[World]:
    loop = SimulatedLoop()
    yield World(1, loop)
    loop.close()


def member(host: str) -> Elector:
    return Elector(TARGET.group_id, MemberIdentity("http", host, 8081), TIMES)


def step(world: World, elector: Elector, now: float = 0.0) -> None:
    """Sends what is due, and applies the answers that come soon."""
    for ask in elector.asks(now):
        answers: list[Any] = []
        world.ask_group(ask, answers.append)
        world.coordinator.advance(1)
        world.deliver()
        for answer in answers:
            elector.answered(ask, answer, now)


def settled(world: World, elector: Elector, now: float = 0.0) -> Elector:
    for _ in range(4):
        step(world, elector, now)
    assert elector.step is Step.STABLE
    return elector


def test_a_member_alone_leads_and_has_a_lease_from_when_it_asked(world):
    elector = settled(world, member("a"), 100.0)
    assert (elector.elected.leads, elector.elected.url) == (True, "http://a:8081")
    assert elector.lease_until == 110.0
    assert elector.due_at() == 101.0
    step(world, elector, 104.0)
    assert elector.lease_until == 114.0


def test_a_broker_that_wants_longer_sessions_gets_them():
    loop = SimulatedLoop()
    world = World(1, loop)
    world.coordinator = Shell(group_initial_rebalance_delay_ms=0, group_min_session_timeout_ms=8000)
    elector = Elector(TARGET.group_id, MemberIdentity("http", "a", 8081), GroupTimes())
    assert settled(world, elector, 100.0).lease_until == 110.0
    loop.close()


def test_who_is_started_again_leads_without_an_election(world):
    settled(world, member("a"))
    again = settled(world, member("a"))
    assert again.elected.leads
    assert again.generation == 1


def test_who_is_replaced_leads_no_more_and_stays_away_for_a_while(world):
    first = settled(world, member("a"))
    settled(world, member("a"))
    step(world, first, 5.0)
    assert (first.elected.leads, first.elected.url, first.lease_until) == (False, None, 0.0)
    assert first.due_at() == 5.0 + REPLACED_PAUSE_S
    assert not first.asks(6.0)


def test_a_heartbeat_without_an_answer_does_not_extend_the_lease(world):
    elector = settled(world, member("a"))
    (beat,) = elector.asks(1.0)
    elector.failed(beat, 4.0)
    assert elector.lease_until == 10.0
    assert elector.coordinator_lost
    assert elector.asks(5.0)


def test_answers_to_a_former_member_are_ignored(world):
    elector = settled(world, member("a"))
    (beat,) = elector.asks(1.0)
    elector.leave()
    elector.answered(beat, HeartbeatResponse(error_code=Errors.NONE.code), 2.0)
    assert elector.lease_until == 0.0


def test_a_coordinator_that_forgot_the_member_makes_it_join_anew(world):
    elector = settled(world, member("a"))
    (beat,) = elector.asks(1.0)
    elector.answered(beat, HeartbeatResponse(error_code=Errors.UNKNOWN_MEMBER_ID.code), 1.0)
    assert not elector.elected.leads
    (ask,) = elector.asks(1.0)
    assert ask.api is JoinGroupRequest
    request: Any = ask.body(9)
    assert (request.member_id, request.group_instance_id) == ("", "http-a-8081")


def test_old_brokers_get_no_ids_of_static_members():
    (ask,) = member("a").asks(0.0)
    request: Any = ask.body(4)
    assert request.group_instance_id is None
