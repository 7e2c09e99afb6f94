"""Reads the path and the query of a request: contexts in paths, aliases of subjects.

Source: ContextFilter and AliasFilter of Confluent's Schema Registry.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote_to_bytes

from bowstring.protocol.whole_numbers import INT_MAX, whole_number
from bowstring.registry.qualified_subject import (
    CONTEXT_PREFIX,
    WILDCARD,
    normalized_context,
)
from bowstring.web.http_error import HttpError

PARAMETERS_MAX = 100


@dataclass(slots=True)
class RequestTarget:
    """What a request names.

    Attributes:
        parts: of the path, decoded, without contexts: `("subjects", ":.ctx:orders", "versions")`.
        query: parameters in the order that they came in.
    """

    parts: list[str]
    query: list[tuple[str, str]]

    def text(self, name: str, default: str = "") -> str:
        """Returns the first value of a parameter."""
        for each, value in self.query:
            if each == name:
                return value
        return default

    def texts(self, name: str) -> list[str]:
        """Returns all values of a parameter."""
        return [value for each, value in self.query if each == name]

    def flag(self, name: str) -> bool:
        """Whether a parameter is `true`, in any case; everything else is false, as in Confluent's."""
        return self.text(name).lower() == "true"

    def number(self, name: str, default: int) -> int:
        """Returns a parameter that is a whole number of 32 bits.

        Raises:
            HttpError: 404 as in Confluent's, it is something else.
        """
        text = self.text(name, "")
        return number_of(name, text) if text or self._has(name) else default

    def _has(self, name: str) -> bool:
        return any(each == name for each, _ in self.query)

    def replace(self, name: str, values: list[str]) -> None:
        """Puts values in the place of those of a parameter."""
        self.query = [each for each in self.query if each[0] != name]
        self.query += [(name, value) for value in values]


def number_of(name: str, text: str) -> int:
    """Returns a whole number of 32 bits in a path or query, which may have a sign.

    Raises:
        HttpError: 404 as in Confluent's, it is something else.
    """
    digits = text[1:] if text[:1] in ("-", "+") else text
    found = whole_number(digits, INT_MAX)
    if found is None:
        raise HttpError(404, 404, f"{name} is {text[:100]!r}; it must be a whole number up to 2^31-1")
    return -found if text.startswith("-") else found


def read_target(raw_path: bytes, query: bytes, resolve: Callable[[str], str]) -> RequestTarget:
    """Reads path and query as the client sent them.

    Args:
        raw_path: still percent-encoded: names of subjects may have slashes.
        query: without the question mark.
        resolve: returns the subject that an alias stands for, or the subject itself.

    Raises:
        HttpError: 400, they cannot be read.
    """
    parts = [_decoded(each) for each in raw_path.split(b"/") if each]
    if not query:
        return _target(parts, [], resolve)
    try:
        parameters = parse_qsl(
            query.decode("ascii"),
            keep_blank_values=True,
            encoding="utf-8",
            errors="strict",
            max_num_fields=PARAMETERS_MAX,
        )
    except ValueError as error:
        raise HttpError(
            400, 400, f"the query cannot be read: percent-encoded UTF-8, at most {PARAMETERS_MAX} parameters"
        ) from error
    return _target(parts, parameters, resolve)


def _target(
    parts: list[str], parameters: list[tuple[str, str]], resolve: Callable[[str], str]
) -> RequestTarget:
    target = RequestTarget(parts, parameters)
    if parts[:1] == ["contexts"] and len(parts) > 1:
        _leave_context(target)
    for index, part in enumerate(target.parts[:-1]):
        if part == "subjects":
            target.parts[index + 1] = resolve(target.parts[index + 1])
            break
    if target.parts[:2] == ["schemas", "ids"] and (subject := target.text("subject")):
        target.replace("subject", [resolve(subject)])
    return target


def _decoded(part: bytes) -> str:
    if b"%" not in part:
        return part.decode("ascii")
    try:
        return unquote_to_bytes(part).decode("utf-8")
    except UnicodeDecodeError as error:
        raise HttpError(400, 400, "the path is not percent-encoded UTF-8") from error


def _leave_context(target: RequestTarget) -> None:
    """Takes `contexts/{context}` out of the path, and puts the context into what follows it."""
    name, rest = target.parts[1], target.parts[2:]
    try:
        prefix = normalized_context(name)
    except ValueError as error:
        raise HttpError(400, 400, str(error)) from error
    if not rest:
        # The resource of the context itself; that of the default one is the root.
        target.parts = ["contexts", prefix] if prefix else []
        return
    for index, part in enumerate(rest):
        if part != "subjects" and (index or part not in ("config", "mode")):
            continue
        if index + 1 < len(rest):
            rest[index + 1] = _in_context(prefix, rest[index + 1])
        elif part != "subjects" and prefix:
            rest.append(prefix)
        break
    target.parts = rest
    if rest[:2] == ["schemas", "ids"]:
        target.replace("subject", [_in_context(prefix, target.text("subject"))])
    elif rest in (["schemas"], ["subjects"]):
        prefixes = target.texts("subjectPrefix") or [""]
        target.replace("subjectPrefix", [_in_context(prefix, each) for each in prefixes])


def _in_context(prefix: str, subject: str) -> str:
    if subject.startswith((CONTEXT_PREFIX, WILDCARD)):
        return subject
    return prefix + subject
