"""Lines of the broker's log: what a client sends ends neither a field nor a line."""

import json
import logging
import sys

import pytest

from bowstring.engine.event_log import JsonFormatter, TextFormatter


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
