"""Says which user may do what with which subjects, by a TOML file that is read again when it changes."""

from __future__ import annotations

import logging
import os
import time
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bowstring.clients.errors import ConfigError
from bowstring.registry.api.call import Right

LOOK_S = 1.0
"""How often the file is looked at."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Rule:
    users: tuple[str, ...]
    subjects: tuple[str, ...]
    rights: frozenset[Right]


class AccessRules:
    """Rules of a file; what no rule allows is refused.

    A name that ends with `*` stands for all that begin so. Subjects are written with their contexts, as
    `:.dev:orders`; the empty subject stands for global settings, and only `*` matches it.

    Args:
        path: of the file.

    Raises:
        ConfigError: the file cannot be read, or says something wrong.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._stamp = self._look()
        self._rules = _read(path)
        self._looked_at = time.monotonic()

    def allows(self, user: str, right: Right, subject: str) -> bool:
        """Whether a user has a right on a subject.

        Args:
            user: empty for nobody, whom only rules for `*` match.
            right: that is needed.
            subject: with its context; empty for global settings.
        """
        return any(
            right in rule.rights and _matches(rule.users, user) and _matches(rule.subjects, subject)
            for rule in self._rules
        )

    def refresh(self) -> bool:
        """Reads the file again if it has changed; returns whether the rules are other ones.

        A file that cannot be read is logged, and the rules stay.
        """
        now = time.monotonic()
        if now - self._looked_at < LOOK_S:
            return False
        self._looked_at = now
        try:
            stamp = self._look()
            if stamp == self._stamp:
                return False
            self._stamp = stamp
            self._rules = _read(self._path)
        except ConfigError as error:
            _log.error("the access rules stay as they were: %s", error)
            return False
        _log.info("read the access rules again from %s", self._path)
        return True

    def _look(self) -> tuple[int, int, int]:
        try:
            found = os.stat(self._path)
        except OSError as error:
            raise ConfigError(f"cannot read {self._path}: {error.strerror}") from error
        return found.st_mtime_ns, found.st_size, found.st_ino


def _read(path: str) -> tuple[_Rule, ...]:
    try:
        found = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    rules = found.pop("rules", [])
    if found or not isinstance(rules, list):
        raise ConfigError(f"{path}: write each rule under [[rules]], and nothing else")
    return tuple(_rule(path, number, each) for number, each in enumerate(rules, 1))


def _rule(path: str, number: int, given: Any) -> _Rule:
    where = f"{path}: rule {number}"
    if not isinstance(given, dict):
        raise ConfigError(f"{where} must be a table, under [[rules]]")
    unknown = given.keys() - {"users", "subjects", "operations"}
    if unknown:
        raise ConfigError(f"{where} has {', '.join(sorted(unknown))}; it has users, subjects and operations")
    names = {right.value: right for right in Right}
    operations = _texts(where, given, "operations")
    wrong = [each for each in operations if each not in names and each != "all"]
    if wrong:
        raise ConfigError(f"{where}: {wrong[0]!r} is no operation; choose of {', '.join(names)}, all")
    rights = set(names.values()) if "all" in operations else {names[each] for each in operations}
    return _Rule(_texts(where, given, "users"), _texts(where, given, "subjects"), frozenset(rights))


def _texts(where: str, given: dict[str, Any], name: str) -> tuple[str, ...]:
    found = given.get(name)
    if not isinstance(found, list) or not found or not all(isinstance(each, str) and each for each in found):
        raise ConfigError(f"{where}: {name} must be a list of texts")
    return tuple(found)


def _matches(patterns: Iterable[str], name: str) -> bool:
    for pattern in patterns:
        if pattern.endswith("*"):
            if name.startswith(pattern[:-1]):
                return True
        elif pattern == name:
            return True
    return False
