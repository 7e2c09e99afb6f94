"""Writes configs for pages: values, and where each comes from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from starlette.requests import Request

if TYPE_CHECKING:
    from bowstring.clients.admin.results import ConfigEntry

SOURCES = {
    "DYNAMIC_TOPIC_CONFIG": "set on the topic",
    "DYNAMIC_BROKER_CONFIG": "set on the broker, dynamic",
    "DYNAMIC_DEFAULT_BROKER_CONFIG": "set on all brokers, dynamic",
    "STATIC_BROKER_CONFIG": "the broker's file or command line",
    "DYNAMIC_GROUP_CONFIG": "set on the group",
    "DEFAULT_CONFIG": "default",
}


class ConfigRow(NamedTuple):
    """One config; `value` is None where brokers do not show it."""

    name: str
    value: str | None
    source: str
    is_set: bool
    read_only: bool
    sensitive: bool
    documentation: str


def config_rows(configs: Mapping[str, ConfigEntry], request: Request) -> list[ConfigRow]:
    """Returns configs by name: those that are set, or with `all=1` in the query all; `q` filters names."""
    wanted = request.query_params.get("q", "").casefold()
    every = request.query_params.get("all") == "1" or bool(wanted)
    return [
        ConfigRow(
            name,
            None if entry.sensitive else entry.value,
            SOURCES.get(entry.source, entry.source.lower().replace("_", " ")),
            not entry.is_default,
            entry.read_only,
            entry.sensitive,
            entry.documentation or "",
        )
        for name, entry in sorted(configs.items())
        if (every or not entry.is_default) and wanted in name.casefold()
    ]
