"""Regular expressions of clients: RE2's syntax, whole texts, and no time that grows out of bounds."""

import pytest

from bowstring.engine.patterns import whole_text
from bowstring.protocol.errors import Errors, KafkaError

# Python's own engine would need more than a lifetime.
HOSTILE = ["(x+)+y", "(x|x)*y", "(x*)*y", "x*" * 50 + "y", "(.*.*)*y"]


@pytest.mark.parametrize("pattern", HOSTILE)
def test_a_hostile_pattern_takes_no_time(pattern):
    assert not whole_text(pattern, "Pattern")("x" * 32_000)
    assert whole_text(pattern, "Pattern")("x" * 10 + "y")


@pytest.mark.parametrize(
    "pattern, text, fits",
    [
        ("a.c", "abc", True),
        ("a.c", "abcd", False),
        ("é+", "ééé", True),
        (r"\p{Greek}", "α", True),
        ("a|ab", "ab", True),
    ],
)
def test_the_whole_text_counts(pattern, text, fits):
    assert whole_text(pattern, "Pattern")(text) == fits


@pytest.mark.parametrize(
    "pattern", ["(a", "a**", r"(a)\1", "(?=a)", "(a{1000}){1000}", "((a{100}){100}){100}", "\ud800"]
)
def test_what_is_no_pattern_is_refused(pattern, capfd):
    with pytest.raises(KafkaError, match=r"Pattern .* is not a valid regular expression") as caught:
        whole_text(pattern, "Pattern")
    assert caught.value.error is Errors.INVALID_REGULAR_EXPRESSION
    assert not capfd.readouterr().err
