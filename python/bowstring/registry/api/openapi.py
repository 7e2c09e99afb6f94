"""Writes the OpenAPI document of the registry's routes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from bowstring.registry.api.call import Route
from bowstring.registry.api.media_types import ANSWERS, DEFAULT_JSON, JSON, V1_JSON
from bowstring.registry.api.openapi_schemas import SCHEMAS
from bowstring.version import __version__
from bowstring.web import openapi
from bowstring.web.http_metrics import MEDIA as METRICS_MEDIA
from bowstring.web.openapi import answer, reference

_ABOUT = (
    "Confluent's REST API of a schema registry, version 8. In front of every path but the programs' own "
    "stands `/contexts/{context}` for the subjects of a context."
)
_PARAMETER = re.compile(r"\{(\w+)\}")
_KINDS = tuple(kind.decode() for kind, _ in ANSWERS)
_BODIES = tuple(kind.decode() for kind in (V1_JSON, DEFAULT_JSON, JSON))
_OF_PATH: dict[str, tuple[str, dict[str, Any]]] = {
    "subject": ("Name of a subject, percent-encoded.", {"type": "string", "minLength": 1}),
    "version": ("Number of a version, or `latest`.", {"type": "string", "minLength": 1}),
    "id": ("Id of a schema.", {"type": "integer", "minimum": 0, "maximum": (1 << 31) - 1}),
    "guid": ("Guid of a schema.", {"type": "string", "minLength": 1}),
}
_ERRORS = {
    400: "The request is wrong.",
    401: "The registry needs a log-in.",
    403: "The user lacks a right.",
    404: "There is no such subject, version, schema or setting.",
    406: "No type of answer is accepted.",
    422: "The request is understood, and refused.",
    429: "Too many requests.",
}
_ERRORS_OF_BODIES = {
    408: "The body does not come in time.",
    413: "The body is too large.",
    415: "The body is of another type.",
}
_INCOMPATIBLE = {409: "The schema is not compatible with the subject's versions."}
_FAILED = "The registry failed: 50001 in its store, 50002 by time, 50003 and 50004 at the leader."


def document(routes: Iterable[Route]) -> bytes:
    """Returns the document (OpenAPI 3.0.3), as JSON.

    Args:
        routes: all, also those of the program.
    """
    paths: dict[str, dict[str, Any]] = {}
    for each in routes:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each)
    return openapi.document("Bowstring schema registry", __version__, _ABOUT, paths | _pages(), SCHEMAS)


def _pages() -> dict[str, Any]:
    """Returns what operators and tools read."""
    json, anything = ("application/json",), {"type": "object"}
    health = {"200": answer("Ready.", json, anything), "503": answer("Without a leader.", json, anything)}
    pages = {
        "/health": ("health", "Says whether the registry is ready.", health),
        "/metrics": (
            "metrics",
            "Metrics for Prometheus.",
            {"200": answer("Done.", METRICS_MEDIA, {"type": "string"})},
        ),
        "/openapi.json": ("openapi", "This document.", {"200": answer("Done.", json, anything)}),
    }
    return {
        path: {"get": {"operationId": name, "summary": summary, "security": [], "responses": responses}}
        for path, (name, summary, responses) in pages.items()
    }


def _operation(each: Route) -> dict[str, Any]:
    errors = _ERRORS | (_ERRORS_OF_BODIES if each.has_body else {}) | (_INCOMPATIBLE if each.checks else {})
    success = answer("Done.") if each.answer is None else answer("Done.", _KINDS, reference(each.answer))
    found: dict[str, Any] = {
        "operationId": each.name,
        "summary": each.summary,
        "parameters": [
            *(_of_path(name) for name in _PARAMETER.findall(each.path)),
            *(parameter.described() for parameter in each.query),
        ],
        "responses": {
            str(each.status): success,
            **{str(status): answer(text, _KINDS, reference("Error")) for status, text in errors.items()},
            "5XX": answer(_FAILED, _KINDS, reference("Error")),
        },
    }
    if each.body is not None:
        content = {kind: {"schema": reference(each.body)} for kind in _BODIES}
        found["requestBody"] = {"required": True, "content": content}
    return found


def _of_path(name: str) -> dict[str, Any]:
    text, schema = _OF_PATH[name]
    return {"name": name, "in": "path", "required": True, "description": text, "schema": schema}
