"""Protobuf schemas: .proto text of proto2, proto3 and editions, or a FileDescriptorProto in Base64."""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING

from bowstring.schemas.errors import InvalidSchemaError
from bowstring.schemas.protobuf.proto_parser import parse_proto
from bowstring.schemas.protobuf.protobuf_schema import ProtobufSchema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bowstring.schemas.protobuf.elements import ProtoFile
    from bowstring.schemas.resolved_reference import ResolvedReference

__all__ = ["ProtobufSchema", "parse"]


def parse(text: str, references: Sequence[ResolvedReference] = (), *, is_new: bool = True) -> ProtobufSchema:
    """Parses a Protobuf schema.

    Args:
        text: .proto text, or a serialized FileDescriptorProto in Base64, as Confluent's Python client sends.
        references: the files that it imports, directly or not, well-known ones excepted.
        is_new: whether it must be valid, not only readable: every type declared, and the rules of protoc for
            numbers, names and what is reserved kept. Confluent's registry does not check the latter.

    Raises:
        InvalidSchemaError: it is neither, or names a type that neither it nor a reference declares.
        MissingPackageError: it needs the package protobuf, which is not installed.
    """
    counted = 0
    dependencies = []
    for each in references:
        dependencies.append((each, file := _parse_reference(each, counted)))
        counted += file.parts
    schema = ProtobufSchema(_parse_file(text, counted), dependencies)
    if is_new:
        schema.validate()
    return schema


def _parse_reference(reference: ResolvedReference, counted: int) -> ProtoFile:
    try:
        return _parse_file(reference.text, counted)
    except InvalidSchemaError as error:
        raise InvalidSchemaError(f"the reference {reference.name}: {error}") from None


def _parse_file(text: str, counted: int = 0) -> ProtoFile:
    if (found := re.search("[\ud800-\udfff]", text)) is not None:
        raise InvalidSchemaError(f"character {found.start() + 1} is half of a surrogate pair")
    try:
        return parse_proto(text, counted)
    except InvalidSchemaError as error:
        if (serialized := _decoded(text)) is None:
            raise
        try:
            return _parse_descriptor(serialized, counted)
        except InvalidSchemaError as in_base64:
            raise InvalidSchemaError(f"{error}; as Base64: {in_base64}") from None


def _parse_descriptor(serialized: bytes, counted: int) -> ProtoFile:
    # Loads protobuf.
    from bowstring.schemas.protobuf.from_descriptor import file_of
    from bowstring.schemas.protobuf.proto_printer import ProtoPrinter

    # What is stored is the text: it must be readable, have the bounds of a text, and say the same.
    written = ProtoPrinter().text(file_of(serialized))
    parsed = parse_proto(written, counted)
    if ProtoPrinter().text(parsed) != written:
        raise InvalidSchemaError("the descriptor has a name or a type that is none in a .proto file")
    return parsed


def _decoded(text: str) -> bytes | None:
    """Returns the bytes of a text in Base64; None if it is none."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
