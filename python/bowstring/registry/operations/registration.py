"""Registers schemas."""

from __future__ import annotations

from typing import Any

from bowstring.protocol.whole_numbers import INT_MAX
from bowstring.registry import refusals
from bowstring.registry.decision import Decision
from bowstring.registry.operations.compatibility import incompatibilities
from bowstring.registry.operations.configs import FILLING, config_in_scope
from bowstring.registry.operations.entities import registered_entity
from bowstring.registry.operations.filling import fill_in
from bowstring.registry.operations.matching import find_schema, first_meant, same_schema, schema_id_of
from bowstring.registry.operations.modes import is_importing, mode_in_scope, require_registrable
from bowstring.registry.operations.parsing import formatted, parse_request, text_in
from bowstring.registry.operations.schema_request import SchemaRequest, schema_request
from bowstring.registry.operations.tombstones import Records, highest_ids
from bowstring.registry.qualified_subject import DEFAULT_CONTEXT, context_of, is_valid, normalized
from bowstring.registry.registry_image import RegistryImage
from bowstring.registry.schema_record import SchemaRecord
from bowstring.registry.topic_records import CONTEXT, SCHEMA, TopicKey, encode_context, encode_schema
from bowstring.schemas.parsed_schema import ParsedSchema


def already_registered(
    image: RegistryImage, subject: str, body: object, *, normalize: bool = False, format: str = ""
) -> dict[str, Any] | None:
    """The answer of POST /subjects/{subject}/versions if the subject has the schema already; None otherwise.

    Any node may answer so, whatever the mode.

    Raises:
        RegistryError: 400, 42201, 42208, 42210.
    """
    if not image.versions(normalized(subject)):
        return None  # also if the body is wrong: who decides says so
    request = _request(subject, body)
    config = config_in_scope(image, request.subject)
    return _already(image, config, request, normalize or config.get("normalize") is True, format)


def decide_register(
    image: RegistryImage,
    subject: str,
    body: object,
    *,
    normalize: bool = False,
    format: str = "",
    force: bool = False,
) -> Decision:
    """POST /subjects/{subject}/versions.

    Args:
        force: Whether to skip the check of compatibility.

    Raises:
        RegistryError: 400, 40901, 42201, 42205, 42208, 42209, 42210.
    """
    request = _request(subject, body)
    config = config_in_scope(image, request.subject)
    normalize = normalize or config.get("normalize") is True
    answer = _already(image, config, request, normalize, format)
    if answer is not None:
        return Decision((), answer)
    require_registrable(image, request.subject, request.schema_id >= 0)
    versions = image.versions(request.subject)
    next_version = versions[-1].version + 1 if versions else 1
    newest_first = [record for record in reversed(versions) if not record.deleted]
    importing = is_importing(mode_in_scope(image, request.subject))
    latest = newest_first[0] if newest_first else None
    schema_id = request.schema_id
    if not importing:
        _fill_text(request, latest)
        fill_in(config, request, latest, next_version)
    parsed = parse_request(image, request, normalize, is_new=False if schema_id >= 0 else None)
    if parsed is None:
        raise refusals.invalid_schema("The schema is empty.")
    known_id = schema_id_of(image, request)
    if known_id is not None and schema_id in (-1, known_id):
        schema_id = known_id
    existing = _existing(image, request, parsed, newest_first, schema_id)
    if existing is not None:
        return Decision((), registered_entity(existing, formatted(image, existing, format)))
    if not importing and not force:
        found = incompatibilities(image, config, request, parsed, newest_first)
        if found:
            raise refusals.incompatible_schema(request.subject, found)
    if request.version > 0 and request.version != next_version and not importing:
        raise refusals.invalid_schema(
            f"The version is {request.version}, but the next one of the subject is {next_version}."
        )
    record = _new_record(image, request, schema_id, request.version if request.version > 0 else next_version)
    text = text_in(parsed, format) if format.strip() else None
    answer = registered_entity(record, text)
    del answer["deleted"]
    records = _records(image, record)
    is_all = len(records) == 1 and image.version(record.subject, record.version) is None
    return Decision(records, answer, record if is_all else None)


def _request(subject: str, body: object) -> SchemaRequest:
    request = schema_request(normalized(subject), body, checks_rules=True)
    if not is_valid(subject):
        raise refusals.invalid_subject(subject)
    return request


def _already(
    image: RegistryImage, config: dict[str, Any], request: SchemaRequest, normalize: bool, format: str
) -> dict[str, Any] | None:
    if any(member in config for member in FILLING) or request.is_empty or not image.versions(request.subject):
        return None
    found = find_schema(image, request, normalize, deleted=False, latest_only=request.version == -1)
    if found is None:
        return None
    if request.version > 0:
        same = image.version(request.subject, request.version)
        if found.id != request.schema_id or same is None or same.deleted:
            return None
        if same.id != found.id or same.md5 != found.md5:
            return None
        found = same
    elif request.schema_id not in (-1, found.id):
        return None
    return registered_entity(found, formatted(image, found, format))


def _fill_text(request: SchemaRequest, latest: SchemaRecord | None) -> None:
    if request.is_empty and latest is not None:
        request.text = latest.text
        request.kind = latest.kind
        request.references = latest.references


def _existing(
    image: RegistryImage,
    request: SchemaRequest,
    parsed: ParsedSchema,
    newest_first: list[SchemaRecord],
    schema_id: int,
) -> SchemaRecord | None:
    """The version that has the schema already, and the id if the request names one."""
    if request.version != 0:
        return None
    same = same_schema(image, request)
    if same is not None and same.id == schema_id and not same.deleted:
        return same
    candidates = [record for record in newest_first if schema_id in (-1, record.id)]
    return first_meant(image, request, parsed, candidates)


def _new_record(image: RegistryImage, request: SchemaRequest, schema_id: int, version: int) -> SchemaRecord:
    context = image.context(context_of(request.subject))
    if schema_id < 0:
        schema_id = context.max_id + 1
        if schema_id > INT_MAX:
            raise refusals.store_failed(f"Context '{context.name}' has no ids left.")
    assert request.text is not None
    record = SchemaRecord(
        *(request.subject, version, schema_id, request.kind, request.text),
        references=request.references,
        metadata=request.metadata,
        rule_set=request.rule_set,
    )
    others = context.of_id(schema_id)
    if others and not any(each.md5 == record.md5 and each.kind == record.kind for each in others):
        raise refusals.not_permitted(
            f"Id {schema_id} of context '{context.name}' is of another schema; ids never change."
        )
    return record


def _records(image: RegistryImage, record: SchemaRecord) -> Records:
    """A new version, its context if it is the first there; soft-deleted versions of the same id go."""
    records: Records = ()
    context = context_of(record.subject)
    if context != DEFAULT_CONTEXT and context not in image.named_contexts:
        records += image.keyed(TopicKey(CONTEXT, context), encode_context(context))
    replaced = [
        other
        for other in image.versions(record.subject)
        if other.deleted
        and other.id == record.id
        and other.version < record.version
        and not image.referrers(other.subject, other.version)
    ]
    overwritten = image.version(record.subject, record.version)  # in import mode
    if overwritten is not None:
        records += highest_ids(image, [overwritten])
    for other in replaced:
        records += image.keyed(TopicKey(SCHEMA, other.subject, other.version), None)
    return records + image.keyed(TopicKey(SCHEMA, record.subject, record.version), encode_schema(record))
