"""Looks a schema up in a subject."""

from __future__ import annotations

from typing import Any

from bowstring.registry import refusals
from bowstring.registry.operations.configs import config_in_scope, normalizes
from bowstring.registry.operations.entities import schema_entity
from bowstring.registry.operations.filling import fill_in
from bowstring.registry.operations.matching import find_schema
from bowstring.registry.operations.parsing import formatted
from bowstring.registry.operations.schema_request import SchemaRequest, schema_request
from bowstring.registry.qualified_subject import DEFAULT_CONTEXT, QualifiedSubject, normalized, parse
from bowstring.registry.registry_error import RegistryError
from bowstring.registry.registry_image import RegistryImage
from bowstring.registry.schema_record import SchemaRecord


def look_up(
    image: RegistryImage,
    subject: str,
    body: object,
    *,
    normalize: bool = False,
    format: str = "",
    deleted: bool = False,
) -> dict[str, Any]:
    """POST /subjects/{subject}: the version with this schema, in any context if the subject names none.

    Raises:
        RegistryError: 400, 40401, 40403, 42201.
    """
    name = normalized(subject)
    request = schema_request(name, body)
    normalize = normalize or normalizes(image, name)
    record = _find(image, request, normalize, deleted)
    qualified = parse(name)
    if record is None and qualified.context == DEFAULT_CONTEXT:
        record = _find_elsewhere(image, request, normalize, deleted, qualified.subject)
    if record is None:
        if image.has_subjects(name, deleted):
            raise refusals.schema_not_found()
        raise refusals.subject_not_found(name)
    return schema_entity(record, formatted(image, record, format))


def _find_elsewhere(
    image: RegistryImage, request: SchemaRequest, normalize: bool, deleted: bool, subject: str
) -> SchemaRecord | None:
    for context in image.other_contexts():
        other = request.copy()
        other.subject = QualifiedSubject(context, subject).name
        if not image.versions(other.subject):
            continue
        try:
            record = _find(image, other, normalize, deleted)
        except RegistryError:
            continue
        if record is not None:
            return record
    return None


def _find(
    image: RegistryImage, request: SchemaRequest, normalize: bool, deleted: bool
) -> SchemaRecord | None:
    """As given, and then as a registration would store it: with metadata and rules of the latest version."""
    record = find_schema(image, request, normalize, deleted)
    latest = image.latest(request.subject)
    if record is not None or latest is None:
        return record
    filled = request.copy()
    fill_in(config_in_scope(image, request.subject), filled, latest)
    return None if filled == request else find_schema(image, filled, normalize, deleted)
