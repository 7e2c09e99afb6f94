"""Takes members of enums by value and by name."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, TypeVar

from bowstring.clients.errors import ConfigError

E = TypeVar("E", bound=IntEnum)


def member(kind: type[E], value: Any, known: Callable[[E], bool] = lambda _: True) -> E:
    """Returns the member that a value or its name stands for.

    Raises:
        ConfigError: there is none, or it may not stand here.
    """
    found = None
    if isinstance(value, str):
        found = kind.__members__.get(value.replace("-", "_").upper())
    elif value in list(kind):
        found = kind(value)
    if found is None or not known(found):
        names = ", ".join(each.name for each in kind if known(each))
        raise ConfigError(f"{kind.__name__} is one of {names}, not {getattr(value, 'name', value)!r}")
    return found
