import json

import pytest

from bowstring.schemas.avro import parse
from bowstring.schemas.avro.avro_type import DEPTH_MAX
from bowstring.schemas.errors import InvalidSchemaError
from bowstring.schemas.parsing import parse_schema
from bowstring.schemas.resolved_reference import ResolvedReference


def record(*fields, name="R", **more):
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(of, name="f", **more):
    return {"name": name, "type": of, **more}


def enum(*symbols, **more):
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


def canonical(schema, *references, is_new=True):
    found = [ResolvedReference(str(n), "s", 1, json.dumps(each)) for n, each in enumerate(references)]
    return parse(json.dumps(schema), found, is_new=is_new).canonical


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (5, "5 is no type"),
        (None, "null is no type"),
        ({}, '"type" of {} must be a string'),
        ({"type": {"type": "int"}}, "must be a string"),
        ("Nowhere", '"Nowhere" is defined neither'),
        ({"type": "Nowhere"}, "defined neither"),
        ({"type": "array"}, 'has no "items"'),
        ({"type": "map", "values": 1}, "1 is no type"),
        ({"type": "record", "name": "R"}, 'record R has no array "fields"'),
        ({"type": "record", "fields": []}, 'has no "name"'),
        (record({"type": "int"}), 'record R: field {"type":"int"} has no "name"'),
        (record(5), "record R: field 5"),
        (record({"name": "f"}), 'record R, field f: there is no "type"'),
        (record(field("int"), field("int")), "record R, field f: the name is used twice"),
        (record(field("x.Nowhere")), 'record R, field f: "x.Nowhere" is defined neither'),
        (record(field("int", order="up")), '"order" is "up"; use ascending'),
        (record(field("int", order=None)), '"order" is null'),
        (record(field("int", aliases="a")), '"aliases" is "a"; it must be an array'),
        (record(aliases=[1]), '"aliases" is [1]'),
        (record(field("float", default="one")), 'the default "one" is no number'),
        (record(field("int", name="a-b")), 'record R: "a-b" is no name'),
        (record(field("int", name="é")), "is no name"),
        (record(name="9R"), '"9R" is no name'),
        (record(name="a..R"), '"" is no name'),
        (record(name="é.R"), '"é" is no name'),
        (record(aliases=["a-b"]), '"a-b" is no name'),
        (record(name="int"), "int is the name of a primitive type"),
        ({"type": "enum", "name": "E"}, 'enum E has no array "symbols"'),
        (enum("A", "A"), "enum E has the symbol A twice"),
        (enum("A b"), '"A b" is no name'),
        (enum(1), "symbol 1 of enum E is no string"),
        (enum("A", default="B"), 'the default "B" is no symbol of enum E'),
        ({"type": "fixed", "name": "F"}, '"size" of fixed F is null'),
        ({"type": "fixed", "name": "F", "size": -1}, "is -1"),
        ({"type": "fixed", "name": "F", "size": 1.0}, "is 1.0"),
        ({"type": "fixed", "name": "F", "size": 1 << 31}, "must be a number of bytes"),
        (["int", ["null"]], "a union contains a union"),
        (["int", "null", "int"], "a union contains int twice"),
        ([enum("A"), "E"], "a union contains E twice"),
        (record(field(["G", enum("A", name="G")])), "record R, field f: a union contains G twice"),
        (record(field(enum("A")), field(enum("B"), "g")), "E is defined twice, and differently"),
        (record(field("\n" * 200)), "is defined neither"),
    ],
)
def test_errors_say_where_and_what(schema, message):
    with pytest.raises(InvalidSchemaError) as caught:
        parse(json.dumps(schema))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_names_are_found_in_their_namespace_first_and_then_without_one():
    without, ours = field(enum("A", namespace=""), "a"), field(enum("B"), "b")
    both = parse(json.dumps(record(without, ours, field("E", "g"), name="x.R")))
    assert both.root.fields["g"].type is both.root.fields["b"].type
    alone = parse(json.dumps(record(without, field("E", "g"), name="x.R")))
    assert alone.root.fields["g"].type is alone.root.fields["a"].type
    assert canonical(record(field(enum("A", namespace=""), "a"), name="x.R")) == (
        '{"type":"record","name":"R","namespace":"x","fields":[{"name":"a","type":'
        '{"type":"enum","name":"E","namespace":"","symbols":["A"]}}]}'
    )
    # A name that Avro uses itself is written in full.
    assert canonical(record(field(["null", "x.map"]), name="x.map")).endswith('"type":["null","x.map"]}]}')


def test_equal_definitions_of_a_name_are_one():
    assert canonical(record(field(enum("A"), "a"), field(enum("A", doc="again"), "b"))) == (
        '{"type":"record","name":"R","fields":[{"name":"a","type":'
        '{"type":"enum","name":"E","symbols":["A"]}},{"name":"b","type":"E"}]}'
    )
    assert canonical(enum("A"), enum("A", doc="first")) == '"E"'
    inside = record(field(enum("A")))
    assert canonical(record(field(inside), name="Outer"), inside).endswith(
        '"fields":[{"name":"f","type":"R"}]}'
    )
    with pytest.raises(InvalidSchemaError, match="R is defined twice"):
        canonical(record(field(enum("A")), field("int", "g")), inside)
    # A type inside a reference is written out: only what a reference defines at its top is left out.
    assert canonical(record(field("E"), name="Outer"), inside).endswith(
        '"type":{"type":"enum","name":"E","symbols":["A"]}}]}'
    )


@pytest.mark.parametrize(
    ("of", "good", "bad"),
    [
        ("null", [None], [0, False]),
        ("boolean", [True], [0, "true"]),
        ("int", [-(1 << 31)], [1 << 31, 1.0, True, "1"]),
        ("long", [(1 << 63) - 1], [1 << 63, None]),
        ("float", [1, 1.5, "NaN", "1e3"], [True, None]),
        ("double", [1, 1.5], [[]]),
        ("string", ["s"], [1]),
        ("bytes", ["\u00ff"], [[]]),
        (enum("A"), ["A", "B"], [1]),
        ({"type": "fixed", "name": "F", "size": 1}, ["a"], [None]),
        ({"type": "array", "items": "int"}, [[], [1]], [["a"], {}, None]),
        ({"type": "map", "values": "int"}, [{}, {"a": 1}], [{"a": "b"}, []]),
        (["null", "int"], [None, 1], ["a"]),
        (record(field("int")), [{"f": 1}, {"f": 1, "more": 2}], [{}, {"f": "a"}, None]),
        (record(field("int", default=1)), [{}], [[]]),
    ],
)
def test_defaults_fit_their_types(of, good, bad):
    def schema(default):
        return record(field(of, default=default), name="Outer")

    for each in good:
        canonical(schema(each))
    for each in bad:
        with pytest.raises(InvalidSchemaError, match=r"record Outer, field f: the default .* does not fit"):
            canonical(schema(each))
        # What is stored was accepted once.
        canonical(schema(each), is_new=False)


def test_defaults_cannot_contain_themselves_or_multiply():
    with pytest.raises(InvalidSchemaError, match="does not fit"):
        canonical(record(field("R", default={})))

    def twice(of):
        return [field(of, "f", default={}), field(of, "g", default={})]

    fields = [field(record(*twice(f"T{n + 1}"), name=f"T{n}"), f"f{n}") for n in range(30)]
    with pytest.raises(InvalidSchemaError, match="too many times"):
        canonical(record(*fields, field(record(name="T30"), "last")))


def test_names_of_stored_schemas_may_have_any_letters():
    assert '"name":"é"' in canonical(record(field("int", "é"), name="a..R", aliases=["a-b"]), is_new=False)
    with pytest.raises(InvalidSchemaError, match="is no name"):
        canonical(record(field("int", "a-b")), is_new=False)
    assert canonical("x.a-b", record(name="x.a-b"), is_new=False) == '"x.a-b"'


def nested(depth, of="array"):
    return f'{{"type":"{of}","items":' * depth + '"int"' + "}" * depth


def test_depth_is_bounded():
    assert parse(nested(DEPTH_MAX)).canonical == nested(DEPTH_MAX)
    for depth in (DEPTH_MAX + 1, 5_000, 200_000):
        with pytest.raises(InvalidSchemaError, match=r"nested .* deep"):
            parse_schema("AVRO", nested(depth))
    # Forward references nest the text when it is written.
    fields = [field(record(field(f"T{n + 1}"), name=f"T{n}"), f"f{n}") for n in range(DEPTH_MAX + 1)]
    fields.append(field(record(name=f"T{DEPTH_MAX + 1}"), "last"))
    with pytest.raises(InvalidSchemaError, match="when written out"):
        canonical(record(*fields))
    assert canonical(record(*reversed(fields)))


@pytest.mark.parametrize(
    ("schema", "properties"),
    [
        # Java copies arrays and records when it resolves names, and writes a valid logical type first.
        ({"type": "array", "items": record(field("int", "key"), field("int", "value")), "p": 1}, ["p"]),
        (record(field("bytes", "metadata"), field("bytes", "value"), p=1), ["p"]),
        (record(field("bytes", "metadata"), field("int", "value"), p=1), None),
        ({"type": "array", "items": "int", "p": 1}, None),
    ],
)
def test_logical_types_of_confluent_come_first(schema, properties):
    logical = "map" if schema["type"] == "array" else "variant"
    written = json.loads(canonical(schema | {"logicalType": logical}))
    keys = [key for key in written if key in ("p", "logicalType")]
    assert keys == (["p", "logicalType"] if properties is None else ["logicalType", "p"])
