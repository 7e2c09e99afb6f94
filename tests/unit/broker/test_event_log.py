"""Lines of the broker's log: what a client sends ends neither a field nor a line."""

import json
import logging

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
    assert json.loads(JsonFormatter().format(record(value)))["client"] == value
