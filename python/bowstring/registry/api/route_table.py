"""Finds the route of a request."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bowstring.registry.api.call import Route
from bowstring.web.http_error import HttpError

_METHODS, _NAME = "", "{}"
"""Keys of the tree that no path has: the routes that end here by method, and any name."""


class RouteTable:
    """Routes by the parts of their paths.

    Args:
        routes: with distinct paths and methods.
    """

    def __init__(self, routes: Iterable[Route]) -> None:
        self._tree: dict[str, Any] = {}
        # Of each path: where the parts are that it names.
        self._names: dict[str, list[tuple[int, str]]] = {}
        for route in routes:
            node = self._tree
            for part in filter(None, route.path.split("/")):
                node = node.setdefault(_NAME if part.startswith("{") else part, {})
            methods = node.setdefault(_METHODS, {})
            assert route.method not in methods, f"two routes are {route.method} {route.path}"
            methods[route.method] = route
            parts = [part for part in route.path.split("/") if part]
            self._names[route.path] = [
                (place, part[1:-1]) for place, part in enumerate(parts) if part.startswith("{")
            ]

    def find(self, method: str, parts: list[str]) -> tuple[Route, dict[str, str]]:
        """Returns the route of a request, and the parts that it names.

        Args:
            method: of HTTP; HEAD is answered as GET.
            parts: of the path.

        Raises:
            HttpError: 404, no route has the path; 405, none of its routes has the method.
        """
        methods = _routes_at(self._tree, parts)
        if not methods:
            raise HttpError(404, 404, "there is no such resource; see docs/how-to/schema-registry.md")
        route: Route | None = methods.get("GET" if method == "HEAD" else method)
        if route is None:
            allowed = allowed_methods(methods)
            raise HttpError(405, 405, f"{method} is not allowed here; {allowed} are", (_allow(allowed),))
        return route, {name: parts[place] for place, name in self._names[route.path]}

    def options(self, parts: list[str]) -> tuple[bytes, bytes]:
        """Returns the header `Allow` of a path.

        Raises:
            HttpError: 404, no route has the path.
        """
        methods = _routes_at(self._tree, parts)
        if not methods:
            raise HttpError(404, 404, "there is no such resource; see docs/how-to/schema-registry.md")
        return _allow(allowed_methods(methods))


def allowed_methods(methods: Iterable[str]) -> str:
    """Returns the methods of a path, as the header `Allow` lists them."""
    return ",".join(sorted({*methods, "OPTIONS"} | ({"HEAD"} if "GET" in methods else set())))


def _allow(allowed: str) -> tuple[bytes, bytes]:
    return b"allow", allowed.encode()


def _routes_at(node: dict[str, Any], parts: list[str]) -> dict[str, Route]:
    """Returns the routes of a path by method; a literal part goes before a name."""
    if not parts:
        found: dict[str, Route] = node.get(_METHODS, {})
        return found
    first, rest = parts[0], parts[1:]
    for key in (first, _NAME):
        if key and key in node and key is not _METHODS:
            found = _routes_at(node[key], rest)
            if found:
                return found
    return {}
