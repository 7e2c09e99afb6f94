"""The classic group protocol through every client's subscribe(): sharing, rebalance, commits, static and cooperative."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.drivers import CLIENTS, Driver, Session, clients_with
from tests.conformance.members import Member, fill, numbers, wait_for_numbers
from tests.support.waiting import wait_until


def test_two_members_share_and_take_over(
    client: Session, make_topic: Callable[..., str], topic_name: str
) -> None:
    topic = make_topic(4)
    fill(client, topic, 4, 0, 40)
    first = Member(client, topic_name, topic)
    wait_for_numbers(range(40), first)
    assert first.partitions() == [0, 1, 2, 3]
    first.commit()
    second = Member(client, topic_name, topic)
    wait_until(
        lambda: (len(first.partitions()), len(second.partitions())) == (2, 2),
        "two partitions for each member",
    )
    assert sorted(first.partitions() + second.partitions()) == [0, 1, 2, 3]
    fill(client, topic, 4, 40, 40)
    wait_for_numbers(range(80), first, second)
    first.commit()
    second.commit()
    first.leave()
    wait_until(lambda: second.partitions() == [0, 1, 2, 3], "the second member to take over")
    before = numbers(second)
    fill(client, topic, 4, 80, 20)
    wait_until(lambda: set(range(80, 100)) <= numbers(second), "the rest")
    assert numbers(second) == before | set(range(80, 100)), "nothing that the first member had committed"
    second.leave()


def test_commit_and_resume(client: Session, make_topic: Callable[..., str], topic_name: str) -> None:
    topic = make_topic(2)
    fill(client, topic, 2, 0, 30)
    first = Member(client, topic_name, topic)
    wait_for_numbers(range(30), first)
    first.commit()
    first.leave()
    fill(client, topic, 2, 30, 10)
    second = Member(client, topic_name, topic)
    wait_for_numbers(range(30, 40), second)
    second.leave()


@pytest.mark.parametrize("name", clients_with("static"))
def test_static_member_comes_back_to_its_partitions(
    name: str, session: Callable[[str], Session], make_topic: Callable[..., str], topic_name: str
) -> None:
    client, topic = session(name), make_topic(4)
    options: dict[str, Any] = {"session_timeout_ms": 30000}
    first = Member(client, topic_name, topic, instance_id="one", **options)
    wait_until(lambda: len(first.partitions()) == 4, "the first member's partitions")
    second = Member(client, topic_name, topic, instance_id="two", **options)
    wait_until(
        lambda: (len(first.partitions()), len(second.partitions())) == (2, 2),
        "two partitions for each member",
    )
    kept, owned, lost = first.partitions(), second.partitions(), first.lost()
    second.leave()
    again = Member(client, topic_name, topic, instance_id="two", **options)
    wait_until(lambda: again.partitions() == owned, "the same partitions for the same instance")
    assert first.partitions() == kept
    assert first.lost() == lost, "a static member's return must not rebalance the others"
    again.leave()
    first.leave()


@pytest.mark.parametrize("name", clients_with("cooperative"))
def test_cooperative_rebalance_keeps_what_stays(
    name: str, session: Callable[[str], Session], make_topic: Callable[..., str], topic_name: str
) -> None:
    client, topic = session(name), make_topic(6)
    first = Member(client, topic_name, topic, assignor="cooperative-sticky")
    wait_until(lambda: len(first.partitions()) == 6, "six partitions for the only member")
    second = Member(client, topic_name, topic, assignor="cooperative-sticky")
    wait_until(
        lambda: (len(first.partitions()), len(second.partitions())) == (3, 3),
        "three partitions for each member",
    )
    assert sorted(first.partitions() + second.partitions()) == list(range(6))
    assert first.lost() == second.partitions(), "only the partitions that moved were given up"
    fill(client, topic, 6, 0, 60)
    wait_for_numbers(range(60), first, second)
    second.leave()
    wait_until(lambda: first.partitions() == list(range(6)), "the first member to take the rest back")
    first.leave()


def test_one_group_of_many_clients(
    session: Callable[[str], Session], make_topic: Callable[..., str], topic_name: str
) -> None:
    names = ["java", "confluent", "kafka-python", "aiokafka", "franz-go", "sarama"]
    topic = make_topic(len(names))
    members = [Member(session(name), topic_name, topic, assignor="range") for name in names]
    wait_until(lambda: [len(each.partitions()) for each in members] == [1] * len(names), "one partition each")
    assert sorted(partition for each in members for partition in each.partitions()) == list(range(len(names)))
    fill(session("java"), topic, len(names), 0, 60)
    wait_for_numbers(range(60), *members)
    described = session("java").call("describe_group", group=topic_name)
    assert described == {"state": "Stable", "members": len(names)}
    for each in members:
        each.leave()


def test_member_that_dies_is_expelled(
    session: Callable[[str], Session], make_topic: Callable[..., str], topic_name: str
) -> None:
    topic = make_topic(2)
    doomed_driver = Driver(CLIENTS["franz-go"])
    doomed = Member(
        Session(doomed_driver, session("java").bootstrap), topic_name, topic, session_timeout_ms=6000
    )
    wait_until(lambda: doomed.partitions() == [0, 1], "the first member's partitions")
    survivor = Member(session("java"), topic_name, topic, session_timeout_ms=6000)
    wait_until(lambda: len(survivor.partitions()) == 1, "one partition each")
    doomed_driver.close()
    wait_until(lambda: survivor.partitions() == [0, 1], "the session of the dead member to expire")
    survivor.leave()
