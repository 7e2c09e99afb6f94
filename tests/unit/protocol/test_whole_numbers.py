"""Numbers in text of others: what is none has one answer, and nothing else decides about digits."""

import re
from pathlib import Path

import pytest

from bowstring.protocol.whole_numbers import LONG_MAX, whole_number

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("007", 7), (str(2**31 - 1), 2**31 - 1), ("0" * 9000 + "5", 5)],
)
def test_numbers(text, number):
    assert whole_number(text) == number


@pytest.mark.parametrize(
    "text", ["", "²", "٣", "1²", "-1", "+1", "1_0", " 1", "1\n", str(2**31), "9" * 9000, "0x1", "1.0"]
)
def test_what_is_no_number(text):
    assert whole_number(text) is None


def test_longer_numbers():
    assert whole_number(str(LONG_MAX), LONG_MAX) == LONG_MAX
    assert whole_number(str(LONG_MAX + 1), LONG_MAX) is None


def test_nothing_else_looks_for_digits():
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for folder in ("engine", "python/bowstring")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path.name not in ("whole_numbers.py", "serve.py")  # serve: of its own terminal
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(r"\.is(digit|decimal|numeric)\(", line)
    ]
    assert not found
