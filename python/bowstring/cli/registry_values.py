"""Keys and values of commands that are encoded by schemas of a registry: the options, and JSON for lines."""

from __future__ import annotations

import base64
import contextlib
import datetime
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from bowstring.clients.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from bowstring.clients.registry.registry import Registry
    from bowstring.clients.registry.topic_format import TopicFormat

Coding = Annotated[
    Literal["text", "registry"],
    typer.Option("--value", help="`registry`: as JSON, by the schema in the registry."),
]
KeyCoding = Annotated[Literal["text", "registry"], typer.Option("--key-format", help="The same of keys.")]
RegistryUrl = Annotated[
    str,
    typer.Option(
        "--schema-registry", metavar="URL", envvar="BOWSTRING_SCHEMA_REGISTRY", help="For `registry`."
    ),
]
SchemaFile = Annotated[
    Path | None,
    typer.Option(
        "--value-schema",
        exists=True,
        dir_okay=False,
        help="Register this Avro or JSON Schema for `--value registry`; without it, the newest one counts.",
    ),
]
REGISTRY_DEFAULT = "http://localhost:8081"


def registry_of(coding: str, url: str, schema: Path | None = None) -> Registry | None:
    """Returns the format of keys or values, None for text.

    Raises:
        ConfigError: the address, or the schema, is invalid.
    """
    if coding != "registry":
        if schema is not None:
            raise typer.BadParameter("--value-schema needs --value registry")
        return None
    from bowstring.clients.registry import Registry

    return Registry(url, schema=schema)


class LineValues:
    """Makes of lines what a schema encodes.

    Args:
        form: of the topic's keys or values.
    """

    def __init__(self, form: TopicFormat):
        from bowstring.values import Json, ValueSchemaError

        schema = form.write_schema
        single = form.prepare().is_single
        self._is_text = single and str(schema.field(0).type) == "string"
        self._decode: Callable[[bytes], Any] = json.loads
        if not single:
            # If JSON has no form of its own for a type, the encoder says whether a value fits.
            with contextlib.suppress(ValueSchemaError):
                self._decode = Json(schema).object_decoder()

    def object_of(self, text: bytes | None, number: int) -> Any:
        """Returns the object of a line's key or value.

        Args:
            text: JSON; of a schema that is a string, the string.
            number: of the line.

        Raises:
            ConfigError: it is not JSON of the schema; the message names the line.
        """
        if text is None:
            return None
        try:
            found = text.decode() if self._is_text else self._decode(text)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"line {number} is not JSON: {error}") from None
        reason = getattr(found, "reason", None)
        if isinstance(reason, str) and not isinstance(found, dict):
            raise ConfigError(f"line {number} does not fit the schema: {reason}")
        return found


def value_json(value: Any) -> Any:
    """Returns a decoded key or value as `json.dumps` writes it, and `LineValues` reads it."""
    return value if isinstance(value, str) else json.loads(value_text(value))


def value_text(value: Any) -> str:
    """Returns a decoded key or value as JSON; of a string, the string."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    return str(value)
