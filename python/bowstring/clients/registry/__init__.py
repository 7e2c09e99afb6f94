"""Implements the client of schema registries: `bowstring.Registry`, the format of values whose schemas are in
one.

Imported by: cli, console, registry.api, rest.records, rest.v2, search, spark.
May import: _native.base, _native.values, clients, schemas, values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bowstring.clients.registry.registry import Registry as Registry

__all__ = ["Registry"]


def __getattr__(name: str) -> Any:
    if name != "Registry":
        raise AttributeError(f"module 'bowstring.clients.registry' has no attribute {name!r}")
    try:
        from bowstring.clients.registry.registry import Registry
    except ModuleNotFoundError as error:
        if error.name != "pyarrow":
            raise
        from bowstring.clients.errors import MissingPackageError

        raise MissingPackageError("pyarrow", "arrow") from error
    globals()[name] = Registry
    return Registry
