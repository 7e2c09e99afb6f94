"""Finds the operation of a request by its path, before the path's escapes are decoded."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import unquote

from bowstring.rest.operation import Operation
from bowstring.web.http_error import HttpError


class Router:
    """Operations by path. A segment such as `a%2Fb` is one segment: names of groups may have a slash.

    Args:
        operations: literal segments win over parameters.
    """

    def __init__(self, operations: Iterable[Operation]):
        self._by_length: dict[int, list[tuple[tuple[str, ...], dict[str, Operation]]]] = {}
        for each in operations:
            segments = tuple(each.path.strip("/").split("/"))
            rows = self._by_length.setdefault(len(segments), [])
            methods = next((found for known, found in rows if known == segments), None)
            if methods is None:
                methods = {}
                rows.append((segments, methods))
            methods[each.method] = each
        for rows in self._by_length.values():
            rows.sort(key=lambda row: [segment.startswith("{") for segment in row[0]])

    def find(self, method: str, raw_path: str) -> tuple[Operation, dict[str, str]]:
        """Returns the operation and the parameters of the path.

        Raises:
            HttpError: 404; 405 with the methods that there are.
        """
        given = raw_path.strip("/").split("/")
        allowed: dict[str, Operation] = {}
        for segments, methods in self._by_length.get(len(given), ()):
            found = _match(segments, given)
            if found is None:
                continue
            operation = methods.get("GET" if method == "HEAD" else method)
            if operation is not None:
                return operation, found
            allowed |= methods
        if allowed:
            raise HttpError(405, 405, f"HTTP 405 Method Not Allowed: use {', '.join(sorted(allowed))}")
        raise HttpError(404, 404, "HTTP 404 Not Found: there is no such path; see /v3/openapi.json")


def _match(segments: tuple[str, ...], given: list[str]) -> dict[str, str] | None:
    found = {}
    for segment, text in zip(segments, given, strict=True):
        if segment.startswith("{"):
            name, _, rest = segment[1:].partition("}")
            if not text.endswith(rest) or len(text) == len(rest):
                return None
            found[name] = unquote(text[: len(text) - len(rest)])
        elif segment != text and segment != unquote(text):
            return None
    return found
