"""Finds writers' Avro schemas by id, in the directory or schema registry of the option `value.schemas`."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bowstring.clients.errors import ClientError, ConfigError

_FILE = re.compile(r"(\d+)\.(avsc|json)")
_TIMEOUT_S = 10.0


class SchemaRegistryError(ClientError):
    """A schema registry does not answer, or not with an Avro schema."""


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
        return Registry(given)
    known: dict[str, str] = json.loads(given)
    return lambda schema_id: known.get(str(schema_id))


class Registry:
    """Gets schemas from a registry with Confluent's REST API.

    Args:
        address: such as http://registry:8081.
    """

    def __init__(self, address: str):
        self._address = address.rstrip("/")

    def __call__(self, schema_id: int) -> str | None:
        """Returns the schema, None if the registry has none with this id.

        Raises:
            SchemaRegistryError: the registry does not answer, or has no Avro schema with this id.
        """
        address = f"{self._address}/schemas/ids/{schema_id}"
        try:
            with urllib.request.urlopen(address, timeout=_TIMEOUT_S) as response:
                answer = json.load(response)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise self._failure(schema_id, error) from error
        except (OSError, ValueError) as error:
            raise self._failure(schema_id, error) from error
        kind = answer.get("schemaType", "AVRO")
        if kind != "AVRO" or answer.get("references"):
            what = "refers to others" if kind == "AVRO" else f"is {kind}"
            raise SchemaRegistryError(
                f"schema {schema_id} of {self._address} {what}: give whole Avro schemas in a directory "
                "(option value.schemas)"
            )
        return str(answer["schema"])

    def _failure(self, schema_id: int, error: Exception) -> SchemaRegistryError:
        return SchemaRegistryError(
            f"the schema registry {self._address} did not return schema {schema_id} ({error}): check option "
            "value.schemas, or set it to a directory of <id>.avsc files"
        )
