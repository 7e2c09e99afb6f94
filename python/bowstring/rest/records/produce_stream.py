"""Produces the records of one request, and answers each as soon as its outcome is known.

Ownership: one task reads the body and hands records to the producer, another writes answers. The producer's
thread only wakes the writer. The reader stops while WAITING_MAX records have no answer, or while the
producer's memory is full: then TCP stops the sender.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec import json

from bowstring._native.rest.produce_lines import ProduceLines
from bowstring.clients.errors import ClientError
from bowstring.rest.answer import JSON, Receive, Scope, Send, failure
from bowstring.rest.client_failure import http_error
from bowstring.rest.loop_wakeup import LoopWakeup
from bowstring.rest.records.schema_encoding import schemas_of
from bowstring.web.http_error import HttpError

if TYPE_CHECKING:
    from bowstring.clients.producer.producer import Producer
    from bowstring.rest.call import Call

SLICE_RECORDS = 500
"""Handed to the producer in one go, which takes less than a millisecond."""
WAITING_MAX = 20_000
ANSWER_BYTES = 128 << 10
JSON_OVERHEAD_BYTES = 64 << 10
"""Of a record besides its key and value in base64."""

EMPTY = HttpError(422, 42206, "Payload error. Request body is empty. Data is required.")


def explain(error: BaseException) -> tuple[int, str]:
    """Returns code and message of the answer for a record that failed."""
    found = error if isinstance(error, HttpError) else http_error(error)
    return found.code, found.message


def refuse_schema(is_key: bool, data: bytes) -> tuple[bytes | None, bytes]:
    """Refuses a key or value that needs a schema, where there is no registry.

    Raises:
        HttpError: 42207.
    """
    what = "key" if is_key else "value"
    raise HttpError(
        422, 42207, f"the {what} needs a schema registry: give its type as BINARY, JSON or STRING"
    )


class ProduceStream:
    """The records of one request.

    Args:
        call: the request.
        producer: of its caller.
        topic: where records go.
        cluster_id: for answers.
    """

    def __init__(self, call: Call, producer: Producer, topic: str, cluster_id: str):
        self._call, self._producer, self._topic = call, producer, topic
        self._schemas = schemas_of(call.caller, call.options)
        self._ready = asyncio.Event()
        # In the producer's thread, wakes the writer.
        changed = LoopWakeup(self._ready.set).post
        self._drained = asyncio.Event()
        self._read_all = False
        self._started = False
        self._refusal: tuple[int, str] | None = None
        self._failure = EMPTY  # of a request without a record
        place = json.encode({"cluster_id": cluster_id, "topic_name": topic})[1:-1] + b","
        bytes_max = call.options.record_bytes_max * 4 // 3 + JSON_OVERHEAD_BYTES
        self.lines = ProduceLines(producer, topic, place, explain, changed, self._encode, bytes_max)

    def _encode(self, is_key: bool, text: bytes) -> tuple[bytes | None, bytes]:
        if self._schemas is None:
            return refuse_schema(is_key, text)
        return self._schemas.encode(self._topic, is_key, text)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves the request."""
        reading = asyncio.ensure_future(self._read(receive))
        try:
            await self._write(scope, send)
        finally:
            reading.cancel()
            self.lines.give_up()

    # ------------------------------------------------------------ reading

    async def _read(self, receive: Receive) -> None:
        counted = False
        try:
            while True:
                message = await asyncio.wait_for(receive(), self._call.options.idle_s)
                if message["type"] == "http.disconnect":
                    self.lines.give_up()
                    return
                self.lines.feed(message.get("body", b""))
                more = message.get("more_body", False)
                if not more:
                    self.lines.end()
                elif not counted:
                    self._call.callers.open_stream(self._call.caller)
                    counted = True
                await self._take()
                if not more or self.lines.broken:
                    return
        except TimeoutError:
            self.lines.refuse(408, f"no record came for {self._call.options.idle_s:g} s; the stream ends")
        except HttpError as error:
            self._failure = error
        except Exception as error:
            self.lines.refuse(*explain(error))
        finally:
            if counted:
                self._call.callers.close_stream(self._call.caller)
            self._read_all = True
            self._ready.set()

    async def _take(self) -> None:
        # What a slice may take of the producer's memory: `take` must not wait for room on the event loop.
        lines, size = self.lines, 2 * self._call.options.record_bytes_max
        while True:
            if self._refusal is None and self._producer.would_block(self._topic, size):
                await self._await_ready(size)
            if self._schemas is None:
                taken = lines.take(SLICE_RECORDS, self._refusal)
            else:  # which may ask the registry
                taken = await self._call.caller.thread(lines.take, SLICE_RECORDS, self._refusal)
            if not taken:
                self._ready.set()
                return
            if taken == SLICE_RECORDS:
                await asyncio.sleep(0)  # other requests have their turn
            while lines.waiting > WAITING_MAX:
                self._drained.clear()
                await self._drained.wait()

    async def _await_ready(self, size: int) -> None:
        try:
            await self._call.caller.thread(self._call.caller.await_ready, self._topic, size)
        except ClientError as error:
            # For the rest of the request: each record would wait as long for a topic that is not there.
            self._refusal = explain(error)

    # ------------------------------------------------------------ writing

    async def _write(self, scope: Scope, send: Send) -> None:
        flushing = None
        try:
            while True:
                self._ready.clear()
                ended = self._read_all
                body = self.lines.answers(ANSWER_BYTES)
                if self.lines.waiting <= WAITING_MAX:
                    self._drained.set()
                if body:
                    await self._send(send, body)
                elif ended and not self.lines.waiting:
                    break
                elif not self._ready.is_set():
                    if ended and flushing is None:
                        flushing = self._producer.accumulator.flushing()
                        flushing.__enter__()  # no record of this request waits for more
                    await self._ready.wait()
        finally:
            if flushing is not None:
                flushing.__exit__(None, None, None)
        if self._started:
            await send({"type": "http.response.body", "body": b""})
        else:
            await failure(self._failure)(scope, self._call.receive, send)

    async def _send(self, send: Send, body: bytes) -> None:
        if not self._started:
            self._started = True
            await send({"type": "http.response.start", "status": 200, "headers": [JSON]})
        await send({"type": "http.response.body", "body": body, "more_body": True})
