"""Writes the OpenAPI document of the operations that the proxy has."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from bowstring.rest.openapi_schemas import SCHEMAS
from bowstring.rest.operation import Operation
from bowstring.version import __version__
from bowstring.web import openapi
from bowstring.web.http_metrics import MEDIA as METRICS_MEDIA
from bowstring.web.openapi import Parameter, answer, reference

_PARAMETER = re.compile(r"\{(\w+)\}")
_NUMBERS = ("broker_id", "partition_id")
_ERRORS = {
    400: "The request is wrong.",
    401: "The cluster needs other credentials.",
    403: "The caller lacks a right in the cluster.",
    404: "What the path names does not exist.",
    429: "Too many requests or streams.",
}
_ERRORS_OF_BODIES = {
    408: "The body does not come in time.",
    413: "The body, or a record, is too large.",
    415: "The body is of another type.",
    422: "The body lacks something, or cannot be used.",
}
_ALSO = {
    **_ERRORS,
    **_ERRORS_OF_BODIES,
    406: "No type of answer is accepted.",
    409: "It is the wrong time for the request.",
}
_FAILED = "The cluster, or the proxy, failed; `error_code` 50003 says that a retry may help."
_PAGE = (
    Parameter("page_size", "Resources of a page; all without it.", {"type": "integer", "minimum": 1}),
    Parameter("page_token", "Of the link `next` of the page before.", {"type": "string"}),
)
_JSON = ("application/json",)


def document(operations: Iterable[Operation]) -> bytes:
    """Returns the document (OpenAPI 3.0.3), as JSON."""
    paths: dict[str, dict[str, Any]] = {}
    for each in operations:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each)
    return openapi.document(
        "Bowstring REST proxy",
        __version__,
        "Confluent's REST APIs v3 and v2 for Kafka, and streams of records.",
        paths | _pages(),
        SCHEMAS,
    )


def _pages() -> dict[str, Any]:
    """Returns what operators and tools read."""
    of_document = {"type": "object"}
    pages = {
        "/health": ("health", "Says that the proxy runs.", _JSON, reference("Health")),
        "/metrics": ("metrics", "Metrics for Prometheus.", METRICS_MEDIA, {"type": "string"}),
        "/openapi.json": ("openapi", "This document.", _JSON, of_document),
        "/v3/openapi.json": ("openapiOfV3", "This document.", _JSON, of_document),
    }
    return {
        path: {
            "get": {
                "operationId": name,
                "summary": summary,
                "security": [],
                "responses": {"200": answer("Done.", media, schema)},
            }
        }
        for path, (name, summary, media, schema) in pages.items()
    }


def _operation(each: Operation) -> dict[str, Any]:
    query = (*each.query, *(_PAGE if (each.answer or "").endswith("List") else ()))
    failed = reference("Error")
    errors = _ERRORS | (_ERRORS_OF_BODIES if each.body is not None else {})
    found: dict[str, Any] = {
        "operationId": each.name,
        "summary": each.summary,
        "parameters": [
            *(_of_path(name) for name in _PARAMETER.findall(each.path)),
            *(parameter.described() for parameter in query),
        ],
        "responses": {
            str(each.status): _success(each),
            **{str(status): answer(text, each.error_media, failed) for status, text in errors.items()},
            **{
                str(status): answer(
                    _ALSO.get(status, "Done."), each.error_media, failed if name is None else reference(name)
                )
                for status, name in each.also.items()
            },
            "5XX": answer(_FAILED, each.error_media, failed),
        },
    }
    if each.streams:
        found["x-streaming"] = True
    if each.body is not None:
        found["requestBody"] = {
            "required": each.needs_body,
            "content": {media: {"schema": reference(each.body)} for media in each.body_media},
        }
    return found


def _of_path(name: str) -> dict[str, Any]:
    kind: dict[str, Any] = {"type": "string", "minLength": 1}
    if name in _NUMBERS:
        kind = {"type": "integer", "minimum": 0, "maximum": (1 << 31) - 1}
    return {"name": name, "in": "path", "required": True, "schema": kind}


def _success(each: Operation) -> dict[str, Any]:
    if each.answer is None and not each.streams:
        return answer("Done.")
    text: dict[str, Any] = {"type": "string", "format": "binary"}
    return answer("Done.", each.media, text if each.answer is None else reference(each.answer))
