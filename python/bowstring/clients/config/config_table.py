"""Declares the settings of clients: one row has a setting's argument, default, names and check.

The meaning of a setting is in the docstring of its client, from which the reference page takes it.

Each client has a table. It maps the dotted names of Java's and librdkafka's clients to our arguments;
kafka-python's keywords are the same with underscores. `Consumer({"bootstrap.servers": …})` and
`Consumer(bootstrap_servers=…, default_api_timeout_ms=…)` use it. client.py has the tables of Consumer and
Admin, clients/producer/config.py that of Producer.
"""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, ParamSpec

from bowstring.clients.arguments import argument_check
from bowstring.clients.errors import ConfigError

P = ParamSpec("P")
Reader = Callable[[str, Any], Any]
Check = Callable[[str, Any], None]

_TRUE = ("true", "1", "t", "yes", "on")
_FALSE = ("false", "0", "f", "no", "off")
_SUGGESTION_LIKENESS = 0.6
INT_MAX = 0x7FFF_FFFF
LONG_MAX = 0x7FFF_FFFF_FFFF_FFFF


class ConfigName(NamedTuple):
    """One name of a setting.

    Attributes:
        name: as Java's client or librdkafka spells it.
        argument: the keyword argument of our client; empty when the setting has no effect here.
        read: converts a value given under this name to the argument's value.
        reason: why the setting has no effect here and what to do instead. Such a name is refused, unless
            `read` accepts the value because it requests what the client does anyway.
        collected: the argument is a mapping, of this name and others to values.
    """

    name: str
    argument: str
    read: Reader
    reason: str = ""
    collected: bool = False


class Setting(NamedTuple):
    """One setting of a client.

    Attributes:
        argument: the keyword argument of our client.
        default: its value when it is not given.
        read: converts a value given under another client's name.
        names: the names in Java's client and librdkafka; a name with its own unit has its own reader.
        check: raises ConfigError for an invalid value of the argument.
    """

    argument: str
    default: Any
    read: Reader
    names: tuple[str | tuple[str, Reader], ...]
    check: Check | None = None

    def config_names(self) -> Iterator[ConfigName]:
        """Yields the row of each name."""
        for each in self.names:
            name, read = (each, self.read) if isinstance(each, str) else each
            yield ConfigName(name, self.argument, read)


def setting(
    argument: str,
    default: Any,
    read: Reader,
    *names: str | tuple[str, Reader],
    check: Check | None = None,
) -> Setting:
    """Returns the row of a setting. A number without a check of its own may not be negative."""
    if check is None and read is integer:
        check = in_range(0, INT_MAX)
    elif check is None and read is number:
        check = in_range(0, float("inf"))
    return Setting(argument, default, read, names, check)


# ------------------------------------------------------------ checks of arguments


def in_range(lowest: float, highest: float) -> Check:
    """Returns a check for numbers from `lowest` to `highest`; None says that it is not given."""
    words = f"at least {lowest}" if highest == float("inf") else f"{lowest} to {highest}"

    def check(argument: str, value: Any) -> None:
        if value is not None and not lowest <= value <= highest:
            raise ConfigError(f"{argument} is {value}, it must be {words}")

    return check


def one_of(*values: Any) -> Check:
    """Returns a check for one of `values`."""

    def check(argument: str, value: Any) -> None:
        if not any(value is each or (value == each and type(value) is type(each)) for each in values):
            words = [f'"{each}"' if isinstance(each, str) else repr(each) for each in values]
            raise ConfigError(f"{argument} is {value!r}, it must be {', '.join(words[:-1])} or {words[-1]}")

    return check


# ------------------------------------------------------------ values, as text or typed


def text(name: str, value: Any) -> str | None:
    """Reads text, or None."""
    return None if value is None else str(value)


def integer(name: str, value: Any) -> int:
    """Reads a whole number, also as text."""
    try:
        number = int(value)
    except (TypeError, ValueError):
        raise ConfigError(f"{name} is {value!r}, it must be a whole number") from None
    if isinstance(value, float) and value != number:
        raise ConfigError(f"{name} is {value!r}, it must be a whole number")
    return number


def number(name: str, value: Any) -> float:
    """Reads a number, also as text."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ConfigError(f"{name} is {value!r}, it must be a number") from None


def boolean(name: str, value: Any) -> bool:
    """Reads true or false, also as text."""
    word = str(value).casefold()
    if word not in (*_TRUE, *_FALSE):
        raise ConfigError(f"{name} is {value!r}, it must be true or false")
    return word in _TRUE


def as_given(name: str, value: Any) -> Any:
    """Returns the value unchanged."""
    return value


def choice(words: Mapping[str, Any]) -> Reader:
    """Returns a reader for one of `words` in upper or lower case, which returns its meaning."""

    def read(name: str, value: Any) -> Any:
        word = str(value).casefold()
        if word not in words:
            raise ConfigError(f"{name} is {value!r}, it must be one of {', '.join(words)}")
        return words[word]

    return read


def multiplied(factor: int) -> Reader:
    """Returns a reader for a whole number in another unit, e.g. kilobytes if the argument takes bytes."""
    return lambda name, value: integer(name, value) * factor


# ------------------------------------------------------------ settings without effect here


class AskedForAnywayError(Exception):
    """A value of a setting without an argument that requests what the client does anyway."""


def refused(name: str, reason: str, *harmless: Any) -> ConfigName:
    """Returns a name without an argument; `harmless` values request what the client does anyway."""
    words = {str(value).casefold() for value in harmless}

    def read(given: str, value: Any) -> Any:
        if str(value).casefold() in words:
            raise AskedForAnywayError
        raise ConfigError(f"{given}: {reason}")

    return ConfigName(name, "", read, reason)


class ConfigTable:
    """The settings of one client.

    Args:
        client: the client's name, for messages.
        rows: settings, and names without effect. A later row for the same name replaces an earlier one.

    Attributes:
        settings: by argument.
        rows: every name with its argument, or the reason why it has none.
    """

    def __init__(self, client: str, rows: Iterable[Setting | ConfigName]):
        self.client = client
        self.settings: dict[str, Setting] = {}
        self.rows: dict[str, ConfigName] = {}
        for row in rows:
            if isinstance(row, Setting):
                self.settings[row.argument] = row
                self.rows.update({each.name: each for each in row.config_names()})
            else:
                self.rows[row.name] = row
        self._plain = {_plain(name): row for name, row in self.rows.items()}

    @property
    def defaults(self) -> dict[str, Any]:
        """Defaults by argument."""
        return {argument: row.default for argument, row in self.settings.items()}

    def check(self, **arguments: Any) -> None:
        """Checks values of arguments.

        Raises:
            ConfigError: one is invalid.
        """
        for argument, value in arguments.items():
            row = self.settings.get(argument)
            if row is not None and row.check is not None:
                row.check(argument, value)

    def arguments(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Translates another client's settings to keyword arguments of our client.

        Raises:
            ConfigError: a name is unknown (the message has the nearest known one) or has no effect here (with
                the reason), a value cannot be read, or two names set one argument. The message has all
                errors.
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
            if row.collected:
                if read is not None:
                    found.setdefault(row.argument, {})[row.name] = read
                continue
            if row.argument in found and found[row.argument] != read:
                wrong.append(f"{set_by[row.argument]} and {name} both set {row.argument} to different values")
            found[row.argument] = read
            set_by[row.argument] = name
        if wrong:
            raise ConfigError("; ".join(wrong))
        return found

    def _by_argument(self, name: str) -> ConfigName | None:
        named = (row for row in self.rows.values() if row.argument == name and not row.collected)
        return next(named, None)

    def _unknown(self, name: str) -> str:
        known = {**{row.name: row.name for row in self.rows.values()}}
        known.update({row.argument: row.argument for row in self.rows.values() if row.argument})
        near = nearest(name, known) or nearest(name.replace("_", "."), known)
        hint = f"did you mean {near}?" if near else "see docs/guide/clients.md for the known names"
        return f"{self.client} has no setting {name!r}; {hint}"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Returns the known name most similar to `name`, or None when none is close."""
    near = difflib.get_close_matches(name, list(known), 1, _SUGGESTION_LIKENESS)
    return near[0] if near else None


def _check_first(client: str, given: tuple[Any, ...], keywords: Mapping[str, Any]) -> None:
    """Refuses topics where bootstrap servers belong, as in `KafkaConsumer("topic", bootstrap_servers=…)`."""
    where = "the first argument is bootstrap_servers; name topics in subscribe(), assign() or send()"
    if len(given) > 1:
        raise ConfigError(f"{client} takes one argument without a name, not {len(given)}: {where}")
    if "bootstrap_servers" in keywords or "bootstrap.servers" in keywords:
        raise ConfigError(f"bootstrap_servers is given twice, {given[0]!r} without a name: {where}")


def _add(config: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Adds arguments; mappings of settings are joined, and later ones win."""
    for name, value in more.items():
        known = config.get(name)
        if isinstance(known, Mapping) and isinstance(value, Mapping):
            config[name] = {**known, **value}
        else:
            config[name] = value


def _plain(name: str) -> str:
    return str(name).replace("_", ".").casefold()


def configurable(table: ConfigTable) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Decorates a client's `__init__` so that it accepts another client's settings: as a mapping in the first
    place, and as keywords.

    The first argument is then bootstrap_servers or such a mapping. Keywords beside a mapping win. Values are
    checked.
    """

    def decorate(init: Callable[P, None]) -> Callable[P, None]:
        code = init.__code__
        known = set(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
        check = argument_check(init)

        @functools.wraps(init)
        def wrapper(self: Any, *given: Any, **keywords: Any) -> None:
            foreign = {name: keywords.pop(name) for name in tuple(keywords) if name not in known}
            config: dict[str, Any] = {}
            if given and not isinstance(given[0], Mapping):
                _check_first(table.client, given, keywords)
            if given and isinstance(given[0], Mapping):
                config, given = table.arguments(given[0]), given[1:]
            if foreign:
                more = table.arguments(foreign)
                twice = next((name for name in more if name in keywords), None)
                if twice is not None:
                    raise ConfigError(f"{twice} is given twice, once under another client's name; remove one")
                _add(config, more)
            _add(config, keywords)
            check((self, *given), config)
            table.check(**config)
            init(self, *given, **config)

        wrapper.is_checked = True  # type: ignore[attr-defined]
        # Keywords of other clients are in the signature for type checkers only.
        signature = inspect.signature(init)
        own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
        wrapper.__signature__ = signature.replace(parameters=own)  # type: ignore[attr-defined]
        return wrapper  # type: ignore[return-value]

    return decorate
