"""Reads Protobuf schemas that are given as .proto text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bowstring.clients.errors import ConfigError
from bowstring.clients.registry.registered_schema import RegisteredSchema
from bowstring.schemas.errors import InvalidSchemaError
from bowstring.schemas.parsing import parse_schema
from bowstring.schemas.resolved_reference import ResolvedReference

_DECLARES = re.compile(
    r"^\s*(?:syntax\s*=|edition\s*=|package\s+[\w.]+\s*;|message\s+\w+\s*\{)", re.MULTILINE
)


def proto_text(given: Any, kind: str | None) -> str | None:
    """Returns the .proto text that a schema is, or that is in the file that it names; None if it is none.

    Args:
        given: text, or a file's path.
        kind: PROTOBUF, or None if that has to be found out.

    Raises:
        ConfigError: the file cannot be read.
    """
    if kind not in (None, "PROTOBUF") or not isinstance(given, str | Path):
        return None
    if isinstance(given, str) and (_DECLARES.search(given) or (kind is not None and "\n" in given)):
        return given
    if Path(given).suffix != ".proto":
        return None
    try:
        return Path(given).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ConfigError(f"the Protobuf schema {given} cannot be read: {error}") from None


def message_name(text: str) -> str:
    """Returns the full name of the first message of a .proto text.

    Raises:
        ConfigError: it is none.
    """
    try:
        found = parse_schema("PROTOBUF", text, is_new=False).name
    except InvalidSchemaError as error:
        raise ConfigError(f"the Protobuf schema cannot be used: {error}") from None
    if not found:
        raise ConfigError("the Protobuf schema declares no message")
    return found


def serialized(text: str, others: Iterable[tuple[str, RegisteredSchema]]) -> str:
    """Returns the FileDescriptorProto of a .proto text in Base64.

    Args:
        text: the file.
        others: those that it imports, directly or not, with their names.

    Raises:
        ConfigError: the text, or one of those, is no Protobuf file.
    """
    references = [ResolvedReference(name, "", 1, each.text) for name, each in others]
    try:
        return parse_schema("PROTOBUF", text, references).formatted("serialized")
    except InvalidSchemaError as error:
        raise ConfigError(f"the Protobuf schema cannot be used: {error}") from None
