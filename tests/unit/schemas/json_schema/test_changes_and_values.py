"""The rules against a validator: what is compatible is valid, and what is not has a counterexample."""

import json
import random
from itertools import product

import jsonschema_rs
import pytest

from bowstring.schemas.json_schema import parse
from tests.support.json_schema_cases import CASES

VALUES = [
    *(None, True, False, 0, 1, 2, 3, 4, 6, -1, 0.1, 0.2, 1.5, 2.5, 3.5),
    *("", "a", "b", "ab", "ba", "abc", "abcd"),
    *(
        [],
        [1],
        ["a"],
        ["a", "a"],
        ["a", 1],
        ["a", "b"],
        ["a", 1, "b"],
        [1, 1],
        [None],
        ["a", {}],
        ["a", "b", 1],
        ["a", "b", "c"],
    ),
    *({"a": a} for a in (1, "x", None)),
    *({"b": b} for b in (1, "x")),
    *({"a": a, "b": b} for a, b in product((1, "x"), (1, "x"))),
    *({}, {"c": 1}, {"a": 1, "c": 1}, {"a": 1, "b": 1, "c": 1}, {"a": "x", "b": 1, "c": "x"}),
    *({"a": 1, "b": 2}, {"a": {}, "b": []}),
]
# What Confluent's rules let through although a validator does not: a reader may put in a default, and these
# keywords are not compared.
NOT_COMPARED = {"if", "connect.type"}
WITH_DEFAULT = ("REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED", "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED")


def validator(schema):
    make = jsonschema_rs.Draft7Validator
    if isinstance(schema, dict) and "2020-12" in schema.get("$schema", ""):
        make = jsonschema_rs.Draft202012Validator
    return make(schema)


def counterexamples(original, update):
    old, new = validator(original), validator(update)
    return [value for value in VALUES if old.is_valid(value) and not new.is_valid(value)]


def is_compatible(original, update):
    old, new = (parse(json.dumps(each), ()) for each in (original, update))
    return not new.differences(old)


def is_left_out(schema):
    return isinstance(schema, dict) and not NOT_COMPARED.isdisjoint(schema)


@pytest.mark.parametrize(("original", "update", "kinds"), CASES)
def test_changes_that_readers_bear_make_no_value_invalid(original, update, kinds):
    if not is_compatible(original, update):
        assert counterexamples(original, update)
    elif not (is_left_out(original) or any(kind.startswith(WITH_DEFAULT) for kind in kinds)):
        assert counterexamples(original, update) == []


def random_schema(source, depth):
    """A schema with a type, of keywords that Confluent's rules compare without exceptions."""
    kind = source.choice(["object", "array", "string", "number", "integer", "enum", "any of", "types"])
    if kind == "enum":
        return {"enum": source.sample([1, 2, "a", "b", None, True], source.randint(1, 3))}
    if kind == "types":
        return {"type": source.sample(["string", "integer", "null", "boolean"], 2)}
    if kind == "string":
        return {"type": kind, source.choice(["minLength", "maxLength"]): source.randint(0, 3)}
    if kind in ("number", "integer"):
        keyword = source.choice(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"])
        return {"type": kind, keyword: source.choice([1, 2, 2.5])}
    if depth == 0:
        return {"type": "null"}
    if kind == "any of":
        return {"anyOf": [random_schema(source, depth - 1) for _ in range(source.randint(1, 3))]}
    if kind == "array":
        items = random_schema(source, depth - 1)
        return {
            "type": "array",
            source.choice(["minItems", "maxItems"]): source.randint(0, 2),
            "items": items,
        }
    names = source.sample("abc", source.randint(0, 2))
    return {
        "type": "object",
        "properties": {name: random_schema(source, depth - 1) for name in names},
        "additionalProperties": source.choice([True, False, {"type": "string"}]),
    }


def changed(source, schema):
    """The same schema with one keyword of another one."""
    if source.random() < 0.2:
        return random_schema(source, 2)
    keyword = source.choice(sorted(schema))
    value = schema[keyword]
    if isinstance(value, dict) and value and keyword in ("properties", "items"):
        if keyword == "items":
            return {**schema, "items": changed(source, value)}
        name = source.choice(sorted(value))
        return {**schema, "properties": {**value, name: changed(source, value[name])}}
    other = next(each for each in iter(lambda: random_schema(source, 2), None) if keyword in each)
    return {**schema, keyword: other[keyword]}


@pytest.mark.parametrize("draft", ["", "https://json-schema.org/draft/2020-12/schema"])
def test_compatible_changes_at_random_make_no_value_invalid(draft):
    source = random.Random(29)
    compatible = 0
    for _ in range(1500):
        original = random_schema(source, 2)
        update = changed(source, original)
        if draft:
            original, update = ({"$schema": draft, **each} for each in (original, update))
        if is_compatible(original, update):
            compatible += 1
            assert counterexamples(original, update) == [], (original, update)
    assert compatible > 300
