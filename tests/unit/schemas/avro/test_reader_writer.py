import json

import pytest

from bowstring.schemas.avro import parse
from bowstring.schemas.avro.reader_writer import DIFFERENCES_MAX, Kind


def record(*fields, name="R", **more):
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name, of, **more):
    return {"name": name, "type": of, **more}


def enum(*symbols, **more):
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


def fixed(size, name="F", **more):
    return {"type": "fixed", "name": name, "size": size, **more}


def array(of):
    return {"type": "array", "items": of}


def map_of(of):
    return {"type": "map", "values": of}


def found(reader, writer):
    return [
        f"{each.kind} {each.path}"
        for each in parse(json.dumps(reader)).differences(parse(json.dumps(writer)))
    ]


PROMOTED = {
    *(("long", "int"), ("float", "int"), ("float", "long"), ("double", "int"), ("double", "long")),
    *(("double", "float"), ("bytes", "string"), ("string", "bytes")),
}
PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


@pytest.mark.parametrize("reader", PRIMITIVES)
@pytest.mark.parametrize("writer", PRIMITIVES)
def test_primitive_types_are_promoted_by_the_specification(reader, writer):
    expected = [] if reader == writer or (reader, writer) in PROMOTED else ["TYPE_MISMATCH /"]
    assert found(reader, writer) == expected
    assert found(array(reader), array(writer)) == [each + "items" for each in expected]


@pytest.mark.parametrize(
    ("reader", "writer", "expected"),
    [
        # records: what the writer lacks needs a default; what the reader lacks is skipped
        (record(field("a", "int")), record(field("a", "int"), field("b", "int")), []),
        (record(field("a", "int", default=1)), record(), []),
        (record(field("a", "int")), record(), ["READER_FIELD_MISSING_DEFAULT_VALUE /fields/0"]),
        (record(field("a", ["null", "int"], default=None)), record(), []),
        (
            record(field("x", record(field("a", "int"), name="I"))),
            record(field("x", record(name="I"))),
            ["READER_FIELD_MISSING_DEFAULT_VALUE /fields/0/type/fields/0"],
        ),
        # names and aliases
        (record(name="B"), record(name="A"), ["NAME_MISMATCH /name"]),
        (record(name="B", aliases=["A"]), record(name="A"), []),
        (record(name="x.A"), record(name="y.A"), []),
        (record(field("b", "int", aliases=["a"])), record(field("a", "int")), []),
        (
            record(field("b", "int", aliases=["a"])),
            record(field("a", "string")),
            ["TYPE_MISMATCH /fields/0/type"],
        ),
        (
            record(field("b", "int", aliases=["a"])),
            record(field("a", "int"), field("b", "int")),
            ["AMBIGUOUS_FIELD_ALIASES /fields/0"],
        ),
        # enums
        (enum("A", "B"), enum("A"), []),
        (enum("A"), enum("A", "B"), ["MISSING_ENUM_SYMBOLS /symbols"]),
        (enum("A", default="A"), enum("A", "B"), []),
        # of a field that is missing, the default of its enum does not help, as in Java
        (record(field("a", enum("A", default="A"))), record(), ["TYPE_MISMATCH /fields/0/type"]),
        # fixed
        (fixed(4), fixed(4), []),
        (fixed(4), fixed(8), ["FIXED_SIZE_MISMATCH /size"]),
        (fixed(4, "G"), fixed(8), ["NAME_MISMATCH /name", "FIXED_SIZE_MISMATCH /size"]),
        (fixed(4), "bytes", ["TYPE_MISMATCH /"]),
        # unions
        (["null", "int"], "int", []),
        (["null", "long"], ["int", "null"], []),
        (["null", "long"], ["null", "string"], ["MISSING_UNION_BRANCH /1"]),
        (["null", "long"], "string", ["MISSING_UNION_BRANCH /"]),
        ("long", ["int", "long"], []),
        ("int", ["int", "long"], ["TYPE_MISMATCH /1"]),
        ("int", ["int", fixed(2)], ["TYPE_MISMATCH /1"]),
        (["null", fixed(2)], ["null", fixed(3)], ["MISSING_UNION_BRANCH /1"]),
        (["null", fixed(2, "G", aliases=["F"])], ["null", fixed(2)], []),
        ([array("long"), "null"], array("int"), []),
        (array("int"), ["null", array("string")], ["TYPE_MISMATCH /0", "TYPE_MISMATCH /1/items"]),
        # collections
        (map_of("long"), map_of("int"), []),
        (map_of("int"), map_of("long"), ["TYPE_MISMATCH /values"]),
        (map_of("int"), array("int"), ["TYPE_MISMATCH /"]),
        # logical types do not count: data is the same
        ({"type": "long", "logicalType": "timestamp-millis"}, {"type": "int", "logicalType": "date"}, []),
    ],
)
def test_differences_are_those_of_java(reader, writer, expected):
    assert found(reader, writer) == expected


def test_recursive_types_are_compared_once():
    def tree(of):
        return record(field("value", of), field("children", array("R")))

    assert found(tree("long"), tree("int")) == []
    assert found(tree("int"), tree("long")) == ["TYPE_MISMATCH /fields/0/type"]


def chain(length, innermost):
    """Types each of which refers to the one before it: deep by reference, not in the text."""
    fields = [field("f0", record(field("f", innermost), name="T0"))]
    fields += [field(f"f{i}", record(field("f", f"T{i - 1}"), name=f"T{i}")) for i in range(1, length)]
    return json.dumps(record(*fields))


def test_types_that_refer_to_each_other_very_deeply_are_compared():
    old, new = parse(chain(1200, "int")), parse(chain(1200, "string"))
    assert old.differences(old) == []
    assert new.differences(old)[0].kind == Kind.TYPE_MISMATCH.name
    assert old.equivalent(parse(chain(1200, "int")))
    assert old.normalized().canonical == old.canonical
    assert not old.equivalent(new)


def test_differences_of_types_that_are_used_often_do_not_multiply():
    def doubling(innermost):
        fields = [field("f0", record(field("f", innermost), name="T0"))]
        fields += [
            field(f"f{i}", record(field("f", f"T{i - 1}"), field("g", f"T{i - 1}"), name=f"T{i}"))
            for i in range(1, 60)
        ]
        return record(*fields)

    assert len(found(doubling("int"), doubling("string"))) == DIFFERENCES_MAX


def test_unions_made_to_take_long_are_incompatible():
    def same_names(space, size):
        return [fixed(size, f"{space}{i}.X") for i in range(450)]

    assert found(same_names("a", 1), same_names("b", 2)) == ["COMPARISON_TOO_LARGE /"]
    reader = [record(field("f", "int", aliases=[f"a{i}" for i in range(4000)]), name="R")]
    writer = [record(field("f", "int"), name=f"n{i}.R") for i in range(400)]
    assert found(reader, writer) == ["COMPARISON_TOO_LARGE /"]
    distinct = [fixed(1, f"X{i}") for i in range(2000)]
    assert found(distinct, distinct) == []


def test_descriptions_name_both_schemas():
    for reader, writer in [
        (enum("A"), enum("B")),
        (fixed(1), fixed(2)),
        (record(name="A"), record(name="B")),
        (record(field("a", "int")), record()),
        (["null"], ["int"]),
        ("int", "string"),
    ]:
        for each in parse(json.dumps(reader)).differences(parse(json.dumps(writer))):
            assert "{reader}" in each.description
            assert "{writer}" in each.description
            assert each.details
