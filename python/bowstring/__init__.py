"""Bowstring: an event-streaming broker that speaks Kafka's protocol."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bowstring.broker import Broker

__version__ = "0.1.0"

# Imported when first asked for: the broker's process and the command line need few of them.
_MODULES = {"Broker": "bowstring.broker"}

__all__ = ["Broker", "__version__"]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'bowstring' has no attribute {name!r}")
