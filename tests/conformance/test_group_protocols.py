"""Our consumer in groups of KIP-848, on Apache Kafka and on Bowstring."""

import asyncio
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest

from bowstring import Admin, Consumer, Producer, SubscriptionPattern, TopicPartition, aio
from bowstring.clients.errors import BrokerError, ConfigError
from tests.support.topics import made
from tests.support.waiting import HANG_S, wait_until

Event = tuple[str, list[int]]
PARTITIONS = 6


class Member:
    """A consumer that polls in its own thread; records its listeners' calls and what it read."""

    def __init__(self, where: str, group: str, topics: Any, **options: Any) -> None:
        self.events: list[Event] = []
        self.values: list[int] = []
        self.stop = threading.Event()
        self.error: Exception | None = None
        self.consumer = Consumer(
            where, group_id=group, group_protocol="consumer", auto_offset_reset="earliest", **options
        )
        chosen: dict[str, Any] = (
            {"pattern": topics} if isinstance(topics, str | SubscriptionPattern) else {"topics": topics}
        )
        listeners: dict[str, Any] = {
            "on_assigned": self._note("+"),
            "on_revoked": self._note("-"),
            "on_lost": self._note("!"),
        }
        self.consumer.subscribe(**chosen, **listeners)
        self.thread = threading.Thread(target=self._work)
        self.thread.start()

    def _note(self, sign: str) -> Callable[[list[TopicPartition]], None]:
        return lambda partitions: self.events.append((sign, sorted(each.partition for each in partitions)))

    def _work(self) -> None:
        try:
            while not self.stop.is_set():
                self.values += [int(record.value or b"") for record in self.consumer.poll(timeout=0.05)]
            self.consumer.close()
        except Exception as error:
            self.error = error

    @property
    def partitions(self) -> set[int]:
        return {each.partition for each in self.consumer.assignment()}

    def end(self) -> None:
        self.stop.set()
        self.thread.join(HANG_S)
        assert not self.thread.is_alive()
        assert self.error is None, self.error


@pytest.fixture
def group(where: str) -> str:
    """A group whose members notice changes quickly."""
    name = f"g-{uuid.uuid4().hex}"
    with Admin(where) as admin:
        admin.alter_configs("group", name, set={"consumer.heartbeat.interval.ms": "500"})
    return name


@pytest.fixture
def members(where: str) -> Iterator[list[Member]]:
    made_here: list[Member] = []
    yield made_here
    for each in made_here:
        each.end()


def fill(where: str, topic: str, count: int) -> None:
    with Producer(where) as producer:
        for number in range(count):
            producer.send(topic, str(number), partition=number % PARTITIONS)


def shares(members: list[Member]) -> list[int]:
    return sorted(len(each.partitions) for each in members)


def test_members_share_and_keep_what_stays(where: str, group: str, members: list[Member]) -> None:
    topic = made(where, PARTITIONS)
    fill(where, topic, 60)
    members.append(Member(where, group, [topic]))
    wait_until(lambda: len(members[0].values) == 60)
    members.append(Member(where, group, [topic]))
    wait_until(lambda: shares(members) == [3, 3])
    kept, moved = members[0].partitions, members[1].partitions
    assert members[0].events[0] == ("+", [0, 1, 2, 3, 4, 5])
    assert [each for each in members[0].events if each[0] == "-"] == [("-", sorted(moved))]
    assert [each for each in members[1].events if each[1]] == [("+", sorted(moved))]
    assert kept | moved == set(range(PARTITIONS))
    fill(where, topic, 60)
    wait_until(lambda: sum(len(each.values) for each in members) == 120)
    first = members.pop(0)
    first.end()
    assert first.events[-1] == ("-", sorted(kept)), "close revokes"
    wait_until(lambda: shares(members) == [6])
    assert sorted(first.values + members[0].values) == sorted([*range(60), *range(60)])


def test_a_member_that_is_put_out_loses_its_partitions_and_joins_again(
    where: str, group: str, members: list[Member]
) -> None:
    topic = made(where, PARTITIONS)
    lazy = Consumer(where, group_id=group, group_protocol="consumer", max_poll_interval_ms=3000)
    events: list[str] = []
    with lazy:
        lazy.subscribe(
            [topic], on_assigned=lambda p: events.append("+"), on_lost=lambda p: events.append("lost")
        )
        wait_until(lambda: lazy.poll(0.1) == [] and len(lazy.assignment()) == PARTITIONS)
        members.append(Member(where, group, [topic]))
        wait_until(lambda: shares(members) == [PARTITIONS], "the first member does not poll and leaves")
        wait_until(lambda: lazy.poll(0.05) == [] and len(lazy.assignment()) == 3)
    assert (events[0], events[-1]) == ("+", "+") and events.count("lost") == 1


def test_commits_name_the_present_epoch(where: str, group: str, members: list[Member]) -> None:
    topic = made(where, PARTITIONS)
    fill(where, topic, 6)
    with Consumer(
        where,
        group_id=group,
        group_protocol="consumer",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    ) as one:
        one.subscribe([topic])
        wait_until(lambda: one.poll(0.1) == [] and len(one.assignment()) == PARTITIONS)
        members.append(Member(where, group, [topic]))
        for _ in range(20):  # the epoch rises meanwhile
            one.poll(0.1)
            one.commit({partition: 1 for partition in one.assignment()})
        wait_until(lambda: one.poll(0.05) == [] and shares(members) == [3])
        mine = sorted(one.assignment())
        one.commit({mine[0]: 1})
        assert one.committed(mine[:1])[mine[0]][0] == 1  # type: ignore[index]


def test_brokers_resolve_an_expression(where: str, group: str, members: list[Member]) -> None:
    topic = made(where, PARTITIONS)
    members.append(Member(where, group, SubscriptionPattern(f"{topic[:-1]}.")))
    wait_until(lambda: shares(members) == [PARTITIONS])
    members.append(Member(where, group, f"{topic[:-1]}."))  # resolved by the client
    wait_until(lambda: shares(members) == [3, 3])
    with (
        Consumer(where, group_id=group, group_protocol="consumer") as wrong,
        pytest.raises(BrokerError, match="INVALID_REGULAR_EXPRESSION"),
    ):
        wrong.subscribe(pattern=SubscriptionPattern("(["))
        while True:
            wrong.poll(0.1)


def test_static_members_and_assignors(where: str, group: str, members: list[Member]) -> None:
    topic = made(where, PARTITIONS)
    options: dict[str, Any] = {"group_instance_id": "a", "group_remote_assignor": "range"}
    members.append(Member(where, group, [topic], **options))
    members.append(Member(where, group, [topic], group_remote_assignor="range"))
    wait_until(lambda: shares(members) == [3, 3])
    mine = members[0].partitions
    members.pop(0).end()
    members.append(Member(where, group, [topic], **options))
    wait_until(lambda: members[1].partitions == mine, "a static member comes back to its partitions")
    assert members[0].partitions == set(range(PARTITIONS)) - mine
    with (
        Consumer(where, group_id=group, group_protocol="consumer", group_instance_id="a") as second,
        pytest.raises(BrokerError, match="UNRELEASED_INSTANCE_ID"),
    ):
        second.subscribe([topic])
        while True:
            second.poll(0.1)
    with (
        Consumer(where, group_id=group, group_remote_assignor="none") as unknown,
        pytest.raises(BrokerError, match="UNSUPPORTED_ASSIGNOR"),
    ):
        unknown.subscribe([topic])
        while True:
            unknown.poll(0.1)


def test_auto_takes_the_new_protocol_unless_classic_members_are_there(where: str) -> None:
    topic, group = made(where, PARTITIONS), uuid.uuid4().hex

    def group_type() -> str:
        with Admin(where) as admin:
            return next(each.group_type for each in admin.list_groups() if each.group_id == group)

    def joined(consumer: Consumer) -> bool:
        return consumer.poll(0.05) == [] and bool(consumer.assignment())

    with Consumer(where, group_id=group, heartbeat_interval_ms=200) as classic:
        classic.subscribe([topic])
        wait_until(lambda: joined(classic))
        with Consumer(where, group_id=group) as second:
            second.subscribe([topic])
            wait_until(lambda: joined(classic) and joined(second))
            assert group_type() == "classic"
    with Consumer(where, group_id=group) as modern:
        modern.subscribe([topic])
        wait_until(lambda: joined(modern))
        assert group_type() == "consumer"
    with pytest.raises(ConfigError, match="group_protocol='classic'"):
        Consumer(where, group_id=group, group_protocol="consumer", session_timeout_ms=10_000)


def test_members_of_asyncio_and_librdkafka(where: str, group: str, members: list[Member]) -> None:
    topic = made(where, PARTITIONS)
    config = {"bootstrap.servers": where, "group.id": group, "group.protocol": "consumer"}
    theirs = confluent_kafka.Consumer(config)
    theirs.subscribe([topic])
    members.append(Member(where, group, [topic]))

    async def main() -> None:
        async with aio.Consumer(where, group_id=group, group_protocol="consumer") as ours:
            await ours.subscribe([topic])
            deadline = asyncio.get_running_loop().time() + HANG_S
            while shares(members) != [2] or len(ours.assignment()) != 2 or len(theirs.assignment()) != 2:
                assert asyncio.get_running_loop().time() < deadline
                await ours.poll(0.05)
                theirs.poll(0)

    asyncio.run(main())
    theirs.close()
