"""One version of a subject, as its record says and the image keeps."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from typing import NamedTuple

from bowstring.registry.schema_metadata import Metadata, RuleSet, hash_metadata, hash_rule_set


class SchemaReference(NamedTuple):
    """A schema that another one needs.

    Attributes:
        name: How the schema spells it: a full name (Avro), a URI (JSON Schema), a file (Protobuf).
        version: From 1; -1 in requests is the latest one.
    """

    name: str
    subject: str
    version: int


class SchemaRecord:
    """One version of a subject. Only the image changes it, and only `deleted`; `meaning` is a cache.

    Attributes:
        subject: Qualified name.
        id: The same for the same schema in every subject of a context.
        kind: AVRO, JSON or PROTOBUF.
        text: The schema in its canonical form.
        timestamp_ms: When its record was appended, since the epoch; None if unknown.
        md5: 16 bytes over text, references, metadata and rules.
        meaning: Hash of what all equivalent schemas have in common; None: not computed yet, empty: it cannot
            be parsed.
    """

    __slots__ = (
        *("deleted", "id", "kind", "md5", "meaning", "metadata", "references", "rule_set", "subject", "text"),
        *("timestamp_ms", "version"),
    )

    def __init__(
        self,
        subject: str,
        version: int,
        schema_id: int,
        kind: str,
        text: str,
        *,
        references: tuple[SchemaReference, ...] = (),
        metadata: Metadata | None = None,
        rule_set: RuleSet | None = None,
        deleted: bool = False,
        timestamp_ms: int | None = None,
        md5: bytes | None = None,
    ):
        self.subject = subject
        self.version = version
        self.id = schema_id
        self.kind = kind
        self.text = text
        self.references = references
        self.metadata = metadata
        self.rule_set = rule_set
        self.deleted = deleted
        self.timestamp_ms = timestamp_ms
        self.meaning: bytes | None = None
        self.md5 = md5 if md5 is not None else schema_md5(text, references, metadata, rule_set)

    @property
    def guid(self) -> str:
        """The same for the same schema in every context and registry."""
        return guid_of(self.md5)


def schema_md5(
    text: str,
    references: Sequence[SchemaReference] = (),
    metadata: Metadata | None = None,
    rule_set: RuleSet | None = None,
) -> bytes:
    """What identifies a schema in a context, and its guid in all of them.

    Source: `updateHash` of Confluent's Schema, SchemaReference, Metadata, RuleSet and Rule.
    """
    digest = hashlib.md5(text.encode(), usedforsecurity=False)
    for name, subject, version in references:
        digest.update(name.encode() + subject.encode() + (version & 0xFFFFFFFF).to_bytes(4, "big"))
    if metadata is not None:
        digest.update(b"\x01")
        hash_metadata(metadata, digest.update)
    if rule_set is not None:
        digest.update(b"\x01")
        hash_rule_set(rule_set, digest.update)
    return digest.digest()


def guid_of(md5: bytes) -> str:
    """A hash as a UUID."""
    return str(uuid.UUID(bytes=md5))


def md5_of_guid(guid: str) -> bytes | None:
    """The reverse of `guid_of`; None if `guid` is neither a UUID nor 32 hexadecimal digits."""
    try:
        return uuid.UUID(guid).bytes
    except ValueError:
        return None
