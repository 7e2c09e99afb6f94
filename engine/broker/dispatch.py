"""From the reactors' queue to a handler and back: decode, handle, encode, reply, count."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast

from bowstring._native.control_request import ControlRequest, SlowBatch
from bowstring.engine.api import HANDLERS
from bowstring.engine.broker import log_lines
from bowstring.engine.broker.request import Request
from bowstring.engine.broker.request_counters import RequestCounters
from bowstring.engine.errors import Errors, KafkaError
from bowstring.engine.protocol import API_VERSIONS, ProtocolError, decode_request, encode_response
from bowstring.engine.protocol.schema import Response, fields_of

if TYPE_CHECKING:
    from bowstring.engine.broker.broker import Broker
    from bowstring.engine.broker.slow_batches import SlowBatches

Handler = Callable[["Broker", Request], Awaitable[Response]]

_API_VERSIONS_KEY: Final = 18
# A bug may not make up an answer where the client would act on it: these connections are closed instead.
_NEVER_GUESSED: Final = frozenset({0, 22})


class Dispatcher:
    """Answers what reactors hand over. Requests run side by side; the data plane keeps replies in order."""

    def __init__(self, broker: "Broker") -> None:
        self.counters: dict[int, RequestCounters] = {}
        self._broker = broker
        self._handlers: dict[int, Handler] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._slow_batches: SlowBatches | None = None

    def start(self) -> None:
        """Begins to listen to the data plane. Called on the control loop."""
        asyncio.get_running_loop().add_reader(self._broker.plane.control_fd, self._take)

    async def stop(self) -> None:
        """Stops listening and waits for what is being handled, a short while."""
        asyncio.get_running_loop().remove_reader(self._broker.plane.control_fd)
        if self._running:
            _, late = await asyncio.wait(self._running, timeout=2)
            for task in late:
                task.cancel()

    def _take(self) -> None:
        plane = self._broker.plane
        for item in plane.take_requests():
            if isinstance(item, SlowBatch):
                self._spawn(self._finish_slow_batch(item))
            else:
                self._spawn(self._answer(item))
        for level, event, detail in plane.take_events():
            log_lines.log(log_lines.LEVELS[level], event, detail=detail)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def _finish_slow_batch(self, slow: SlowBatch) -> Coroutine[Any, Any, None]:
        if self._slow_batches is None:
            # Few topics ask for it, so few brokers need the codecs.
            from bowstring.engine.broker.slow_batches import SlowBatches

            self._slow_batches = SlowBatches(self._broker)
        return self._slow_batches.finish(slow)

    # ------------------------------------------------------------ one request

    async def _answer(self, message: ControlRequest) -> None:
        failed = True
        payload: bytes | None = None
        try:
            payload, failed = await self._payload(message)
        except ProtocolError as error:
            self._refuse(message, "malformed request", str(error))
        except asyncio.CancelledError:
            raise
        except Exception:
            payload = self._payload_of_bug(message)
        finally:
            self._broker.plane.reply(message.connection_id, message.slot, payload)
            counters = self.counters.get(message.api_key)
            if counters is None:
                counters = self.counters[message.api_key] = RequestCounters()
            counters.count(time.monotonic_ns() - message.received_ns, failed=failed)

    async def _payload(self, message: ControlRequest) -> tuple[bytes | None, bool]:
        key, version = message.api_key, message.api_version
        api = API_VERSIONS[key]
        if key == _API_VERSIONS_KEY and not api.lowest <= version <= api.highest:
            from bowstring.engine.api.api_versions import unsupported_version

            return encode_response(key, 0, message.correlation_id, unsupported_version(self._broker)), True
        body = decode_request(key, version, message.body)
        request = Request(
            api_key=key,
            version=version,
            body=body,
            listener=self._broker.advertised[message.listener],
            correlation_id=message.correlation_id,
            client_id=message.client_id,
            principal=message.principal,
            peer=message.peer,
            connection_id=message.connection_id,
            slot=message.slot,
            received_ns=message.received_ns,
        )
        try:
            response = await self.handler(key)(self._broker, request)
        except KafkaError as error:
            answer = error_response(key, version, error)
            if answer is None:
                self._refuse(message, "request refused", str(error))
                return None, True
            return encode_response(key, version, message.correlation_id, answer), True
        return encode_response(key, version, message.correlation_id, response), False

    def handler(self, key: int) -> Handler:
        """The handler of an API, imported when it is first needed."""
        handler = self._handlers.get(key)
        if handler is None:
            module = import_module(f"bowstring.engine.api.{HANDLERS[key]}")
            handler = self._handlers[key] = module.handle
        return handler

    def _refuse(self, message: ControlRequest, event: str, detail: str) -> None:
        log_lines.warning(
            event,
            api=API_VERSIONS[message.api_key].name,
            version=message.api_version,
            peer=message.peer,
            client=message.client_id or "",
            detail=detail,
        )

    def _payload_of_bug(self, message: ControlRequest) -> bytes | None:
        key, version = message.api_key, message.api_version
        log_lines.error(
            "bug: a handler failed",
            traceback=True,
            api=API_VERSIONS[key].name,
            version=version,
            peer=message.peer,
        )
        if key in _NEVER_GUESSED:
            return None
        try:
            answer = error_response(key, version, KafkaError(Errors.UNKNOWN_SERVER_ERROR))
            return None if answer is None else encode_response(key, version, message.correlation_id, answer)
        except ProtocolError:
            return None


def error_response(key: int, version: int, error: KafkaError) -> Response | None:
    """A response that says nothing but the error, where the API's response has a place for one."""
    response = API_VERSIONS[key].response
    names = {field.name for field in fields_of(response) if field.versions[0] <= version <= field.versions[1]}
    if "error_code" not in names:
        return None
    answer: Any = response()
    answer.error_code = error.code
    if "error_message" in names:
        answer.error_message = error.detail or error.error.message
    return cast(Response, answer)
