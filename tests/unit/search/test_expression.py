"""Expressions over records: what matches, what is refused and where, and that nothing else can happen."""

import contextlib
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bowstring.search.expression import FUNCTIONS, NAMES, Expression, ExpressionError

RECORD = {
    "value": {
        "user": {"id": 11, "name": "Bob"},
        "tags": ["a", "b"],
        "ok": True,
        "none": None,
        "huge": 1 << 4000,
    },
    "key": "a",
    "headers": {"x": "1"},
    "partition": 3,
    "offset": 70,
    "timestamp": 1_767_225_600_000,
}


@pytest.mark.parametrize(
    "text",
    [
        'value.user.id > 10 and key == "a" and headers["x"] == "1" and contains(value.user.name, "bo") == false',
        'contains(lower(value.user.name), "bo")',
        'startswith(key, "a") and endswith(value.user.name, "ob") and upper(key) == "A"',
        r'matches(value.user.name, "^B\w+$")',
        "10 < value.user.id <= 11",
        'value.tags[0] == "a" and value.tags[-1] == "b"',
        '"b" in value.tags and "c" not in value.tags and contains(value.tags, "b")',
        "key in ['a', 'z'] and partition in (3, 4)",
        "value.ok and not (value.ok == false)",
        "value.none == null and value.user != null and not exists(value.gone.deeper)",
        'timestamp >= time("2026-01-01") and timestamp < time("2026-01-01T01:00:01+01:00")',
        "value.user.id * 2 - 2 == 20 and value.user.id % 2 == 1 and value.user.id / 2 == 5.5 and -offset < 0",
        'number(headers["x"]) == 1 and text(offset) + "!" == "70!" and length(value.tags) == 2',
        'value["user"]["id"] == 11 or value.gone == 1',
    ],
)
def test_matches(text):
    assert Expression(text).matches(RECORD)


@pytest.mark.parametrize(
    "text",
    [
        'value.user.name > 10 or value.user.id < "a"',
        "value.gone != 1",
        "not (value.gone == 1)",
        "not value.user",
        "value.user",
        "value.tags == value.tags",
        "value.user.id / 0 > 0 or value.user.id % 0 == 0",
        "value.huge * value.huge > 0",
        "value.tags[99] == null and false",
        "key + 1 == 2",
        "value.user.__class__ != null",
        "matches(value.user, 'a')",
        "1 < value.gone < 3",
    ],
)
def test_wrong_types_do_not_match(text):
    assert not Expression(text).matches(RECORD)


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("", 1),
        ("value.a >", 10),
        ("foo == 1", 1),
        ("key == 'a'\nand bar", 16),
        ("(key", 1),
        ("  key == 'a' and bar", 18),
        ("value.é == bar", 12),
        ("2 ** 99", 1),
        ("__import__('os')", 1),
        ("value.get('a')", 1),
        ("(lambda: 1)()", 1),
        ("[k for k in value]", 1),
        ("f'{key}'", 1),
        ("key is 'a'", 8),
        ("contains(key)", 1),
        ("lower(*key)", 1),
        ("matches(key, '(')", 14),
        ("matches(key, key)", 14),
        ("key\0", 5),
        ("'\ud800' == key", 1),
        ("(" * 500 + "1" + ")" * 500, 201),
        ("not " * 100 + "true", 165),
        ("lower(" * 21 + "key" + ")" * 21, 121),
        ("key == '" + "a" * 3000 + "'", 2001),
    ],
)
def test_refusals_point_at_the_column(text, column):
    with pytest.raises(ExpressionError) as refused:
        Expression(text)
    assert refused.value.column == column
    assert f"column {refused.value.column}" in str(refused.value)


OPERATORS = ["+", "-", "*", "/", "//", "%", "<", ">", "==", "!=", "in", "and", "or", "**"]
names = st.sampled_from([*NAMES, "value.a", "value.b.c", "value['a']", "true", "false", "null", "nan"])
constants = st.one_of(
    st.integers(-(10**30), 10**30).map(str), st.floats().map(repr), st.text(max_size=8).map(repr)
)
expressions = st.recursive(
    names | constants,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(OPERATORS), inner).map(lambda parts: f"({' '.join(parts)})"),
        st.tuples(st.sampled_from([*FUNCTIONS, "eval", "open"]), st.lists(inner, min_size=1, max_size=2)).map(
            lambda parts: f"{parts[0]}({', '.join(parts[1])})"
        ),
        inner.map("not {}".format),
        st.tuples(inner, inner).map(lambda parts: f"{parts[0]}[{parts[1]}]"),
    ),
    max_leaves=20,
)
trees = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.decimals(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["a", "b", "c"]) | st.text(), inner),
)


@settings(max_examples=80, deadline=None)
@given(expressions | st.text(), trees, st.none() | st.text() | trees)
def test_nothing_but_its_own_error_is_raised(text, value, key):
    try:
        expression = Expression(text)
    except ExpressionError:
        return
    assert expression.matches({"value": value, "key": key, "headers": {"a": "b"}, "offset": 1}) in (
        True,
        False,
    )


def test_large_results_are_bounded():
    doubling = "(" * 18 + "key" + "".join(f" + {'key'})" for _ in range(18))
    begun = time.process_time()
    for text in (
        doubling + " == key",
        " * ".join(["offset"] * 400) + " > 0",
        "+".join(["key"] * 300) + "== key",
    ):
        with contextlib.suppress(ExpressionError):
            Expression(text).matches({"key": "x" * 60_000, "offset": 1 << 63})
    Expression("contains(lower(value), 'no') or matches(value, '(a*)*b')").matches(
        {"value": "a" * 10_000_000}
    )
    assert time.process_time() - begun < 20
