import json

import pytest

from bowstring.schemas.errors import InvalidSchemaError
from bowstring.schemas.json_schema import parse
from bowstring.schemas.parsing import parse_schema
from bowstring.schemas.resolved_reference import ResolvedReference

DRAFT_4 = {"$schema": "http://json-schema.org/draft-04/schema#"}
DRAFT_6 = {"$schema": "http://json-schema.org/draft-06/schema#"}
DRAFT_2019 = {"$schema": "https://json-schema.org/draft/2019-09/schema"}
DRAFT_2020 = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
DRAFTS = [DRAFT_4, DRAFT_6, {}, DRAFT_2019, DRAFT_2020]


def schema(value, **references):
    texts = [ResolvedReference(name, "s", 1, json.dumps(text)) for name, text in references.items()]
    return parse(json.dumps(value), texts)


def changes(original, update, references=()):
    """Kinds of changes between two schemas with the same references: pairs of name and schema."""
    texts = [ResolvedReference(name, "s", 1, json.dumps(text)) for name, text in references]
    old, new = (parse(json.dumps(value), texts) for value in (original, update))
    return [kind for kind, _ in new.changes(old).listed(100, all_of_them=True)]


@pytest.mark.parametrize("root", [True, False])
def test_a_boolean_is_a_schema(root):
    parsed = parse_schema("JSON", json.dumps(root))
    assert parsed.canonical == json.dumps(root)
    assert parsed.name is None
    assert not parsed.has_top_level_field("a")
    assert parsed.normalized().canonical == parsed.canonical


def test_a_schema_says_its_name_and_fields():
    parsed = schema({"title": "Order", "properties": {"a": {}}})
    assert parsed.name == "Order"
    assert parsed.has_top_level_field("a")
    assert not parsed.has_top_level_field("b")
    assert parsed.formatted("resolved") == parsed.canonical


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"type": "text"}, "#/type"),
        ({"type": 1}, "#/type"),
        ({"properties": {"a/b": {"minLength": "x"}}}, "#/properties/a~1b/minLength"),
        ({"properties": []}, "#/properties"),
        ({"required": [1]}, "#/required/0"),
        ({"minimum": "1"}, "#/minimum"),
        ({"minItems": "1"}, "#/minItems"),
        ({"allOf": {}}, "#/allOf"),
        ({"anyOf": [1]}, "#/anyOf/0"),
        ({"enum": "a"}, "#/enum"),
        ({"title": 1}, "#/title"),
        ({"uniqueItems": 1}, "#/uniqueItems"),
        ({"pattern": "("}, "#/pattern"),
        ({"patternProperties": {"[": {}}}, "#/patternProperties"),
        ({"$ref": 1}, "#/\\$ref"),
        ({"items": 1}, "#/items"),
        ({"not": None}, "#/not"),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(draft, value, place):
    with pytest.raises(InvalidSchemaError, match=f"^{place} ") as caught:
        schema({**draft, **value})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["1", "null", "[]", '"a"'])
def test_a_root_of_another_type_is_refused(text):
    with pytest.raises(InvalidSchemaError, match="object or a boolean"):
        parse(text, ())


@pytest.mark.parametrize(
    "value",
    [
        {**DRAFT_4, "minimum": 1, "exclusiveMinimum": 1},
        {**DRAFT_6, "exclusiveMinimum": True},
        {"multipleOf": 0.0},
        {**DRAFT_2019, "items": [{}]},
        {"$schema": 4},
    ],
)
def test_what_a_draft_does_not_have_is_refused(value):
    with pytest.raises(InvalidSchemaError):
        schema(value)


def test_lengths_of_later_drafts_may_be_of_any_size():
    one, large = ({**DRAFT_2020, "minItems": length} for length in (1.9, 1e300))
    assert changes(one, {**DRAFT_2020, "minItems": 1}) == []
    assert changes(one, large) == ["MIN_ITEMS_INCREASED"]
    with pytest.raises(InvalidSchemaError, match="32 bits"):
        schema({"minItems": 1 << 31})


def test_keywords_of_other_drafts_are_not_compared():
    assert changes({**DRAFT_4, "const": 1}, {**DRAFT_4, "const": 2}) == []
    assert changes({"const": 1}, {"const": 2}) == ["ENUM_ARRAY_CHANGED"]
    assert changes({"prefixItems": [{}]}, {"prefixItems": []}) == []
    assert changes({**DRAFT_2020, "additionalItems": False}, DRAFT_2020) == []


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize(
    "reference", ["#/definitions/x~1y", "#/definitions/x%2Fy".replace("%2F", "~1"), "#/definitions/x~1y"]
)
def test_pointers_lead_into_the_document(draft, reference):
    def with_target(target):
        return {**draft, "properties": {"a": {"$ref": reference}}, "definitions": {"x/y": target}}

    assert changes(with_target({"type": "string"}), with_target({"type": "string"})) == []
    assert changes(with_target({"type": "string"}), with_target({"type": "null"})) == ["TYPE_CHANGED"]


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("bucket", ["definitions", "$defs"])
def test_definitions_and_defs_are_found_by_the_newer_form(draft, bucket):
    def with_target(target):
        return {**draft, "items": {"$ref": "#/$defs/x"}, bucket: {"x": target}}

    assert changes(with_target({"minimum": 1}), with_target({"minimum": 2})) == ["MINIMUM_INCREASED"]


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("reference", ["other.json", "http://example.com/a/other.json", "./other.json"])
def test_references_lead_to_other_schemas_and_their_parts(draft, reference):
    other = {**draft, "definitions": {"x": {"type": "object", "properties": {"me": {"$ref": "#"}}}}}
    for part, expected in (("", "TYPE_CHANGED"), ("#", "TYPE_CHANGED"), ("#/definitions/x", None)):
        original = {**draft, "items": {"$ref": reference + part}}
        found = changes(original, {**draft, "items": {"type": "object"}}, [(reference, other)])
        assert found == ([expected] if expected else ["PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL"])


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("name", ["city.json", "a/city.json", "http://example.com/city.json"])
def test_what_another_schema_refers_to_is_found_by_its_registered_name(draft, name):
    """The schema in between has an id that is not its name."""
    keyword = "id" if draft is DRAFT_4 else "$id"
    between = {**draft, keyword: "http://other.com/x/y.json", "items": {"$ref": name}}
    folder = name.rpartition("/")[0]
    relative = {**between, "items": {"$ref": "city.json"}}
    for schema_between, its_name in ((between, "between.json"), (relative, f"{folder}/b.json".lstrip("/"))):
        references = [(name, {**draft, "type": "string"}), (its_name, schema_between)]
        for target in ("string", "null"):
            original = {**draft, "items": {"$ref": its_name}}
            found = changes(original, {**draft, "items": {"items": {"type": target}}}, references)
            assert [kind for kind in found if kind != "ID_CHANGED"] == (
                [] if target == "string" else ["TYPE_CHANGED"]
            )


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("reference", ["http://example.com/a/b.json", "b.json", "#"])
def test_a_schema_refers_to_itself_by_its_id(draft, reference):
    keyword = "id" if draft is DRAFT_4 else "$id"

    def with_target(target):
        return {
            **draft,
            keyword: "http://example.com/a/b.json",
            "items": {"$ref": f"{reference.removesuffix('#')}#/definitions/x"},
            "definitions": {"x": target},
        }

    assert changes(with_target({"minimum": 1}), with_target({"minimum": 2})) == ["MINIMUM_INCREASED"]


def test_references_are_relative_to_the_id():
    other = ("other.json", {"type": "string"})
    for draft in (DRAFT_6, DRAFT_2020):
        original = {**draft, "$id": "http://example.com/a/b.json", "items": {"$ref": "other.json"}}
        update = {**draft, "$id": "http://example.com/a/b.json", "items": {"type": "string"}}
        assert changes(original, update, [other]) == []


@pytest.mark.parametrize(
    "value",
    [
        {"items": {"$ref": "#here"}, "definitions": {"x": {"$id": "#here", "type": "string"}}},
        {**DRAFT_4, "items": {"$ref": "#here"}, "definitions": {"x": {"id": "#here", "type": "string"}}},
        {**DRAFT_2020, "items": {"$ref": "#here"}, "$defs": {"x": {"$anchor": "here", "type": "string"}}},
        {
            **DRAFT_2020,
            "items": {"$dynamicRef": "#h"},
            "$defs": {"x": {"$dynamicAnchor": "h", "type": "string"}},
        },
        {**DRAFT_2020, "items": {"$ref": "x.json"}, "$defs": {"x": {"$id": "x.json", "type": "string"}}},
    ],
)
def test_ids_and_anchors_name_schemas(value):
    draft = {name: value[name] for name in value if name == "$schema"}
    assert set(changes(value, {**draft, "items": {"type": "string"}})) <= {"ID_CHANGED"}
    assert changes(value, {**draft, "items": {"type": "null"}}) == ["TYPE_CHANGED"]


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize(
    "reference",
    [
        "#/nowhere",
        "#nowhere",
        "nowhere.json",
        "http://127.0.0.1:1/a.json",
        "file:///etc/passwd",
        "#/type/0",
        "//[",
    ],
)
def test_references_to_nowhere_are_refused_and_nothing_is_fetched(draft, reference):
    with pytest.raises(InvalidSchemaError, match=r"#/properties/a/\$ref"):
        schema({**draft, "type": "object", "properties": {"a": {"$ref": reference}}})


def test_errors_have_one_line():
    for value in ({"properties": {"a\nb\u2028": {"type": "c\rd"}}}, {"$ref": "#/\n"}, {"pattern": "(\n"}):
        with pytest.raises(InvalidSchemaError) as caught:
            schema(value)
        assert len(str(caught.value).splitlines()) == 1


def test_a_bad_reference_is_named():
    with pytest.raises(InvalidSchemaError, match=r"reference 'other\.json': line 1"):
        parse('{"$ref": "other.json"}', [ResolvedReference("other.json", "s", 1, "{")])
    with pytest.raises(InvalidSchemaError, match=r"^other\.json#/type "):
        parse('{"$ref": "other.json"}', [ResolvedReference("other.json", "s", 1, '{"type": "x"}')])


@pytest.mark.parametrize("draft", DRAFTS)
def test_meta_schemas_are_built_in(draft):
    older = {"$ref": "http://json-schema.org/draft-07/schema#"}
    assert changes({**draft, "items": older}, {**draft, "items": older}) == []
    newer = {**DRAFT_2020, "items": {"$ref": "https://json-schema.org/draft/2020-12/schema"}}
    assert changes(newer, newer) == []


@pytest.mark.parametrize("draft", DRAFTS)
def test_lists_of_types_are_alternatives(draft):
    typed = {**draft, "type": ["object", "null"], "properties": {"a": {"type": "string"}}}
    assert changes(typed, {**typed, "type": ["object"]}) == ["SUM_TYPE_NARROWED"]
    assert changes({**typed, "type": "object"}, typed) == ["SUM_TYPE_EXTENDED"]


def test_unevaluated_properties_count_beside_definitions():
    closed = {**DRAFT_2020, "type": "object", "unevaluatedProperties": False, "$defs": {"x": {}}}
    wide = {**closed, "properties": {"a": {"$ref": "#/$defs/x"}}}
    assert changes(wide, closed) == ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"]


@pytest.mark.parametrize("draft", [{}, DRAFT_2020])
def test_chains_of_references_are_followed(draft):
    def chained(target):
        definitions = {"x": {"$ref": "#/$defs/y"}, "y": {"$ref": "#/$defs/z"}, "z": target}
        return {**draft, "items": {"$ref": "#/$defs/x"}, "$defs": definitions}

    assert changes(chained({"type": "string"}), chained({"type": "null"})) == ["TYPE_CHANGED"]
    assert changes(chained({"type": "string"}), {**draft, "items": {"type": "string"}}) == []


def test_schemas_of_different_drafts_are_compared():
    older = {"items": [{"type": "string"}], "additionalItems": False, "definitions": {"x": {}}}
    newer = {**DRAFT_2020, "prefixItems": [{"type": "string"}], "items": False}
    assert changes(older, newer) == changes(newer, older) == []
    assert (
        changes({**DRAFT_4, "dependencies": {"a": ["b"]}}, {**DRAFT_2019, "dependentRequired": {"a": ["b"]}})
        == []
    )
