"""Finds the operation of a request by its path, before the path's escapes are decoded."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import unquote

from bowstring.rest.operation import Operation
from bowstring.web.http_error import HttpError


class _Row:
    """The operations of one path.

    Args:
        segments: of the path; `{name}`, or `{name}` and a text behind it, is a parameter.
    """

    __slots__ = ("literals", "methods", "parameters", "segments")

    def __init__(self, segments: tuple[str, ...]):
        self.segments = segments
        self.methods: dict[str, Operation] = {}
        self.literals = [(at, each) for at, each in enumerate(segments) if not each.startswith("{")]
        self.parameters: list[tuple[int, str, str]] = []
        for at, each in enumerate(segments):
            if each.startswith("{"):
                name, _, rest = each[1:].partition("}")
                self.parameters.append((at, name, rest))

    def match(self, given: list[str]) -> dict[str, str] | None:
        """Returns the parameters of a path of as many segments; None if it is another one."""
        for at, literal in self.literals:
            if given[at] != literal and ("%" not in given[at] or unquote(given[at]) != literal):
                return None
        found: dict[str, str] = {}
        for at, name, rest in self.parameters:
            text = given[at]
            if not text.endswith(rest) or len(text) == len(rest):
                return None
            found[name] = unquote(text[: len(text) - len(rest)])
        return found


class Router:
    """Operations by path. A segment such as `a%2Fb` is one segment: names of groups may have a slash.

    Args:
        operations: literal segments win over parameters.
    """

    def __init__(self, operations: Iterable[Operation]):
        self._by_length: dict[int, list[_Row]] = {}
        for each in operations:
            segments = tuple(each.path.strip("/").split("/"))
            rows = self._by_length.setdefault(len(segments), [])
            row = next((known for known in rows if known.segments == segments), None)
            if row is None:
                row = _Row(segments)
                rows.append(row)
            row.methods[each.method] = each
        for rows in self._by_length.values():
            rows.sort(key=lambda row: [segment.startswith("{") for segment in row.segments])

    def find(self, method: str, raw_path: str) -> tuple[Operation, dict[str, str]]:
        """Returns the operation and the parameters of the path.

        Raises:
            HttpError: 404; 405 with the methods that there are.
        """
        given = raw_path.strip("/").split("/")
        allowed: dict[str, Operation] = {}
        for row in self._by_length.get(len(given), ()):
            found = row.match(given)
            if found is None:
                continue
            operation = row.methods.get("GET" if method == "HEAD" else method)
            if operation is not None:
                return operation, found
            allowed |= row.methods
        if allowed:
            raise HttpError(405, 405, f"HTTP 405 Method Not Allowed: use {', '.join(sorted(allowed))}")
        raise HttpError(404, 404, "HTTP 404 Not Found: there is no such path; see /v3/openapi.json")
