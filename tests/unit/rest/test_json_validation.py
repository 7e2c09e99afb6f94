"""bowstring.rest.records.json_validation: values fit their JSON Schema, or are refused; hostile schemas take no time."""

import time

import pytest

from bowstring.clients.registry.schema_sources import UnusableSchemaError
from bowstring.rest.records import json_validation
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
    monkeypatch.setattr(json_validation, "PARTS_MAX", 100)
    with pytest.raises(UnusableSchemaError, match="more than 100 parts"):
        json_validator({"allOf": [{}] * 101}, {})
