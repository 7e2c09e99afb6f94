"""Finds and registers schemas in a schema registry: the options `value.format=registry` and, of a sink,
`key.format=registry`.

The driver gets the subject's newest schema and names it to the tasks, so that all have the same columns. A
sink registers its schema on the driver, before there are tasks.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bowstring.clients.errors import ConfigError
from bowstring.clients.http_login import HttpLogin
from bowstring.clients.registry.registry_client import RegistryClient

if TYPE_CHECKING:
    from bowstring.clients.registry.registry import Registry
    from bowstring.clients.registry.topic_format import TopicFormat

# By the name after `value.`, in lower case, and the argument of Registry.
LOGIN = {
    "registry.user": "user",
    "registry.password": "password",
    "registry.token": "token",
    "registry.cafile": "ca_file",
    "registry.certfile": "cert_file",
    "registry.keyfile": "key_file",
}
FLAGS = {"autoregister": "auto_register", "uselatest": "use_latest", "normalize": "normalize"}
STRATEGIES = ("topic", "record", "topic_record")
WIRES = ("prefix", "headers")
ENCODED = ("key", "value")
"""Columns that a sink encodes."""
_COMMON = frozenset({"format", "registry", "subject", *LOGIN})
READING = _COMMON | {"mode", "on_error"}
WRITING = frozenset({"schema", "message", "kind", "references", "strategy", "wire", *FLAGS})
_KINDS = ("AVRO", "JSON", "PROTOBUF")


def _client(value: Mapping[str, str], column: str = "value") -> RegistryClient:
    if "registry" not in value:
        raise ConfigError(
            f"option {column}.format=registry needs {column}.registry, such as http://registry:8081"
        )
    return RegistryClient(value["registry"], HttpLogin(**_login(value)))


def _login(value: Mapping[str, str]) -> dict[str, str]:
    return {argument: value[name].strip() for name, argument in LOGIN.items() if name in value}


def registry_options(value: Mapping[str, str], options: Mapping[str, str]) -> dict[str, str]:
    """Returns the options of tasks that read: with the id of the schema.

    Args:
        value: by the name after `value.`.
        options: of the source, which name the topic.

    Raises:
        ConfigError: an option is missing, or makes no sense.
        SchemaRegistryError: the registry does not answer, or has no such subject.
    """
    client = _client(value)
    wrong = sorted(set(value) - READING - WRITING | set(value) & {"schema"})
    if wrong:
        raise ConfigError(f"option value.{wrong[0]} is not for value.format=registry, which has the schema")
    newest = client.latest(subject_of(value, options))
    kept = {name: text for name, text in value.items() if name in READING}
    return {**kept, "schema_id": str(newest.schema_id)}


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


def registry_format(value: Mapping[str, str]) -> TopicFormat:
    """Returns the format of values for the options that `registry_options` has made."""
    from bowstring.clients.registry import Registry

    schema = _client(value).by_id(int(value["schema_id"]))
    more: dict[str, Any] = dict(_login(value))
    return Registry(value["registry"], schema=schema, **more).for_topics((), "value")


# ---------------------------------------------------------------- writing


def writing_options(options: Mapping[str, str], column: str) -> dict[str, str]:
    """Returns how a sink encodes a column, by the name after `value.` or `key.`; empty: it has bytes.

    Keys without a registry of their own use that of values.

    Args:
        options: of the sink, by their names in lower case.
        column: "key" or "value".

    Raises:
        ConfigError: an option is missing, unknown or makes no sense.
    """
    value = _of_column(options, column)
    if value.get("format", "").strip().lower() != "registry":
        return {}
    wrong = sorted(set(value) - READING - WRITING)
    if wrong:
        raise ConfigError(f"option {column}.{wrong[0]} is not for {column}.format=registry")
    if "registry" not in value:
        of_values = _of_column(options, "value")
        value |= {name: of_values[name] for name in ("registry", *LOGIN) if name in of_values}
    _client(value, column)
    for name, words in (
        ("strategy", STRATEGIES),
        ("wire", WIRES),
        *((each, ("true", "false")) for each in FLAGS),
    ):
        if value.get(name, words[0]).strip().lower() not in words:
            raise ConfigError(f"option {column}.{name} is {value[name]!r}, it must be {' or '.join(words)}")
    if "kind" in value and value["kind"].strip().upper() not in _KINDS:
        raise ConfigError(f"option {column}.kind is {value['kind']!r}, it must be {' or '.join(_KINDS)}")
    if "message" in value:
        return value | {"schema": _descriptors(value, column)}
    kind = value["kind"].strip().upper() if "kind" in value else None
    return value | ({"schema": _inline(value["schema"].strip(), kind)} if "schema" in value else {})


def _of_column(options: Mapping[str, str], column: str) -> dict[str, str]:
    prefix = f"{column}."
    return {name.removeprefix(prefix): text for name, text in options.items() if name.startswith(prefix)}


def _descriptors(value: Mapping[str, str], column: str) -> str:
    """Returns a file with descriptors in Base64."""
    given = value.get("schema", "").strip()
    try:
        return base64.b64encode(Path(given).read_bytes()).decode()
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"option {column}.message needs {column}.schema, the file of protoc --include_imports "
            f"--descriptor_set_out, which is readable: {given} ({error})"
        ) from None


def _inline(given: str, kind: str | None) -> str:
    """Returns the given schema; of a file its text, because executors may not have the file."""
    from bowstring.clients.registry.proto_text import proto_text

    found = proto_text(given, kind)
    if found is not None or not given.endswith((".avsc", ".json")):
        return given if found is None else found
    try:
        return Path(given).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ConfigError(f"the schema {given} cannot be read: {error}") from None


def written_format(value: Mapping[str, str], topic: str, column: str) -> TopicFormat:
    """Returns the format of a column that is written to a topic, created once in each process.

    Args:
        value: of `writing_options`.
        column: "key" or "value".

    Raises:
        ConfigError, ValueSchemaError: an option is wrong.
    """
    return _registry(json.dumps(dict(value), sort_keys=True)).for_topic(topic, column)


@lru_cache(16)
def _registry(text: str) -> Registry:
    from bowstring.clients.registry import Registry
    from bowstring.values.protobuf_schema import descriptor_of

    value: dict[str, str] = json.loads(text)
    more: dict[str, Any] = dict(_login(value))
    more |= {FLAGS[name]: value[name].strip().lower() == "true" for name in FLAGS if name in value}
    more |= {name: value[name].strip().lower() for name in ("strategy", "wire") if name in value}
    if "kind" in value:
        more["kind"] = value["kind"].strip().upper()
    if "references" in value:
        more["references"] = _references(value["references"])
    schema: Any = value.get("schema")
    if "message" in value:
        schema = descriptor_of((base64.b64decode(value["schema"]), value["message"].strip()))
    return Registry(value["registry"], schema=schema, subject=value.get("subject"), **more)


def _references(text: str) -> list[tuple[str, str, int]]:
    try:
        found = [(str(each["name"]), str(each["subject"]), int(each["version"])) for each in json.loads(text)]
    except (ValueError, TypeError, KeyError):
        raise ConfigError(
            f"option value.references is {text!r}, it must be JSON such as "
            '[{"name":"shop.Item","subject":"items-value","version":1}]'
        ) from None
    return found
