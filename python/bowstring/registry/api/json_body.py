"""Reads bodies of requests, and writes those of answers."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from bowstring.web.http_error import HttpError


def read_json(body: bytes) -> Any:
    """Returns the value of a JSON text.

    Raises:
        HttpError: 422, there is none, or it is null; 400, it is no JSON.
    """
    if not body.strip():
        raise HttpError(422, 422, "the request has no body; send a JSON object")
    try:
        found = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
    except RecursionError:
        raise HttpError(400, 400, "the body is nested too deeply") from None
    except ValueError as error:
        raise HttpError(400, 400, f"the body is no JSON: {_shortened(str(error))}") from error
    if found is None:
        raise HttpError(422, 422, "the body is null; send a JSON object")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _shortened(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}…"


def write_json(value: object) -> bytes:
    """Returns a compact JSON text in UTF-8."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
