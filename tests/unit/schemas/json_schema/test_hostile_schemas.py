"""Schemas that are made to take forever, and such that refer to themselves."""

import json
import random
from dataclasses import replace

import pytest

from bowstring.schemas.errors import InvalidSchemaError
from bowstring.schemas.json_schema import comparison, parse, schema_loader
from bowstring.schemas.json_schema.changes import LONGEST_PATH
from bowstring.schemas.json_schema.json_schema import MOST_DIFFERENCES
from bowstring.schemas.json_schema.json_text import LARGEST_TEXT
from bowstring.schemas.resolved_reference import ResolvedReference

MOST_STEPS = 2000
NEW = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
TEXT, NUMBER = {"type": "string"}, {"type": "number"}


def schema(value):
    return parse(value if isinstance(value, str) else json.dumps(value), ())


def differences(original, update):
    return schema(update).differences(schema(original))


def kinds(original, update):
    return [each.kind for each in differences(original, update)]


def linked(count, link, leaf):
    """A schema of `count` definitions, each of which `link` makes of a reference to the next one."""
    definitions = {f"d{index}": link({"$ref": f"#/$defs/d{index + 1}"}) for index in range(count)}
    return {"$ref": "#/$defs/d0", "$defs": {**definitions, f"d{count}": leaf}}


@pytest.mark.parametrize("draft", [{}, NEW])
@pytest.mark.parametrize(
    "link",
    [
        lambda next: {"items": next},
        lambda next: next,
        lambda next: {"anyOf": [next]},
        lambda next: {"type": "object", "properties": {"a": next}},
        lambda next: {"not": {"not": next}},
    ],
)
def test_long_chains_of_references_are_compared(draft, link):
    original, update = ({**draft, **linked(600, link, leaf)} for leaf in (TEXT, NUMBER))
    assert differences(original, original) == []
    found = differences(original, update)
    assert found
    assert all(len(each.path) <= LONGEST_PATH + 2 for each in found)


@pytest.mark.parametrize("draft", [{}, NEW])
def test_changes_on_more_paths_than_fit_into_memory_are_cut(draft):
    def both(next):
        return {"properties": {"a": next, "b": next}}

    original, update = ({**draft, **linked(60, both, leaf)} for leaf in (TEXT, NUMBER))
    assert len(differences(original, update)) == MOST_DIFFERENCES


@pytest.mark.parametrize("draft", [{}, NEW])
def test_references_in_circles_end(draft):
    loop = {**draft, "$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
    for value in ({**draft, "$ref": "#"}, loop):
        assert kinds(value, value) == []
        assert kinds(value, {**draft, **TEXT}) == ["TYPE_CHANGED"]
        assert kinds({**draft, **TEXT}, value) == []


def tree(draft, leaf, **more):
    node = {
        "type": "object",
        "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}, "value": leaf},
        **more,
    }
    return {**draft, **node}


@pytest.mark.parametrize("draft", [{}, NEW])
def test_recursive_schemas_are_compared(draft):
    assert kinds(tree(draft, TEXT), tree(draft, TEXT)) == []
    assert set(kinds(tree(draft, TEXT), tree(draft, NUMBER))) == {"TYPE_CHANGED"}
    added = tree(draft, TEXT, required=["value"])
    assert set(kinds(tree(draft, TEXT), added)) == {"REQUIRED_ATTRIBUTE_ADDED"}


@pytest.mark.parametrize("draft", [{}, NEW])
def test_what_is_compatible_only_by_assumption_is_found_out(draft):
    """a is compared inside b and b inside a; only one of them differs, and an anyOf hides it at first."""

    def mutual(leaf):
        a = {"type": "object", "properties": {"b": {"$ref": "#/$defs/b"}}}
        b = {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}, "leaf": leaf}}
        return {**draft, "anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}], "$defs": {"a": a, "b": b}}

    assert kinds(mutual(TEXT), mutual(TEXT)) == []
    assert kinds(mutual(TEXT), mutual(NUMBER)) == ["COMBINED_TYPE_SUBSCHEMAS_CHANGED"]


@pytest.mark.parametrize("draft", [{}, NEW])
def test_combinations_of_combinations_are_compared_once(draft):
    """40 definitions that all combine each other: there are more paths than atoms."""

    def tangle(**changed):
        definitions = {
            f"d{index}": {
                "anyOf": [
                    {"$ref": f"#/$defs/d{(index + 1) % 40}"},
                    {"properties": {"x": {"$ref": f"#/$defs/d{index * 7 % 40}"}}},
                    {"items": {"$ref": f"#/$defs/d{index * 3 % 40}"}},
                ]
            }
            for index in range(40)
        }
        return {**draft, "$ref": "#/$defs/d0", "$defs": definitions | changed}

    assert kinds(tangle(), tangle()) == []
    assert kinds(tangle(), tangle(d20=TEXT)) == ["COMBINED_TYPE_SUBSCHEMAS_CHANGED"]


def test_alternatives_find_their_partners_in_any_order():
    some = [{"const": number} for number in range(300)]
    assert kinds({"oneOf": some}, {"oneOf": some[::-1]}) == []
    assert kinds({"oneOf": some[1:]}, {"oneOf": some}) == []
    limits = [{"type": "object", "properties": {"a": {"minimum": number}}} for number in range(40)]
    # Each fits all that allow more: only one order of partners covers all.
    assert kinds({"anyOf": limits}, {"anyOf": limits[::-1]}) == []
    assert kinds({"anyOf": limits[:-1]}, {"anyOf": limits[1:]}) == ["COMBINED_TYPE_SUBSCHEMAS_CHANGED"]


def test_comparisons_that_take_too_many_steps_are_refused(monkeypatch):
    monkeypatch.setattr(comparison, "MOST_STEPS", 2000)
    limits = [{"minimum": number} for number in range(100)]
    assert kinds({"anyOf": limits[:20]}, {"anyOf": limits[:20]}) == []
    with pytest.raises(InvalidSchemaError, match="too long to compare"):
        differences({"anyOf": limits}, {"anyOf": [{"minimum": number - 0.5} for number in range(99, -1, -1)]})


@pytest.mark.parametrize(
    "value",
    [
        {"enum": list(range(MOST_STEPS + 1))},
        {"allOf": [True] * (MOST_STEPS + 1)},
        {**NEW, "prefixItems": [True] * (MOST_STEPS + 1)},
        {"properties": {f"p{number}": True for number in range(MOST_STEPS + 1)}},
        {"patternProperties": {f"^{number}": {} for number in range(MOST_STEPS // 100)}},
        {"pattern": "a" * 65 * MOST_STEPS},
        {"$ref": "#/properties" + "/x" * (MOST_STEPS // 2 - 10), "items": [True] * (MOST_STEPS // 2)},
        {**NEW, "allOf": [{"$ref": f"#/a{'/x' * 1000}{number}"} for number in range(10)]},
    ],
)
def test_schemas_with_too_many_parts_are_refused(value, monkeypatch):
    monkeypatch.setattr(schema_loader, "MOST_STEPS", MOST_STEPS)
    with pytest.raises(InvalidSchemaError):
        schema(value)


def test_references_count_with_the_schema():
    large = ResolvedReference("a.json", "s", 1, '{"title":"%s"}' % ("x" * (LARGEST_TEXT // 2)))
    assert parse('{"$ref":"a.json"}', [large])
    with pytest.raises(InvalidSchemaError, match="together"):
        parse('{"$ref":"a.json"}', [large, replace(large, name="b.json")])


def test_patterns_run_in_linear_time_and_never_by_backtracking():
    hostile = {"patternProperties": {"^(a+)+$": TEXT}}
    name = "a" * 5000 + "b"
    assert kinds(
        {**hostile, "additionalProperties": False, "properties": {name: NUMBER}},
        {**hostile, "additionalProperties": False},
    ) == ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"]
    for pattern in (
        "(x{1000}){1000}",
        "(" * 20_000 + ")" * 20_000,
        "(?=a)(?!b)\\1",
        "\\pL{900}",
        "a" * 200_000,
    ):
        assert kinds({"pattern": pattern}, {"pattern": pattern}) == []


@pytest.mark.parametrize(
    ("original", "update", "found"),
    [
        ('{"minimum":1e999999999}', '{"minimum":1e-999999999}', []),
        ('{"minimum":1}', '{"minimum":1e999999999}', ["MINIMUM_INCREASED"]),
        ('{"minimum":1}', '{"minimum":%s}' % ("9" * 4000), ["MINIMUM_INCREASED"]),
        ('{"maximum":1}', '{"maximum":-%s}' % ("9" * 4000), ["MAXIMUM_DECREASED"]),
        ('{"multipleOf":1e999999999}', '{"multipleOf":1e-999999999}', ["MULTIPLE_OF_CHANGED"]),
        ('{"multipleOf":1e-500}', '{"multipleOf":1e500}', ["MULTIPLE_OF_EXPANDED"]),
        ('{"minimum":9007199254740993}', '{"minimum":9007199254740992}', []),
    ],
)
def test_huge_numbers_are_compared(original, update, found):
    assert kinds(original, update) == found


@pytest.mark.parametrize("keyword", ["items", "not", "additionalProperties", "if"])
@pytest.mark.parametrize("draft", ["", '"$schema":"https://json-schema.org/draft/2020-12/schema",'])
def test_deep_schemas_are_compared(keyword, draft):
    def deep(leaf):
        return f"{{{draft}" + f'"{keyword}":{{' * 400 + leaf + "}" * 401

    assert kinds(deep(""), deep("")) == []
    parsed = schema(deep('"type":"string"'))
    assert parsed.normalized().differences(parsed) == []


def test_deep_combinations_are_compared():
    def deep(leaf):
        return '{"anyOf":[' * 240 + leaf + "]}" * 240

    assert kinds(deep("{}"), deep("{}")) == []
    assert kinds(deep("{}"), deep('{"type":"string"}')) == ["COMBINED_TYPE_SUBSCHEMAS_CHANGED"]


KEYWORDS = [
    "$schema",
    "$id",
    "id",
    "$ref",
    "$anchor",
    "$dynamicRef",
    "$dynamicAnchor",
    "$recursiveRef",
    "$defs",
    "definitions",
    "title",
    "description",
    "default",
    "type",
    "enum",
    "const",
    "not",
    "allOf",
    "anyOf",
    "oneOf",
    "if",
    "then",
    "else",
    "format",
    "pattern",
    "minLength",
    "multipleOf",
    "minimum",
    "exclusiveMaximum",
    "properties",
    "patternProperties",
    "additionalProperties",
    "propertyNames",
    "required",
    "minProperties",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "unevaluatedProperties",
    "items",
    "prefixItems",
    "additionalItems",
    "unevaluatedItems",
    "contains",
    "minContains",
    "maxContains",
    "maxItems",
    "uniqueItems",
    "readOnly",
    "deprecated",
    "connect.type",
    "examples",
]
SCRAPS = [
    *(
        None,
        True,
        False,
        0,
        -1,
        1.5,
        1e300,
        1 << 70,
        "",
        "a",
        "#",
        "#/",
        "#a",
        "#/definitions/a",
        "#/%",
        "a:",
        "//[",
    ),
    *(
        "string",
        ["string", "null"],
        [],
        [1],
        ["a"],
        [{}],
        [[]],
        {},
        {"a": {}},
        {"a": 1},
        {"a": ["b"]},
        {"": False},
    ),
    *({"$ref": "#"}, {"a": {"$ref": "#/definitions/a"}}, {"$id": "b", "$ref": "c"}, "(", "^a", "(?=a)"),
]


@pytest.mark.parametrize("draft", [{}, {"$schema": "http://json-schema.org/draft-04/schema#"}, NEW])
def test_scraps_of_schemas_are_compared_or_refused(draft):
    source = random.Random(29)
    accepted = [schema({})]
    for _ in range(1500):
        value = {keyword: source.choice(SCRAPS) for keyword in source.sample(KEYWORDS, source.randint(1, 3))}
        if source.random() < 0.5:
            value = {source.choice(["items", "not"]): value, "definitions": {"a": source.choice(SCRAPS)}}
        try:
            parsed = schema({**draft, **value})
        except InvalidSchemaError as error:
            assert len(str(error).splitlines()) == 1
            continue
        assert parsed.normalized().differences(parsed) == []
        parsed.differences(source.choice(accepted))
        accepted.append(parsed)
    assert len(accepted) > 200
