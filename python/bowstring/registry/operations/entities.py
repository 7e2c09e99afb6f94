"""Versions and schemas as answers spell them."""

from __future__ import annotations

from typing import Any

from bowstring.registry.qualified_subject import DEFAULT_CONTEXT, context_of, in_context_of
from bowstring.registry.schema_record import SchemaRecord, SchemaReference


def schema_entity(
    record: SchemaRecord,
    text: str | None = None,
    references: tuple[SchemaReference, ...] | None = None,
) -> dict[str, Any]:
    """A version of a subject.

    Args:
        text: In another format than the record's.
        references: Spelled in another way than the record's.
    """
    entity: dict[str, Any] = {
        "subject": record.subject,
        "version": record.version,
        "id": record.id,
        "guid": record.guid,
        "schemaType": record.kind,
    }
    spelled = record.references if references is None else references
    if spelled:
        entity["references"] = [reference._asdict() for reference in spelled]
    if record.metadata is not None:
        entity["metadata"] = record.metadata
    entity["schema"] = record.text if text is None else text
    if record.timestamp_ms is not None:
        entity["ts"] = record.timestamp_ms
    entity["deleted"] = record.deleted
    if record.rule_set is not None:
        entity["ruleSet"] = record.rule_set
    return entity


def registered_entity(record: SchemaRecord, text: str | None = None) -> dict[str, Any]:
    """What a registration is answered with."""
    entity = schema_entity(record, text)
    del entity["subject"]
    return {"id": entity.pop("id"), **entity}


def qualified_references(record: SchemaRecord, reference_format: str) -> tuple[SchemaReference, ...]:
    """The references of a version, with contexts where `?referenceFormat=qualified` wants them."""
    if reference_format != "qualified" or context_of(record.subject) == DEFAULT_CONTEXT:
        return record.references
    return tuple(
        reference._replace(subject=in_context_of(record.subject, reference.subject))
        for reference in record.references
    )
