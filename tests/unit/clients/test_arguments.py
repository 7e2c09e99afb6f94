"""Arguments of wrong types are refused before anything is done, with their names: in every public callable."""

import asyncio
import datetime as dt
import inspect
import math
from typing import Any

import pytest

import bowstring
from bowstring import aio
from bowstring.clients.arguments import argument_check, kind_of
from bowstring.clients.config.moments import milliseconds
from bowstring.clients.errors import ConfigError
from bowstring.clients.ranges import Natural
from bowstring.clients.records import OffsetAndMetadata, TopicPartition
from tests.support.waiting import HANG_S


class Wrong:
    """What no argument takes."""

    def __repr__(self):
        return "WRONG"


CLASSES = ("Producer", "Consumer", "ShareConsumer", "Admin", "Broker", "Cluster")
FUNCTIONS = (bowstring.read, bowstring.scan, bowstring.transform, aio.transform)
# Anything may be given: a table of any library, masks and offsets as pyarrow takes them.
FREE_TYPES = ("Any", "Records", inspect.Parameter.empty)
FREE = {("acknowledge", "records"), ("send_arrow_columns", "timestamps")}
# Native, and checked below; or for this package's own classes.
ELSEWHERE = {
    "send",
    "over",
    "payload",
    "submit",
    "after_fork",
    "record_failed",
    "append",
    "choose",
    "would_block",
    "lend",
    "count_into",
}


def public_methods(cls):
    for name in dir(cls):
        method = getattr(cls, name)
        if (name == "__init__" or not name.startswith("_")) and callable(method) and name not in ELSEWHERE:
            yield name, method


def arguments_of(function):
    for each in inspect.signature(function).parameters.values():
        if each.kind is not each.VAR_KEYWORD and each.name != "self":
            yield each


def cases():
    for module in (bowstring, aio):
        for kind in CLASSES:
            cls = getattr(module, kind, None)
            if cls is None:
                continue
            for name, method in public_methods(cls):
                for each in arguments_of(method):
                    if each.annotation in FREE_TYPES or (name, each.name) in FREE:
                        continue
                    yield pytest.param(cls, name, each, id=f"{cls.__module__}.{kind}.{name}-{each.name}")


def fails(function, wrong):
    check = argument_check(inspect.unwrap(function))
    if wrong.kind is wrong.VAR_POSITIONAL:
        places = [each for each in arguments_of(function) if each.kind is each.POSITIONAL_OR_KEYWORD]
        given = (None, *[None for _ in places], Wrong())
        with pytest.raises(ConfigError) as raised:
            check(given, {})
    else:
        with pytest.raises(ConfigError) as raised:
            check((), {wrong.name: Wrong()})
    assert str(raised.value).startswith(f"{wrong.name} is WRONG, it must be "), raised.value


@pytest.mark.parametrize(("cls", "name", "wrong"), list(cases()))
def test_an_argument_of_a_wrong_type_is_named(cls, name, wrong):
    method = getattr(cls, name)
    assert hasattr(method, "is_checked"), "it is not checked"
    fails(method, wrong)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: f"{each.__module__}.{each.__name__}")
def test_an_argument_of_a_function_of_a_wrong_type_is_named(function):
    assert hasattr(function, "is_checked")
    for each in arguments_of(function):
        fails(function, each)


@pytest.mark.parametrize(
    "keywords",
    [
        {"linger_ms": "abc"},
        {"linger_ms": math.nan},
        {"linger_ms": True},
        {"batch_size": 1.5},
        {"batch_size": -1},
        {"retries": -1},
        {"acks": 7},
        {"client_id": b"x"},
        {"on_error": "print"},
        {"key_serializer": "str"},
        {"value": "json"},
    ],
    ids=lambda each: next(iter(each)),
)
def test_settings_of_a_producer(keywords):
    with pytest.raises(ConfigError, match=next(iter(keywords))):
        bowstring.Producer("127.0.0.1:1", **keywords)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda c: c.assign(["q"]), "partitions"),
        (lambda c: c.assign("t"), "partitions"),
        (lambda c: c.commit("x"), "offsets"),
        (lambda c: c.commit({("t", 0): "5"}), "offsets"),
        (lambda c: c.pause("t"), "partitions"),
        (lambda c: c.subscribe([5]), "topics"),
        (lambda c: c.subscribe("t", on_assigned=5), "on_assigned"),
        (lambda c: c.poll("soon"), "timeout"),
        (lambda c: c.poll(max_records="5"), "max_records"),
        (lambda c: c.end_offsets(["t"]), "partitions"),
    ],
)
def test_calls_of_a_consumer(call, name):
    settings = {"group_id": "g", "enable_auto_commit": False}
    with (
        bowstring.Consumer("127.0.0.1:1", **settings) as consumer,
        pytest.raises(ConfigError, match=f"^{name} is "),
    ):
        call(consumer)

    async def main():
        async with aio.Consumer("127.0.0.1:1", **settings) as consumer:
            with pytest.raises(ConfigError, match=f"^{name} is "):
                await call(consumer)

    asyncio.run(main())


def test_plain_tuples_are_partitions():
    with bowstring.Consumer("127.0.0.1:1", group_id="g", enable_auto_commit=False) as consumer:
        consumer.assign(("t", number) for number in range(2))
        assert consumer.assignment() == {TopicPartition("t", 0), TopicPartition("t", 1)}


def test_a_topic_where_bootstrap_servers_belong():
    with pytest.raises(ConfigError, match=r"bootstrap_servers is given twice, 'orders' .*subscribe"):
        bowstring.Consumer("orders", bootstrap_servers="127.0.0.1:1")
    with pytest.raises(ConfigError, match="takes one argument without a name, not 2"):
        bowstring.Consumer("orders", "127.0.0.1:1")


def test_a_consumer_without_anything_to_read():
    with bowstring.Consumer("127.0.0.1:1", group_id="g") as consumer:
        for read in (consumer.poll, consumer.poll_batches, consumer.poll_arrow, lambda: next(iter(consumer))):
            with pytest.raises(ConfigError, match=r"subscribe\(\) to topics or assign\(\)"):
                read()

    async def main():
        async with aio.Consumer("127.0.0.1:1") as consumer:
            with pytest.raises(ConfigError, match="nothing to read"):
                await consumer.poll()

    asyncio.run(main())


def test_a_broker_refuses_configs_when_it_is_made():
    with pytest.raises(ConfigError, match=r"log\.retention\.ms"):
        bowstring.Broker(config={"log.retenton.ms": 3})
    with pytest.raises(ConfigError, match=r"num\.partitions"):
        bowstring.Broker(config={"num.partitions": "many"})


SENT: dict[str, list[Any]] = {
    "topic": [5, b"t", ["t"], None],
    "value": [5, {"a": 1}],
    "key": [5],
    "headers": [5],
    "timestamp": ["now", 1.5, True, -1, 1 << 70, 1_795_841_114],
    "partition": ["0", 1.5, True],
    "on_delivery": ["print", 5],
}


@pytest.mark.parametrize(("name", "wrong"), [(name, each) for name in SENT for each in SENT[name]])
def test_records(bootstrap, topic, name, wrong):
    keywords = {"topic": topic, "value": b"x", name: wrong}
    with bowstring.Producer(bootstrap) as producer, pytest.raises(ConfigError, match=name):
        producer.send(**keywords)


def test_timestamps(bootstrap, topic):
    moment = dt.datetime(2025, 11, 28, 12, 0, tzinfo=dt.UTC)
    with bowstring.Producer(bootstrap) as producer:
        assert producer.send(topic, b"x", timestamp=moment).result(HANG_S).timestamp == 1_764_331_200_000
        assert producer.send(topic, b"x", timestamp=1_764_331_200_001).result(HANG_S).timestamp % 10 == 1
        assert producer.send(topic, b"x", timestamp=5).result(HANG_S).timestamp == 5
    with pytest.raises(ConfigError, match="before 1980, as seconds are"):
        milliseconds("timestamp", 1_795_867_200)


def test_configs_of_a_topic_may_be_numbers(admin, new_topic):
    topic = new_topic()
    values = {"retention.ms": 86_400_000, "min.cleanable.dirty.ratio": 0.25, "preallocate": False}
    admin.alter_configs("topic", topic, set=values)
    found = {each.name: each.value for each in admin.describe_configs("topic", topic).values()}
    assert {name: found[name] for name in values} == {
        "retention.ms": "86400000",
        "min.cleanable.dirty.ratio": "0.25",
        "preallocate": "false",
    }
    made = f"{topic}-made"
    admin.create_topic(made, configs={"retention.ms": 5, "cleanup.policy": ["compact", "delete"]})
    found = {each.name: each.value for each in admin.describe_configs("topic", made).values()}
    assert (found["retention.ms"], found["cleanup.policy"]) == ("5", "compact,delete")
    admin.delete_topics([made])


@pytest.mark.parametrize(
    ("annotation", "good", "bad"),
    [
        (int, [0, -1], ["0", 1.0, True, None]),
        (float, [0, 1.5, math.inf], ["0", True, math.nan]),
        (Natural, [0, 1 << 63], [-1, 0.5]),
        (str | None, ["", None], [b"", 5]),
        (dict[str, int], [{}, {"a": 1}], [{"a": "b"}, {1: 1}, [], None]),
        (list[str], [[], ("a",), {"a"}], ["a", [1], 5, None]),
        (tuple[str, int], [("a", 1), ["a", 1]], [("a",), "ab", None]),
        (TopicPartition, [TopicPartition("a", 0), ("a", 0)], [("a", "0"), "a", ("a", -1)]),
        (OffsetAndMetadata | int, [5, OffsetAndMetadata(5)], ["5", None]),
    ],
    ids=str,
)
def test_kinds(annotation, good, bad):
    kind = kind_of(annotation)
    assert [each for each in good if not kind.fits(each)] == [each for each in bad if kind.fits(each)] == []
