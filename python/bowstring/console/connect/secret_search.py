"""Hides the secrets of a config in texts that repeat them, such as the trace of a task."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, unquote

from bowstring.console.connect.config_secrets import LONG, shown_value
from bowstring.console.connect.shown_values import HIDDEN

SHORT = 4
"""Shorter secrets are not searched for: they would hide half of a text."""
SECRETS_MAX = 300
"""That are searched for; with more of them texts are hidden as a whole."""
PIECE = 512
"""Longer secrets are searched for in pieces of so many characters."""
SPANS_MAX = 5_000
TEXT_MAX = 4_000
_SLACK = 8_192
_BETWEEN = re.compile(r"[\s;&,?=@#/:\"'{}()\[\]<>|\\]+")
_STRUCTURED = re.compile(r"[;&,?=@/:{\n\\]")
_AFTER = re.compile(
    r"(?:passw\w{0,20}|pwd|secret\w{0,20}|token|credentials?|(?:api|access|account|private)[ ._-]?key|\bsig)"
    r"[\"']?\s{0,3}[=:]\s{0,3}(?:\"(?P<a>[^\"]{1,1000})\"|'(?P<b>[^']{1,1000})'|(?P<c>[^\s\"',;&)}]+))"
    r"|(?:bearer|basic)\s{1,3}(?P<d>[^\s\"',;]{6,})",
    re.IGNORECASE,
)
_RUN = re.compile(r"://[^\s\"'<>]*")
_COMMON = re.compile(
    r"https?|jdbc|true|false|null|none|user(?:name)?|password|passwd|secret|token|private_key|bearer|basic"
    r"|authorization|content-type|application|json|type|name|host|port|database|connection|required",
    re.IGNORECASE,
)


class SecretSearch:
    """Searches texts for what is not shown of configs, and for what looks like a secret anywhere.

    Args:
        configs: with their secrets, each with the types of its configs as for `shown_value`.
    """

    def __init__(self, *configs: tuple[Mapping[str, str], Mapping[str, str] | None]):
        self._secrets: set[str] = set()
        self._is_overfull = False
        for config, types in configs:
            for name, value in config.items():
                shown = shown_value(name, value, types)
                if shown != value and not self._is_overfull:
                    self._add(value, shown)

    def _add(self, value: str, shown: str) -> None:
        self._is_overfull = len(value) > LONG
        for secret in _parts(value, shown):
            text = secret.strip()
            spaced = " ".join(text.split())
            for each in {text, spaced, unquote(text), quote(text, safe=""), json.dumps(text)[1:-1]}:
                if len(each) < SHORT or _COMMON.fullmatch(each):
                    continue
                starts = range(0, max(1, len(each) - PIECE), PIECE)
                self._secrets.update(each[at : at + PIECE] for at in starts)
                self._secrets.add(each[-PIECE:])
            self._is_overfull |= len(self._secrets) > SECRETS_MAX
            if self._is_overfull:
                return

    def without_secrets(self, text: str, most: int = TEXT_MAX) -> str:
        """Returns a text without secrets, cut behind `most` characters once they are replaced."""
        if not text:
            return ""
        if self._is_overfull:
            return HIDDEN
        window = text[: most + _SLACK]
        spans: list[tuple[int, int]] = []
        for start, end in self._spans(window):
            if len(spans) == SPANS_MAX:
                return HIDDEN
            spans.append((start, end))
        parts: list[str] = []
        at = 0
        for start, end in sorted(spans):
            if start >= most:
                break
            if start > at or not parts:
                parts += [window[at:start], HIDDEN]
            at = max(at, end)
        rest = window[at : max(at, most)]
        return "".join(parts) + rest + ("…" if len(text) > max(at, most) else "")

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        for secret in self._secrets:
            at = text.find(secret)
            while at >= 0:
                yield at, at + len(secret)
                at = text.find(secret, at + 1)
        for found in _AFTER.finditer(text):
            yield found.span(found.lastgroup or 0)
        for found in _RUN.finditer(text):
            start, run = found.start() + 3, found[0][3:]
            login, question = run.rfind("@"), run.find("?")
            if login > 0:
                yield start, start + login
            if 0 <= question < len(run) - 1:
                yield start + question + 1, found.end()


def _parts(value: str, shown: str) -> Iterator[str]:
    """Yields what texts may repeat of a value that is not shown as it is."""
    yield value
    yield value.strip().partition(" ")[2]
    if shown != HIDDEN or _STRUCTURED.search(value):
        kept = set(_BETWEEN.split(shown))
        yield from (each for each in _BETWEEN.split(value) if each not in kept)
    for found in _AFTER.finditer(value):
        yield found[found.lastgroup or 0]
    before, at, _ = value.rpartition("@")
    if at:
        login = before.partition("://")[2]
        yield login
        yield login.partition(":")[2]
        yield before.rpartition(":")[2].partition("/")[2]
    if value.lstrip()[:1] in ("{", "["):
        try:
            yield from _leaves(json.loads(value))
        except (ValueError, RecursionError):
            return


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
        yield from value.split()
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _leaves(each)
