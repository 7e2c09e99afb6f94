"""Produces one record, where the console may write."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from bowstring.clients.errors import ClientError, ConfigError
from bowstring.clients.records import RecordMetadata
from bowstring.console.rendering import page, quoted
from bowstring.console.sessions import access_of
from bowstring.console.writes import writes
from bowstring.protocol.whole_numbers import whole_number

KINDS = {"text": "Text", "json": "JSON", "hex": "Hex", "null": "Null"}
FIELDS = ("partition", "key", "key_kind", "headers", "value", "value_kind")
HEADERS_MAX = 100
TIMEOUT_S = 10.0
TIMEOUTS = {"delivery_timeout_ms": 10_000, "request_timeout_ms": 5_000, "max_block_ms": 5_000}


async def show_form(request: Request) -> Response:
    """Shows the form."""
    access_of(request)
    return _form(request, {}, "")


def _form(request: Request, given: Mapping[str, str], error: str) -> Response:
    return page(
        request,
        "message_produce.html",
        status=400 if error else 200,
        topic=request.path_params["name"],
        given={name: given.get(name, "") for name in FIELDS},
        kinds=KINDS,
        error=error,
    )


@writes
async def produce(request: Request) -> Response:
    """Produces a record; shows it, or what is wrong."""
    access = access_of(request)
    topic = request.path_params["name"]
    form = await request.form()
    given = {name: text for name in FIELDS if isinstance(text := form.get(name), str)}
    try:
        record = record_of(given)
        done = await access.thread(_send, access.settings, topic, record)
    except ClientError as error:
        return _form(request, given, str(error))
    place = f"partition={done.partition}&start=offset&at={done.offset}&order=oldest&count=20"
    return RedirectResponse(f"/topics/{quoted(topic)}/messages?{place}", 303)


def record_of(given: Mapping[str, str]) -> dict[str, Any]:
    """Returns the arguments of Producer.send for a form.

    Raises:
        ConfigError: a field is invalid.
    """
    partition = given.get("partition", "").strip()
    if partition and whole_number(partition) is None:
        raise ConfigError(f"partition is {partition[:50]!r}; write a number, or nothing to let keys decide")
    key_kind = given.get("key_kind", "") or ("text" if given.get("key") else "null")
    value_kind = given.get("value_kind", "") or "text"
    return {
        "value": _data("value", value_kind, given.get("value", "")),
        "key": _data("key", key_kind, given.get("key", "")),
        "partition": int(partition) if partition else None,
        "headers": _headers(given.get("headers", "")),
    }


def _data(what: str, kind: str, text: str) -> bytes | None:
    text = text.replace("\r\n", "\n")  # browsers send lines so
    if kind == "null":
        return None
    if kind == "hex":
        try:
            return bytes.fromhex(text.strip().removeprefix("0x"))
        except ValueError:
            raise ConfigError(f"the {what} is not hex: write pairs of digits such as 00 ff") from None
    if kind == "json":
        try:
            json.loads(text)
        except json.JSONDecodeError as error:
            raise ConfigError(
                f"the {what} is not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
            ) from None
        except (ValueError, RecursionError):
            raise ConfigError(f"the {what} is JSON with too large numbers, or nested too deep") from None
    elif kind != "text":
        raise ConfigError(f"a {what} is one of {', '.join(KINDS)}")
    return text.encode(errors="replace")


def _headers(text: str) -> list[tuple[str, bytes]]:
    headers = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            raise ConfigError(f"headers, line {number}: write a name, a colon and a value")
        headers.append((name.strip(), value.strip().encode(errors="replace")))
    if len(headers) > HEADERS_MAX:
        raise ConfigError(f"a form takes {HEADERS_MAX} headers; there are {len(headers)}")
    return headers


def _send(settings: Mapping[str, Any], topic: str, record: Mapping[str, Any]) -> RecordMetadata:
    from bowstring.clients.producer.producer import Producer

    given = {"acks": "all", "allow_auto_create": False, **TIMEOUTS, **settings}
    with Producer(**given) as producer:
        return producer.send(topic, **record).result(TIMEOUT_S)


routes = [
    Route("/topics/{name}/messages/produce", show_form, methods=["GET"]),
    Route("/topics/{name}/messages/produce", produce, methods=["POST"]),
]
