"""Finds the schema of values in a schema registry: the option `value.format=registry`.

The driver gets the subject's newest schema and names it to the tasks, so that all have the same columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bowstring.clients.errors import ConfigError
from bowstring.clients.registry.registry_client import RegistryClient

NAMES = frozenset({"format", "registry", "subject", "mode", "on_error"})


def registry_options(value: Mapping[str, str], options: Mapping[str, str]) -> dict[str, str]:
    """Returns the options of tasks: with the id of the schema.

    Args:
        value: by the name after `value.`.
        options: of the source, which name the topic.

    Raises:
        ConfigError: an option is missing, or makes no sense.
        SchemaRegistryError: the registry does not answer, or has no such subject.
    """
    if "registry" not in value:
        raise ConfigError("option value.format=registry needs value.registry, such as http://registry:8081")
    wrong = sorted(set(value) - NAMES)
    if wrong:
        raise ConfigError(f"option value.{wrong[0]} is not for value.format=registry, which has the schema")
    newest = RegistryClient(value["registry"]).latest(subject_of(value, options))
    return {**value, "schema_id": str(newest.schema_id)}


def subject_of(value: Mapping[str, str], options: Mapping[str, str]) -> str:
    """Returns the subject: the option, or that of the only topic.

    Raises:
        ConfigError: there is not one topic.
    """
    if "subject" in value:
        return value["subject"]
    topics = [each.strip() for each in options.get("subscribe", "").split(",") if each.strip()]
    if len(topics) != 1:
        raise ConfigError(
            "option value.format=registry needs value.subject where subscribe does not name one topic"
        )
    return f"{topics[0]}-value"


def registry_format(value: Mapping[str, str]) -> Any:
    """Returns the format of values for the options that `registry_options` has made."""
    from bowstring.clients.registry import Registry

    client = RegistryClient(value["registry"])
    return Registry(value["registry"], schema=client.by_id(int(value["schema_id"]))).for_topics((), "value")
