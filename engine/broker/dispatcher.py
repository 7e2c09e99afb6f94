"""Dispatches control-plane requests: decodes, calls the handler, encodes, replies, counts.

No step keeps the control thread busy for long, however large the request or the answer is. Large requests are
scanned without the GIL and decoded while the handler iterates over them. Answers are encoded in time slices
(time_slices.py).
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from bowstring._native.protocol.message_steps import DONE, Encoding, TooLargeError
from bowstring._native.server.control_request import ControlRequest, SlowBatch
from bowstring._native.server.plane_leases import LEASED_KEYS, SessionLease
from bowstring.engine import event_log
from bowstring.engine.api.permissions import Requirement
from bowstring.engine.api.request_refusals import refusal
from bowstring.engine.api.table import FORWARDED, TABLE, Served
from bowstring.engine.broker.request_handlers import Gather, RequestHandlers
from bowstring.engine.coordinators.repeatable import Repeatable
from bowstring.engine.requests.answers import encoded, throttle_time_at
from bowstring.engine.requests.binding import bound
from bowstring.engine.requests.kept_answers import ANSWER_MAX_BYTES, KeptAnswers, Stamp, stamp
from bowstring.engine.requests.listeners import Listener
from bowstring.engine.requests.request import Request
from bowstring.engine.requests.time_slices import TimeSlices
from bowstring.engine.security.authorizer import Authorizer
from bowstring.protocol import (
    API_VERSIONS,
    ProtocolError,
    begin_response,
    decode_large_request,
    decode_request,
    encode_response,
)
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages import ApiKeys
from bowstring.protocol.schema import Response

if TYPE_CHECKING:
    from bowstring._native.server.data_plane import DataPlane
    from bowstring.engine.broker.request_throttle import RequestThrottle
    from bowstring.engine.broker.schema_checks import SchemaChecks
    from bowstring.engine.broker.slow_batches import SlowBatches
    from bowstring.engine.broker.transaction_checks import TransactionChecks
    from bowstring.engine.security.authentication import Authentication

# Requests of at least this size are decoded while their handlers iterate over them.
_LAZY_BYTES: Final = 16 << 10
_KEPT: Final = frozenset(key for key, row in TABLE.items() if row.keeps)
# Requests of at least this size are scanned on another thread first.
_LOOKED_OVER_ELSEWHERE_BYTES: Final = 256 << 10
# An answer that takes longer to encode is encoded between other work.
_ENCODED_AT_ONCE_NS: Final = 1_000_000

H = TypeVar("H")
Payload = Callable[[], Awaitable[tuple[bytes | Encoding | None, bool, int]]]
"""Returns the encoded answer, whether the request failed, and how long its connection waits then."""


class BegunRequest:
    """A request without a task: what begins it is given this, and answers it once, at any time.

    Its API has an error code for the whole answer. An answer to a connection that has ended is dropped.
    """

    __slots__ = ("_dispatcher", "_is_done", "_message")

    def __init__(self, dispatcher: "Dispatcher", message: ControlRequest) -> None:
        self._dispatcher = dispatcher
        self._message = message
        self._is_done = False

    def done(self) -> bool:
        """Whether it is answered."""
        return self._is_done

    def set_result(self, answer: Response) -> None:
        """Answers it."""
        self._is_done = True
        self._dispatcher.end(self._message, answer, failed=False)

    def set_exception(self, error: BaseException) -> None:
        """Answers it with a KafkaError."""
        assert isinstance(error, KafkaError), error
        self._is_done = True
        message = self._message
        refused = refusal(message.api_key, message.api_version, None, error)
        assert refused is not None, message
        self._dispatcher.end(message, refused, failed=True)

    def drop(self, payload: bytes | None) -> None:
        """Ends it after a bug."""
        self._is_done = True
        self._dispatcher.send(self._message, payload, failed=True)


class Dispatcher(RequestHandlers):
    """Answers the requests that reactors queue. Requests run concurrently; the data plane keeps replies in
    order.

    Args:
        plane: The data plane whose requests it answers.
        served: The module that answers, and what is needed, by API key.
        part: Returns the part of the node that a handler states by a name. It is called with the first
            request of an API, on the control loop.
        authorizer: Decides who may do what.
        advertised: The listeners, in the data plane's order.
        time_slices: Shares the control thread among long requests.
        authentication: Of the connections; None: no listener authenticates.

    Attributes:
        throttle: Applies clients' quotas; None while there never were any.
        authentication: The same.
        when_replicas_change: Acts on what the data plane notes of replicas; called after each pass.
        when_access_decided: Acts on what the data plane notes of access control; called after each pass.
        when_ended: Called with the ids of connections that ended.
        when_advanced: Called with each partition whose high watermark advanced after `DataPlane.watch`.
    """

    def __init__(
        self,
        plane: "DataPlane",
        served: Served,
        part: Callable[[str], Any],
        *,
        authorizer: Authorizer,
        advertised: Sequence[Listener],
        time_slices: TimeSlices,
        authentication: "Authentication | None" = None,
    ) -> None:
        super().__init__(served, part, authorizer=authorizer, time_slices=time_slices)
        self.throttle: RequestThrottle | None = None
        self.authentication = authentication
        self.when_replicas_change: Callable[[], None] = lambda: None
        self.when_access_decided: Callable[[], None] | None = None
        self.when_ended: Callable[[list[int]], None] = lambda connection_ids: None
        self.when_advanced: Callable[[str, int], None] = lambda topic, partition: None
        self._plane = plane
        self._advertised = advertised
        self._looking_over: ThreadPoolExecutor | None = None
        self._running: set[asyncio.Task[None]] = set()
        self._kept = KeptAnswers()
        self._stamp: Callable[[], Stamp] | None = None
        # what writes the requests that were gathered in this pass, by API key
        self._gathered: dict[int, Callable[[], None]] = {}
        # how many of them are of a principal and client id, if time has a quota
        self._gathered_of: Counter[tuple[str, str | None]] = Counter()
        self._slow_batches: SlowBatches | None = None
        self._checks: TransactionChecks | None = None
        self._schema_checks: SchemaChecks | None = None

    def start(self) -> None:
        """Starts listening to the data plane. Call on the control loop."""
        asyncio.get_running_loop().add_reader(self._plane.control_fd, self._take)

    async def stop(self) -> None:
        """Stops listening and waits a short time for requests in progress."""
        asyncio.get_running_loop().remove_reader(self._plane.control_fd)
        if self.authentication is not None:
            self.authentication.close()
        if self._running:
            _, late = await asyncio.wait(self._running, timeout=2)
            for task in late:
                task.cancel()
        if self._checks is not None:
            await self._checks.stop()
        if self._slow_batches is not None:
            await self._slow_batches.stop()
        if self._schema_checks is not None:
            await self._schema_checks.stop()
        if self._looking_over is not None:
            self._looking_over.shutdown(wait=False)

    def _take(self) -> None:
        """Takes the queue of the reactors, which wake once for several of the replies."""
        self._plane.hold_replies()
        try:
            self._take_all()
        finally:
            self._plane.release_replies()

    def _take_all(self) -> None:
        """Takes the queue of the reactors. Items come once, so a failure of one ends no other."""
        self._time_slices.begin()
        for item in self._plane.take_requests():
            try:
                self.take_up(item)
            except Exception:
                self._drop(item)
        gathered, self._gathered = self._gathered, {}
        for write in gathered.values():
            self._try(partial(self._write, write))
        self._try(self._begin_slow_batches)
        self._try(self._log_events)
        self._try(self._take_replica_events)
        if self.when_access_decided is not None:
            self._try(self.when_access_decided)
        if ended := self._plane.take_ended():
            # Later: an earlier request may only now be taken up.
            asyncio.get_running_loop().call_soon(self._connections_ended, ended)
        for topic, partition in self._plane.take_advanced():
            self._advanced(topic, partition)

    def _connections_ended(self, connection_ids: list[int]) -> None:
        if self.authentication is not None:
            self.authentication.ended(connection_ids)
        self.when_ended(connection_ids)

    def take_up(self, item: ControlRequest | SlowBatch) -> None:
        """Answers a request of the queue, or begins to."""
        if isinstance(item, SlowBatch):
            self._take_batch(item)
        elif item.authenticating and item.api_key != ApiKeys.API_VERSIONS:
            assert self.authentication is not None
            self.authentication.take(item)
            if item.api_key in API_VERSIONS:  # not a certificate
                self._count(item, failed=False)
        elif not (
            self._answer_kept(item)
            or self._gather(item)
            or self._answer_encoded(item)
            or self._answer_at_once(item)
            or self._begin(item)
        ):
            self._spawn(self._answer(item))

    def _drop(self, item: ControlRequest | SlowBatch) -> None:
        """Answers an item that could not be taken up: those behind it would wait for ever."""
        facts: dict[str, object] = {}
        if isinstance(item, ControlRequest):
            facts = {"api_key": item.api_key, "version": item.api_version, "peer": item.peer}
        else:
            facts = {"partition": f"{item.topic}-{item.partition}"}
        event_log.error("bug: a request could not be taken up; report the traceback", traceback=True, **facts)
        try:
            if isinstance(item, ControlRequest):
                self._plane.reply(item.connection_id, item.slot, None)
            else:
                self._plane.finish_batch(item, error=Errors.REQUEST_TIMED_OUT.code)
        except Exception:  # such as a batch that has been answered before the failure
            event_log.error("bug: a request could not be answered; report the traceback", traceback=True)

    def _try(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception:
            event_log.error(
                "bug: a step of the control loop failed; report the traceback",
                traceback=True,
                step=getattr(step, "__name__", repr(step)),
            )

    def _begin_slow_batches(self) -> None:
        if self._slow_batches is not None:
            self._slow_batches.begin()

    def _log_events(self) -> None:
        for level, event, detail in self._plane.take_events():
            event_log.log(event_log.LEVELS[level], event, detail=detail)

    def _take_replica_events(self) -> None:
        self.when_replicas_change()

    def _advanced(self, topic: str, partition: int) -> None:
        try:
            self.when_advanced(topic, partition)
        except Exception:  # the data plane names each partition once
            event_log.error(
                "bug: what waited for a high watermark failed; report the traceback",
                traceback=True,
                partition=f"{topic}-{partition}",
            )

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def _take_batch(self, slow: SlowBatch) -> None:
        if slow.transaction is None:
            self._slow().take(slow)
            return
        if self._checks is None:
            from bowstring.engine.broker.transaction_checks import TransactionChecks

            self._checks = TransactionChecks(self._part("transactions").verifier, self._plane, self._pass_on)
        self._checks.take(slow)

    def _pass_on(self, slow: SlowBatch) -> None:
        """Takes a batch whose transaction is verified."""
        if self._slow_batches is None and not slow.needs_work:
            self._plane.finish_batch(slow)
        else:
            self._slow().take(slow)

    def _slow(self) -> "SlowBatches":
        if self._slow_batches is None:
            # Imported late: few topics recompress, so few brokers need the codecs.
            from bowstring.engine.broker.slow_batches import SlowBatches, codec_level

            self._slow_batches = SlowBatches(
                self._plane, bound(codec_level, self._part), self._resolve_schemas
            )
        return self._slow_batches

    async def _resolve_schemas(self, slow: SlowBatch) -> tuple[int, str | None] | None:
        if self._schema_checks is None:
            # Imported late: few brokers check schemas.
            from bowstring.engine.broker.schema_checks import SchemaChecks, lookups_of, topic_strategies

            lookups, strategies = bound(lookups_of, self._part)(), bound(topic_strategies, self._part)
            self._schema_checks = SchemaChecks(self._plane, lookups, strategies)
        return await self._schema_checks.resolve(slow)

    # ------------------------------------------------------------ one request

    def limits_time(self, key: int) -> bool:
        """Returns whether quotas count the time of requests of this API."""
        return self.throttle is not None and self.throttle.limits_time(key)

    def _answer_kept(self, message: ControlRequest) -> bool:
        """Answers like an equal request before, if nothing has changed since."""
        key = message.api_key
        if key not in _KEPT or not self._kept or message.body_bytes >= _LAZY_BYTES or self._stamp is None:
            return False
        began_ns = time.monotonic_ns() if self.limits_time(key) else None
        found = self._kept.find(message, self._stamp(), self._authorizer.alike(message))
        if found is None:
            return False
        self._reply(message, found, None if began_ns is None else time.monotonic_ns() - began_ns)
        return True

    def _gather(self, message: ControlRequest) -> bool:
        """Takes a request together with others of this pass."""
        key = message.api_key
        gathers = self._gathers.get(key)
        if gathers is None or message.body_bytes >= _LAZY_BYTES:
            return False
        gather, write = gathers
        if not self.limits_time(key):
            if not gather(message, partial(self._reply, message)):
                return False
        elif not self._gather_limited(message, gather):
            return False
        self._gathered[key] = write
        return True

    def _gather_limited(self, message: ControlRequest, gather: Gather) -> bool:
        """Takes a request whose time has a quota. Each has an equal share of the time to write them."""
        spent_ns, began_ns = 0, time.monotonic_ns()
        is_taken = gather(message, lambda payload: self._reply(message, payload, spent_ns))
        spent_ns = time.monotonic_ns() - began_ns
        if is_taken:
            self._gathered_of[message.principal, message.client_id] += 1
        else:
            self._note_time(message, spent_ns)
        return is_taken

    def _write(self, write: Callable[[], None]) -> None:
        limited, self._gathered_of = self._gathered_of, Counter()
        began_ns = time.monotonic_ns()
        try:
            write()
        finally:
            if limited and self.throttle is not None:
                each_ns = (time.monotonic_ns() - began_ns) // limited.total()
                for (principal, client_id), count in limited.items():
                    self.throttle.note(principal, client_id, count * each_ns)

    def _note_time(self, message: ControlRequest, spent_ns: int) -> None:
        if self.throttle is not None:
            self.throttle.note(message.principal, message.client_id, spent_ns)

    def _reply(
        self, message: ControlRequest, payload: bytes, spent_ns: int | None = None, *, failed: bool = False
    ) -> None:
        """Sends an encoded answer.

        Args:
            spent_ns: Time of the control thread that counts for the client's quota; None: it has none.
        """
        throttle_ms = 0
        if spent_ns is not None and self.throttle is not None:
            payload, throttle_ms = self.throttle.applied_to(message, payload, spent_ns)
        self._plane.reply(message.connection_id, message.slot, payload, throttle_ms=throttle_ms)
        self._count(message, failed=failed)

    def _answer_encoded(self, message: ControlRequest) -> bool:
        """Answers a small request of the usual form, without an object for each of its fields."""
        encode = self._encodes.get(message.api_key)
        if encode is None or message.body_bytes >= _LAZY_BYTES:
            return False
        began_ns = time.monotonic_ns() if self.limits_time(message.api_key) else None
        try:
            payload = encode(message)
        except Exception:
            self._tell_bug_at_once(message)
            return False
        spent_ns = None if began_ns is None else time.monotonic_ns() - began_ns
        if payload is not None:
            self._reply(message, payload, spent_ns)
        elif spent_ns is not None:
            self._note_time(message, spent_ns)
        return payload is not None

    def _tell_bug_at_once(self, message: ControlRequest) -> None:
        event_log.error(
            "bug: a request could not be answered at once; report the traceback",
            traceback=True,
            api=API_VERSIONS[message.api_key].name,
            version=message.api_version,
        )

    def _answer_at_once(self, message: ControlRequest) -> bool:
        """Answers a request that waits for nothing, without a task, which would cost more than the answer."""
        key, version = message.api_key, message.api_version
        at_once = self._for_small(self._at_once, message)
        if at_once is None:
            return False
        began_ns = time.monotonic_ns() if self.limits_time(key) else None
        failed = False
        try:
            body, refused = self._read(message)
            failed = refused is not None
            answer = refused or at_once(body, message, self._advertised[message.listener])
            if answer is None:
                if began_ns is not None:
                    self._note_time(message, time.monotonic_ns() - began_ns)
                return False
            repeatable = None
            if isinstance(answer, Repeatable):
                answer, repeatable = answer
            payload = encode_response(key, version, message.correlation_id, answer)
            if repeatable is not None and self._authorizer.may_repeat and key in LEASED_KEYS:
                at = throttle_time_at(key, version)
                repeatable(SessionLease(self._plane, message, payload, throttle_at=at))
        except ProtocolError:
            return False  # `handle` finds the same error, and reports it
        except Exception:
            self._tell_bug_at_once(message)
            return False
        spent_ns = None if began_ns is None else time.monotonic_ns() - began_ns
        self._reply(message, payload, spent_ns, failed=failed)
        return True

    def _begin(self, message: ControlRequest) -> bool:
        """Takes a request whose answer may have to wait, without a task."""
        begin = self._for_small(self._begins, message)
        if begin is None or self.limits_time(message.api_key):
            return False
        try:
            body, refused = self._read(message)
        except Exception:
            return False  # `handle` finds the same error, and reports it
        begun = BegunRequest(self, message)
        try:
            if refused is not None:
                self.end(message, refused, failed=True)
                return True
            if not begin(body, message, begun):
                return False
        except Exception:
            payload = self._payload_of_bug(message)  # reports it
            if not begun.done():
                begun.drop(payload)
        message.drop_body()
        return True

    def end(self, message: ControlRequest, answer: Response, *, failed: bool) -> None:
        """Answers a request that `_begin` took."""
        work = message.api_key, message.api_version, message.correlation_id, answer
        try:
            encoding = begin_response(*work)
            is_whole = encoding.step(time.monotonic_ns() + _ENCODED_AT_ONCE_NS) == DONE
        except Exception:
            is_whole = False  # the task finds the same, and reports it
        if is_whole:
            self.send(message, encoding, failed=failed)
        else:
            self._spawn(self._answer(message, partial(self._ended, message, answer, failed=failed)))

    async def _ended(
        self, message: ControlRequest, answer: Response, *, failed: bool
    ) -> tuple[bytes | Encoding | None, bool, int]:
        work = message.api_key, message.api_version, message.correlation_id, answer
        return await encoded(*work, self._time_slices), failed, 0

    def send(self, message: ControlRequest, payload: bytes | Encoding | None, *, failed: bool) -> None:
        """Sends an encoded answer. None closes the connection."""
        self._plane.reply(message.connection_id, message.slot, payload)
        self._count(message, failed=failed)

    def _for_small(self, handlers: Mapping[int, H | None], message: ControlRequest) -> H | None:
        """Returns what answers a small request without a task; None if `handle` must."""
        found = handlers.get(message.api_key)
        if found is None or message.body_bytes >= _LAZY_BYTES:
            return None
        if self._needs.get(message.api_key) and not self._authorizer.may_repeat:
            return None  # `handle` may have to decide again, and both would be audited
        return found

    def _read(self, message: ControlRequest) -> tuple[Any, Response | None]:
        """Returns the body of a small request, and the answer to it if its sender lacks a permission."""
        body = decode_request(message.api_key, message.api_version, message.body)
        needs = self._needs.get(message.api_key)  # without an authorizer none
        return body, self._refused_at_once(message, body, needs) if needs else None

    def _refused_at_once(
        self, message: ControlRequest, body: Any, needs: tuple[Requirement, ...]
    ) -> Response | None:
        """Returns the answer to a small request whose sender lacks a permission."""
        from bowstring.engine.api.request_permissions import Checked, check_at_once

        key, version = message.api_key, message.api_version
        try:
            check_at_once(Checked(self._authorizer, message, version, body), needs)
        except KafkaError as error:
            answer = refusal(key, version, body, error)
            assert answer is not None, message  # None would permit it
            return answer
        return None

    async def _answer(self, message: ControlRequest, work: "Payload | None" = None) -> None:
        failed, throttle_ms = True, 0
        payload: bytes | Encoding | None = None
        try:
            payload, failed, throttle_ms = await (self._payload(message) if work is None else work())
        except TooLargeError as error:
            self._refuse(
                message,
                "the response to a request would be too large, so the connection is closed; request less "
                "data at once",
                str(error),
            )
        except ProtocolError as error:
            self._refuse(
                message,
                "a malformed request was received, so its connection is closed; check which program "
                "connects from peer",
                str(error),
            )
        except asyncio.CancelledError:
            raise
        except Exception:
            payload = self._payload_of_bug(message)
        finally:
            self._plane.reply(message.connection_id, message.slot, payload, throttle_ms=throttle_ms)
            self._count(message, failed=failed)

    async def _payload(self, message: ControlRequest) -> tuple[bytes | Encoding | None, bool, int]:
        """Returns the encoded answer, whether the request failed, and how long its connection waits then."""
        key, version = message.api_key, message.api_version
        api = API_VERSIONS[key]
        if key == ApiKeys.API_VERSIONS and not api.lowest <= version <= api.highest:
            from bowstring.engine.api.api_versions import unsupported_version

            return encode_response(key, 0, message.correlation_id, unsupported_version()), True, 0
        # Before anything waits: a connection that has ended meanwhile would be one without a token.
        is_token_authenticated = self.authentication is not None and self.authentication.has_token(
            message.connection_id
        )
        if message.body_bytes < _LAZY_BYTES or self._modules[key] == FORWARDED:
            body = decode_request(key, version, message.body)
        else:
            body = await self._decode_large(message)
        small, before = None, None
        if key in _KEPT and message.body_bytes < _LAZY_BYTES:
            small, before = message.body, self._stamp_now()
        message.drop_body()
        request = Request(
            api_key=key,
            version=version,
            body=body,
            listener=self._advertised[message.listener],
            correlation_id=message.correlation_id,
            client_id=message.client_id,
            principal=message.principal,
            is_token_authenticated=is_token_authenticated,
            peer=message.peer,
            connection_id=message.connection_id,
            slot=message.slot,
            received_ns=message.received_ns,
        )
        try:
            response, throttle_ms = await self._handled(request)
            encoding = await self._encoded(request, response)
        except KafkaError as error:
            answer = refusal(key, version, body, error)
            if answer is None:
                self._refuse(
                    message,
                    "a request was refused, so its connection is closed; detail has the reason",
                    str(error),
                )
                return None, True, 0
            throttle_ms = 0
            if self.throttle is not None:
                answer, throttle_ms = self.throttle.applied(request, answer)
            refused = await encoded(key, version, message.correlation_id, answer, self._time_slices)
            return refused, True, throttle_ms
        keeps = request.keeps and throttle_ms == 0 and encoding.size_bytes <= ANSWER_MAX_BYTES
        if keeps and isinstance(small, bytes) and before is not None and self._authorizer.may_repeat:
            payload = encoding.take()
            rights = self._authorizer.alike(message)
            self._kept.keep(message, small, rights, payload, before=before, now=self._stamp_now())
            return payload, False, throttle_ms
        return encoding, False, throttle_ms

    def _stamp_now(self) -> Stamp:
        if self._stamp is None:
            self._stamp = bound(stamp, self._part)
        return self._stamp()

    async def _handled(self, request: Request) -> tuple[Response, int]:
        """Returns the answer, and how long its connection waits."""
        handled = self.handler(request.api_key)(request)
        if self.throttle is None:
            return await handled, 0
        return self.throttle.applied(request, await self.throttle.timed(request, handled))

    async def _encoded(self, request: Request, response: Response) -> Encoding:
        encoding = encoded(
            request.api_key, request.version, request.correlation_id, response, self._time_slices
        )
        if self.throttle is None:
            return await encoding
        done = await self.throttle.timed(request, encoding)
        self.throttle.note_rest(request)
        return done

    async def _decode_large(self, message: ControlRequest) -> Any:
        """Scans the whole request first, so that a truncated one has no effect; elements are decoded later,
        one by one.
        """
        work = message.api_key, message.api_version, message.body
        if message.body_bytes < _LOOKED_OVER_ELSEWHERE_BYTES:
            return decode_large_request(*work)
        if self._looking_over is None:
            self._looking_over = ThreadPoolExecutor(1, thread_name_prefix="large-request")
        return await asyncio.get_running_loop().run_in_executor(
            self._looking_over, decode_large_request, *work
        )

    def _refuse(self, message: ControlRequest, event: str, detail: str) -> None:
        event_log.warning(
            event,
            api=API_VERSIONS[message.api_key].name,
            version=message.api_version,
            peer=message.peer,
            client=message.client_id or "",
            detail=detail,
        )

    def _payload_of_bug(self, message: ControlRequest) -> bytes | None:
        key, version = message.api_key, message.api_version
        answer = self._answer_to_bug(key, version, message.peer)
        try:
            return None if answer is None else encode_response(key, version, message.correlation_id, answer)
        except ProtocolError:
            return None
