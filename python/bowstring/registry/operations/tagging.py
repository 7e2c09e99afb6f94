"""Puts tags into schemas: `confluent:tags` of records, fields and properties, which rules choose by.

Of Avro and JSON; a Protobuf schema would need options of Confluent's. Source: Confluent's TagSchemaRequest,
AvroSchemaUtils and JsonSchemaUtils, `findMatchingEntity`.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from bowstring.protocol.whole_numbers import INT_MAX
from bowstring.registry import refusals
from bowstring.registry.decision import Decision
from bowstring.registry.operations.registration import decide_register
from bowstring.registry.operations.versions import find_version
from bowstring.registry.qualified_subject import is_valid, normalized
from bowstring.registry.registry_image import RegistryImage
from bowstring.registry.schema_metadata import (
    RULE_LISTS,
    merged_rule_sets,
    metadata_from,
    rule_set_from,
    with_version,
)
from bowstring.registry.schema_record import SchemaRecord

TAGS = "confluent:tags"
ENTITIES_MAX = 1_000
PATH_CHARACTERS_MAX = 10_000
NODES_MAX = 100_000
"""Of a schema in which a place is looked for."""
RECORD, FIELD = "sr_record", "sr_field"
MEMBERS = ("schemaTagsToAdd", "schemaTagsToRemove", "propagateSchemaTags")
"""Of the body of a registration."""
Tags = dict[tuple[str, str], list[str]]
"""Tags by the type and the path of what has them."""


def with_tags(image: RegistryImage, subject: str, body: Any) -> Any:
    """Returns the body of a registration with the tags that it names put into its schema.

    Raises:
        RegistryError: 400, they are written wrong; 42201, the schema has no such place; 42205, of Protobuf.
    """
    if not isinstance(body, dict) or not any(body.get(name) for name in MEMBERS):
        return body
    found = {name: value for name, value in body.items() if name not in MEMBERS}
    add, remove = _tags(body, MEMBERS[0]), _tags(body, MEMBERS[1])
    latest = image.latest(normalized(subject))
    if latest is not None and not found.get("schema"):
        found |= {"schema": latest.text, "schemaType": latest.kind}
        found["references"] = [each._asdict() for each in latest.references]
    if body.get(MEMBERS[2]) is True and latest is not None and latest.kind == "AVRO":
        add = {**dict(_tagged(_json(latest.text))), **add}
    if add or remove:
        found["schema"] = tagged_text(found.get("schemaType") or "AVRO", found.get("schema"), add, remove)
        if found.get("version") is None:
            found["version"] = -1  # so that the metadata names the version
    return found


def decide_tag_version(image: RegistryImage, subject: str, version: str, body: object) -> Decision:
    """POST /subjects/{subject}/versions/{version}/tags: registers the version's schema with other tags.

    Raises:
        RegistryError: 400, 40401, 40402, 40901, 42201, 42202, 42205, 42208, 42210.
    """
    if not isinstance(body, dict):
        raise refusals.bad_request("The body must be a JSON object.")
    if not is_valid(subject):
        raise refusals.invalid_subject(subject)
    record = find_version(image, subject, version, False)
    number = body.get("newVersion") or 0
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= INT_MAX:
        raise refusals.bad_request("newVersion must be a whole number up to 2^31-1.")
    try:
        given = metadata_from(body.get("metadata"))
        metadata = with_version(record.metadata if given is None else given, number)
        rules = _rules(image, record, body, number)
    except ValueError as error:
        raise refusals.bad_request(str(error)) from error
    text = tagged_text(record.kind, record.text, _tags(body, "tagsToAdd"), _tags(body, "tagsToRemove"))
    made = {
        "schema": text,
        "schemaType": record.kind,
        "references": [each._asdict() for each in record.references],
        "metadata": metadata,
        "ruleSet": rules,
        "version": number,
    }
    return decide_register(image, subject, made)


def _rules(
    image: RegistryImage, record: SchemaRecord, body: Mapping[str, Any], number: int
) -> dict[str, Any] | None:
    """Returns the rule set of the new version; None for that of the latest one. Raises ValueError."""
    merge, remove = body.get("rulesToMerge"), body.get("rulesToRemove")
    if merge is None and remove is None:
        return rule_set_from(body.get("ruleSet"))
    if body.get("ruleSet") is not None:
        raise refusals.invalid_rule_set("Leave ruleSet out beside rulesToMerge or rulesToRemove.")
    if remove is not None and (not isinstance(remove, list) or not all(isinstance(e, str) for e in remove)):
        raise ValueError("rulesToRemove must be a list of texts.")
    old = image.version(record.subject, number - 1) if number > 1 else image.latest(record.subject)
    merged = merged_rule_sets(None if old is None else old.rule_set, rule_set_from(merge)) or {}
    gone = set(remove or ())
    return {
        name: [each for each in value if each.get("name") not in gone] if name in RULE_LISTS else value
        for name, value in merged.items()
    }


def tagged_text(kind: str, text: object, add: Tags, remove: Tags) -> str:
    """Returns the text of a schema with other tags.

    Raises:
        RegistryError: 42201, it is no JSON, or has no such place; 42205, it is of another kind.
    """
    if not isinstance(text, str):
        raise refusals.invalid_schema("The schema is empty.")
    if not add and not remove:
        return text
    if kind not in ("AVRO", "JSON"):
        raise refusals.not_permitted(
            f"Tags cannot be put into a schema of type {kind}; write them into its text."
        )
    schema = _json(text)
    places = _avro_places(schema) if kind == "AVRO" else {}
    for entity in dict.fromkeys([*add, *remove]):
        place = places.get(entity) if kind == "AVRO" else _json_place(schema, *entity)
        if place is None:
            raise refusals.invalid_schema(f"The schema has no {entity[0]} at '{entity[1][:200]}'.")
        tags = dict.fromkeys([*_texts(place.get(TAGS)), *add.get(entity, ())])
        gone = set(remove.get(entity, ()))
        kept = [each for each in tags if each not in gone]
        place.pop(TAGS, None)
        if kept:
            place[TAGS] = kept
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":"))


def _texts(tags: Any) -> list[str]:
    return [each for each in tags if isinstance(each, str)] if isinstance(tags, list) else []


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise refusals.invalid_schema(f"The schema is no JSON: {str(error)[:200]}") from None


def _tags(body: Mapping[str, Any], name: str) -> Tags:
    given = body.get(name)
    if given is None:
        return {}
    if not isinstance(given, list) or len(given) > ENTITIES_MAX:
        raise refusals.bad_request(f"{name} must be a list of at most {ENTITIES_MAX} entries.")
    found: Tags = {}
    for each in given:
        entity = each.get("schemaEntity") if isinstance(each, dict) else None
        tags = each.get("tags") if isinstance(each, dict) else None
        if not isinstance(entity, dict) or not isinstance(tags, list):
            raise refusals.bad_request(f"Each of {name} has a schemaEntity and tags.")
        path, kind = entity.get("entityPath"), entity.get("entityType")
        if not isinstance(path, str) or kind not in (RECORD, FIELD):
            raise refusals.bad_request(
                f"A schemaEntity has an entityPath and entityType {RECORD} or {FIELD}."
            )
        if not all(isinstance(tag, str) for tag in tags):
            raise refusals.bad_request(f"The tags of {name} must be texts.")
        found.setdefault((kind, path.removeprefix(".")), []).extend(tags)
    return found


def _records(schema: Any) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yields the records of an Avro schema with their full and simple names, outer ones first."""
    left: deque[tuple[Any, str]] = deque([(schema, "")])
    count = 0
    while left:
        node, space = left.popleft()
        count += 1
        if count > NODES_MAX:
            raise refusals.invalid_schema(
                f"The schema has more than {NODES_MAX} parts; tags are not put into it."
            )
        if isinstance(node, list):
            left += [(each, space) for each in node]
        if not isinstance(node, dict):
            continue
        if node.get("type") not in ("record", "error"):
            left += [(node[name], space) for name in ("type", "items", "values") if name in node]
            continue
        name = str(node.get("name", ""))
        space = name.rpartition(".")[0] or str(node.get("namespace") or space)
        simple = name.rpartition(".")[2]
        yield (f"{space}.{simple}" if space else simple), simple, node
        left += [(each.get("type"), space) for each in _fields(node)]


def _avro_places(schema: Any) -> dict[tuple[str, str], dict[str, Any]]:
    """Returns records and fields by type and path; the first record of a name counts."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for full, simple, node in _records(schema):
        for name in dict.fromkeys((full, simple)):
            if found.setdefault((RECORD, name), node) is not node:
                continue
            for each in _fields(node):
                found.setdefault((FIELD, f"{name}.{each.get('name')}"), each)
    return found


def _fields(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    fields = record.get("fields")
    return [each for each in fields if isinstance(each, dict)] if isinstance(fields, list) else []


def _tagged(schema: Any) -> Iterator[tuple[tuple[str, str], list[str]]]:
    """Yields what has tags in an Avro schema."""
    for full, _, node in _records(schema):
        if tags := _texts(node.get(TAGS)):
            yield (RECORD, full), tags
        for each in _fields(node):
            if tags := _texts(each.get(TAGS)):
                yield (FIELD, f"{full}.{each.get('name')}"), tags


def _json_place(schema: Any, kind: str, path: str) -> dict[str, Any] | None:
    """Follows a path such as `object.orders.array.object.id`; names may have dots."""
    words, node = path.split("."), schema
    while words and isinstance(node, dict):
        word = words.pop(0)
        if word == "array":
            node = node.get("items")
        elif word == "not":
            node = node.get("not")
        elif word == "object":
            if not words:
                return node if kind == RECORD else None
            members = node.get("properties")
            if words[0] in ("definitions", "$defs"):
                members = node.get(words.pop(0))
            node = _member(members, words)
            if not words and isinstance(node, dict):
                return node
        else:
            return None
    return None


def _member(members: Any, words: list[str]) -> Any:
    """Returns the member with the shortest name that a path begins with; takes its words off the path."""
    name = ""
    while words and isinstance(members, dict):
        name = f"{name}.{words.pop(0)}" if name else words.pop(0)
        if name in members:
            return members[name]
    return None
