import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bowstring.schemas.avro.json_text import DEPTH_MAX, java_double, quoted, read_json, write_json
from bowstring.schemas.errors import InvalidSchemaError
from tests.support.waiting import FOR_EVER_S


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (-12345678.5, "-1.23456785E7"),
        (100.0, "100.0"),
        (123456.75, "123456.75"),
        (5e-324, "4.9E-324"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (2e23, "2.0E23"),
        (float("inf"), '"Infinity"'),
        (float("-inf"), '"-Infinity"'),
        (float("nan"), '"NaN"'),
    ],
)
def test_doubles_are_written_as_in_java(number, text):
    assert java_double(number) == text


@settings(deadline=FOR_EVER_S * 1000)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_doubles_keep_their_value(number):
    assert float(java_double(number)) == number


def test_strings_are_escaped_as_by_jackson():
    assert (
        quoted('a"\\/\b\t\n\f\r\x00\x1f\x7f\u2028é') == '"a\\"\\\\/\\b\\t\\n\\f\\r\\u0000\\u001F\x7f\u2028é"'
    )
    assert quoted("\\u001f") == '"\\\\u001f"'


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@settings(max_examples=40, deadline=FOR_EVER_S * 1000)
@given(JSON)
def test_values_survive(value):
    assert read_json(write_json(value)) == value
    assert read_json(json.dumps(value)) == value
    assert read_json(write_json(value, sort=True)) == value


def test_objects_are_sorted_as_java_sorts_strings():
    assert write_json({"\uff5e": 1, "\U0001f600": [{"b": 1, "a": 2}]}, sort=True) == (
        '{"\U0001f600":[{"a":2,"b":1}],"\uff5e":1}'
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('// first\n"int" // last', "int"),
        ('/* a "quoted" one */ {"a": "http://x/*no*/", /**/ "b": 1}', {"a": "http://x/*no*/", "b": 1}),
        ('{"a\\"//": 1} /* end */', {'a"//': 1}),
    ],
)
def test_comments_are_skipped(text, value):
    assert read_json(text) == value


@pytest.mark.parametrize(
    "text",
    [
        *("", "int", "{", '"a" "b"', "/* open", '"open', "/", '{"a": NaN}', "[Infinity]", "1" * 5000),
        *('"\\ud800"', '"\ud800"', '"a\x01"', "/*" * 200_000, "/ " * 200_000, '"\\' * 200_000),
        *("[" * 100_000, '"int" ' + "//" * 200_000 + "\nx"),
    ],
    ids=lambda text: ascii(text[:12]),
)
def test_other_texts_are_refused_in_one_line(text):
    with pytest.raises((InvalidSchemaError, RecursionError)) as caught:
        read_json(text)
    assert "\n" not in str(caught.value)


def test_values_are_not_written_deeper_than_the_limit():
    value: object = 1
    for _ in range(DEPTH_MAX):
        value = [value]
    write_json(value)
    with pytest.raises(InvalidSchemaError, match="nested"):
        write_json([value])
