"""Settings in the words of other clients: every row reads, refuses or explains; nothing is set silently wrong."""

import importlib
import inspect
import pkgutil

import pytest

import bowstring.clients
from bowstring.clients.admin.admin import Admin
from bowstring.clients.config.client import ADMIN, CONSUMER, connection
from bowstring.clients.config.config_table import (
    ConfigTable,
    configurable,
    in_range,
    integer,
    multiplied,
    setting,
)
from bowstring.clients.consumer.consumer import Consumer
from bowstring.clients.errors import ConfigError
from bowstring.clients.producer.config import PRODUCER
from bowstring.clients.producer.producer import Producer

CLIENTS = [(CONSUMER, Consumer), (ADMIN, Admin)]


@pytest.mark.parametrize(("table", "client"), [*CLIENTS, (PRODUCER, Producer)])
def test_the_defaults_of_a_client_are_those_of_its_rows(table, client):
    signature = inspect.signature(client.__init__).parameters
    assert {name: signature[name].default for name in table.settings} == table.defaults


def functions(package):
    """Every function and method of a package's modules, with its name."""
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        for name, value in vars(importlib.import_module(found.name)).items():
            if getattr(value, "__module__", None) == found.name:
                inner = vars(value).items() if inspect.isclass(value) else [("", value)]
                yield from (
                    (f"{found.name}.{name}.{own}", each) for own, each in inner if inspect.isfunction(each)
                )


def test_a_default_that_stands_elsewhere_is_that_of_the_rows():
    """NetworkClient, LocalReader and others have defaults of their own, for callers inside the package."""
    rows: dict[str, list] = {}
    for table in (CONSUMER, ADMIN, PRODUCER):
        for name, default in table.defaults.items():
            rows.setdefault(name, []).append(default)
    del rows["client_id"]  # each has its own
    del rows["on_error"]  # formats have another
    wrong = [
        f"{where} {each.name}={each.default!r}"
        for where, function in functions(bowstring.clients)
        for each in inspect.signature(function).parameters.values()
        if each.default is not each.empty and each.name in rows and each.default not in rows[each.name]
    ]
    assert not wrong, wrong


def test_a_setting_is_one_row():
    wait = setting(
        "wait_ms",
        100,
        integer,
        "wait.ms",
        ("wait.max.s", multiplied(1000)),
        check=in_range(0, 5000),
    )
    table = ConfigTable("Waiter", (*connection("waiter"), wait))

    class Waiter:
        @configurable(table)
        def __init__(self, bootstrap_servers=None, *, wait_ms=table.defaults["wait_ms"]):
            self.wait_ms = wait_ms

    assert Waiter().wait_ms == 100
    assert Waiter({"wait.ms": "7"}).wait_ms == Waiter(wait_ms=7).wait_ms == 7
    assert Waiter({"wait.max.s": 2}).wait_ms == Waiter(wait_max_s="2").wait_ms == 2000
    for refused in (lambda: Waiter(wait_ms=5001), lambda: Waiter({"wait.max.s": 6})):
        with pytest.raises(ConfigError, match=r"wait_ms is .*, it must be 0 to 5000"):
            refused()
    with pytest.raises(ConfigError, match=r"did you mean wait\.ms\?"):
        Waiter({"wait.mss": 1})


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        ("auto_offset_reset", "middle", 'must be "earliest", "latest" or "none"'),
        ("isolation_level", "serializable", 'must be "read_uncommitted" or "read_committed"'),
        ("assignors", ("roundrobin",), 'assignors is .* "range" or "cooperative-sticky"'),
        ("local", "yes", 'must be True or False or "auto"'),
        ("local", 1, 'must be True or False or "auto"'),
    ],
)
def test_values_of_a_consumer_are_checked(argument, value, message):
    with pytest.raises(ConfigError, match=message):
        Consumer("localhost:1", **{argument: value})


@pytest.mark.parametrize(("table", "client"), CLIENTS)
def test_every_row_names_an_argument_or_a_reason(table, client):
    arguments = set(inspect.signature(client.__init__).parameters)
    for row in table.rows.values():
        assert bool(row.argument) != bool(row.reason), row
        assert not row.argument or row.argument in arguments, row


@pytest.mark.parametrize(("table", "client"), CLIENTS)
def test_every_argument_has_a_name_elsewhere(table, client):
    named = {row.argument for row in table.rows.values()}
    own = set(inspect.signature(client.__init__).parameters) - {"self"}
    # Of decoded records, for which other clients have no word.
    formats = {"key", "value", "on_undecodable"} if client is Consumer else set()
    assert own - named == formats


def test_settings_of_confluent_kafka():
    found = CONSUMER.arguments(
        {
            "bootstrap.servers": "a:1,b:2",
            "group.id": "readers",
            "auto.offset.reset": "smallest",
            "enable.auto.commit": "false",
            "partition.assignment.strategy": "cooperative-sticky,range",
            "session.timeout.ms": "6000",
            "security.protocol": "plaintext",
        }
    )
    assert found == {
        "bootstrap_servers": "a:1,b:2",
        "group_id": "readers",
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "assignors": ("cooperative-sticky", "range"),
        "session_timeout_ms": 6000,
        "security": {"security.protocol": "plaintext"},
    }


def test_settings_of_kafka_python_and_java():
    class RangePartitionAssignor:
        pass

    java = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
    assert CONSUMER.arguments({"default_api_timeout_ms": 5}) == {"default_timeout_ms": 5}
    assert CONSUMER.arguments({"partition_assignment_strategy": [RangePartitionAssignor]}) == {
        "assignors": ("range",)
    }
    assert CONSUMER.arguments({"partition.assignment.strategy": java}) == {
        "assignors": ("cooperative-sticky",)
    }
    assert CONSUMER.arguments({"default_timeout_ms": 7}) == {"default_timeout_ms": 7}, "our own name"


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"group.ids": "x"}, ["no setting 'group.ids'", "did you mean group.id?"]),
        ({"auto_offset_rest": "x"}, ["did you mean auto_offset_reset?"]),
        ({"utterly": 1}, ["no setting 'utterly'", "docs/guide/clients.md"]),
        ({"sasl.kerberos.kinit.cmd": "x"}, ["sasl.kerberos.kinit.cmd", "renewed without a command"]),
        ({"value_deserializer": len}, ["value_deserializer", "bowstring.Json"]),
        ({"enable.auto.commit": "maybe"}, ["enable.auto.commit is 'maybe'", "true or false"]),
        ({"session.timeout.ms": "soon"}, ["session.timeout.ms is 'soon'", "whole number"]),
        ({"session.timeout.ms": 1.5}, ["whole number"]),
        ({"auto.offset.reset": "middle"}, ["one of earliest"]),
        ({"partition.assignment.strategy": "roundrobin"}, ["no assignor 'roundrobin'", "cooperative-sticky"]),
        ({"fetch.wait.max.ms": 1, "fetch_max_wait_ms": 2}, ["both set fetch_max_wait_ms"]),
        ({"nonsense": 1, "group.idd": 2}, ["'nonsense'", "'group.idd'"]),
    ],
)
def test_what_is_wrong_is_said(config, words):
    with pytest.raises(ConfigError) as raised:
        CONSUMER.arguments(config)
    for word in words:
        assert word in str(raised.value)


def test_a_mapping_makes_a_client():
    with Consumer({"bootstrap.servers": "localhost:1", "group.id": "g"}, max_poll_records=7) as consumer:
        assert consumer._max_poll_records == 7
        assert consumer._group is not None
    with Consumer(bootstrap_servers="localhost:1", default_api_timeout_ms=1500) as consumer:
        assert consumer._timeout_s == 1.5
    with Admin({"bootstrap.servers": "localhost:1", "socket.timeout.ms": "250"}) as admin:
        assert admin._timeout_s == 0.25


def test_keywords_win_over_the_mapping_but_never_twice():
    with Consumer({"default.api.timeout.ms": 9000}, default_timeout_ms=100) as consumer:
        assert consumer._timeout_s == 0.1
    with pytest.raises(ConfigError, match="given twice"):
        Consumer(default_timeout_ms=100, default_api_timeout_ms=200)
    with pytest.raises(ConfigError, match=r"did you mean group_id"):
        Consumer(grop_id="g")
