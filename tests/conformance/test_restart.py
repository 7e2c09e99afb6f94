"""A broker that stops and dies under its clients: producers lose and double nothing, groups continue."""

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.conformance.drivers import CLIENTS, Driver, Json, Session, flooded
from tests.support.target import Broker, target_class
from tests.support.waiting import HANG_S, pause, wait_until
from tests.support.wire import wait_for_leaders

COUNT, RATE_PER_S, PARTITIONS = 5000, 1000, 2


@dataclass
class Aftermath:
    """The state after the broker was restarted under seven producers and seven groups."""

    broker: Broker
    floods: dict[str, Any] = field(default_factory=dict)
    members: dict[str, str] = field(default_factory=dict)
    read_before: dict[str, int] = field(default_factory=dict)


def restart(broker: Broker, how: Callable[[], int], *topics: str) -> None:
    """Stops and starts the broker, and waits until it leads again what it led."""
    how()
    broker.start()
    for topic in topics:
        wait_for_leaders(broker.bootstrap, topic, PARTITIONS)


@pytest.fixture(scope="module")
def aftermath(
    tmp_path_factory: pytest.TempPathFactory, drivers: Callable[[str], Driver]
) -> Iterator[Aftermath]:
    """All clients write (and hold a group) while the broker stops cleanly once and is killed once."""
    broker = target_class()(tmp_path_factory.mktemp("restarted"))
    broker.start()
    left = Aftermath(broker)
    try:
        put_through_restarts(left, drivers)
        yield left
    finally:
        if broker.alive():
            broker.kill()


def put_through_restarts(left: Aftermath, drivers: Callable[[str], Driver]) -> None:
    """Groups read and commit, floods begin, the broker stops and is killed; the floods continue."""
    broker = left.broker
    sessions = {name: Session(drivers(name), broker.bootstrap) for name in CLIENTS}
    for name, client in sessions.items():
        client.call("create_topic", topic=f"flood-{name}", partitions=PARTITIONS)
        client.call("create_topic", topic=f"group-{name}", partitions=PARTITIONS)
        for kind in ("flood", "group"):
            wait_for_leaders(broker.bootstrap, f"{kind}-{name}", PARTITIONS)
        client.produce(f"group-{name}", numbered(0, 50))
        left.members[name] = join(client, name)
    for name, client in sessions.items():
        wait_for_reads(client, left, range(50))
        client.call("commit", handle=left.members[name])
        left.read_before[name] = len(read(client, left))
    handles = {name: client.open_producer(idempotent=True) for name, client in sessions.items()}
    shape = {"partitions": PARTITIONS, "count": COUNT, "size": 100, "rate_per_s": RATE_PER_S}
    for name, handle in handles.items():
        args = {"bootstrap": broker.bootstrap, "handle": handle, "topic": f"flood-{name}", **shape}
        left.floods[name] = drivers(name).submit("flood", **args)
    topics = [f"{kind}-{name}" for kind in ("flood", "group") for name in CLIENTS]
    for how in (broker.stop, broker.kill):
        pause(1.5, "some of each flood comes before, some after")
        restart(broker, how, *topics)


def numbered(start: int, count: int) -> list[Json]:
    return [{"partition": i % PARTITIONS, "value": b"%d" % i} for i in range(start, start + count)]


def join(client: Session, name: str) -> str:
    handle = client.driver.handle()
    topics, assignor = [f"group-{name}"], client.client.assignor
    options = {"assignor": assignor, "session_timeout_ms": 30000}
    client.call("join", handle=handle, group=f"of-{name}", topics=topics, **options)
    return handle


def read(client: Session, left: Aftermath) -> list[int]:
    """The numbers that the client's member has read so far, in the order it read them."""
    records = client.call("member", handle=left.members[client.name])["records"]
    return [int(base64.b64decode(value)) for *_, value in records]


def wait_for_reads(client: Session, left: Aftermath, expected: range) -> None:
    """Waits until the client's member has read these numbers and no others; fails with all that is known."""

    def all_that_is_known() -> str:
        name = client.name
        group = {"group": f"of-{name}", "topic": f"group-{name}", "partitions": list(range(PARTITIONS))}
        return (
            f"{name} wanted {expected}, member {client.call('member', handle=left.members[name])}, "
            f"committed {client.call('committed', **group)}, "
            f"group {client.call('describe_group', group=f'of-{name}')}, "
            f"ends {[client.call('bounds', topic=f'group-{name}', partition=p) for p in range(PARTITIONS)]}"
        )

    wait_until(lambda: set(read(client, left)) == set(expected), all_that_is_known, every_s=0.05)


@pytest.mark.parametrize("name", list(CLIENTS))
def test_idempotent_producer_across_restarts(
    name: str, aftermath: Aftermath, drivers: Callable[[str], Driver]
) -> None:
    assert aftermath.floods[name].result(HANG_S) == {"acked": COUNT}
    client = Session(drivers(name), aftermath.broker.bootstrap)
    bounds = [client.call("bounds", topic=f"flood-{name}", partition=each) for each in range(PARTITIONS)]
    assert bounds == [{"earliest": 0, "latest": COUNT // PARTITIONS}] * PARTITIONS
    assert client.summarize(f"flood-{name}", COUNT, PARTITIONS) == flooded(COUNT)


@pytest.mark.parametrize("name", list(CLIENTS))
def test_group_goes_on_after_restarts(
    name: str, aftermath: Aftermath, drivers: Callable[[str], Driver]
) -> None:
    aftermath.floods[name].result(HANG_S)
    client = Session(drivers(name), aftermath.broker.bootstrap)
    committed = client.call("committed", group=f"of-{name}", topic=f"group-{name}", partitions=[0, 1])
    assert committed["offsets"] == [25, 25]
    client.produce(f"group-{name}", numbered(50, 50))
    wait_for_reads(client, aftermath, range(100))
    since = read(client, aftermath)[aftermath.read_before[name] :]
    assert min(since) == 50, "what was committed came again"
    client.call("commit", handle=aftermath.members[name])
    client.call("leave", handle=aftermath.members[name])
    client.produce(f"group-{name}", numbered(100, 10))
    aftermath.members[name] = join(client, name)
    wait_for_reads(client, aftermath, range(100, 110))
    client.call("leave", handle=aftermath.members[name])


def test_topics_configs_and_deletions_survive(aftermath: Aftermath, drivers: Callable[[str], Driver]) -> None:
    java = Session(drivers("java"), aftermath.broker.bootstrap)
    for each in aftermath.floods.values():
        each.exception(HANG_S)
    java.call("create_topic", topic="kept", partitions=3, configs={"retention.ms": "123456789"})
    java.call("create_topic", topic="dropped", partitions=1)
    java.call("alter_topic_configs", topic="kept", configs={"max.message.bytes": "54321"})
    java.produce("kept", numbered(0, 10))
    java.call("delete_records", topic="kept", partition=0, before=2)
    java.call("delete_topic", topic="dropped")
    before = java.call("describe_topic", topic="kept")
    for how in (aftermath.broker.stop, aftermath.broker.kill):
        restart(aftermath.broker, how, "kept")
        topics = wait_until(lambda: java.call("list_topics")["topics"], "the topics")
        assert topics["kept"] == 3
        assert "dropped" not in topics
        assert java.call("describe_topic", topic="kept") == before
        configs = java.call("topic_configs", topic="kept")["configs"]
        assert (configs["retention.ms"], configs["max.message.bytes"]) == ("123456789", "54321")
        assert java.call("bounds", topic="kept", partition=0) == {"earliest": 2, "latest": 5}
        assert len(java.consume("kept", 5, partitions=2, offset=2)) == 5
