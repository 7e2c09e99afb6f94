"""Answers with records: reads the next piece in a thread while one is sent.

Memory is bounded: one piece waits, and the consumer fetches ahead no more than its own bound.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from msgspec import json

from bowstring.clients.errors import ClientError
from bowstring.clients.registry.registry_errors import SchemaRegistryError
from bowstring.rest.answer import BrokenStreamError, Receive, Scope, Send
from bowstring.rest.client_failure import http_error
from bowstring.rest.records.content_coding import coding_of
from bowstring.rest.records.decoded_records import DecodedRecords, registry_failure
from bowstring.rest.records.record_query import ARROW, EVENTS, MEDIA, NDJSON, RecordQuery
from bowstring.rest.records.record_reading import RecordReading
from bowstring.rest.records.schema_encoding import registry_format, registry_of
from bowstring.rest.records.schema_values import SchemaValues
from bowstring.web.http_error import HttpError
from bowstring.web.limits import header

if TYPE_CHECKING:
    from bowstring.rest.call import Call

_log = logging.getLogger("bowstring.rest")

KEEP_ALIVE_S = 15.0
_END = b"\0"
"""Stands for the end of a reading: no piece is this."""


class RecordStream:
    """Records of one request.

    Args:
        call: the request.
        query: what it asks for.
    """

    def __init__(self, call: Call, query: RecordQuery):
        self._call, self._query = call, query
        self._pieces: Iterator[bytes] | None = None
        self._first = b""
        self._fetch_bytes = 0

    async def open(self) -> None:
        """Opens the topic and reads the first piece, so that an error has its own status.

        Raises:
            HttpError: 429, too many streams are open; 404; 400.
            ClientError: the cluster cannot be reached, or refuses.
        """
        callers, caller = self._call.callers, self._call.caller
        callers.open_stream(caller)
        self._fetch_bytes = callers.take_fetch_bytes()
        try:
            self._first = await asyncio.shield(caller.thread(self._open))
        except BaseException:
            self._closed()
            raise

    def _closed(self) -> None:
        self._call.callers.return_fetch_bytes(self._fetch_bytes)
        self._call.callers.close_stream(self._call.caller)

    def _open(self) -> bytes:
        settings, decoded = dict(self._call.caller.settings), None
        if self._query.decoded:
            decoded = self._decoding(settings)
        reading = RecordReading(settings, self._call.options, self._query, self._fetch_bytes, decoded)
        self._pieces = reading.pieces()
        try:
            return next(self._pieces, _END)
        except SchemaRegistryError as error:
            raise registry_failure(error) from error

    def _decoding(self, settings: dict[str, Any]) -> DecodedRecords | None:
        """Returns what decodes keys and values for lines; for Arrow, adds the formats that the consumer has.

        Raises:
            HttpError: 42207, the proxy has no registry.
        """
        caller, options = self._call.caller, self._call.options
        client = registry_of(caller, options)
        if client is None:
            raise HttpError(422, 42207, "the proxy has no schema registry: start it with --schema-registry")
        if self._query.form == ARROW:
            settings |= dict.fromkeys(self._query.decoded, registry_format(caller, options))
            return None
        values = caller.shared("schema-values", lambda: SchemaValues(client))
        return DecodedRecords(values, self._query.decoded, self._call.callers)

    def _next(self) -> bytes:
        assert self._pieces is not None
        return next(self._pieces, _END)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the records."""
        caller = self._call.caller
        leaving = asyncio.ensure_future(_until_left(receive))
        reading: asyncio.Future[bytes] | None = None
        try:
            accepted = (header(scope["headers"], b"accept-encoding") or b"").decode("latin-1")
            name, coding = coding_of(accepted)
            await send({"type": "http.response.start", "status": 200, "headers": self._headers(name)})
            sent_at = time.monotonic()
            piece = self._first
            while piece != _END and scope["method"] != "HEAD":
                reading = asyncio.ensure_future(caller.thread(self._next))
                if not piece and self._query.form == EVENTS and time.monotonic() - sent_at > KEEP_ALIVE_S:
                    piece = b": alive\n\n"
                if piece:
                    sent_at = time.monotonic()
                    body = coding.piece(piece)
                    await send({"type": "http.response.body", "body": body, "more_body": True})
                await asyncio.wait((reading, leaving), return_when=asyncio.FIRST_COMPLETED)
                if leaving.done():
                    return
                piece = self._piece(reading)
            await send({"type": "http.response.body", "body": coding.end()})
        finally:
            leaving.cancel()
            await asyncio.shield(self._close(reading))

    def _piece(self, reading: asyncio.Future[bytes]) -> bytes:
        """Returns the piece that was read, or what says why there is none."""
        try:
            return reading.result()
        except (ClientError, HttpError) as error:
            found = http_error(error)
            _log.warning("reading %s for %s failed: %s", self._query.topic, self._call.caller, error)
            text = json.encode({"error_code": found.code, "message": found.message})
            self._pieces = iter(())
            if self._query.form == EVENTS:
                return b"event: error\ndata: " + text + b"\n\n"
            if self._query.form == NDJSON:
                return text + b"\n"
            raise BrokenStreamError(str(error)) from error

    def _headers(self, coding: str) -> list[tuple[bytes, bytes]]:
        headers = [
            (b"content-type", MEDIA[self._query.form].encode()),
            (b"cache-control", b"no-store"),
            (b"vary", b"accept, accept-encoding"),
            (b"x-accel-buffering", b"no"),
        ]
        if coding:
            headers.append((b"content-encoding", coding.encode()))
        return headers

    async def _close(self, reading: asyncio.Future[bytes] | None) -> None:
        """Ends the reading, after the piece that is read at present."""
        try:
            if reading is not None:
                await asyncio.wait([reading])
                reading.cancelled() or reading.exception()  # seen
            await self._call.caller.thread(self._end)
        finally:
            self._closed()

    def _end(self) -> None:
        close = getattr(self._pieces, "close", None)
        if close is not None:
            close()


async def _until_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
