"""Versions of a subject: lists, one of them, what refers to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bowstring.protocol.whole_numbers import whole_number
from bowstring.registry import refusals
from bowstring.registry.operations.entities import qualified_references, schema_entity
from bowstring.registry.operations.paging import page
from bowstring.registry.operations.parsing import formatted
from bowstring.registry.qualified_subject import DEFAULT_CONTEXT, QualifiedSubject, normalized, parse
from bowstring.registry.registry_image import RegistryImage
from bowstring.registry.schema_record import SchemaRecord

LATEST = -1


def version_number(version: str) -> int:
    """The number of a version in a path; LATEST for "latest" and "-1".

    Raises:
        RegistryError: 42202.
    """
    text = version.strip()
    if text.lower() == "latest" or text == "-1":
        return LATEST
    number = whole_number(text.removeprefix("+"))
    if not number:
        raise refusals.invalid_version(version)
    return number


def list_versions(
    image: RegistryImage,
    subject: str,
    *,
    deleted: bool = False,
    deleted_only: bool = False,
    deleted_as_negative: bool = False,
    offset: int = 0,
    limit: int = -1,
) -> list[int]:
    """GET /subjects/{subject}/versions.

    Args:
        deleted: Whether soft-deleted versions are listed, too.
        deleted_only: Whether only they are.
        deleted_as_negative: Whether they are listed, too, with a minus.

    Raises:
        RegistryError: 40401.
    """
    name = normalized(subject)
    if not image.has_subjects(name, deleted or deleted_only):
        raise refusals.subject_not_found(name)
    found = [
        -record.version if deleted_as_negative and record.deleted else record.version
        for record in image.versions(name)
        if deleted_as_negative or (record.deleted if deleted_only else deleted or not record.deleted)
    ]
    return page(found, offset, limit, image.defaults.page_limit)


def schema_by_version(
    image: RegistryImage,
    subject: str,
    version: str,
    *,
    format: str = "",
    reference_format: str = "",
    deleted: bool = False,
) -> dict[str, Any]:
    """GET /subjects/{subject}/versions/{version}.

    Raises:
        RegistryError: 40401, 40402, 42201 (for a format), 42202.
    """
    record = find_version(image, subject, version, deleted)
    return schema_entity(
        record, formatted(image, record, format), qualified_references(record, reference_format)
    )


def text_by_version(
    image: RegistryImage, subject: str, version: str, *, format: str = "", deleted: bool = False
) -> str:
    """GET /subjects/{subject}/versions/{version}/schema. Raises as `schema_by_version`."""
    return formatted(image, find_version(image, subject, version, deleted), format)


def find_version(image: RegistryImage, subject: str, version: str, deleted: bool) -> SchemaRecord:
    """The version of a subject, or of its namesake in another context if the subject names none.

    Raises:
        RegistryError: 40401, 40402, 42202.
    """
    name, number = normalized(subject), version_number(version)
    qualified = parse(name)
    names = [name]
    if qualified.context == DEFAULT_CONTEXT:
        names += (QualifiedSubject(context, qualified.subject).name for context in image.other_contexts())
    for each in names:
        record = version_of(image, each, number, deleted)
        if record is not None:
            return record
    if not image.has_subjects(name, deleted):
        raise refusals.subject_not_found(name)
    raise refusals.version_not_found(number)


def version_of(image: RegistryImage, name: str, number: int, deleted: bool) -> SchemaRecord | None:
    """The version of exactly this subject; the latest one is never a soft-deleted one."""
    if number == LATEST:
        return image.latest(name)
    record = image.version(name, number)
    return record if record is not None and (deleted or not record.deleted) else None


def referenced_by(
    image: RegistryImage,
    subject: str,
    version: str,
    *,
    deleted: bool = False,
    offset: int = 0,
    limit: int = -1,
) -> list[int]:
    """GET /subjects/{subject}/versions/{version}/referencedby: the ids of schemas that refer to a version.

    Raises:
        RegistryError: 40401, 40402, 42202.
    """
    record = find_version(image, subject, version, deleted=True)
    ids = {
        (parse(referrer.subject).context, referrer.id)
        for referrer in image.referrers(record.subject, record.version)
        if deleted or not referrer.deleted
    }
    return page([schema_id for _, schema_id in sorted(ids)], offset, limit, image.defaults.schema_limit)


def latest_with_metadata(
    image: RegistryImage,
    subject: str,
    keys: Sequence[str],
    values: Sequence[str],
    *,
    format: str = "",
    deleted: bool = False,
) -> dict[str, Any]:
    """GET /subjects/{subject}/metadata: the latest version whose metadata has all these properties.

    Raises:
        RegistryError: 40401, 40403.
    """
    name = normalized(subject)
    wanted = dict(zip(keys, values, strict=False)).items()
    for record in reversed(image.versions(name)):
        if record.metadata is None or (record.deleted and not deleted):
            continue
        if wanted <= record.metadata.get("properties", {}).items():
            return schema_entity(record, formatted(image, record, format))
    raise (
        refusals.schema_not_found() if image.has_subjects(name, deleted) else refusals.subject_not_found(name)
    )
