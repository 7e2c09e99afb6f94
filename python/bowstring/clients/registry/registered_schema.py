"""Defines what a schema registry says about a schema."""

from __future__ import annotations

from typing import Any, NamedTuple

KINDS = ("AVRO", "JSON", "PROTOBUF")


class SchemaReference(NamedTuple):
    """A schema that another one imports.

    Attributes:
        name: by which the schema imports it: the name of an Avro type, a `$ref`, the path of a Protobuf file.
        subject, version: where it is registered.
    """

    name: str
    subject: str
    version: int


class RegisteredSchema(NamedTuple):
    """A schema of a registry.

    Attributes:
        kind: AVRO, JSON or PROTOBUF.
        text: the schema; of Protobuf a FileDescriptorProto in Base64 where the registry has that form.
        references: the schemas that it imports.
        schema_id: its id; -1 where the answer has none.
        guid: its guid, 16 bytes; None where the registry has none (before Confluent's 8.0).
        version: its version of the subject that was asked for; 0: no subject was.
    """

    kind: str
    text: str
    references: tuple[SchemaReference, ...] = ()
    schema_id: int = -1
    guid: bytes | None = None
    version: int = 0

    def request(self) -> dict[str, Any]:
        """Returns the body that registers it."""
        body: dict[str, Any] = {"schema": self.text}
        if self.kind != "AVRO":
            body["schemaType"] = self.kind
        if self.references:
            body["references"] = [each._asdict() for each in self.references]
        return body
