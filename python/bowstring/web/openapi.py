"""Writes OpenAPI documents from tables: JSON Schemas of bodies in a short form, parameters, answers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

_PLAIN = ("string", "integer", "boolean", "object")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the query.

    Attributes:
        name: in the query.
        summary: what it is for.
        schema: JSON Schema of its value.
        required: whether requests must have it.
    """

    name: str
    summary: str
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})
    required: bool = False

    def described(self) -> dict[str, Any]:
        """Returns the parameter as documents have it."""
        return {
            "name": self.name,
            "in": "query",
            "description": self.summary,
            "required": self.required,
            "schema": self.schema,
        }


def type_schema(text: str) -> dict[str, Any]:
    """Returns the JSON Schema of a type.

    Args:
        text: `any`, or the name of a JSON type or of another schema; `[]` makes a list of it, `{}` an object
            whose members are of it, and `?` in front lets it be null.
    """
    if text.startswith("?"):
        # Beside `$ref` OpenAPI 3.0 ignores everything.
        inner = type_schema(text[1:])
        return {**({"allOf": [inner]} if "$ref" in inner else inner), "nullable": True}
    if text.endswith("[]"):
        return {"type": "array", "items": type_schema(text[:-2])}
    if text.endswith("{}"):
        return {"type": "object", "additionalProperties": type_schema(text[:-2])}
    if text == "any":
        return {}
    return {"type": text} if text in _PLAIN else reference(text)


def object_schema(members: Mapping[str, str]) -> dict[str, Any]:
    """Returns the JSON Schema of an object.

    Args:
        members: types by name, as of `type_schema`; `~` in front lets a member be missing.
    """
    required = [name for name, text in members.items() if not text.startswith("~")]
    found: dict[str, Any] = {
        "type": "object",
        "properties": {name: type_schema(text.removeprefix("~")) for name, text in members.items()},
    }
    return found | ({"required": required} if required else {})


def reference(name: str) -> dict[str, str]:
    """Returns the JSON Schema that stands for a schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def answer(text: str, media: Iterable[str] = (), schema: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Returns a response.

    Args:
        text: what it says.
        media: the types that its body may have; without any there is no body.
        schema: of the body; None: any.
    """
    found: dict[str, Any] = {"description": text}
    content = {each.partition(";")[0]: {"schema": schema or {}} for each in media}
    return found | ({"content": content} if content else {})


def document(
    title: str, version: str, text: str, paths: Mapping[str, Any], schemas: Mapping[str, Any]
) -> bytes:
    """Returns a document (OpenAPI 3.0.3) as JSON.

    Args:
        title: of the API.
        version: of the program.
        text: what the API is.
        paths: operations by path and method.
        schemas: by name.
    """
    found = {
        "openapi": "3.0.3",
        "info": {"title": title, "version": version, "description": text},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
        "security": [{}, {"basic": []}, {"bearer": []}],
    }
    return json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()
