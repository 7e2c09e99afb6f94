"""Hostile requests: random bodies, paths and queries are refused by name; the registry goes on."""

import json
import random
from collections import Counter

import pytest

from tests.support.registry_double import RegistryDouble, record_schema

SCHEMAS = {
    "AVRO": record_schema("a", "b"),
    "JSON": '{"type":"object","properties":{"a":{"type":"string","pattern":"^a+$"}},"additionalProperties":false}',
    "PROTOBUF": 'syntax = "proto3"; package p; message M { string a = 1; oneof o { int32 b = 2; int32 c = 3; } }',
}
VALUES: tuple[object, ...] = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        2**31,
        -(2**63),
        10**30,
        1.5,
        1e308,
        "",
        " ",
        "x",
        "latest",
        "\x00",
        "\ud800",
    ),
    *("a" * 5000, "é😀", [], {}, [[]], {"": {}}, [None], [{}], {"a": [1, {"b": None}]}, "READONLY", "NONE"),
)
NAMES = (
    *("schema", "schemaType", "references", "metadata", "ruleSet", "version", "id", "mode", "compatibility"),
    *("alias", "normalize", "compatibilityGroup", "defaultMetadata", "overrideRuleSet", "name", "subject"),
    *("properties", "tags", "sensitive", "domainRules", "kind", "type", "expr", "params", "schemaTagsToAdd"),
)
PARTS = (
    *(
        "subjects",
        "schemas",
        "ids",
        "versions",
        "config",
        "mode",
        "contexts",
        "compatibility",
        "guids",
        "types",
    ),
    *(
        "1",
        "-1",
        "0",
        "latest",
        "a",
        "%2F",
        "%00",
        "%ff",
        "%",
        "%zz",
        ":.c:a",
        ":*:",
        ":.:",
        ":",
        "..",
        "x" * 300,
    ),
    *(
        "metadata",
        "schema",
        "referencedby",
        "%F0%9F%98%80",
        "99999999999",
        "v1",
        "id",
        "{subject}",
        ":.__GLOBAL:",
    ),
)
QUERIES = (
    *(
        "",
        "deleted=true",
        "permanent=true",
        "force=true",
        "limit=1&offset=1",
        "offset=-1",
        "limit=x",
        "=",
        "&&",
    ),
    *("format=resolved", "format=serialized", "format=%00", "normalize=true&verbose=true", "subject=%ff"),
    *(
        "subjectPrefix=:*:",
        "subject=:.c:",
        "recursive=true",
        "key=a&value=b&key=c",
        "fetchMaxId=true",
        "%",
        "?",
    ),
)


def any_value(dice, depth=0):
    kind = dice.randrange(6)
    if kind < 3 or depth > 3:
        return dice.choice(VALUES)
    if kind == 3:
        return [any_value(dice, depth + 1) for _ in range(dice.randrange(3))]
    return {dice.choice(NAMES): any_value(dice, depth + 1) for _ in range(dice.randrange(4))}


def any_body(dice):
    """A valid body with some members replaced, some other value, or bytes."""
    if dice.randrange(8) == 0:
        return dice.randbytes(dice.randrange(30))
    kind = dice.choice(list(SCHEMAS))
    body = {"schema": mutated(dice, SCHEMAS[kind]), "schemaType": kind}
    for _ in range(dice.randrange(4)):
        body[dice.choice(NAMES)] = any_value(dice)
    if dice.randrange(10) == 0:
        body = any_value(dice)
    text = json.dumps(body).encode()
    return text[: dice.randrange(len(text))] if dice.randrange(20) == 0 else text


def mutated(dice, text):
    for _ in range(dice.randrange(3)):
        at = dice.randrange(len(text))
        text = (
            text[:at]
            + dice.choice(('"', "{", "}", "[", "]", ",", ":", "\\", "1", "null", "a", ""))
            + text[at + 1 :]
        )
    return text


@pytest.mark.parametrize("seed", range(4))
def test_random_requests_never_fail_by_a_mistake_of_the_registry(seed):
    dice, registry = random.Random(seed), RegistryDouble()
    statuses = Counter()
    for _ in range(1500):
        if dice.randrange(2):
            subject = dice.choice(("a", "b", ":.c:a"))
            target = dice.choice(
                (
                    f"/subjects/{subject}/versions",
                    f"/subjects/{subject}",
                    f"/compatibility/subjects/{subject}/versions",
                    f"/compatibility/subjects/{subject}/versions/latest",
                    f"/config/{subject}",
                    f"/mode/{subject}",
                    "/config",
                )
            )
            method = "PUT" if "/config" in target or "/mode" in target else "POST"
        else:
            target = "/" + "/".join(dice.choice(PARTS) for _ in range(dice.randrange(6)))
            method = dice.choice(("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"))
        target += "?" + dice.choice(QUERIES)
        body = any_body(dice)
        status, _, answer = registry.ask(method, target, body)
        assert status < 500, (seed, method, target, body, answer)
        statuses[status] += 1
        if status >= 400:
            assert list(json.loads(answer)) == ["error_code", "message"]
    # All kinds of answers come: the requests are not all refused at the door.
    assert min(statuses[each] for each in (200, 400, 404, 405, 422)) > 20, statuses


@pytest.fixture
def registry():
    return RegistryDouble(body_bytes_max=60 << 20)


def deep(opening, inner, closing, levels=50_000):
    return opening * levels + inner + closing * levels


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("AVRO", deep('{"type":"array","items":', '"int"', "}")),
        ("AVRO", deep("[", '"int"', "]")),
        ("JSON", deep('{"not":', "{}", "}")),
        ("JSON", deep('{"type":"object","properties":{"a":', "{}", "}}", 20_000)),
        ("PROTOBUF", 'syntax="proto3";' + deep("message M{", "", "}")),
        ("PROTOBUF", 'syntax="proto3"; option a = ' + deep("{b:", "1", "}") + ";"),
        ("JSON", '{"$ref":"#"}'),
        ("JSON", '{"pattern":"(a+)+$","patternProperties":{"(x*)*y":{}}}'),
        ("AVRO", "9" * 100_000),
        ("AVRO", '"' + "a" * 1_000_000 + '"'),
    ],
)
def test_deep_and_odd_schemas_are_taken_or_named(registry, kind, text):
    status, found = registry.json("POST", "/subjects/a/versions", {"schema": text, "schemaType": kind})
    assert status in (200, 422), found
    if status == 422:
        assert found["error_code"] == 42201
        assert len(found["message"]) < 2000


def test_references_in_circles_and_chains_end(registry):
    def register(name, refers_to):
        text = f'{{"type":"record","name":"{name}","fields":[{{"name":"f","type":["null","{refers_to}"]}}]}}'
        references = [{"name": refers_to, "subject": refers_to, "version": -1}]
        body = {"schema": text, "references": references}
        return registry.json("POST", f"/subjects/{name}/versions", body)[0]

    registry.json("POST", "/subjects/R0/versions", {"schema": record_schema("x", name="R0")})
    assert [register(f"R{number}", f"R{number - 1}") for number in range(1, 30)] == [200] * 29
    registry.json("PUT", "/config/R0", {"compatibility": "NONE"})
    assert register("R0", "R29") in (200, 422)
    assert register("R0", "R0") in (200, 422)
    assert registry.ask("GET", "/subjects/R5/versions/latest?format=resolved")[0] in (200, 422)


def test_a_large_schema_is_answered(registry):
    """As many fields as 4 MiB have."""
    text = record_schema(*(f"field_{number}" for number in range(100_000)))
    assert len(text) > 3 << 20
    status, found = registry.json("POST", "/subjects/a/versions", {"schema": text})
    assert status == 200, found
    assert registry.ask("GET", "/schemas/ids/1/schema")[2].decode() == text
