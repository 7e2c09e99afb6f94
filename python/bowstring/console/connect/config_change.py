"""Parses and compares the configs of connectors that forms send."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from typing import Any, NamedTuple

from bowstring.clients.errors import ConfigError
from bowstring.console.connect.config_secrets import CLASS, masked

CONFIG_CHARACTERS_MAX = 1 << 20
_KEY = secrets.token_bytes(32)
_EXAMPLE = f'{{"{CLASS}": "FileStreamSource", "topic": "lines"}}'


class ChangeRow(NamedTuple):
    """One config before and after; None: it is not set. Secrets are hidden."""

    name: str
    before: str | None
    after: str | None


def parsed_config(text: str) -> dict[str, str]:
    """Returns the config in the JSON text of a form; the `config` of a whole request as Connect takes it.

    Raises:
        ConfigError: it is no object of texts, or names no class.
    """
    if len(text) > CONFIG_CHARACTERS_MAX:
        raise ConfigError(f"a config may have {CONFIG_CHARACTERS_MAX:,} characters here, not {len(text):,}")
    try:
        found = json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the config is no JSON ({error}): write it as {_EXAMPLE}") from None
    if not isinstance(found, dict):
        raise ConfigError(f"the config is no object: write it as {_EXAMPLE}")
    if isinstance(found.get("config"), dict):
        found = {**({"name": found["name"]} if "name" in found else {}), **found["config"]}
    config = {name: _text(name, value) for name, value in found.items() if value is not None}
    if not config.get(CLASS, "").strip():
        raise ConfigError(f"the config has no {CLASS}: say which class of connectors it is for")
    return config


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice")
    return found


def _text(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    raise ConfigError(f"the value of {name!r} is a {type(value).__name__}: values are texts")


def config_text(config: Mapping[str, str]) -> str:
    """Returns a config as JSON with a line for each name."""
    return json.dumps(config, indent=2, ensure_ascii=False)


def fingerprint(config: Mapping[str, str]) -> str:
    """Returns what shows whether a config has changed, and nothing of its secrets. This process alone can
    make it.
    """
    return hmac.new(_KEY, json.dumps(sorted(config.items())).encode(), hashlib.sha256).hexdigest()


def changes(
    held: Mapping[str, str],
    wanted: Mapping[str, str],
    held_types: Mapping[str, str] | None,
    wanted_types: Mapping[str, str] | None,
) -> list[ChangeRow]:
    """Returns what differs between two configs, by name; each is masked by the types of its own plugin."""
    before, after = masked(held, held_types), masked(wanted, wanted_types)
    return [
        ChangeRow(name, before.get(name), after.get(name))
        for name in sorted(held.keys() | wanted.keys())
        if held.get(name) != wanted.get(name)
    ]
