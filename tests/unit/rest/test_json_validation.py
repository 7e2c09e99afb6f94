"""bowstring.rest.records.json_validation: values fit their JSON Schema, or are refused; hostile schemas take no time."""

import time

import pytest

from bowstring.clients.registry.schema_sources import UnusableSchemaError
from bowstring.rest.records import schema_cost
from bowstring.rest.records.json_validation import json_validator

ORDER = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}


def fits(schema, value, others=None, size=100):
    validate = json_validator(schema, others or {})
    try:
        validate(value, size)
    except ValueError:
        return False
    return True


def test_values_fit_or_not():
    assert fits(ORDER, {"id": 1})
    with pytest.raises(ValueError, match=r'"x" is not of type "integer" \(at /id\)'):
        json_validator(ORDER, {})({"id": "x"}, 10)
    assert not fits(ORDER, {})
    assert fits(True, 1) and not fits(False, 1)


def test_the_draft_is_7_unless_the_schema_says_so():
    schema = {"prefixItems": [{"type": "string"}]}  # of 2020-12
    assert fits(schema, [1])
    newer = "https://json-schema.org/draft/2020-12/schema"
    assert not fits({"$schema": newer, **schema}, [1])
    exclusive = {"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1, "exclusiveMinimum": True}
    assert not fits(exclusive, 1) and fits(exclusive, 2)


@pytest.mark.parametrize("id", [{}, {"$id": "http://shop.example/order.json"}])
def test_references_are_found_by_their_names(id):
    schema = {**id, "properties": {"a": {"$ref": "item.json"}, "b": {"$ref": "item.json#/definitions/b"}}}
    item = {
        "type": "object",
        "definitions": {"b": {"type": "string"}},
        "properties": {"of": {"$ref": "deep.json"}},
    }
    others = {"item.json": item, "deep.json": {"type": "boolean"}}
    assert fits(schema, {"a": {"of": True}, "b": "x"}, others)
    assert not fits(schema, {"a": {"of": 1}}, others) and not fits(schema, {"b": 1}, others)


@pytest.mark.parametrize("place", ["http://127.0.0.1:1/x.json", "file:///etc/passwd", "none.json"])
def test_nothing_is_fetched(place):
    with pytest.raises(UnusableSchemaError):
        json_validator({"properties": {"a": {"$ref": place}}}, {})


@pytest.mark.parametrize(
    "pattern", ["^(a+)+$", "^(?=(a+)+$)b", r"^(a+)\1+$(?!x)", "^(a|a)*$", "^(?!(a|aa)+$)(a|aa)+b$"]
)
def test_hostile_patterns_end(pattern):
    began = time.process_time()
    fits({"pattern": pattern}, "a" * 10_000 + "c")
    assert time.process_time() - began < 10


@pytest.mark.parametrize("pattern", ["(", "((a{1000}){1000}){1000}"])
def test_patterns_that_cannot_be_compiled_are_refused(pattern):
    with pytest.raises(UnusableSchemaError):
        json_validator({"pattern": pattern}, {})


def doubling(depth):
    """Each of the definitions refers to the next one twice."""
    schemas = {f"d{at}": {"allOf": [{"$ref": f"#/definitions/d{at + 1}"}] * 2} for at in range(depth)}
    return {"$ref": "#/definitions/d0", "definitions": schemas | {f"d{depth}": {"type": "integer"}}}


def test_schemas_that_double_are_refused_before_they_run():
    assert fits(doubling(10), 1)
    with pytest.raises(ValueError, match="too long"):
        json_validator(doubling(60), {})(1, 2)


def test_large_lists_are_counted():
    large = {"items": {"enum": [{"a": at} for at in range(5000)]}}
    with pytest.raises(ValueError, match="too long"):
        json_validator(large, {})([{"a": -1}] * 2000, 20_000)
    assert fits({"items": ORDER}, [{"id": 1}] * 50_000, size=450_000)


def nested(depth, value=1):
    for _ in range(depth):
        value = {"a": value}
    return value


TWICE = [{"$ref": "#"}, {"$ref": "#"}]
MUTUAL = {
    "$ref": "#/definitions/a",
    "definitions": {
        "a": {"properties": {"a": {"allOf": [{"$ref": "#/definitions/a"}, {"$ref": "#/definitions/b"}]}}},
        "b": {"properties": {"a": {"allOf": [{"$ref": "#/definitions/b"}, {"$ref": "#/definitions/a"}]}}},
    },
}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "additionalProperties": {"anyOf": TWICE}},
        {"additionalProperties": {"allOf": TWICE}},
        {"additionalProperties": {"oneOf": TWICE}},
        {
            "properties": {"a": {"$ref": "#"}},
            "additionalProperties": False,
            "patternProperties": {"": TWICE[0]},
        },
        MUTUAL,
    ],
)
def test_schemas_that_contain_themselves_twice_are_counted_by_level(schema):
    validate = json_validator(schema, {})
    for depth in (1, 3, 16, 40, 900):
        began, reason = time.process_time(), None
        try:
            validate(nested(depth), 10 * depth)
        except ValueError as error:
            reason = str(error)
        assert time.process_time() - began < 30
        assert depth < 900 or schema is not MUTUAL or "too long" in reason
    assert "too long" not in (reason_of(validate, nested(3)) or "")


def test_expressions_of_many_kinds_are_checked():
    kinds = [
        {"properties": {"op": {"const": op}, "of": {"items": {"$ref": "#/definitions/e"}}}} for op in "abcde"
    ]
    schema = {"$ref": "#/definitions/e", "definitions": {"e": {"oneOf": [{"type": "integer"}, *kinds]}}}
    kinds[0]["required"] = ["op"]
    value = 1
    for _ in range(40):
        value = {"op": "c", "of": [value, 2]}
    assert "too long" not in (reason_of(json_validator(schema, {}), value, 1000) or "")


def reason_of(validate, value, size=100):
    try:
        validate(value, size)
    except ValueError as error:
        return str(error)
    return None


def test_schemas_whose_parts_contain_one_another_in_place_are_refused():
    names = [f"#/definitions/d{at}" for at in range(9)]
    each = {"allOf": [{"$ref": name} for name in names]}
    with pytest.raises(UnusableSchemaError, match="in several ways"):
        json_validator({"$ref": names[0], "definitions": {f"d{at}": each for at in range(9)}}, {})


def test_what_is_unevaluated_is_counted():
    schema = {"properties": {"a": {}}}
    for _ in range(40):
        schema = {"allOf": [schema, {"type": "object"}], "unevaluatedProperties": False}
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    assert "too long" in reason_of(json_validator(schema, {}), {"a": 1})


def test_deep_evaluations_are_refused():
    links = {
        f"d{at}": {"allOf": [{"$ref": f"#/definitions/d{at + 1}"}, {"type": "object"}]} for at in range(100)
    }
    schema = {
        "$ref": "#/definitions/d0",
        "definitions": {**links, "d100": {"additionalProperties": {"$ref": "#"}}},
    }
    validate = json_validator(schema, {})
    assert reason_of(validate, nested(3, {})) is None
    assert "too long" in reason_of(validate, nested(900, {}))


def test_large_wrong_values_get_a_short_reason():
    schema = {"anyOf": [{"items": {"type": ["string", "null"], "minLength": at}} for at in range(100)]}
    assert (
        reason_of(json_validator(schema, {}), list(range(9_000)), 40_000)
        == "the value does not fit the schema"
    )


def test_recursion_and_depth_end():
    tree = {"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}, "type": "object"}
    value = {}
    for _ in range(200):
        value = {"left": value}
    assert fits(tree, value)
    assert fits({"allOf": [{"$ref": "#"}]}, 1)
    deep = {}
    for _ in range(5000):
        deep = {"not": deep}
    with pytest.raises(UnusableSchemaError):
        json_validator(deep, {})


def test_a_schema_with_too_many_parts_is_refused(monkeypatch):
    monkeypatch.setattr(schema_cost, "PARTS_MAX", 100)
    with pytest.raises(UnusableSchemaError, match="more than 100 parts"):
        json_validator({"allOf": [{}] * 101}, {})
