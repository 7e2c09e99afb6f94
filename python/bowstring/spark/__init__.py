"""Connects Spark to Bowstring and Apache Kafka: `session()`, `read()`, and the jar of the columnar engine.

Spark is loaded on first use only.

Imported by: audit, cli, demo, pipeline.
May import: _native.client, bowstring, clients, clients.config, clients.consumer, clients.group, clients.net,
clients.producer, clients.registry, kernels, protocol, security, values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bowstring.spark.jar import jar_path as jar_path
    from bowstring.spark.reading import read as read
    from bowstring.spark.sessions import session as session

_MODULES = {"jar_path": "jar", "read": "reading", "session": "sessions"}
__all__ = ["jar_path", "read", "session"]


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'bowstring.spark' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"bowstring.spark.{module}"), name)
