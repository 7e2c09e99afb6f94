"""Consumer instances: made, subscribed or assigned, read, moved, committed, deleted."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any
from urllib.parse import quote

from msgspec import Struct, field

from bowstring.clients.errors import ConfigError
from bowstring.clients.records import OffsetAndMetadata, SubscriptionPattern, TopicPartition
from bowstring.rest.answer import Answering, Receive
from bowstring.rest.client_failure import bad_request
from bowstring.rest.v2.consumed_values import answer_text
from bowstring.rest.v2.consumer_instance import ConsumerInstance
from bowstring.rest.v2.consumer_instances import ConsumerInstances
from bowstring.rest.v2.consumer_settings import consumer_settings, read_limits
from bowstring.rest.v2.media_types import record_type
from bowstring.rest.v2.v2_call import V2Call, V2Operations
from bowstring.web.http_error import HttpError
from bowstring.web.limits import DisconnectedError
from bowstring.web.openapi import Parameter

operations = V2Operations((408, 409, 413, 415, 422))

_INSTANCE = "/consumers/{group_name}/instances/{instance}"
OFFSET_MAX = (1 << 63) - 2
PARTITIONS_MAX = 100_000


class PartitionData(Struct):
    """A partition of a topic."""

    topic: str
    partition: int


class PartitionsData(Struct):
    """Some partitions."""

    partitions: list[PartitionData]


class SubscriptionData(Struct):
    """Topics, or a pattern of them."""

    topics: list[str] | None = None
    topic_pattern: str | None = None


class OffsetData(Struct):
    """An offset of a partition."""

    topic: str
    partition: int
    offset: int
    metadata: str | None = None


class TimestampData(Struct):
    """A time in a partition."""

    topic: str
    partition: int
    timestamp: datetime | float
    metadata: str | None = None


class OffsetsData(Struct):
    """Some offsets."""

    offsets: list[OffsetData] | None = None


class SeekData(Struct):
    """Where to go on."""

    offsets: list[OffsetData] = field(default_factory=list)
    timestamps: list[TimestampData] = field(default_factory=list)


def _instances(call: V2Call) -> ConsumerInstances:
    return call.caller.shared("consumers", lambda: ConsumerInstances(call.caller, call.call.callers))


def _instance(call: V2Call) -> ConsumerInstance:
    return _instances(call).find(call.path["group_name"], call.path["instance"])


def _illegal(message: str) -> HttpError:
    return HttpError(409, 40903, f"Illegal state: {message}")


def _places(given: Iterable[Any]) -> list[TopicPartition]:
    """Returns partitions of a body.

    Raises:
        HttpError: 422, one of them cannot be.
    """
    found = [TopicPartition(each.topic, each.partition) for each in given]
    if len(found) > PARTITIONS_MAX:
        raise HttpError(422, 422, f"the request names more than {PARTITIONS_MAX} partitions")
    for each in found:
        if not each.topic or not 0 <= each.partition < 1 << 31:
            raise HttpError(422, 422, "topic must not be empty, and partition not be negative")
    return found


# ------------------------------------------------------------ instances


@operations.add_v2(
    "POST",
    "/consumers/{group_name}",
    "v2CreateConsumer",
    "Makes a consumer instance in a group.",
    body="V2CreateConsumerRequest",
    needs_body=False,
    answer="V2CreateConsumerResponse",
)
async def create_consumer(call: V2Call) -> Answering:
    """Makes a consumer instance."""
    group = call.path["group_name"]
    settings = consumer_settings(await call.body(dict[str, Any], {}), call.options)
    _instances(call).create(group, settings)
    path = f"consumers/{quote(group, safe='')}/instances/{quote(settings.name, safe='')}"
    return call.json({"instance_id": settings.name, "base_uri": f"{call.call.links.root}/{path}"})


@operations.add_v2("DELETE", _INSTANCE, "v2DeleteConsumer", "Deletes a consumer instance.", status=204)
async def delete_consumer(call: V2Call) -> Answering:
    """Deletes a consumer instance."""
    await _instances(call).delete(call.path["group_name"], call.path["instance"])
    return call.nothing()


# ------------------------------------------------------------ subscription and assignments


@operations.add_v2(
    "POST",
    f"{_INSTANCE}/subscription",
    "v2Subscribe",
    "Subscribes to topics, or to a pattern (RE2) of their whole names.",
    body="V2Subscription",
    status=204,
)
async def subscribe(call: V2Call) -> Answering:
    """Subscribes to topics, or to a pattern."""
    instance = _instance(call)
    wanted = await call.body(SubscriptionData)
    topics, pattern = wanted.topics, wanted.topic_pattern
    if (topics is None) == (pattern is None):
        raise _illegal("subscribe either to topics or to a topic_pattern")

    def run() -> None:
        consumer = instance.consumer()
        if consumer.assignment() and not instance.subscribed:
            raise _illegal("partitions are assigned by hand; delete the instance, or go on without topics")
        instance.seek_to_unreturned()
        if pattern is not None:
            # Brokers match it: it cannot keep the proxy busy.
            consumer.subscribe(pattern=SubscriptionPattern(pattern))
        elif topics:
            consumer.subscribe(topics)
        else:
            consumer.unsubscribe()
        instance.subscribed = bool(topics or pattern)

    try:
        await instance.run(run)
    except ConfigError as error:
        raise _illegal(str(error)) from error
    return call.nothing()


@operations.add_v2(
    "GET",
    f"{_INSTANCE}/subscription",
    "v2GetSubscription",
    "Lists the subscribed topics.",
    answer="V2Topics",
)
async def get_subscription(call: V2Call) -> Answering:
    """Lists the subscribed topics; of a pattern those that are assigned."""
    instance = _instance(call)

    def run() -> list[str]:
        consumer = instance.consumer()
        if not instance.subscribed:
            return []
        return sorted(consumer.subscription() | {each.topic for each in consumer.assignment()})

    return call.json({"topics": await instance.run(run)})


@operations.add_v2("DELETE", f"{_INSTANCE}/subscription", "v2Unsubscribe", "Ends reading.", status=204)
async def unsubscribe(call: V2Call) -> Answering:
    """Ends the subscription, or the assignment."""
    instance = _instance(call)

    def run() -> None:
        instance.seek_to_unreturned()
        instance.consumer().unsubscribe()
        instance.subscribed = False

    await instance.run(run)
    return call.nothing()


@operations.add_v2(
    "POST",
    f"{_INSTANCE}/assignments",
    "v2Assign",
    "Assigns partitions by hand.",
    body="V2TopicPartitions",
    status=204,
)
async def assign(call: V2Call) -> Answering:
    """Assigns partitions by hand."""
    instance = _instance(call)
    wanted = _places((await call.body(PartitionsData)).partitions)

    def run() -> None:
        if instance.subscribed:
            raise _illegal("the instance is subscribed to topics; delete its subscription first")
        consumer = instance.consumer()
        instance.forget_unreturned(consumer.assignment() - set(wanted))
        consumer.assign(wanted)

    await instance.run(run)
    return call.nothing()


@operations.add_v2(
    "GET",
    f"{_INSTANCE}/assignments",
    "v2GetAssignments",
    "Lists the assigned partitions.",
    answer="V2TopicPartitions",
)
async def get_assignments(call: V2Call) -> Answering:
    """Lists the assigned partitions."""
    instance = _instance(call)
    found = sorted(await instance.run(lambda: instance.consumer().assignment()))
    return call.json({"partitions": [{"topic": each.topic, "partition": each.partition} for each in found]})


# ------------------------------------------------------------ records


@operations.add_v2(
    "GET",
    f"{_INSTANCE}/records",
    "v2ReadRecords",
    "Reads records: as soon as there are some, or fetch.min.bytes of them, or after the timeout.",
    query=(
        Parameter("timeout", "Milliseconds to wait for records.", {"type": "integer"}),
        Parameter("max_bytes", "Bytes of keys and values at most.", {"type": "integer"}),
    ),
    answer="V2Records",
)
async def read_records(call: V2Call) -> Answering:
    """Reads records."""
    instance = _instance(call)
    call.media = record_type(call.header(b"accept"), instance.settings.format)
    wait_s, bytes_max = read_limits(call.query, instance.settings, call.options)
    await call.read()  # what comes next says that the client left
    reading = asyncio.ensure_future(instance.run(_read, instance, wait_s, bytes_max))
    leaving = asyncio.ensure_future(_until_left(call.call.receive))
    try:
        await asyncio.wait((reading, leaving), return_when=asyncio.FIRST_COMPLETED)
        if reading.done():
            return call.text(reading.result()[1])
        instance.interrupt()
        taken, _ = await reading
        await instance.run(instance.take_back, taken)
        raise DisconnectedError
    finally:
        leaving.cancel()


def _read(instance: ConsumerInstance, wait_s: float, bytes_max: int) -> tuple[list[Any], bytes]:
    try:
        taken, found = instance.read(wait_s, bytes_max)
    except ConfigError as error:
        raise _illegal(str(error)) from error
    return taken, answer_text(found)


async def _until_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


# ------------------------------------------------------------ offsets and positions


@operations.add_v2(
    "POST",
    f"{_INSTANCE}/offsets",
    "v2CommitOffsets",
    "Commits offsets of records that were processed; without a body all that was read.",
    query=(Parameter("async", "true: the answer does not wait.", {"type": "string"}),),
    body="V2CommitRequest",
    needs_body=False,
    answer="V2Nothing",
)
async def commit_offsets(call: V2Call) -> Answering:
    """Commits offsets. The next record to read is the one behind an offset."""
    instance = _instance(call)
    wanted = (await call.body(OffsetsData, OffsetsData())).offsets
    given = None
    if wanted is not None:
        _check_offsets(wanted)
        given = {
            place: OffsetAndMetadata(each.offset + 1, metadata=each.metadata or "")
            for place, each in zip(_places(wanted), wanted, strict=True)
        }
    asynchronous = call.query.get("async", "").lower() == "true"
    await instance.run(lambda: instance.commit(given, asynchronous=asynchronous))
    return call.json([])


@operations.add_v2(
    "GET",
    f"{_INSTANCE}/offsets",
    "v2GetCommittedOffsets",
    "Shows the committed offsets of the partitions in the body.",
    answer="V2CommittedOffsets",
)
async def get_committed(call: V2Call) -> Answering:
    """Shows committed offsets."""
    instance = _instance(call)
    wanted = _places((await call.body(PartitionsData, PartitionsData([]))).partitions)
    if not wanted:
        raise HttpError(404, 40402, "Partition not found. The body of the request must name partitions.")
    found = await instance.run(lambda: instance.consumer().committed(wanted))
    return call.json(
        {
            "offsets": [
                {
                    "topic": place.topic,
                    "partition": place.partition,
                    "offset": each.offset,
                    "metadata": each.metadata,
                }
                for place, each in found.items()
                if each is not None
            ]
        }
    )


@operations.add_v2(
    "POST",
    f"{_INSTANCE}/positions",
    "v2Seek",
    "Moves to offsets, or to times.",
    body="V2SeekRequest",
    status=204,
)
async def seek(call: V2Call) -> Answering:
    """Moves to offsets, or to times."""
    instance = _instance(call)
    wanted = await call.body(SeekData)
    _check_offsets(wanted.offsets)
    offsets = {
        place: each.offset for place, each in zip(_places(wanted.offsets), wanted.offsets, strict=True)
    }
    times = {
        place: _milliseconds(each.timestamp)
        for place, each in zip(_places(wanted.timestamps), wanted.timestamps, strict=True)
    }

    def run() -> None:
        consumer = instance.consumer()
        _check_assigned(instance, [*offsets, *times])
        for place, at in consumer.offsets_for_times(times).items() if times else ():
            if at is None:
                instance.forget_unreturned([place])
                consumer.seek_to_end(place)
            else:
                offsets[place] = at.offset
        instance.forget_unreturned(offsets)
        for place, offset in offsets.items():
            consumer.seek(place, offset)

    await instance.run(run)
    return call.nothing()


@operations.add_v2(
    "POST",
    f"{_INSTANCE}/positions/beginning",
    "v2SeekToBeginning",
    "Moves to the first offsets.",
    body="V2TopicPartitions",
    status=204,
)
async def seek_to_beginning(call: V2Call) -> Answering:
    """Moves to the first offsets."""
    return await _seek_to(call, lambda instance, each: instance.consumer().seek_to_beginning(*each))


@operations.add_v2(
    "POST",
    f"{_INSTANCE}/positions/end",
    "v2SeekToEnd",
    "Moves behind the last records.",
    body="V2TopicPartitions",
    status=204,
)
async def seek_to_end(call: V2Call) -> Answering:
    """Moves behind the last records."""
    return await _seek_to(call, lambda instance, each: instance.consumer().seek_to_end(*each))


async def _seek_to(call: V2Call, move: Callable[[ConsumerInstance, list[TopicPartition]], None]) -> Answering:
    instance = _instance(call)
    wanted = _places((await call.body(PartitionsData)).partitions)

    def run() -> None:
        _check_assigned(instance, wanted)
        instance.forget_unreturned(wanted)
        if wanted:
            move(instance, wanted)

    await instance.run(run)
    return call.nothing()


def _check_assigned(instance: ConsumerInstance, wanted: Iterable[TopicPartition]) -> None:
    """Refuses partitions that the instance does not have.

    Raises:
        HttpError: 40903.
    """
    assigned = instance.consumer().assignment()
    for each in wanted:
        if each not in assigned:
            raise _illegal(f"partition {each} is not assigned to the instance; read once, or assign it")


def _check_offsets(given: Iterable[OffsetData]) -> None:
    if not all(0 <= each.offset <= OFFSET_MAX for each in given):
        raise HttpError(422, 422, f"offset must be 0 to {OFFSET_MAX}")


def _milliseconds(time: datetime | float) -> int:
    """Returns a time, such as 2026-11-30T10:00:00Z or seconds since 1970, in milliseconds.

    Raises:
        HttpError: 400, it is before 1970, or has no zone.
    """
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise bad_request("timestamp has no zone: write it as 2026-11-30T10:00:00Z")
        time = time.timestamp()
    if not math.isfinite(time) or not 0 <= time < 1e11:
        raise bad_request("timestamp must be a time such as 2026-11-30T10:00:00Z, or seconds since 1970")
    return int(time * 1000)
