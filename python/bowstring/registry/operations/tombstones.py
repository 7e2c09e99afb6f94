"""Records that make the registry forget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from bowstring.registry.qualified_subject import context_of
from bowstring.registry.registry_image import RegistryImage
from bowstring.registry.schema_record import SchemaRecord
from bowstring.registry.topic_records import CONFIG, MODE, NOOP, SCHEMA, TopicKey, encode_max_ids

Records: TypeAlias = tuple[tuple[bytes, bytes | None], ...]


def schema_tombstones(image: RegistryImage, going: Sequence[SchemaRecord]) -> Records:
    """Deletes versions permanently, in this order."""
    records = highest_ids(image, going)
    for record in going:
        records += image.keyed(TopicKey(SCHEMA, record.subject, record.version), None)
    return records


def highest_ids(image: RegistryImage, going: Sequence[SchemaRecord]) -> Records:
    """Keeps the highest id of a context that goes with these versions.

    Otherwise a registry that starts after compaction would give it to another schema.
    """
    if any(record.id == image.context(context_of(record.subject)).max_id for record in going):
        return image.keyed(TopicKey(NOOP), encode_max_ids(image.max_ids()))
    return ()


def mode_tombstones(image: RegistryImage, name: str | None) -> Records:
    """Deletes a mode if there is one."""
    return image.keyed(TopicKey(MODE, name), None) if name in image.modes else ()


def config_tombstones(image: RegistryImage, name: str | None) -> Records:
    """Deletes a config if there is one."""
    return image.keyed(TopicKey(CONFIG, name), None) if name in image.configs else ()
