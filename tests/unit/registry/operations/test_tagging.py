"""Tags that requests put into schemas of Avro and JSON."""

import json
import tracemalloc

import pytest

from bowstring.registry.operations import tagging
from bowstring.registry.registry_defaults import RegistryDefaults
from bowstring.registry.registry_error import RegistryError
from bowstring.registry.registry_image import RegistryImage
from bowstring.registry.schema_work import Allowance, Deferred, attempt
from tests.support.registry_double import RegistryDouble

INNER = {"type": "record", "name": "Line", "fields": [{"name": "item", "type": "string"}]}
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "mail", "type": "string"},
        {"name": "lines", "type": ["null", {"type": "array", "items": INNER}]},
    ],
}
DOCUMENT = {
    "type": "object",
    "properties": {
        "a.b": {"type": "array", "items": {"type": "object", "properties": {"c": {"type": "string"}}}}
    },
}


def entry(path, *tags, kind="sr_field"):
    return {"schemaEntity": {"entityPath": path, "entityType": kind}, "tags": list(tags)}


@pytest.fixture
def registry():
    double = RegistryDouble()
    assert double.json("POST", "/subjects/a/versions", {"schema": json.dumps(ORDER)})[0] == 200
    return double


def schema_of(registry, subject="a"):
    return json.loads(registry.json("GET", f"/subjects/{subject}/versions/latest")[1]["schema"])


def test_a_version_gets_tags_and_loses_them(registry):
    add = [entry("shop.Order.mail", "PII", "MAIL"), entry(".shop.Line", "LINE", kind="sr_record")]
    status, found = registry.json("POST", "/subjects/a/versions/1/tags", {"tagsToAdd": add})
    assert (status, found["version"]) == (200, 2)
    assert found["metadata"]["properties"]["confluent:version"] == "2"
    schema = schema_of(registry)
    assert schema["fields"][0]["confluent:tags"] == ["PII", "MAIL"]
    assert schema["fields"][1]["type"][1]["items"]["confluent:tags"] == ["LINE"]
    remove = {"tagsToRemove": [entry("Order.mail", "PII", "MAIL")], "newVersion": 3}
    assert registry.json("POST", "/subjects/a/versions/latest/tags", remove)[1]["version"] == 3
    assert "confluent:tags" not in schema_of(registry)["fields"][0]


def test_rules_are_merged_and_removed(registry):
    rule = {"name": "hide", "kind": "TRANSFORM", "mode": "WRITE", "type": "ENCRYPT", "tags": ["PII"]}
    path = "/subjects/a/versions/latest/tags"
    assert registry.json("POST", path, {"rulesToMerge": {"domainRules": [rule]}})[0] == 200
    assert (
        registry.json("GET", "/subjects/a/versions/latest")[1]["ruleSet"]["domainRules"][0]["name"] == "hide"
    )
    assert registry.json("POST", path, {"rulesToRemove": ["hide"]})[0] == 200
    assert not registry.json("GET", "/subjects/a/versions/latest")[1].get("ruleSet", {}).get("domainRules")
    both = {"rulesToRemove": ["hide"], "ruleSet": {}}
    assert registry.json("POST", path, both)[1]["error_code"] == 42210


def test_a_registration_names_tags_and_propagates_them(registry):
    body = {"schema": json.dumps(ORDER), "schemaTagsToAdd": [entry("shop.Order.mail", "PII")]}
    assert registry.json("POST", "/subjects/a/versions", body)[1]["version"] == 2
    fields = [*ORDER["fields"], {"name": "note", "type": "string", "default": ""}]
    newer = {"schema": json.dumps({**ORDER, "fields": fields}), "propagateSchemaTags": True}
    assert registry.json("POST", "/subjects/a/versions", newer)[1]["version"] == 3
    assert schema_of(registry)["fields"][0]["confluent:tags"] == ["PII"]
    looked = registry.json("POST", "/subjects/a", body)
    assert (looked[0], looked[1]["version"]) == (200, 2)


def test_paths_of_json_schemas(registry):
    body = {"schema": json.dumps(DOCUMENT), "schemaType": "JSON"}
    assert registry.json("POST", "/subjects/j/versions", body)[0] == 200
    add = [entry("object.a.b.array.object.c", "PII"), entry("object", "TOP", kind="sr_record")]
    assert registry.json("POST", "/subjects/j/versions/1/tags", {"tagsToAdd": add})[0] == 200
    schema = schema_of(registry, "j")
    assert schema["confluent:tags"] == ["TOP"]
    assert schema["properties"]["a.b"]["items"]["properties"]["c"]["confluent:tags"] == ["PII"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"tagsToAdd": [entry("shop.Order.none", "A")]}, 42201),
        ({"tagsToAdd": [entry("", "A")]}, 42201),
        ({"tagsToAdd": [entry("shop.Order", "A", kind="x")]}, 400),
        ({"tagsToAdd": [{"tags": ["A"]}]}, 400),
        ({"tagsToAdd": [entry("a", 1)]}, 400),
        ({"tagsToAdd": {}}, 400),
        ({"tagsToAdd": [entry("a" * (tagging.PATH_CHARACTERS_MAX + 1), "A")]}, 400),
        ({"tagsToAdd": [entry("a", *"x" * (tagging.TAGS_MAX + 1))]}, 400),
        ({"newVersion": -1}, 400),
        ({"newVersion": 9}, 42201),
        ({"rulesToRemove": [1]}, 400),
        ({"metadata": {"properties": 1}}, 400),
        ({"metadata": []}, 400),
    ],
)
def test_what_is_wrong_is_refused(registry, body, code):
    assert registry.json("POST", "/subjects/a/versions/1/tags", body)[1]["error_code"] == code


def test_protobuf_and_missing_versions_are_refused(registry):
    body = {"schema": 'syntax = "proto3"; message A { string a = 1; }', "schemaType": "PROTOBUF"}
    assert registry.json("POST", "/subjects/p/versions", body)[0] == 200
    add = {"tagsToAdd": [entry("A.a", "X")]}
    assert registry.json("POST", "/subjects/p/versions/1/tags", add)[1]["error_code"] == 42205
    assert registry.json("POST", "/subjects/a/versions/7/tags", add)[1]["error_code"] == 40402
    assert registry.json("POST", "/subjects/none/versions/1/tags", add)[1]["error_code"] == 40401


def tagged(body, image=None):
    """Returns the code of a refusal, or the schema with tags."""
    try:
        return json.loads(tagging.with_tags(image or RegistryImage(), "s", body)["schema"])
    except RegistryError as error:
        return error.code


def test_names_with_dots_are_found_the_shortest_first():
    inner = {"type": "object", "$defs": {"b.c": {}, "b": {"type": "object", "properties": {"d.e": {}}}}}
    schema = {"properties": {"a.b": inner, "a.b.object": {}}, "not": {"properties": {"": {}}}}
    for path, keys in {
        "object.a.b.object.$defs.b.object.d.e": ("properties", "a.b", "$defs", "b", "properties", "d.e"),
        "object.a.b": ("properties", "a.b"),
        "not.object.": ("not", "properties", ""),
        "object.a.b.object.$defs.b.c": None,
        "object.a.b.object": None,
        "object.a": None,
        "object.": None,
    }.items():
        body = {"schemaType": "JSON", "schema": json.dumps(schema), "schemaTagsToAdd": [entry(path, "T")]}
        found = tagged(body)
        if keys is None:
            assert found == 42201, path
            continue
        for key in keys:
            found = found[key]
        assert found["confluent:tags"] == ["T"], path


def test_memory_is_bounded_by_the_size_of_a_schema():
    fields = [{"name": f"f{number}", "confluent:tags": ["T"]} for number in range(2_000)]
    record = {"type": "record", "name": "a" * 200_000, "fields": fields}
    spaces = [{"type": "record", "name": "b", "fields": []}] * 2_000
    schema = json.dumps([record, {**record, "name": "c", "namespace": "n" * 200_000}, *spaces])
    tracemalloc.start()
    try:
        body = {"schema": schema, "schemaTagsToAdd": [entry("q", "x"), entry("b", "x", kind="sr_record")]}
        assert tagged(body) == 42201
        assert tagged({"schema": json.dumps([0] * (tagging.NODES_MAX + 1)), **body}) == 42201
        assert tracemalloc.get_traced_memory()[1] < 30 << 20
    finally:
        tracemalloc.stop()


def test_a_text_that_is_too_long_is_refused_before_it_is_read():
    image = RegistryImage(RegistryDefaults(schema_max_bytes=10))
    assert tagged({"schema": "{" * 11, "schemaTagsToAdd": [entry("q", "x")]}, image) == 42209


@pytest.mark.parametrize("path", ["object.b", "object.c"])
def test_large_schemas_are_tagged_beside_the_loop(path):
    schema = {"properties": {"b": {}}, "description": "x" * 70_000}
    body = {"schemaType": "JSON", "schema": json.dumps(schema), "schemaTagsToAdd": [entry(path, "T")]}
    image, allowance = RegistryImage(), Allowance()

    def run():
        try:
            return attempt(image, lambda image: tagging.with_tags(image, "s", body), allowance)["schema"]
        except RegistryError as error:
            return error.code

    with pytest.raises(Deferred) as deferred:
        run()
    assert deferred.value.work(lambda: True) == {}
    allowance.results.update(deferred.value.work(lambda: False))
    found = run()
    assert found == 42201 if path == "object.c" else '"confluent:tags":["T"]' in found


def test_tags_of_fields_are_propagated_by_full_names(registry):
    tags = {"schemaTagsToAdd": [entry("shop.Line.item", "ITEM"), entry("Order", "TOP", kind="sr_record")]}
    assert registry.json("POST", "/subjects/a/versions", {"schema": json.dumps(ORDER), **tags})[0] == 200
    newer = {"schema": json.dumps({**ORDER, "doc": "newer"}), "propagateSchemaTags": True}
    assert registry.json("POST", "/subjects/a/versions", newer)[1]["version"] == 3
    found = schema_of(registry)
    assert found["confluent:tags"] == ["TOP"]
    assert found["fields"][1]["type"][1]["items"]["fields"][0]["confluent:tags"] == ["ITEM"]
