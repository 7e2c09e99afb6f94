"""Converts Kafka client properties, as its perf tools accept them, to arguments of our clients."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bowstring.cli.command_config import properties_of
from bowstring.clients.errors import ConfigError

if TYPE_CHECKING:
    from bowstring.clients.config.config_table import ConfigTable


def properties(file: Path | None, given: Iterable[str]) -> dict[str, str]:
    """Returns the settings of a properties file and of `name=value` options, which win.

    Raises:
        ConfigError: the file cannot be read, or an option is not name=value.
    """
    found = {} if file is None else {name: value for name, value, _ in properties_of(file)}
    for item in given:
        name, equals, value = item.partition("=")
        if not equals:
            raise ConfigError(f"{item!r} is not name=value")
        found[name.strip()] = value.strip()
    return found


def shared_arguments(file: Path | None, *tables: ConfigTable) -> list[dict[str, Any]]:
    """Returns each client's arguments from one file; a name that only one client has is given to that one.

    Raises:
        ConfigError: no client has a name, or a value does not have its type.
    """
    found = properties(file, ())
    known = {name for table in tables for name in table.rows}
    return [
        table.arguments(
            {name: value for name, value in found.items() if name in table.rows or name not in known}
        )
        for table in tables
    ]
