"""Puts tags into schemas: `confluent:tags` of records, fields and properties, which rules choose by.

Of Avro and JSON; a Protobuf schema would need options of Confluent's. Source: Confluent's TagSchemaRequest,
AvroSchemaUtils and JsonSchemaUtils, `findMatchingEntity`.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from bowstring.protocol.whole_numbers import INT_MAX
from bowstring.registry import refusals
from bowstring.registry.decision import Decision
from bowstring.registry.operations.parsing import require_size
from bowstring.registry.operations.registration import decide_register
from bowstring.registry.operations.versions import find_version
from bowstring.registry.qualified_subject import is_valid, normalized
from bowstring.registry.registry_error import RegistryError
from bowstring.registry.registry_image import RegistryImage
from bowstring.registry.schema_metadata import (
    RULE_LISTS,
    merged_rule_sets,
    metadata_from,
    rule_set_from,
    with_version,
)
from bowstring.registry.schema_record import SchemaRecord
from bowstring.registry.schema_work import Deferred

TAGS = "confluent:tags"
ENTITIES_MAX = 1_000
TAGS_MAX = 10_000
"""In one list of a request."""
PATH_CHARACTERS_MAX = 10_000
"""Longer names of records and fields cannot be named by a path, and their tags are not propagated."""
NODES_MAX = 100_000
"""Of a schema in which a place is looked for."""
RECORD, FIELD = "sr_record", "sr_field"
MEMBERS = ("schemaTagsToAdd", "schemaTagsToRemove", "propagateSchemaTags")
"""Of the body of a registration."""
Tags: TypeAlias = dict[tuple[str, str], list[str]]
"""Tags by the type and the path of what has them."""


class AvroEntity(NamedTuple):
    """A record of an Avro schema, or a field of it.

    The parts of its path stay apart: joined, each field of a schema would repeat the name of its record.
    """

    kind: str
    namespace: str
    record: str
    field: str


class _Change(NamedTuple):
    """What to do to a schema.

    Attributes:
        kind, text: of the schema, as the request has them.
        add, remove: the tags.
        earlier: text of the Avro schema whose tags are propagated; "" for none.
    """

    kind: Any
    text: Any
    add: Tags
    remove: Tags
    earlier: str = ""

    def chars(self) -> int:
        """Returns how much text is looked at."""
        listed = (self.add, self.remove)
        named = sum(len(path) + sum(map(len, tags)) for each in listed for (_, path), tags in each.items())
        return len(self.text) + len(self.earlier) + named


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
    propagates = body.get(MEMBERS[2]) is True and latest is not None and latest.kind == "AVRO"
    earlier = latest.text if latest is not None and propagates else ""
    if add or remove or earlier:
        given = found.get("schema")
        text = _tagged_text(image, _Change(found.get("schemaType") or "AVRO", given, add, remove, earlier))
        found["schema"] = text
        if found.get("version") is None and (add or remove or text is not given):
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
    add, remove = _tags(body, "tagsToAdd"), _tags(body, "tagsToRemove")
    text = _tagged_text(image, _Change(record.kind, record.text, add, remove))
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


def _tagged_text(image: RegistryImage, change: _Change) -> str:
    """Returns the text of a schema with other tags; the very same one if there are none.

    Raises:
        RegistryError: 400; 42201, it is no JSON, or has no such place; 42205, it is of another kind; 42209.
        Deferred: the texts are too long for what the request may do now.
    """
    kind, text, add, remove, earlier = change
    if not isinstance(text, str):
        raise refusals.invalid_schema("The schema is empty.")
    if not add and not remove and not earlier:
        return text
    if not isinstance(kind, str):
        raise refusals.bad_request("schemaType must be a text.")
    require_size(image, text)
    allowance = image.parsed.allowance
    # Only one body goes with an allowance, but the versions in the image may change.
    key = "tags", kind, text, earlier
    outcome = None if allowance is None else allowance.results.get(key)
    if outcome is None:
        if allowance is not None and not allowance.takes(change.chars()):
            raise Deferred(lambda is_over: _beside(key, change, is_over))
        outcome = _outcome(change, lambda: False)
        if allowance is not None:
            allowance.results[key] = outcome
    if isinstance(outcome, RegistryError):
        raise outcome
    assert outcome is not None, "only work that nobody waits for has no outcome"
    return outcome


def _beside(
    key: Hashable, change: _Change, is_over: Callable[[], bool]
) -> dict[Hashable, str | RegistryError]:
    outcome = _outcome(change, is_over)
    return {} if outcome is None else {key: outcome}


def _outcome(change: _Change, is_over: Callable[[], bool]) -> str | RegistryError | None:
    """Returns the text with other tags, or why there is none; None: nobody waits any more. In any thread."""
    try:
        return _applied(change, is_over)
    except RegistryError as error:
        return error


def _applied(change: _Change, is_over: Callable[[], bool]) -> str | None:
    kind: str = change.kind
    text: str = change.text
    add: dict[Any, list[str]] = dict(change.add)
    remove: dict[Any, list[str]] = dict(change.remove)
    if kind == "AVRO":
        add = {_avro_entity(*each): tags for each, tags in add.items()}
        remove = {_avro_entity(*each): tags for each, tags in remove.items()}
    if change.earlier:
        add = {**dict(_tagged(_json(change.earlier))), **add}
    if not add and not remove:
        return text
    if kind not in ("AVRO", "JSON"):
        raise refusals.not_permitted(
            f"Tags cannot be put into a schema of type {kind[:100]}; write them into its text."
        )
    schema = _json(text)
    entities = dict.fromkeys([*add, *remove])
    places = _avro_places(schema, entities) if kind == "AVRO" else {}
    lengths: dict[int, set[int]] = {}
    for entity in entities:
        if is_over():
            return None
        place = places.get(entity) if kind == "AVRO" else _json_place(schema, entity[0], entity[-1], lengths)
        if place is None:
            path = ".".join(filter(None, entity[1:]))[:200]
            raise refusals.invalid_schema(f"The schema has no {entity[0]} at '{path}'.")
        tags = dict.fromkeys([*_texts(place.get(TAGS)), *add.get(entity, ())])
        gone = set(remove.get(entity, ()))
        kept = [each for each in tags if each not in gone]
        place.pop(TAGS, None)
        if kept:
            place[TAGS] = kept
    try:
        return json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        raise refusals.invalid_schema("The schema is too deep.") from None


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
    count = 0
    for each in given:
        entity = each.get("schemaEntity") if isinstance(each, dict) else None
        tags = each.get("tags") if isinstance(each, dict) else None
        if not isinstance(entity, dict) or not isinstance(tags, list):
            raise refusals.bad_request(f"Each of {name} has a schemaEntity and tags.")
        path, kind = entity.get("entityPath"), entity.get("entityType")
        if isinstance(path, str) and len(path) > PATH_CHARACTERS_MAX:
            raise refusals.bad_request(f"An entityPath has at most {PATH_CHARACTERS_MAX} characters.")
        count += len(tags)
        if count > TAGS_MAX:
            raise refusals.bad_request(f"{name} has more than {TAGS_MAX} tags.")
        if not isinstance(path, str) or kind not in (RECORD, FIELD):
            raise refusals.bad_request(
                f"A schemaEntity has an entityPath and entityType {RECORD} or {FIELD}."
            )
        if not all(isinstance(tag, str) for tag in tags):
            raise refusals.bad_request(f"The tags of {name} must be texts.")
        found.setdefault((kind, path.removeprefix(".")), []).extend(tags)
    return found


def _records(schema: Any) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yields the records of an Avro schema with their namespaces and simple names, outer ones first."""
    left: deque[tuple[Any, str]] = deque([(schema, "")])
    count = 1
    while left:
        node, space = left.popleft()
        if isinstance(node, list):
            parts = node
        elif not isinstance(node, dict):
            continue
        elif node.get("type") not in ("record", "error"):
            parts = [node[name] for name in ("type", "items", "values") if name in node]
        else:
            outer, _, simple = _text(node.get("name")).rpartition(".")
            space = outer or _text(node.get("namespace")) or space
            yield space, simple, node
            parts = [each.get("type") for each in _fields(node)]
        count += len(parts)
        if count > NODES_MAX:
            raise refusals.invalid_schema(
                f"The schema has more than {NODES_MAX} parts; tags are not put into it."
            )
        left += [(each, space) for each in parts]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _avro_entity(kind: str, path: str) -> AvroEntity:
    record, _, field = (path, "", "") if kind == RECORD else path.rpartition(".")
    namespace, _, simple = record.rpartition(".")
    return AvroEntity(kind, namespace, simple, field)


def _avro_places(schema: Any, wanted: Mapping[AvroEntity, None]) -> dict[AvroEntity, dict[str, Any]]:
    """Returns the records and fields that are wanted; the first record of a name counts."""
    simple_names = {each.record for each in wanted}
    names = {(each.namespace, each.record) for each in wanted}
    found: dict[AvroEntity, dict[str, Any]] = {}
    for space, simple, node in _records(schema):
        if simple not in simple_names:
            continue
        for name in ((space, simple), ("", simple)):
            if name not in names or len(name[0]) > PATH_CHARACTERS_MAX:
                continue
            names.remove(name)
            found[AvroEntity(RECORD, *name, "")] = node
            for each in _fields(node):
                entity = AvroEntity(FIELD, *name, _text(each.get("name")))
                if entity in wanted:
                    found.setdefault(entity, each)
    return found


def _fields(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    fields = record.get("fields")
    return [each for each in fields if isinstance(each, dict)] if isinstance(fields, list) else []


def _tagged(schema: Any) -> Iterator[tuple[AvroEntity, list[str]]]:
    """Yields what has tags in an Avro schema."""
    for space, simple, node in _records(schema):
        if len(space) > PATH_CHARACTERS_MAX:
            continue
        if tags := _texts(node.get(TAGS)):
            yield AvroEntity(RECORD, space, simple, ""), tags
        for each in _fields(node):
            if tags := _texts(each.get(TAGS)):
                yield AvroEntity(FIELD, space, simple, _text(each.get("name"))), tags


def _json_place(schema: Any, kind: str, path: str, lengths: dict[int, set[int]]) -> dict[str, Any] | None:
    """Follows a path such as `object.orders.array.object.id`; names may have dots.

    Args:
        lengths: of the names of members, by the identity of what has them: a cache for more paths.
    """
    node, at = schema, 0
    while at <= len(path) and isinstance(node, dict):
        word, at = _word(path, at)
        if word in ("array", "not"):
            node = node.get("items" if word == "array" else word)
        elif word == "object":
            if at > len(path):
                return node if kind == RECORD else None
            members = node.get("properties")
            word, after = _word(path, at)
            if word in ("definitions", "$defs"):
                members, at = node.get(word), after
            node, at = _member(members, path, at, lengths)
            if at > len(path) and isinstance(node, dict):
                return node
        else:
            return None
    return None


def _word(path: str, at: int) -> tuple[str, int]:
    """Returns the word of a path that begins at a position, and where the next one does."""
    end = _end(path, at)
    return path[at:end], end + 1


def _end(path: str, at: int) -> int:
    end = path.find(".", at)
    return len(path) if end < 0 else end


def _member(members: Any, path: str, at: int, lengths: dict[int, set[int]]) -> tuple[Any, int]:
    """Returns the member with the shortest name that a path has at a position, and where the next word is."""
    if not isinstance(members, dict):
        return None, at
    known = lengths.get(id(members))
    if known is None:
        known = lengths[id(members)] = set(map(len, members))
    end = at - 1
    while end < len(path):
        end = _end(path, end + 1)
        # Only names of lengths that there are: so all of them together are no longer than the schema.
        if end - at in known and (name := path[at:end]) in members:
            return members[name], end + 1
    return None, at
