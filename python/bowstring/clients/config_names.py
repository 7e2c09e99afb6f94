"""Names of settings that users of other clients know, and which argument of ours each one is.

A table per client maps the dotted names of Java's and librdkafka's clients; kafka-python's keywords are the
same with underscores. `Consumer({"bootstrap.servers": …})` and `Consumer(bootstrap_servers=…,
default_api_timeout_ms=…)` go through it. The tables of Consumer and Admin are in client_configs.py.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, ParamSpec

from bowstring.clients.errors import ConfigError

P = ParamSpec("P")
Reader = Callable[[str, Any], Any]

_TRUE = ("true", "1", "t", "yes", "on")
_FALSE = ("false", "0", "f", "no", "off")
_SUGGESTION_LIKENESS = 0.6


class ConfigName(NamedTuple):
    """One name of a setting.

    Attributes:
        name: as Java's client or librdkafka spells it.
        argument: the keyword argument of our client; empty when the setting means nothing here.
        read: makes the argument's value of what was given under this name.
        reason: why it means nothing here and what to do instead; such a name is refused, unless `read` lets
            the value pass because it asks for what is done anyway.
    """

    name: str
    argument: str
    read: Reader
    reason: str = ""


# ------------------------------------------------------------ values, given as text or as they are


def text(name: str, value: Any) -> str | None:
    """Words, or None."""
    return None if value is None else str(value)


def integer(name: str, value: Any) -> int:
    """A whole number, also as text."""
    try:
        number = int(value)
    except (TypeError, ValueError):
        raise ConfigError(f"{name} is {value!r}, it must be a whole number") from None
    if isinstance(value, float) and value != number:
        raise ConfigError(f"{name} is {value!r}, it must be a whole number")
    return number


def number(name: str, value: Any) -> float:
    """A number, also as text."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ConfigError(f"{name} is {value!r}, it must be a number") from None


def boolean(name: str, value: Any) -> bool:
    """True or false, also as text."""
    word = str(value).casefold()
    if word not in (*_TRUE, *_FALSE):
        raise ConfigError(f"{name} is {value!r}, it must be true or false")
    return word in _TRUE


def as_given(name: str, value: Any) -> Any:
    """The value itself."""
    return value


def choice(words: Mapping[str, Any]) -> Reader:
    """One of `words` in any case, replaced by what it stands for."""

    def read(name: str, value: Any) -> Any:
        word = str(value).casefold()
        if word not in words:
            raise ConfigError(f"{name} is {value!r}, it must be one of {', '.join(words)}")
        return words[word]

    return read


def multiplied(factor: int) -> Reader:
    """A whole number in another unit, e.g. kilobytes where the argument takes bytes."""
    return lambda name, value: integer(name, value) * factor


# ------------------------------------------------------------ what means nothing here


class AskedForAnywayError(Exception):
    """A value of a setting without an argument that asks for what is done anyway."""


def refused(name: str, reason: str, *harmless: Any) -> ConfigName:
    """A name without an argument; `harmless` values ask for what is done anyway and pass."""
    words = {str(value).casefold() for value in harmless}

    def read(given: str, value: Any) -> Any:
        if str(value).casefold() in words:
            raise AskedForAnywayError
        raise ConfigError(f"{given}: {reason}")

    return ConfigName(name, "", read, reason)


class ConfigTable:
    """The names that one client knows.

    Args:
        client: the client's name, for messages.
        rows: later rows with the name of an earlier one replace it.
    """

    def __init__(self, client: str, rows: Iterable[ConfigName]):
        self.client = client
        self.rows = {row.name: row for row in rows}
        self._plain = {_plain(name): row for name, row in self.rows.items()}

    def arguments(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Keyword arguments for our client out of settings in another client's words.

        Raises:
            ConfigError: a name is unknown (the nearest known one is named) or means nothing here (with the
                reason), a value cannot be read, or two names set one argument. All that is wrong is said at
                once.
        """
        found: dict[str, Any] = {}
        set_by: dict[str, str] = {}
        wrong: list[str] = []
        for name, value in config.items():
            row = self._plain.get(_plain(name)) or self._by_argument(name)
            if row is None:
                wrong.append(self._unknown(name))
                continue
            try:
                read = row.read(name, value)
            except AskedForAnywayError:
                continue
            except ConfigError as error:
                wrong.append(str(error))
                continue
            if row.argument in found and found[row.argument] != read:
                wrong.append(f"{set_by[row.argument]} and {name} both set {row.argument}, differently")
            found[row.argument] = read
            set_by[row.argument] = name
        if wrong:
            raise ConfigError("; ".join(wrong))
        return found

    def _by_argument(self, name: str) -> ConfigName | None:
        return next((row for row in self.rows.values() if row.argument == name), None)

    def _unknown(self, name: str) -> str:
        known = {**{row.name: row.name for row in self.rows.values()}}
        known.update({row.argument: row.argument for row in self.rows.values() if row.argument})
        near = difflib.get_close_matches(name, known, 1, _SUGGESTION_LIKENESS)
        near = near or difflib.get_close_matches(name.replace("_", "."), known, 1, _SUGGESTION_LIKENESS)
        hint = f"did you mean {near[0]}?" if near else "docs/clients.md has the names that are known"
        return f"{self.client} has no setting {name!r}; {hint}"


def _plain(name: str) -> str:
    return str(name).replace("_", ".").casefold()


def configurable(table: ConfigTable) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Decorates a client's `__init__`: it also takes a mapping of another client's settings first, and their
    names as keywords.

    The first argument is then bootstrap_servers or such a mapping; keywords given beside a mapping win.
    """

    def decorate(init: Callable[P, None]) -> Callable[P, None]:
        code = init.__code__
        known = set(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])

        @functools.wraps(init)
        def wrapper(self: Any, *given: Any, **keywords: Any) -> None:
            foreign = {name: keywords.pop(name) for name in tuple(keywords) if name not in known}
            config: dict[str, Any] = {}
            if given and isinstance(given[0], Mapping):
                config, given = table.arguments(given[0]), given[1:]
            if foreign:
                more = table.arguments(foreign)
                twice = next((name for name in more if name in keywords), None)
                if twice is not None:
                    raise ConfigError(f"{twice} is given twice, once under another client's name")
                config.update(more)
            init(self, *given, **{**config, **keywords})

        return wrapper  # type: ignore[return-value]

    return decorate
