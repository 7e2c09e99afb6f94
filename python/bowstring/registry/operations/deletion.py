"""Deletes versions and subjects: softly, so that ids still work, and then permanently."""

from __future__ import annotations

from bowstring.registry import refusals
from bowstring.registry.decision import Decision
from bowstring.registry.operations.modes import require_writable
from bowstring.registry.operations.tombstones import config_tombstones, mode_tombstones, schema_tombstones
from bowstring.registry.operations.versions import version_number, version_of
from bowstring.registry.qualified_subject import normalized
from bowstring.registry.registry_image import RegistryImage
from bowstring.registry.schema_record import SchemaRecord
from bowstring.registry.topic_records import (
    DELETE_SUBJECT,
    SCHEMA,
    TopicKey,
    encode_delete_subject,
    encode_schema,
)


def decide_delete_version(
    image: RegistryImage, subject: str, version: str, *, permanent: bool = False
) -> Decision:
    """DELETE /subjects/{subject}/versions/{version}: answers the number of the version.

    Raises:
        RegistryError: 40401, 40402, 40406, 40407, 42202, 42205, 42206.
    """
    name, number = normalized(subject), version_number(version)
    record = version_of(image, name, number, deleted=True)
    if record is None:
        if image.has_subjects(name, deleted=True):
            raise refusals.version_not_found(number)
        raise refusals.subject_not_found(name)
    if record.deleted and not permanent:
        raise refusals.version_soft_deleted(name, record.version)
    require_writable(image, name)
    if any(permanent or not referrer.deleted for referrer in image.referrers(name, record.version)):
        raise refusals.reference_exists(name, record.version)
    if not permanent:
        deleted = SchemaRecord(
            *(record.subject, record.version, record.id, record.kind, record.text),
            references=record.references,
            metadata=record.metadata,
            rule_set=record.rule_set,
            deleted=True,
            md5=record.md5,
        )
        return Decision(
            image.keyed(TopicKey(SCHEMA, name, record.version), encode_schema(deleted)), record.version
        )
    if not record.deleted:
        raise refusals.version_not_soft_deleted(name, record.version)
    records = schema_tombstones(image, [record])
    if len(image.versions(name)) == 1:
        records += mode_tombstones(image, name) + config_tombstones(image, name)
    return Decision(records, record.version)


def decide_delete_subject(image: RegistryImage, subject: str, *, permanent: bool = False) -> Decision:
    """DELETE /subjects/{subject}: answers the numbers of the versions.

    Raises:
        RegistryError: 40401, 40404, 40405, 42205, 42206.
    """
    name = normalized(subject)
    versions = image.versions(name)
    if not versions:
        raise refusals.subject_not_found(name)
    if not permanent and image.latest(name) is None:
        raise refusals.subject_soft_deleted(name)
    require_writable(image, name)
    going = [record for record in versions if permanent or not record.deleted]
    for record in going:
        for referrer in image.referrers(name, record.version):
            if referrer.subject != name and (permanent or not referrer.deleted):
                raise refusals.reference_exists(name, record.version)
        if permanent and not record.deleted:
            raise refusals.subject_not_soft_deleted(name)
    numbers = [record.version for record in going]
    if not permanent:
        # Up to the highest version, also if that is deleted already: compaction drops what deleted it.
        value = encode_delete_subject(name, versions[-1].version)
        return Decision(image.keyed(TopicKey(DELETE_SUBJECT, name), value), numbers)
    # Descending: a version may refer to an earlier one.
    records = schema_tombstones(image, going[::-1])
    return Decision(records + mode_tombstones(image, name) + config_tombstones(image, name), numbers)
