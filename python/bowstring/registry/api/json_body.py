"""Reads bodies of requests, and writes those of answers."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from bowstring.web.http_error import HttpError

_HALF_PAIR = re.compile(rb"\\u[dD][89a-fA-F]")


def read_json(body: bytes) -> Any:
    """Returns the value of a JSON text.

    Raises:
        HttpError: 422, there is none, or it is null; 400, it is no JSON.
    """
    if not body.strip():
        raise HttpError(422, 422, "the request has no body; send a JSON object")
    try:
        found = _DECODER.decode(body.decode("utf-8"))
    except RecursionError:
        raise HttpError(400, 400, "the body is nested too deeply") from None
    except ValueError as error:
        raise HttpError(400, 400, f"the body is no JSON: {_shortened(str(error))}") from error
    if found is None:
        raise HttpError(422, 422, "the body is null; send a JSON object")
    if _HALF_PAIR.search(body) is not None:
        _check_text(found)
    return found


def _check_text(value: object) -> None:
    """Refuses texts that are no Unicode: they could be neither stored nor sent."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise HttpError(400, 400, "the body is nested too deeply") from None
    except UnicodeEncodeError as error:
        raise HttpError(400, 400, "the body has half of a surrogate pair (\\ud800 to \\udfff)") from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _shortened(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}…"


def write_json(value: object) -> bytes:
    """Returns a compact JSON text in UTF-8."""
    return _ENCODER.encode(value).encode("utf-8", "surrogatepass")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
