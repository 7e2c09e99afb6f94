"""Finds writers' Avro schemas by id, in the directory or schema registry of the option `value.schemas`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from bowstring.clients.errors import ConfigError
from bowstring.clients.registry.decoding import avro_source
from bowstring.clients.registry.registry_client import RegistryClient
from bowstring.clients.registry.registry_errors import SchemaNotFoundError, SchemaRegistryError
from bowstring.values.avro_schema import ReferringSchema

_FILE = re.compile(r"(\d+)\.(avsc|json)")


def is_registry(where: str) -> bool:
    """Returns whether the option is an address and not a directory."""
    return where.startswith(("http://", "https://"))


def directory(where: str) -> dict[str, str]:
    """Reads the schemas in a directory's files `<id>.avsc`, by id.

    Raises:
        ConfigError: the directory does not exist or has no schema.
    """
    try:
        found = {
            match[1]: file.read_text()
            for file in Path(where).iterdir()
            if (match := _FILE.fullmatch(file.name))
        }
    except OSError as error:
        raise ConfigError(f"option value.schemas: {where} cannot be read: {error.strerror}") from None
    if not found:
        raise ConfigError(
            f"option value.schemas: {where} has no schemas; their files are named for their ids, "
            "such as 7.avsc"
        )
    return found


def schemas_by_id(given: str) -> Callable[[int], Any]:
    """Returns the function from which `bowstring.Avro` gets schemas.

    Args:
        given: a registry's address, or the result of `directory`, as JSON.
    """
    if is_registry(given):
        return partial(_of_registry, RegistryClient(given))
    known: dict[str, str] = json.loads(given)
    return lambda schema_id: known.get(str(schema_id))


def _of_registry(client: RegistryClient, schema_id: int) -> ReferringSchema | None:
    """Returns the schema, None if the registry has none with this id.

    Raises:
        SchemaRegistryError: the registry does not answer, or has no Avro schema with this id.
    """
    try:
        found = client.by_id(schema_id)
        if found.kind != "AVRO":
            raise SchemaRegistryError(f"schema {schema_id} of {client.address} is {found.kind}")
        return avro_source(client, found)
    except SchemaNotFoundError:
        return None
    except SchemaRegistryError as error:
        raise SchemaRegistryError(
            f"{error}: check option value.schemas, or set it to a directory of <id>.avsc files"
        ) from None
