"""Lines of the broker's log: what a client sends ends neither a field nor a line."""

import io
import json
import logging
import sys

import pytest

from bowstring.engine import event_log
from bowstring.engine.event_log import LOGGER, JsonFormatter, TextFormatter


def record(value):
    made = logging.LogRecord("bowstring", logging.WARNING, "", 0, "refused", (), None)
    made.facts = {"client": value}
    return made


@pytest.mark.parametrize("value", ["app-1", "größe", "127.0.0.1:9092"])
def test_plain_values_stand_as_they_are(value):
    assert TextFormatter().format(record(value)).endswith(f" refused client={value}")


@pytest.mark.parametrize(
    "value",
    [
        "",
        "two words",
        'a"b',
        "a\nb",
        "a\rb",
        "a\tclient=root",
        "\x1b[2J",
        "\x7f",
        "\x85b",
        "\u2028b",
        "\u202eb",
        "\ud800",
    ],
)
def test_all_else_is_quoted_on_one_line(value):
    line = TextFormatter().format(record(value))
    assert len(line.splitlines()) == 1
    assert line.isprintable()
    assert json.loads(line.partition(" refused client=")[2]) == value
    line = JsonFormatter().format(record(value))
    assert line.isprintable() and json.loads(line)["client"] == value


HOSTILE = "x\x1b[2J\x9b1m\u202e\n2026-01-31 12:00:00,123 ERROR all is lost"


@pytest.mark.parametrize("form", ["text", "json"])
def test_lines_are_the_same_without_a_record(monkeypatch, form):
    """Most lines are written without a record of the logging package; what a filter sees needs one."""
    monkeypatch.setattr(LOGGER, "handlers", [])
    monkeypatch.setattr(LOGGER, "propagate", True)
    monkeypatch.setattr(LOGGER, "level", LOGGER.level)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr("time.time", lambda: 1_800_000_000.25)
    monkeypatch.setattr("time.time_ns", lambda: 1_800_000_000_250_000_000)
    event_log.log_to_stderr(form, "info")
    event_log.info("a group rebalances", group="g\n1", members=3)
    seen = []
    LOGGER.handlers[0].addFilter(lambda record: seen.append(record) or True)
    event_log.info("a group rebalances", group="g\n1", members=3)
    first, second = sys.stderr.getvalue().splitlines()
    assert first == second and len(seen) == 1
    LOGGER.setLevel("WARNING")
    LOGGER.handlers[0].filters.clear()
    event_log.info("not seen")
    assert len(sys.stderr.getvalue().splitlines()) == 2


def test_a_terminal_that_is_gone_stops_nobody(monkeypatch):
    class Gone(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    class Odd:
        def __str__(self):
            raise ZeroDivisionError

    monkeypatch.setattr(LOGGER, "handlers", [])
    monkeypatch.setattr(LOGGER, "propagate", True)
    monkeypatch.setattr(LOGGER, "level", LOGGER.level)
    monkeypatch.setattr(logging, "raiseExceptions", False)
    monkeypatch.setattr(sys, "stderr", Gone())
    event_log.log_to_stderr("text", "info")
    event_log.info("nobody reads this")
    LOGGER.handlers[0].stream = None  # a program without standard error
    event_log.info("nor this", name="x")
    LOGGER.handlers[0].stream = io.StringIO()
    event_log.info("nor a fact without a text", fact=Odd())


def test_a_line_that_cannot_be_flushed_is_written_once(monkeypatch):
    class Full(io.StringIO):
        def flush(self):
            raise OSError(28, "no space")

    monkeypatch.setattr(LOGGER, "handlers", [])
    monkeypatch.setattr(LOGGER, "propagate", True)
    monkeypatch.setattr(LOGGER, "level", LOGGER.level)
    monkeypatch.setattr(sys, "stderr", Full())
    event_log.log_to_stderr("text", "info")
    event_log.info("a group rebalances")
    assert sys.stderr.getvalue().count("a group rebalances") == 1


def failure(message="a bug"):
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        made = logging.LogRecord("bowstring", logging.ERROR, "", 0, message, (), sys.exc_info())
    made.facts = {"group": HOSTILE}
    return made


def test_messages_and_tracebacks_forge_no_line():
    first, *trace = TextFormatter().format(failure(f"group {HOSTILE} ended")).split("\n")
    assert first.isprintable() and "group x\\x1b[2J\\x9b1m\\u202e\\n2026" in first
    assert len(trace) > 3 and all(each.isprintable() and each.startswith("  ") for each in trace)
    line = JsonFormatter().format(failure())
    assert line.isprintable() and HOSTILE in json.loads(line)["traceback"]
