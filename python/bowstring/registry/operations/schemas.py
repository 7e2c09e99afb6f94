"""Schemas by id and by guid, and lists of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bowstring.registry import refusals
from bowstring.registry.operations.aliases import aliased
from bowstring.registry.operations.entities import qualified_references, schema_entity
from bowstring.registry.operations.paging import page
from bowstring.registry.operations.parsing import formatted
from bowstring.registry.qualified_subject import DEFAULT_CONTEXT, QualifiedSubject, context_of, parse
from bowstring.registry.registry_image import RegistryImage
from bowstring.registry.schema_metadata import has_rule_type
from bowstring.registry.schema_record import SchemaRecord, md5_of_guid


def kinds() -> list[str]:
    """GET /schemas/types."""
    return ["JSON", "PROTOBUF", "AVRO"]


def schema_by_id(
    image: RegistryImage,
    schema_id: int,
    subject: str = "",
    *,
    format: str = "",
    reference_format: str = "",
    fetch_max_id: bool = False,
) -> dict[str, Any]:
    """GET /schemas/ids/{id}.

    Args:
        subject: Its context is where the id is looked for, and the schema must be one of its versions; one
            without a context is looked for in all of them. Empty: any subject of the default context.
        fetch_max_id: Whether the answer says what the highest id of the context is.

    Raises:
        RegistryError: 40403.
    """
    record = find_id(image, schema_id, subject)
    if record is None:
        raise refusals.schema_not_found(schema_id)
    entity = schema_entity(
        record, formatted(image, record, format), qualified_references(record, reference_format)
    )
    del entity["id"]
    if fetch_max_id:
        entity["maxId"] = max(1, image.context(context_of(record.subject)).max_id)
    return entity


def text_by_id(image: RegistryImage, schema_id: int, subject: str = "", *, format: str = "") -> str:
    """GET /schemas/ids/{id}/schema. Raises as `schema_by_id`."""
    record = find_id(image, schema_id, subject)
    if record is None:
        raise refusals.schema_not_found(schema_id)
    return formatted(image, record, format)


def find_id(image: RegistryImage, schema_id: int, subject: str) -> SchemaRecord | None:
    """A version with an id; soft-deleted ones only where there is no other."""
    qualified = parse(subject)
    found = _with_id(image, schema_id, qualified)
    if found is not None or not qualified.subject or qualified.context != DEFAULT_CONTEXT:
        return found
    for context in image.other_contexts():
        found = _with_id(image, schema_id, QualifiedSubject(context, qualified.subject))
        if found is not None:
            return found
    return _with_id(image, schema_id, QualifiedSubject(DEFAULT_CONTEXT, ""))


def _with_id(image: RegistryImage, schema_id: int, wanted: QualifiedSubject) -> SchemaRecord | None:
    context = image.contexts.get(wanted.context)
    if context is None:
        return None
    found = [
        record for record in context.of_id(schema_id) if not wanted.subject or record.subject == wanted.name
    ]
    return next((record for record in found if not record.deleted), found[-1] if found else None)


def versions_of_id(
    image: RegistryImage,
    schema_id: int,
    subject: str = "",
    *,
    deleted: bool = False,
    offset: int = 0,
    limit: int = -1,
) -> list[dict[str, Any]]:
    """GET /schemas/ids/{id}/versions: each subject of the context with its last version that has the id.

    Raises:
        RegistryError: 40403.
    """
    records = _subjects_with_id(image, schema_id, subject, deleted)
    found = [{"subject": record.subject, "version": record.version} for record in records]
    return page(found, offset, limit, image.defaults.page_limit)


def subjects_of_id(
    image: RegistryImage,
    schema_id: int,
    subject: str = "",
    *,
    deleted: bool = False,
    offset: int = 0,
    limit: int = -1,
) -> list[str]:
    """GET /schemas/ids/{id}/subjects. Raises RegistryError (40403)."""
    records = _subjects_with_id(image, schema_id, subject, deleted)
    return page([record.subject for record in records], offset, limit, image.defaults.page_limit)


def _subjects_with_id(
    image: RegistryImage, schema_id: int, subject: str, deleted: bool
) -> list[SchemaRecord]:
    record = find_id(image, schema_id, subject)
    if record is None:
        raise refusals.schema_not_found()
    last: dict[str, SchemaRecord] = {}
    for each in image.context(context_of(record.subject)).of_id(schema_id):
        if deleted or not each.deleted:
            last[each.subject] = each
    return [last[name] for name in sorted(last)]


def schema_by_guid(image: RegistryImage, guid: str, format: str = "") -> dict[str, Any]:
    """GET /schemas/guids/{guid}: the same in every context, so without subject and version.

    Raises:
        RegistryError: 40403.
    """
    for context, schema_id in _ids_of_guid(image, guid):
        record = _with_id(image, schema_id, QualifiedSubject(context, ""))
        if record is not None:
            entity = schema_entity(record, formatted(image, record, format))
            for member in ("subject", "version", "id"):
                del entity[member]
            return entity
    raise refusals.schema_not_found(guid)


def ids_of_guid(image: RegistryImage, guid: str) -> list[dict[str, Any]]:
    """GET /schemas/guids/{guid}/ids: its id in each context that has it."""
    return [{"context": context, "id": schema_id} for context, schema_id in _ids_of_guid(image, guid)]


def _ids_of_guid(image: RegistryImage, guid: str) -> list[tuple[str, int]]:
    md5 = md5_of_guid(guid)
    if md5 is None:
        return []
    found = []
    for name in (DEFAULT_CONTEXT, *image.other_contexts()):
        context = image.contexts.get(name)
        schema_id = context.id_of(md5) if context is not None else None
        if schema_id is not None:
            found.append((name, schema_id))
    return found


def list_schemas(
    image: RegistryImage,
    prefix: str = "",
    *,
    aliases: bool = False,
    deleted: bool = False,
    latest_only: bool = False,
    rule_type: str = "",
    offset: int = 0,
    limit: int = -1,
) -> list[dict[str, Any]]:
    """GET /schemas.

    Args:
        prefix: See `registry_image.has_prefix`.
        aliases: Whether subjects that aliases with the prefix stand for are listed, too, with these aliases.
        rule_type: Only schemas with a rule of this type; empty: all.
    """
    names = list(image.with_prefix(prefix))
    meant = aliased(image, prefix) if aliases else {}
    if meant:
        names = sorted({*names, *meant})

    def found() -> Iterator[SchemaRecord]:
        for name in names:
            records = [record for record in image.versions(name) if deleted or not record.deleted]
            for record in records[-1:] if latest_only else records:
                if not rule_type or has_rule_type(record.rule_set, rule_type):
                    yield record

    entities = []
    for record in page(found(), offset, limit, image.defaults.schema_limit):
        entity = schema_entity(record)
        if record.subject in meant:
            entity["aliases"] = meant[record.subject]
        entities.append(entity)
    return entities
