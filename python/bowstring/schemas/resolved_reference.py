"""A schema that another schema refers to, with its text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ResolvedReference:
    """One entry of the `references` of a schema, looked up.

    Attributes:
        name: what the schema calls it: the full name of an Avro type, the URI of a JSON schema, the path of
            a Protobuf file.
        subject: where it is registered.
        version: its version in that subject, from 1.
        text: the schema as it is stored.
    """

    name: str
    subject: str
    version: int
    text: str
