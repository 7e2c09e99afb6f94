"""The examples of public docstrings run, each against a broker of its own; docs/guide/clients.md names every setting."""

import asyncio
import doctest
import inspect
import re
from pathlib import Path

import duckdb
import pyarrow
import pytest

import bowstring
import bowstring.aio
from bowstring.clients.config.client import ADMIN, CONSUMER
from bowstring.clients.producer.config import PRODUCER
from bowstring.security.security_names import CANONICAL
from tests.support.pages import patient
from tests.support.waiting import HANG_S

PAGE = Path(__file__).parents[3] / "docs" / "guide" / "clients.md"
DOCUMENTED = "localhost:9092"


def collected():
    finder = doctest.DocTestFinder(exclude_empty=True)
    for module in (bowstring, bowstring.aio):
        for name in module.__all__:
            public = getattr(module, name)
            if inspect.isclass(public) or inspect.isfunction(public):
                # What a subclass inherits is found under the class it comes from.
                inherited = [getattr(base, "__dict__", {}) for base in getattr(public, "__mro__", [])[1:]]
                found = finder.find(public, f"{module.__name__}.{name}")
                for methods in inherited:
                    for method in methods.values():
                        if inspect.isfunction(method) and ">>>" in (method.__doc__ or ""):
                            found += finder.find(method, f"{module.__name__}.{name}.{method.__name__}")
                yield from (test for test in found if test.examples)


TESTS = {test.name: test for test in collected()}


def setting(name, where):
    """What an example finds there, besides the names it uses."""
    producer = bowstring.Producer(where)
    if name.endswith(("aio.Consumer", "bowstring.Consumer", ".transform")):
        producer.send("greetings", b"hello", key=b"me").result(HANG_S)
    if name.endswith((".read", ".scan")):
        producer.send_columns("flights", 0, [b"%d" % i for i in range(1000)]).result(HANG_S)
    consumer = bowstring.Consumer(where, auto_offset_reset="earliest")
    if name.endswith("poll_arrow"):
        producer.send_columns("greetings", 0, [b"1", b"2", b"3"]).result(HANG_S)
        consumer.assign([("greetings", 0)])
        consumer.await_records(HANG_S)
    return producer, consumer


@pytest.mark.parametrize("name", TESTS)
def test_docstring(name):
    test = TESTS[name]
    with bowstring.Broker() as broker:
        where = broker.bootstrap_servers
        producer, consumer = setting(name, where)
        with producer, consumer:
            schema = pyarrow.schema({"id": pyarrow.int64()})
            names = {"asyncio": asyncio, "duckdb": duckdb, "pyarrow": pyarrow, "schema": schema}
            test.globs = {**vars(bowstring), "bowstring": bowstring, **names}
            for public in bowstring.__all__:
                test.globs[public] = getattr(bowstring, public)
            test.globs |= {"producer": producer, "consumer": consumer}
            for example in test.examples:
                source = patient(example.source).replace(DOCUMENTED, where)
                example.source = source.replace('("flights", ', f'("flights", bootstrap_servers="{where}", ')
            outcome = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test)
    assert outcome.attempted > 0 and outcome.failed == 0


def test_every_client_has_an_example():
    for name in ("Producer", "Consumer", "ShareConsumer", "Admin"):
        assert f"bowstring.aio.{name}" in TESTS
        assert f"bowstring.{name}" in TESTS


def test_the_table_of_settings_is_the_one_in_force():
    rows = dict(re.findall(r"^\| `([a-z0-9.]+)` \| (.*) \|$", PAGE.read_text().split("## Settings")[1], re.M))
    tables = (PRODUCER, CONSUMER, ADMIN)
    known = {row.name for table in tables for row in table.rows.values() if row.argument}
    known -= CANONICAL.keys()  # those of TLS and SASL have a table of their own
    assert set(rows) == known
    for name, cells in rows.items():
        told = [cell.strip().strip("`") for cell in cells.split(" | ")]
        assert told == [table.rows[name].argument if name in table.rows else "" for table in tables], name
