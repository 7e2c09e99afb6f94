"""Answers of every route to requests that schemathesis makes of the OpenAPI document."""

from tests.support.api_cases import change_body, check_answers, chosen
from tests.support.registry_double import RegistryDouble, record_schema
from tests.support.served_site import served

SCHEMAS = {
    "AVRO": [record_schema("a"), record_schema(), '"string"', "{"],
    "JSON": ['{"type":"object","properties":{"a":{"type":"string","pattern":"^(a+)+$"}}}', "true"],
    "PROTOBUF": ['syntax = "proto3"; package p; message M { string a = 1; }'],
}
KNOWN = {
    "subject": ["a", "b", ":.c:a", "p"],
    "version": ["1", "latest", "2", "-1", "x"],
    "id": [1, 2, 3],
}


def with_schema(body):
    """A body that often has a schema that is one."""
    if "schema" in body:
        kind = chosen([*SCHEMAS], body)
        body = {**body, "schemaType": kind, "schema": chosen(SCHEMAS[kind], body), "id": None}
        if chosen([True, True, False], body):
            body |= dict.fromkeys(("references", "ruleSet", "metadata", "version"))
    return body


def adapt(case):
    """Sends schemas where requests need some."""
    change_body(case, with_schema)


def test_answers_are_those_of_the_document():
    pages = {
        b"/health": lambda accept: (200, b"application/json", b"{}"),
        b"/metrics": lambda accept: (200, b"text/plain", b""),
    }
    registry = RegistryDouble(pages=pages)
    for name, kind in (("a", "AVRO"), ("b", "JSON"), ("p", "PROTOBUF")):
        body = {"schema": SCHEMAS[kind][0], "schemaType": kind}
        assert registry.json("POST", f"/subjects/{name}/versions", body)[0] == 200
    guid = registry.json("GET", "/subjects/a/versions/1")[1]["guid"]
    with served(registry.app) as site:
        known = KNOWN | {"guid": [guid]}
        texts = "getSchemaOfVersion", "getSchemaTextById"  # of Protobuf, with the same type
        assert check_answers(site.url, known, adapt, 6, texts) > 150
