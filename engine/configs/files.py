"""Reads configuration files: Kafka's server.properties unchanged, or TOML with the same keys."""

import re
from pathlib import Path
from typing import Any, NamedTuple

from bowstring.engine.configs.config_key import ConfigError
from bowstring.engine.configs.table import broker_key, may_be_a_plugins, nearest_config
from bowstring.security.properties_file import parse_properties

__all__ = ["UnknownConfig", "load", "load_with_unknown", "parse_properties", "parse_toml", "with_places"]


class UnknownConfig(NamedTuple):
    """An unknown entry of a properties file, probably of a plugin or vendor. Its value may be a secret."""

    name: str
    value: str
    where: str
    nearest: str | None

    def __repr__(self) -> str:
        return f"UnknownConfig({self.name}, {self.where})"


def load(path: str | Path, unknown: list[UnknownConfig] | None = None) -> dict[str, str]:
    """Reads the settings in a file: TOML when its name ends in .toml, Java properties otherwise.

    Args:
        path: The file.
        unknown: Receives the unknown entries of a properties file, which Kafka leaves to plugins. Names that
            look mistyped are refused anyway. Without this list, and in TOML, every unknown name is refused.

    Raises:
        ConfigError: Names the file, the line if there is one, and every refused key with the nearest known
            key.
        OSError: The file cannot be read.
    """
    path = Path(path)
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".toml":
        entries = [(name, value, 0) for name, value in parse_toml(text, path)]
        unknown = None
    else:
        entries = parse_properties(text)
    settings: dict[str, str] = {}
    others: dict[str, UnknownConfig] = {}
    problems = []
    for name, value, line in entries:
        where = f"{path}:{line}" if line else str(path)
        try:
            key = broker_key(name)
        except ConfigError as error:
            if unknown is not None and may_be_a_plugins(name):
                others[name] = UnknownConfig(name, value, where, nearest_config(name))
            else:
                problems.append(f"{where}: {error}")
            continue
        try:
            key.parse(value)
        except ConfigError as error:
            problems.append(f"{where}: {error}")
        settings[name] = value
    if problems:
        raise ConfigError("\n".join(problems))
    if unknown is not None:
        unknown += others.values()
    return settings


def load_with_unknown(path: str | Path) -> dict[str, str]:
    """Reads the settings in a file, and its unknown entries that may belong to a plugin.

    Raises:
        ConfigError, OSError: As for `load`.
    """
    unknown: list[UnknownConfig] = []
    return load(path, unknown) | {each.name: each.value for each in unknown}


def with_places(message: str, path: str | Path | None) -> str:
    """Returns an error with the places in a properties file of the configs that it names: by their names, or
    by files and addresses in their values.
    """
    if path is None or Path(path).suffix == ".toml" or f"{path}:" in message:
        return message
    try:
        entries = parse_properties(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return message
    found = [
        f"{path}:{line} ({name})"
        for name, value, line in entries
        if _names(message, name) or any(_has_word(message, each) for each in _places_in(value))
    ]
    return f"{message}\n  see {', '.join(dict.fromkeys(found))}" if found else message


def _names(message: str, name: str) -> bool:
    """Whether a message is about a config; a name such as "listeners" is also a word."""
    return _has_word(message, name) and ("." in name or f"{name}:" in message or f"{name}=" in message)


def _places_in(value: str) -> list[str]:
    """Returns the paths and addresses in a value."""
    parts = (re.split("://|@", each.strip())[-1] for each in value.split(","))
    return [each for each in parts if each.startswith("/") or re.fullmatch(r".+:\d+", each)]


def _has_word(text: str, word: str) -> bool:
    return re.search(rf"(?<![\w./-]){re.escape(word)}(?![\w/-]|\.\w)", text) is not None


def parse_toml(text: str, path: Path) -> list[tuple[str, str]]:
    """Returns (key, value) of each entry; tables and dotted keys are joined with dots, lists with commas."""
    import tomllib

    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None
    entries: list[tuple[str, str]] = []
    _flatten("", document, entries)
    return entries


def _flatten(prefix: str, value: Any, entries: list[tuple[str, str]]) -> None:
    if isinstance(value, dict):
        for name, inner in value.items():
            _flatten(f"{prefix}.{name}" if prefix else name, inner, entries)
    elif isinstance(value, list):
        entries.append((prefix, ",".join(_scalar(item) for item in value)))
    else:
        entries.append((prefix, _scalar(value)))


def _scalar(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
