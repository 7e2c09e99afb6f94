"""Writes the OpenAPI document of the operations that the proxy has."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from msgspec import json

from bowstring.rest.openapi_schemas import SCHEMAS
from bowstring.rest.operation import Operation
from bowstring.version import __version__

_PARAMETER = re.compile(r"\{(\w+)\}")
_NUMBERS = ("broker_id", "partition_id")
_ERRORS = {
    "400": "The request is wrong.",
    "401": "The cluster needs other credentials.",
    "403": "The caller lacks a right in the cluster.",
    "404": "What the path names does not exist.",
    "429": "Too many requests or streams.",
    "5XX": "The cluster, or the proxy, failed; `error_code` 50003 says that a retry may help.",
}


def document(operations: Iterable[Operation]) -> bytes:
    """Returns the document (OpenAPI 3.0.3), as JSON."""
    paths: dict[str, dict[str, Any]] = {}
    for each in operations:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each)
    return json.encode(
        {
            "openapi": "3.0.3",
            "info": {
                "title": "Bowstring REST proxy",
                "version": __version__,
                "description": "Confluent's REST APIs v3 and v2 for Kafka, and streams of records.",
            },
            "paths": paths,
            "components": {
                "schemas": SCHEMAS,
                "securitySchemes": {
                    "basic": {"type": "http", "scheme": "basic"},
                    "bearer": {"type": "http", "scheme": "bearer"},
                },
            },
            "security": [{}, {"basic": []}, {"bearer": []}],
        }
    )


def _operation(each: Operation) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": each.name,
        "summary": each.summary,
        "parameters": [_of_path(name) for name in _PARAMETER.findall(each.path)]
        + [
            {
                "name": parameter.name,
                "in": "query",
                "description": parameter.summary,
                "required": parameter.required,
                "schema": parameter.schema,
            }
            for parameter in each.query
        ],
        "responses": {str(each.status): _success(each)}
        | {code: _failure(text) for code, text in _ERRORS.items()},
    }
    if each.streams:
        found["x-streaming"] = True
    if each.body is not None:
        found["requestBody"] = {
            "required": True,
            "content": {media: {"schema": _reference(each.body)} for media in each.body_media},
        }
    return found


def _of_path(name: str) -> dict[str, Any]:
    kind = {"type": "integer", "minimum": 0} if name in _NUMBERS else {"type": "string"}
    return {"name": name, "in": "path", "required": True, "schema": kind}


def _success(each: Operation) -> dict[str, Any]:
    if each.answer is None and each.media == ("application/json",):
        return {"description": "Done."}
    text: dict[str, Any] = {"type": "string", "format": "binary"}
    schema = text if each.answer is None else _reference(each.answer)
    return {
        "description": "Done.",
        "content": {media.partition(";")[0]: {"schema": schema} for media in each.media},
    }


def _failure(text: str) -> dict[str, Any]:
    return {"description": text, "content": {"application/json": {"schema": _reference("Error")}}}


def _reference(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}
