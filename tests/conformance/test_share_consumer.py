"""Our share consumer, on Apache Kafka and on Bowstring."""

import asyncio
import json
import uuid
from collections.abc import Callable
from typing import Any

import pyarrow.compute as pc
import pytest
from typer.testing import CliRunner

from bowstring import Admin, Producer, ShareConsumer, ShareRecord, TopicPartition, aio
from bowstring.cli.app import application
from bowstring.clients.errors import BrokerError, ConfigError
from bowstring.clients.share.records import Acknowledgement, Outcome
from tests.support.topics import made
from tests.support.waiting import HANG_S, wait_until


@pytest.fixture
def group(where: str) -> str:
    """A share group that begins at the first record, and whose members notice changes quickly."""
    name = f"s-{uuid.uuid4().hex}"
    settings = {"share.auto.offset.reset": "earliest", "share.heartbeat.interval.ms": "500"}
    with Admin(where) as admin:
        admin.alter_configs("group", name, set=settings)
    return name


def fill(where: str, topic: str, count: int, first: int = 0) -> None:
    with Producer(where) as producer:
        for number in range(first, first + count):
            producer.send(topic, str(number), partition=0)


def read(consumer: ShareConsumer, count: int, each: Callable[[ShareRecord], None]) -> list[ShareRecord]:
    """Polls until `count` records have come; `each` returns how to acknowledge each record."""
    found: list[ShareRecord] = []

    def enough() -> bool:
        for record in consumer.poll(0.2):
            each(record)
            found.append(record)
        return len(found) >= count

    wait_until(enough)
    return found


def test_polls_accept_what_the_poll_before_returned(where: str, group: str) -> None:
    topic = made(where, 1)
    fill(where, topic, 10)
    place = TopicPartition(topic, 0)
    with ShareConsumer(where, group_id=group) as consumer:
        consumer.subscribe(topic)
        records = read(consumer, 10, lambda record: None)
        assert [int(record.value or b"") for record in records] == list(range(10))
        assert {record.delivery_count for record in records} == {1}
        assert consumer.assignment() == {place} and consumer.lock_timeout_ms > 0
        consumer.commit_sync()
        with pytest.raises(ConfigError, match="explicit"):
            consumer.accept(records[0])
    with pytest.raises(ZeroDivisionError), ShareConsumer(where, group_id=group) as consumer:
        fill(where, topic, 5, 10)
        consumer.subscribe([topic])
        assert [record.offset for record in read(consumer, 5, lambda record: None)] == list(range(10, 15))
        raise ZeroDivisionError
    with ShareConsumer(where, group_id=group) as consumer:
        consumer.subscribe([topic])
        again = read(consumer, 5, lambda record: None)
    assert [(record.offset, record.delivery_count) for record in again] == [(n, 2) for n in range(10, 15)]


def test_each_record_has_its_own_acknowledgement(where: str, group: str) -> None:
    topic = made(where, 1)
    fill(where, topic, 8)
    told: list[Outcome] = []
    with ShareConsumer(
        where, group_id=group, acknowledgement_mode="explicit", on_acknowledged=told.append
    ) as consumer:
        consumer.subscribe(topic)
        kinds = [
            Acknowledgement.ACCEPT,
            Acknowledgement.RELEASE,
            Acknowledgement.REJECT,
            Acknowledgement.RENEW,
        ]
        first = read(consumer, 8, lambda record: consumer.acknowledge(record, kinds[record.offset % 4]))
        assert consumer.commit_sync() == {TopicPartition(topic, 0): None}
        assert told[-1] == Outcome(TopicPartition(topic, 0), [(0, 7)], None)
        again = read(consumer, 2, consumer.accept)
        assert [(record.offset, record.delivery_count) for record in again] == [(1, 2), (5, 2)]
        consumer.accept([record for record in first if record.offset in (3, 7)])
        assert consumer.commit_sync() == {TopicPartition(topic, 0): None}
        with pytest.raises(ConfigError, match="not held"):
            consumer.accept(first[3])
        assert consumer.poll(0.5) == []


def test_columns_are_acknowledged_by_masks(where: str, group: str) -> None:
    topic = made(where, 1)
    fill(where, topic, 100)
    with ShareConsumer(where, group_id=group, acknowledgement_mode="explicit") as consumer:
        consumer.subscribe(topic)
        batch = consumer.poll_arrow(HANG_S)
        assert batch.num_rows == 100
        assert set(batch["delivery_count"].to_pylist()) == {1}
        odd = pc.equal(pc.bit_wise_and(batch["offset"], 1), 1)
        consumer.release(batch, mask=odd)
        consumer.accept(batch.filter(pc.invert(odd)), offsets=list(range(0, 50)))
        with pytest.raises(ConfigError, match=r"record 50 .* not acknowledged"):
            consumer.poll(0)
        consumer.reject(batch.filter(pc.invert(odd)), offsets=list(range(50, 100)))
        assert consumer.commit_sync() == {TopicPartition(topic, 0): None}
        again: list[int] = []

        def all_again() -> bool:
            found = consumer.poll_arrow(0.2, columns=["topic", "partition", "delivery_count", "offset"])
            consumer.accept(found)
            assert set(found["delivery_count"].to_pylist()) <= {2}
            again.extend(found["offset"].to_pylist())
            return len(again) == 50

        wait_until(all_again)
        assert sorted(again) == list(range(1, 100, 2))


def test_two_members_share_one_partition(where: str, group: str) -> None:
    topic = made(where, 1)
    seen: list[int] = []
    options: dict[str, Any] = {"group_id": group, "acquire_mode": "record_limit", "max_poll_records": 10}
    with ShareConsumer(where, **options) as one, ShareConsumer(where, **options) as two:
        shares = {one: 0, two: 0}
        for each in shares:
            each.subscribe(topic)
            each.poll(0)
        wait_until(lambda: all(each.poll(0.05) == [] and each.assignment() for each in shares))
        fill(where, topic, 200)

        def all_read() -> bool:
            for each in shares:
                records = each.poll(0.05)
                shares[each] += len(records)
                seen.extend(int(record.value or b"") for record in records)
            return len(seen) == 200

        wait_until(all_read)
    assert sorted(seen) == list(range(200)) and min(shares.values()) > 0


def test_share_consumer_of_asyncio(where: str, group: str) -> None:
    topic = made(where, 1)
    fill(where, topic, 6)

    async def main() -> list[int]:
        found: list[int] = []
        async with aio.ShareConsumer(where, group_id=group, acknowledgement_mode="explicit") as consumer:
            await consumer.subscribe(topic)
            async for record in consumer:
                await consumer.accept(record)
                found.append(record.offset)
                if len(found) == 6:
                    break
            assert await consumer.commit_sync() == {TopicPartition(topic, 0): None}
        return found

    assert asyncio.run(asyncio.wait_for(main(), HANG_S)) == list(range(6))


def test_a_group_of_another_type_is_refused(where: str) -> None:
    topic, group = made(where, 1), uuid.uuid4().hex
    with Admin(where) as admin:
        admin.alter_offsets(group, {TopicPartition(topic, 0): 0})
    with (
        ShareConsumer(where, group_id=group) as consumer,
        pytest.raises(BrokerError, match="GROUP_ID_NOT_FOUND"),
    ):
        consumer.subscribe(topic)
        while True:
            consumer.poll(0.1)


def test_the_command_line_reads_and_moves_share_groups(where: str, group: str) -> None:
    topic = made(where, 1)
    fill(where, topic, 4)

    def said(*words: str) -> str:
        done = CliRunner().invoke(application(), [*words, "--bootstrap-server", where])
        assert done.exit_code == 0, done.output
        return done.stdout

    assert said("share", "consume", topic, "-g", group, "-n", "3", "-v").splitlines() == [
        f"0:{number}\t1\t{number}" for number in range(3)
    ]
    (row,) = json.loads(said("groups", "lag", group, "--json"))
    assert (row["log_end_offset"], row["lag"]) == (4, 1)
    assert json.loads(said("groups", "describe", group, "--json"))["type"] == "share"
    assert group in said("groups", "list", "--type", "share")
    (top,) = json.loads(said("groups", "top", group, "--once", "--json"))
    assert (top["type"], top["lag"]) == ("share", 1) and top["seconds"] >= 0
    said("groups", "reset-offsets", group, "--to-earliest", "--execute")
    assert said("share", "consume", topic, "-g", group, "-n", "4").split() == ["0", "1", "2", "3"]
    said("groups", "delete", group)
    assert group not in said("groups", "list")
