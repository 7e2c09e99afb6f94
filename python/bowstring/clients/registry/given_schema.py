"""Reads the schema that a `Registry` is given: its kind, what is registered, and the format of its values."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bowstring.clients.errors import ConfigError, MissingPackageError
from bowstring.clients.registry.proto_text import message_name, proto_text, serialized
from bowstring.clients.registry.registered_schema import KINDS, RegisteredSchema, SchemaReference
from bowstring.clients.registry.schema_sources import imported, known_files

if TYPE_CHECKING:
    from bowstring.clients.registry.registry_client import RegistryClient

WANTED = (
    "an Avro schema or a JSON Schema (text, a mapping, or a file's path), a class (a dataclass, TypedDict, "
    "msgspec struct or pydantic model), a generated Protobuf class, or .proto text or its file's path"
)


class GivenSchema:
    """The schema of values that are written, and to which those that are read are resolved.

    Args:
        given: an Avro schema or a JSON Schema, a class, a Protobuf message, .proto text, a RegisteredSchema.
        kind: AVRO, JSON or PROTOBUF; None: found out.
        references: of the schema.

    Attributes:
        given: unchanged, for formats.
        kind: AVRO, JSON or PROTOBUF.
        name: the full name of the record or message, or a JSON Schema's title; "": none.

    Raises:
        ConfigError, ValueSchemaError: it is not a schema, or not of this kind.
    """

    def __init__(self, given: Any, kind: str | None, references: tuple[SchemaReference, ...] = ()):
        if kind is not None and kind not in KINDS:
            raise ConfigError(f"kind is {kind!r}, it must be one of {', '.join(KINDS)}")
        self.given = given
        self._references = references
        self.document: Any = None
        self._proto = proto_text(given, kind)
        if isinstance(given, RegisteredSchema):
            self.kind, self.name = given.kind, ""
        elif self._proto is not None:
            self.kind, self.name = "PROTOBUF", message_name(self._proto)
        elif _is_message(given):
            self.kind = "PROTOBUF"
            self.name = str(_descriptor(given).full_name)
        elif isinstance(given, type):
            self._of_class(given, kind or "AVRO")
        elif isinstance(given, str | Path | Mapping | list):
            self._of_document(given, kind)
        else:
            raise ConfigError(f"schema is a {type(given).__name__}, it must be {WANTED}")
        if kind is not None and kind != self.kind:
            raise ConfigError(f"the schema is {self.kind} and kind is {kind}: leave kind out")

    @property
    def is_message(self) -> bool:
        """Whether it is a generated Protobuf class, or its descriptor."""
        return _is_message(self.given)

    def _of_class(self, cls: type, kind: str) -> None:
        from bowstring.values.avro_format import Avro

        self.kind = kind
        if kind == "AVRO":
            self.document = Avro(cls).avro_schema
            self.name = _avro_name(self.document)
        else:
            self.document = _class_document(cls)
            self.name = cls.__name__

    def _of_document(self, given: Any, kind: str | None) -> None:
        from bowstring.values.avro_schema import PRIMITIVES
        from bowstring.values.json_schema import schema_document

        is_name = isinstance(given, str) and given in PRIMITIVES
        self.document = given if is_name or isinstance(given, list) else schema_document(given)
        self.kind = kind or ("JSON" if _is_json_schema(self.document) else "AVRO")
        if self.kind == "PROTOBUF":
            raise ConfigError(
                "a Protobuf schema must be a generated class, its descriptor, .proto text, or a file's path "
                "that ends with .proto"
            )
        self.name = _avro_name(self.document) if self.kind == "AVRO" else str(_title(self.document))

    def registrable(self, client: RegistryClient, *, register: bool, normalize: bool) -> RegisteredSchema:
        """Returns what is registered; first registers, or looks up, the files that a Protobuf file imports.

        Raises:
            SchemaRegistryError: the registry does not answer, or refuses.
        """
        if isinstance(self.given, RegisteredSchema):
            return self.given
        if self._proto is not None:
            return RegisteredSchema("PROTOBUF", self._proto, self._references)
        if self.kind == "PROTOBUF":
            return _file_schema(_descriptor(self.given).file, client, register=register, normalize=normalize)
        is_text = isinstance(self.given, str) and self.given.lstrip().startswith(("{", "[", '"'))
        text = self.given if is_text else json.dumps(self.document)
        return RegisteredSchema(self.kind, text, self._references)

    def readable(self, client: RegistryClient) -> RegisteredSchema:
        """Returns the schema for readers: of a .proto text its descriptor. Raises like `registrable`."""
        if self._proto is None:
            return self.registrable(client, register=False, normalize=False)
        text = serialized(self._proto, imported(client, self._references, ""))
        return RegisteredSchema("PROTOBUF", text, self._references)


def _is_message(given: Any) -> bool:
    return hasattr(getattr(given, "DESCRIPTOR", given), "fields_by_number")


def _descriptor(given: Any) -> Any:
    return getattr(given, "DESCRIPTOR", given)


def _is_json_schema(document: Any) -> bool:
    if not isinstance(document, Mapping):
        return False
    return document.get("type") != "record" and bool(
        {"$schema", "properties", "$ref", "oneOf", "anyOf", "allOf"} & set(document)
        or document.get("type") == "object"
    )


def _avro_name(document: Any) -> str:
    if not isinstance(document, Mapping):
        return ""
    name, space = str(document.get("name", "")), document.get("namespace")
    return f"{space}.{name}" if space and name and "." not in name else name


def _title(document: Any) -> Any:
    return document.get("title", "") if isinstance(document, Mapping) else ""


def _class_document(cls: Any) -> Any:
    """Returns the JSON Schema of a class."""
    if hasattr(cls, "model_json_schema"):
        return cls.model_json_schema()
    try:
        import msgspec
    except ModuleNotFoundError as error:
        raise MissingPackageError("msgspec", "objects") from error
    return {"title": cls.__name__, **msgspec.json.schema(cls)}


def _file_schema(file: Any, client: RegistryClient, *, register: bool, normalize: bool) -> RegisteredSchema:
    known = known_files()
    references = []
    for needed in file.dependencies:
        if needed.name in known:
            continue
        inner = _file_schema(needed, client, register=register, normalize=normalize)
        if register:
            client.register(needed.name, inner, normalize=normalize)
        version = client.look_up(needed.name, inner, normalize=normalize).version
        references.append(SchemaReference(needed.name, needed.name, version))
    text = base64.b64encode(file.serialized_pb).decode()
    return RegisteredSchema("PROTOBUF", text, tuple(references))
