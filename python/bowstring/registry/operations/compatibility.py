"""Checks a schema against earlier versions of a subject."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from bowstring.registry import refusals
from bowstring.registry.operations.configs import config_in_scope, normalizes, validates_fields
from bowstring.registry.operations.parsing import (
    not_parsed,
    parse_record,
    parse_request,
    resolved_or_error,
)
from bowstring.registry.operations.schema_request import SchemaRequest, schema_request
from bowstring.registry.operations.versions import LATEST, version_number, version_of
from bowstring.registry.parsed_schemas import parse_outcome
from bowstring.registry.qualified_subject import normalized
from bowstring.registry.registry_error import RegistryError
from bowstring.registry.registry_image import RegistryImage
from bowstring.registry.schema_metadata import Metadata
from bowstring.registry.schema_record import SchemaRecord
from bowstring.registry.schema_work import Deferred, Work
from bowstring.schemas.compatibility import check, explained
from bowstring.schemas.errors import InvalidSchemaError
from bowstring.schemas.parsed_schema import ParsedSchema

RESERVED_PROPERTY = "confluent:reserved"
_NO_LOGICAL = (
    "Confluent's registry has set the compatibilityPolicy LOGICAL, whose checks of the types of Flink and "
    "Iceberg this registry lacks; set STRICT or LENIENT to go without them."
)


def check_version(
    image: RegistryImage,
    subject: str,
    version: str,
    body: object,
    *,
    normalize: bool = False,
    verbose: bool = False,
) -> dict[str, Any]:
    """POST /compatibility/subjects/{subject}/versions/{version}.

    Raises:
        RegistryError: 400, 40402, 42201, 42202.
    """
    name, number = normalized(subject), version_number(version)
    record = version_of(image, name, number, deleted=False)
    if record is None and number != LATEST:
        raise refusals.version_not_found(number)
    return _checked(
        image, name, body, [record] if record is not None else [], normalize=normalize, verbose=verbose
    )


def check_subject(
    image: RegistryImage, subject: str, body: object, *, normalize: bool = False, verbose: bool = False
) -> dict[str, Any]:
    """POST /compatibility/subjects/{subject}/versions: against all versions, as a registration is.

    Raises:
        RegistryError: 400, 42201.
    """
    name = normalized(subject)
    newest_first = [record for record in reversed(image.versions(name)) if not record.deleted]
    return _checked(image, name, body, newest_first, normalize=normalize, verbose=verbose)


def _checked(
    image: RegistryImage,
    name: str,
    body: object,
    newest_first: Sequence[SchemaRecord],
    *,
    normalize: bool,
    verbose: bool,
) -> dict[str, Any]:
    request = schema_request(name, body)
    try:
        parsed = parse_request(image, request, normalize or normalizes(image, name))
        if parsed is None:
            raise refusals.invalid_schema("The schema is empty.")
        messages = incompatibilities(image, config_in_scope(image, name), request, parsed, newest_first)
    except RegistryError as error:
        if not verbose or error.code != refusals.INVALID_SCHEMA:
            raise
        messages = [error.message]
    return {"is_compatible": not messages} | ({"messages": messages} if verbose else {})


def incompatibilities(
    image: RegistryImage,
    config: Mapping[str, Any],
    request: SchemaRequest,
    parsed: ParsedSchema,
    newest_first: Sequence[SchemaRecord],
) -> list[str]:
    """What the config in scope forbids of a parsed request's schema, one line each; empty: nothing.

    Args:
        newest_first: The versions to check against.

    Raises:
        RegistryError: 42201: an earlier version cannot be parsed.
    """
    level = config["compatibilityLevel"]
    lines = []
    if validates_fields(image, config):
        lines += _reserved_fields(request.metadata, parsed, newest_first[0] if newest_first else None)
    group = config.get("compatibilityGroup")
    if group is not None:
        value = _property(request.metadata, group)
        newest_first = [record for record in newest_first if _property(record.metadata, group) == value]
    policy = config.get("compatibilityPolicy")
    is_lenient = policy == "LENIENT"
    if policy == "LOGICAL":
        lines.append(_NO_LOGICAL)
    lines += _differences(image, level, parsed, newest_first, is_lenient)
    if lines:
        validates = str(validates_fields(image, config)).lower()
        lines.append(f"{{validateFields: '{validates}', compatibility: '{level}'}}")
    return lines


def _differences(
    image: RegistryImage,
    level: str,
    parsed: ParsedSchema,
    newest_first: Sequence[SchemaRecord],
    is_lenient: bool,
) -> list[str]:
    """Of the first version that differs too much; each is parsed only when its turn comes."""
    if level == "NONE":
        return []
    checked = newest_first if level.endswith("_TRANSITIVE") else newest_first[:1]
    allowance = image.parsed.allowance
    found: list[str] | RegistryError | None
    for position, record in enumerate(checked):
        if allowance is None:
            found = _explained(level, parsed, parse_record(image, record), record.version, is_lenient)
        else:
            found = allowance.results.get((level, is_lenient, parsed, record))
            if found is None:
                if not allowance.takes(len(parsed.canonical) + len(record.text)):
                    raise Deferred(_compare_beside(image, level, parsed, checked[position:], is_lenient))
                earlier = parse_record(image, record)
                found = _explained(level, parsed, earlier, record.version, is_lenient)
        if isinstance(found, RegistryError):
            raise found
        if found:
            return found
    return []


def _explained(
    level: str, parsed: ParsedSchema, earlier: ParsedSchema, version: int, is_lenient: bool
) -> list[str]:
    found = check(level, parsed, [earlier], is_lenient=is_lenient)
    return explained(found, [earlier], [version]) if found else []


def _compare_beside(
    image: RegistryImage,
    level: str,
    parsed: ParsedSchema,
    records: Sequence[SchemaRecord],
    is_lenient: bool,
) -> Work:
    """The comparisons with these versions, up to the first one that differs too much."""
    left = [(record, resolved_or_error(image, record)) for record in records]

    def work(is_over: Callable[[], bool]) -> dict[Hashable, list[str] | RegistryError]:
        results: dict[Hashable, list[str] | RegistryError] = {}
        for record, resolved in left:
            if is_over():
                break
            found: list[str] | RegistryError
            if isinstance(resolved, RegistryError):
                found = resolved
            else:
                outcome = parse_outcome(record.kind, record.text, resolved)
                if isinstance(outcome, InvalidSchemaError):
                    found = not_parsed(record.kind, outcome)
                else:
                    found = _explained(level, parsed, outcome[0], record.version, is_lenient)
            results[level, is_lenient, parsed, record] = found
            if found:
                break
        return results

    return work


def _reserved_fields(
    metadata: Metadata | None, parsed: ParsedSchema, latest: SchemaRecord | None
) -> list[str]:
    reserved = _reserved(metadata)
    gone = _reserved(latest.metadata) - reserved if latest is not None else set()
    return [
        *(f"Field '{name}' is no longer reserved; a reserved field stays reserved." for name in sorted(gone)),
        *(
            f"Field '{name}' is reserved; the schema must not have it."
            for name in sorted(reserved)
            if parsed.has_top_level_field(name)
        ),
    ]


def _reserved(metadata: Metadata | None) -> set[str]:
    names = (_property(metadata, RESERVED_PROPERTY) or "").split(",")
    return {name.strip() for name in names} - {""}


def _property(metadata: Metadata | None, name: str) -> str | None:
    found: str | None = (metadata or {}).get("properties", {}).get(name)
    return found
