import pytest

from bowstring.schemas.errors import InvalidSchemaError
from bowstring.schemas.json_schema import parse
from bowstring.schemas.json_schema.json_text import (
    DEEPEST_NESTING,
    LARGEST_TEXT,
    LONGEST_NUMBER,
    MOST_DECIMALS,
    read_json,
    shape_of,
    write_json,
)


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ('{ "b" : 1,\n "a":[ true , null ] }', '{"b":1,"a":[true,null]}'),
        ('{"a":1,"b":2,"a":{"c":1,"c":2}}', '{"a":{"c":2},"b":2}'),
        # As BigDecimal.toString of Java writes them.
        ("[-0,-0.0,1.50,100.0,1e5,1E-7,0.0000001,12e-3]", "[0,0.0,1.50,100.0,1E+5,1E-7,1E-7,0.012]"),
        ("[1e400,123456789012345678901234567890]", "[1E+400,123456789012345678901234567890]"),
        ("[NaN,Infinity,-Infinity]", '["NaN","Infinity","-Infinity"]'),
        (
            '"\\u00e9\\/\\u001f\\u000b\\b\\f\\n\\u2028\\\\u001f\\u007f"',
            '"é/\\u001F\\u000B\\b\\f\\n\u2028\\\\u001f\x7f"',
        ),
        ('[1.5,"@1.5@","@@"]', '[1.5,"@1.5@","@@"]'),
    ],
)
def test_text_is_written_as_jackson_writes_it(written, canonical):
    assert write_json(read_json(written)) == canonical
    assert write_json(read_json(canonical)) == canonical


def test_normal_form_sorts_by_utf_16():
    # U+1F600 begins with U+D83D in UTF-16, which is before U+FB01.
    schema = parse('{"title":"é","ﬁ":1.0,"😀":{"b":1,"a":2},"$id":"x"}', ())
    assert schema.normalized().canonical == '{"$id":"x","title":"é","😀":{"a":2,"b":1},"ﬁ":1.0}'
    assert schema.canonical.startswith('{"title"')
    assert schema.normalized().normalized().canonical == schema.normalized().canonical


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("", "line 1, column 1"),
        ("{", "line 1, column 2"),
        ("{}{}", "line 1, column 3"),
        ('{"a": "\\ud800"}', "surrogate"),
        ('{"a": "\x01"}', "line 1"),
        ("[" * (DEEPEST_NESTING + 1) + "]" * (DEEPEST_NESTING + 1), "nested more than"),
        ('{"a":' * 100_000, "nested more than"),
        ("9" * 100_000, "longer than 1,000"),
        ("0." + "9" * LONGEST_NUMBER, "longer than 1,000"),
        ("1e99999999999", "exponent"),
        ("1e-99999999999999999999999", "exponent"),
        ("[" + "0.5," * MOST_DECIMALS + "0.5]", "decimal numbers"),
        (" " * (LARGEST_TEXT + 1), "longer than 5,242,880"),
    ],
)
def test_hostile_text_is_refused_with_one_line(text, cause):
    with pytest.raises(InvalidSchemaError, match=cause) as caught:
        write_json(read_json(text))
    assert "\n" not in str(caught.value)


def test_nesting_up_to_the_limit_is_accepted():
    text = "[" * DEEPEST_NESTING + "]" * DEEPEST_NESTING
    assert write_json(read_json(text)) == text


def test_equal_values_have_one_shape():
    shapes, known = {}, {}
    values = [read_json(text) for text in ('{"a":[1,{"b":2}],"c":1.0}', '{"c":1.0,"a":[1,{"b":2}]}')]
    assert len({shape_of(value, shapes, known) for value in values}) == 1
    others = [read_json(text) for text in ("1", "1.0", '"1"', "true", "[1]", "[[1]]", '{"1":1}', "{}", "[]")]
    assert len({shape_of(value, shapes, known) for value in others}) == len(others)
