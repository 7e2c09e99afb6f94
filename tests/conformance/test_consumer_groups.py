"""Groups of KIP-848 through the clients that have the protocol: sharing, commits, static members, a change of protocol."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.drivers import Driver, Session
from tests.conformance.members import Member, fill, numbers, wait_for_numbers
from tests.support.java_tools import TOOLS, java_tool
from tests.support.target import Broker
from tests.support.waiting import wait_until
from tests.support.wire import wait_for_leaders

GROUPS = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
NEW: dict[str, Any] = {"protocol": "consumer"}


@pytest.fixture(params=["java", "confluent"])
def new_client(request: pytest.FixtureRequest, session: Callable[[str], Session]) -> Session:
    """Returns a client that has the new protocol."""
    return session(request.param)


def test_two_members_share_and_take_over(
    new_client: Session, make_topic: Callable[..., str], topic_name: str
) -> None:
    topic = make_topic(4)
    fill(new_client, topic, 4, 0, 40)
    first = Member(new_client, topic_name, topic, **NEW)
    wait_for_numbers(range(40), first)
    first.commit()
    second = Member(new_client, topic_name, topic, **NEW)
    wait_until(
        lambda: (len(first.partitions()), len(second.partitions())) == (2, 2),
        "two partitions for each member",
    )
    assert sorted(first.partitions() + second.partitions()) == [0, 1, 2, 3]
    assert first.lost() == second.partitions(), "only the partitions that moved were given up"
    fill(new_client, topic, 4, 40, 40)
    wait_for_numbers(range(80), first, second)
    first.commit()
    second.commit()
    first.leave()
    wait_until(lambda: second.partitions() == [0, 1, 2, 3], "the second member to take over")
    before = numbers(second)
    fill(new_client, topic, 4, 80, 20)
    wait_until(lambda: set(range(80, 100)) <= numbers(second), "the rest")
    assert numbers(second) == before | set(range(80, 100)), "nothing that the first member had committed"
    second.leave()


def test_static_member_comes_back_to_its_partitions(
    new_client: Session, make_topic: Callable[..., str], topic_name: str
) -> None:
    topic = make_topic(4)
    first = Member(new_client, topic_name, topic, instance_id="one", **NEW)
    second = Member(new_client, topic_name, topic, instance_id="two", **NEW)
    wait_until(
        lambda: (len(first.partitions()), len(second.partitions())) == (2, 2),
        "two partitions for each member",
    )
    kept, owned, lost = first.partitions(), second.partitions(), first.lost()
    second.leave()
    again = Member(new_client, topic_name, topic, instance_id="two", **NEW)
    wait_until(lambda: again.partitions() == owned, "the same partitions for the same instance")
    assert (first.partitions(), first.lost()) == (kept, lost)
    again.leave()
    first.leave()


def test_members_change_their_protocol_one_by_one(
    session: Callable[[str], Session], make_topic: Callable[..., str], topic_name: str
) -> None:
    """Each kind of client joins with the old protocol and then with the new one, and back."""
    topic = make_topic(4)
    java, confluent = session("java"), session("confluent")
    fill(java, topic, 4, 0, 20)
    members = [Member(client, topic_name, topic, "range") for client in (java, confluent)]
    shared = lambda: sorted(part for each in members for part in each.partitions()) == [0, 1, 2, 3]  # noqa: E731
    wait_until(shared, "the classic members share the partitions")
    wait_for_numbers(range(20), *members)
    for options in (NEW, {}):
        for place, client in enumerate((java, confluent)):
            members[place].leave()
            members[place] = Member(client, topic_name, topic, "range", **options)
            wait_until(
                lambda: shared() and all(each.partitions() for each in members), "all share the partitions"
            )
        state = java.call("describe_group", group=topic_name)["state"] if not options else "Stable"
        assert state == "Stable"
    fill(java, topic, 4, 20, 20)
    wait_until(lambda: set(range(20, 40)) <= numbers(*members), "what comes later")
    for member in members:
        member.leave()


@pytest.mark.parametrize("name", ["java", "confluent"])
def test_members_survive_a_kill_of_the_broker(
    name: str, drivers: Callable[[str], Driver], own_broker: Broker
) -> None:
    client = Session(drivers(name), own_broker.bootstrap)
    client.call("create_topic", topic="t", partitions=2)
    wait_for_leaders(own_broker.bootstrap, "t", 2)
    fill(client, "t", 2, 0, 20)
    member = Member(client, "g", "t", **NEW)
    wait_for_numbers(range(20), member)
    member.commit()
    own_broker.kill()
    own_broker.start()
    fill(client, "t", 2, 20, 20)
    wait_for_numbers(range(40), member)
    assert member.lost() == []
    member.leave()


def test_kafkas_group_command(
    session: Callable[[str], Session], make_topic: Callable[..., str], topic_name: str, bootstrap: str
) -> None:
    topic, java, at = make_topic(), session("java"), ["--bootstrap-server", bootstrap]
    fill(java, topic, 1, 0, 10)
    member = Member(java, topic_name, topic, **NEW)
    wait_for_numbers(range(10), member)
    member.commit()
    named = ["--group", topic_name]
    state = java_tool(GROUPS, *at, "--describe", *named, "--state")
    assert {"uniform", "Stable"} <= set(state.split()), state
    members = java_tool(GROUPS, *at, "--describe", *named, "--members", "--verbose")
    assert f"{topic}:0" in members or f"{topic}(0)" in members, members
    listed = [line.split() for line in java_tool(GROUPS, *at, "--list", "--type", "consumer").splitlines()]
    assert topic_name in [name for line in listed for name in line]
    member.leave()
    wait_until(
        lambda: "Empty" in java_tool(GROUPS, *at, "--describe", *named, "--state"), "the group is empty"
    )
    java_tool(GROUPS, *at, "--reset-offsets", *named, "--topic", topic, "--to-offset", "4", "--execute")
    described = java_tool(GROUPS, *at, "--describe", *named)
    (row,) = [line.split() for line in described.splitlines() if line.startswith(topic_name)]
    assert row[-6:-3] == ["4", "10", "6"], described
    java_tool(GROUPS, *at, "--delete", *named)
    assert topic_name not in java_tool(GROUPS, *at, "--list").split()
