"""What the rules call compatible decodes with a real decoder; what they call incompatible has data that does not."""

import io
import json

import fastavro
from hypothesis import given, settings
from hypothesis import strategies as st

from bowstring.schemas.avro import parse
from tests.support.waiting import FOR_EVER_S

VALUES = {
    "null": [None],
    "boolean": [True],
    "int": [7],
    "long": [1 << 40],
    "float": [0.5],
    "double": [1e300],
    "bytes": [b"ab"],
    "string": ["ab"],
}
PRIMITIVES = st.sampled_from(list(VALUES))


@st.composite
def schemas(draw, depth=0):
    """A schema; names are unique: Avro's resolution of equal names is tested elsewhere."""
    kind = draw(
        st.sampled_from(["primitive"] * 3 + ["array", "map", "union", "enum", "fixed", "record", "record"])
    )
    if kind == "primitive" or depth > 2:
        return draw(PRIMITIVES)
    if kind in ("array", "map"):
        return {"type": kind, ("items" if kind == "array" else "values"): draw(schemas(depth=depth + 1))}
    if kind == "union":
        return draw(st.lists(PRIMITIVES, min_size=1, max_size=3, unique=True))
    if kind == "enum":
        symbols = draw(st.lists(st.sampled_from("ABCD"), min_size=1, max_size=3, unique=True))
        return {"type": "enum", "name": "", "symbols": symbols}
    if kind == "fixed":
        return {"type": "fixed", "name": "", "size": draw(st.integers(1, 3))}
    names = draw(st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True))
    return {
        "type": "record",
        "name": "",
        "fields": [{"name": name, "type": draw(schemas(depth=depth + 1))} for name in names],
    }


@st.composite
def changed(draw, schema, depth=0):
    """A schema that may differ from another one in a few places."""
    if draw(st.integers(0, 7)) == 0:
        return draw(schemas(depth=depth))
    if isinstance(schema, list):
        more = draw(st.lists(PRIMITIVES, max_size=1))
        return list(dict.fromkeys([*(each for each in schema if draw(st.integers(0, 5))), *more])) or ["null"]
    if isinstance(schema, str):
        return schema
    copy = dict(schema)
    if copy["type"] == "enum":
        copy["symbols"] = list(dict.fromkeys([*copy["symbols"][draw(st.integers(0, 1)) :], "D"]))
        if draw(st.booleans()):
            copy["default"] = "D"
    elif copy["type"] == "fixed":
        copy["size"] += draw(st.sampled_from([0, 0, 1]))
    elif copy["type"] == "record":
        copy["fields"] = draw(changed_fields(copy["fields"], depth))
    else:
        of = "items" if copy["type"] == "array" else "values"
        copy[of] = draw(changed(copy[of], depth + 1))
    return copy


@st.composite
def changed_fields(draw, fields, depth):
    kept = []
    for each in fields:
        match draw(st.sampled_from(["keep", "keep", "keep", "drop", "rename", "alias"])):
            case "keep":
                kept.append({"name": each["name"], "type": draw(changed(each["type"], depth + 1))})
            case "rename":
                kept.append({"name": "new_" + each["name"], "type": each["type"]})
            case "alias":
                kept.append({"name": "new_" + each["name"], "type": each["type"], "aliases": [each["name"]]})
    if draw(st.booleans()):
        kept.append({"name": "added", "type": "int"} | ({"default": 1} if draw(st.booleans()) else {}))
    return kept


def named(schema, path="R"):
    """The schema with names by place, so that a type keeps its name when other things change."""
    if isinstance(schema, list):
        return [named(each, path) for each in schema]
    if isinstance(schema, str):
        return schema
    copy = dict(schema)
    if "name" in copy:
        copy["name"] = f"{path}_{copy['type']}"
    for of in ("items", "values"):
        if of in copy:
            copy[of] = named(copy[of], f"{path}_{of}")
    if "fields" in copy:
        copy["fields"] = [
            each | {"type": named(each["type"], f"{path}_{each['name'].removeprefix('new_')}")}
            for each in copy["fields"]
        ]
    return copy


def covering(schema):
    """Data that uses each branch and symbol of a schema at least once."""
    if isinstance(schema, str):
        return VALUES[schema]
    if isinstance(schema, list):
        return [value for branch in schema for value in covering(branch)]
    match schema["type"]:
        case "array":
            return [[value] for value in covering(schema["items"])]
        case "map":
            return [{"k": value} for value in covering(schema["values"])]
        case "enum":
            return schema["symbols"]
        case "fixed":
            return [b"x" * schema["size"]]
    columns = {each["name"]: covering(each["type"]) for each in schema["fields"]}
    longest = max(map(len, columns.values()))
    return [{name: values[row % len(values)] for name, values in columns.items()} for row in range(longest)]


def reads(reader, writer, value):
    parsed = fastavro.parse_schema(json.loads(writer.canonical))
    data = io.BytesIO()
    fastavro.schemaless_writer(data, parsed, value)
    data.seek(0)
    try:
        fastavro.schemaless_reader(data, parsed, fastavro.parse_schema(json.loads(reader.canonical)))
    except (fastavro.read.SchemaResolutionError, ValueError, TypeError, KeyError):
        return False
    return True


@settings(max_examples=150, deadline=FOR_EVER_S * 1000)
@given(st.data())
def test_compatible_schemas_decode_and_incompatible_ones_have_data_that_does_not(data):
    first = data.draw(schemas())
    writer = parse(json.dumps(named(first)))
    reader = parse(json.dumps(named(data.draw(changed(first)))))
    found = reader.differences(writer)
    values = covering(json.loads(writer.canonical))
    readable = [reads(reader, writer, value) for value in values]
    assert all(readable) is (found == []), (reader.canonical, writer.canonical, found, values)
