"""Implements one non-blocking socket to one broker: frames, requests in flight, agreed API versions.

A connection first sends ApiVersions (KIP-35, KIP-511); other requests wait for its answer. Every request is
encoded in the newest version that both sides support.

    CONNECTING ─▶ SECURING ─▶ NEGOTIATING ─▶ LOGGING_IN ─▶ READY ─▶ CLOSED
                  (TLS)       (ApiVersions)  (SASL)

Before a session of SASL ends, a ready connection logs in again (KIP-368): the login goes behind the
requests in flight, and later requests wait for its end.
"""

from __future__ import annotations

import errno
import os
import random
import socket
import struct
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bowstring._native.arrow.buffer_pool import receive_buffer
from bowstring._native.client.socket_io import receive_rest, receive_some, send_queue
from bowstring.clients.errors import (
    AuthenticationError,
    BrokerUnreachableError,
    ClientError,
    GarbledAnswerError,
    ProtocolError,
    RequestTimedOutError,
    UnresolvedNameError,
    UnsupportedApiError,
)
from bowstring.clients.net import frames
from bowstring.clients.net.purposes import Purpose
from bowstring.clients.records import Node
from bowstring.protocol.messages.api_versions import ApiVersionsRequest
from bowstring.protocol.schema import Request

if TYPE_CHECKING:
    from bowstring._native.client.tls_channel import TlsChannel
    from bowstring.clients.net.handshake import TlsHandshake
    from bowstring.security.client_settings import ClientSecurity
    from bowstring.security.login import Login, LoginRequest

# A request, or a function that creates one for the agreed version.
Body = Request | Callable[[int], Request | frames.FramedRequest]
Api = type[Request]

RECEIVE_BUFFER_BYTES = 65536
# The answer to ApiVersions has some hundred bytes; a peer that announces more does not speak Kafka.
NEGOTIATION_BYTES_MAX = 1 << 20
# ApiVersions once or twice, and the first other request.
FIRST_REQUESTS = 3
# Longest throttle for which requests in flight wait beyond their time; brokers may announce 24 days.
THROTTLE_MAX_S = 120.0

CONNECTING, SECURING, NEGOTIATING, LOGGING_IN, READY, CLOSED = range(6)
_TLS_ALERT = b"\x15\x03"  # the first bytes of the answer of a TLS server to plain text
_IN_PROGRESS = (errno.EINPROGRESS, errno.EWOULDBLOCK)


class Pending:
    """A request in flight. `done` becomes true inside `NetworkClient.poll`, with `response` or `error`
    set.
    """

    __slots__ = (
        "api",
        "body",
        "callback",
        "correlation_id",
        "deadline",
        "done",
        "error",
        "expects_reply",
        "node",
        "response",
        "timeout_s",
        "version",
    )

    def __init__(
        self,
        node: Node,
        api: Api,
        body: Body,
        timeout_s: float,
        *,
        callback: Callable[[Pending], None] | None = None,
        expects_reply: bool = True,
    ):
        self.node = node
        self.api = api
        self.body: Body | None = body
        self.timeout_s = timeout_s
        self.deadline = time.monotonic() + timeout_s
        self.callback = callback
        self.expects_reply = expects_reply
        self.correlation_id = -1
        self.version = -1
        self.done = False
        self.response: Any = None
        self.error: ClientError | None = None

    def complete(self, response: Any, error: ClientError | None) -> None:
        """Sets the outcome once and runs the callback."""
        if self.done:
            return
        self.done = True
        self.response = response
        self.error = error
        self.body = None
        if self.callback is not None:
            self.callback(self)

    def result(self) -> Any:
        """Returns the response, or raises the error."""
        if self.error is not None:
            raise self.error
        assert self.done, "result() was called before the request was done"
        return self.response


class Connection:
    """One socket to one broker and its requests in flight."""

    def __init__(
        self,
        node: Node,
        client_id: str,
        connect_timeout_s: float,
        *,
        purpose: Purpose = Purpose.GENERAL,
        transactional: bool = False,
        meant: frames.Meant | None = None,
        security: ClientSecurity | None = None,
    ):
        self.node = node
        self._security = security
        self._handshake: TlsHandshake | None = None
        self.tls: TlsChannel | None = None
        self._login: Login | None = None
        self._login_step: Pending | None = None
        self._connect_timeout_s = connect_timeout_s
        self.renew_at: float | None = None  # when to log in again
        self._meant = meant
        self.purpose = purpose
        self.versions: dict[int, tuple[int, int]] = {}
        self.features: dict[str, int] = {}
        self._transactional = transactional
        self._chosen: dict[Api, int] = {}  # versions chosen so far, by API
        self.state = CONNECTING
        self.waiting: deque[Pending] = deque()
        self.in_flight: deque[Pending] = deque()
        self.unanswered: deque[Pending] = deque()  # expect no reply: done when they are written
        self.replies: deque[tuple[Pending, memoryview]] = deque()
        self.deadline = time.monotonic() + connect_timeout_s
        self._client_id = client_id
        self.correlation_id = 0
        self.out: deque[memoryview] = deque()
        self.received = bytearray(RECEIVE_BUFFER_BYTES)
        self._received_view = memoryview(self.received)
        self.frame_bytes_max = RECEIVE_BUFFER_BYTES // 2  # largest frame received in the small buffer
        self.received_bytes = 0
        self.corked = False
        self.large: memoryview | None = None
        self._large_filled = 0
        self._negotiation: Pending | None = None
        self._addresses: deque[tuple[Any, ...]] = deque()
        self.socket: socket.socket | None = None
        self.last_used = time.monotonic()
        self.throttled_until = 0.0  # the broker reads nothing until then (KIP-219)

    @property
    def wants_write(self) -> bool:
        """Whether the selector must wait for room in the send buffer."""
        if self._handshake is not None:
            return self._handshake.wants_write
        return self.state == CONNECTING or bool(self.out)

    @property
    def ready(self) -> bool:
        """Whether requests can be sent at once."""
        return self.state == READY and self._login is None

    @property
    def is_open(self) -> bool:
        """Whether it was ready once and is not closed: it may be logging in again."""
        return self.state == READY

    @property
    def advice(self) -> str:
        """What to check if the broker closes the connection now; empty when nothing is likely."""
        has_tls = self._security is not None and self._security.tls is not None
        if self.state == SECURING:
            return "The listener may have no TLS: check security.protocol and the port"
        if self.state == NEGOTIATING and has_tls:
            return "The listener may require a certificate of this client: see ssl.certificate.location"
        if self.state == NEGOTIATING:
            return "The listener may need TLS: check security.protocol and the port"
        if self.state == LOGGING_IN:
            return "The broker may refuse the login: check sasl.mechanism, user name and password"
        is_first = self.correlation_id <= FIRST_REQUESTS and bool(self.in_flight)
        if self.state == READY and is_first and not (self._security and self._security.mechanism):
            return "The listener may need SASL: check security.protocol"
        return ""

    def is_idle(self, seconds: float) -> bool:
        """Whether no request has been under way for this long."""
        busy = not self.ready or self.in_flight or self.unanswered or self.waiting
        return not busy and time.monotonic() - self.last_used >= seconds

    def connect(self) -> None:
        """Starts connecting to the first address that the name resolves to.

        Raises:
            BrokerUnreachableError: the name does not resolve, or every address refuses at once.
        """
        try:
            found = socket.getaddrinfo(self.node.host, self.node.port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise UnresolvedNameError(self.node, f"the name does not resolve ({error.strerror})") from error
        self._addresses = deque(found)
        self._try_next_address(None)

    def _try_next_address(self, failure: OSError | None) -> None:
        while self._addresses:
            family, kind, protocol, _, address = self._addresses.popleft()
            try:
                attempt = socket.socket(family, kind, protocol)
            except OSError as error:  # e.g. no IPv6 on this machine
                failure = error
                continue
            attempt.setblocking(False)
            attempt.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            attempt.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            code = attempt.connect_ex(address)
            if code == 0 or code in _IN_PROGRESS:
                self.socket = attempt
                return
            attempt.close()
            failure = OSError(code, os.strerror(code))
        assert failure is not None
        raise BrokerUnreachableError(self.node, failure.strerror or str(failure)) from failure

    def finish_connect(self) -> bool:
        """Handles a writable socket: returns true when connected, false when the next address is tried."""
        assert self.socket is not None
        code = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code != 0:
            self.socket.close()
            self.socket = None
            self._try_next_address(OSError(code, os.strerror(code)))
            return False
        if self._security is not None and self._security.tls is not None:
            from bowstring.clients.net.handshake import TlsHandshake

            self.state = SECURING
            self._handshake = TlsHandshake(self.node, self._security, self.socket)
            self.flush()
        else:
            self._begin_negotiation()
        return True

    def _begin_negotiation(self) -> None:
        self.state = NEGOTIATING
        self._negotiate(frames.API_VERSIONS_HIGHEST if self._meant is None else frames.API_VERSIONS_NAMING)

    def _negotiate(self, version: int) -> None:
        timeout_s = max(0.001, self.deadline - time.monotonic())
        body = frames.api_versions_body(version, self._meant)
        pending = Pending(self.node, ApiVersionsRequest, body, timeout_s)
        self._negotiation = pending
        self._write(pending, version)

    def send(self, pending: Pending) -> None:
        """Queues a request; it is encoded once the broker's versions are known and the login is done."""
        if self.ready:
            self._encode(pending)
        else:
            self.waiting.append(pending)

    def _encode(self, pending: Pending) -> None:
        version = self._chosen.get(pending.api)
        if version is None:
            try:
                version = self._chosen[pending.api] = frames.choose_version(pending.api, self.versions)
            except UnsupportedApiError as error:
                pending.complete(None, error)
                return
        self._write(pending, version)

    def _write(self, pending: Pending, version: int) -> None:
        body = pending.body
        assert body is not None
        self.correlation_id = (self.correlation_id + 1) & 0x7FFFFFFF
        pending.correlation_id = self.correlation_id
        pending.version = version
        try:
            request = body if isinstance(body, Request) else body(version)
            buffers = frames.encode_request(request, version, pending.correlation_id, self._client_id)
        except ClientError as error:
            pending.complete(None, error)
            return
        self.out.extend(buffers)
        pending.body = None
        # From here on `close` fails the request.
        (self.in_flight if pending.expects_reply else self.unanswered).append(pending)
        if not self.corked:
            self.flush()

    def version_of(self, api: Api) -> int | None:
        """Returns the version used for requests of `api`; None before one was sent."""
        return self._chosen.get(api)

    def flush(self) -> None:
        """Sends what the socket accepts now. Raises OSError when the connection is gone."""
        self.last_used = time.monotonic()
        assert self.socket is not None
        if self.tls is not None:
            self.tls.send_queue(self.out)
        elif self._handshake is not None:
            self._handshake.flush()
            self._end_handshake(self._handshake)
        else:
            send_queue(self.socket.fileno(), self.out)
        while self.unanswered and not self.out:
            self.unanswered.popleft().complete(None, None)

    def receive(self) -> None:
        """Receives what has arrived; adds complete replies to `replies` with their requests.

        A reply owns its memory: views into it stay valid for as long as they are kept.

        Raises:
            OSError, EOFError: the connection is gone.
            ProtocolError: the bytes are not Kafka's protocol.
        """
        assert self.socket is not None
        if self._handshake is not None:
            self._handshake.receive()
            self._end_handshake(self._handshake)
            return
        self._cut()  # bytes that a produce channel has left
        while True:
            if self.large is not None and not self._receive_large(self.large):
                return
            if self.tls is not None:
                received = self.tls.receive_some(self.received, self.received_bytes)
            else:
                received = receive_some(self.socket.fileno(), self.received, self.received_bytes)
            if received < 0:
                return
            full = received == RECEIVE_BUFFER_BYTES - self.received_bytes
            self.received_bytes += received
            self._cut()
            if not full and self.large is None:
                return

    def _end_handshake(self, handshake: TlsHandshake) -> None:
        """Goes on with ApiVersions when the handshake is done."""
        done = handshake.finish()
        if done is None:
            return
        self.tls, plain = done
        self._handshake = None
        self.received[: len(plain)] = plain
        self.received_bytes = len(plain)
        self._begin_negotiation()

    def _receive_large(self, frame: memoryview) -> bool:
        """Returns whether the frame that is too large for the small buffer is complete."""
        assert self.socket is not None
        if self.tls is not None:
            self._large_filled = self.tls.receive_rest(frame, self._large_filled)
        else:
            self._large_filled = receive_rest(self.socket.fileno(), frame, self._large_filled)
        if self._large_filled < len(frame):
            return False
        self.large = None
        self.replies.append(self._match(frame))
        return True

    def _cut(self) -> None:
        """Cuts complete frames out of the small buffer; the rest of a larger one gets its own memory."""
        at, end, view = 0, self.received_bytes, self._received_view
        while end - at >= 4:
            (size,) = struct.unpack_from(">i", self.received, at)
            if size < 4 or (self.state != READY and size > NEGOTIATION_BYTES_MAX):
                if self.state == NEGOTIATING and view[at : at + 2] == _TLS_ALERT:
                    raise ProtocolError(
                        f"{self.node} speaks TLS: set security.protocol to SSL or SASL_SSL, or use the "
                        "port of a "
                        "PLAINTEXT listener"
                    )
                raise self._nonsense(f"{self.node} sent a frame of {size} bytes")
            have = end - at - 4
            if have < size:
                if size <= self.frame_bytes_max:
                    break
                frame = self._room(size)
                frame[:have] = view[at + 4 : end]
                self.large, self._large_filled = frame, have
                at = end
                break
            self.replies.append(self._match(memoryview(bytes(view[at + 4 : at + 4 + size]))))
            at += 4 + size
        if at:
            self.received[: end - at] = self.received[at:end]
            self.received_bytes = end - at

    def _room(self, size: int) -> memoryview:
        """Allocates memory for an answer; the system provides pages as bytes arrive."""
        try:
            return memoryview(receive_buffer(size))
        except MemoryError as error:
            raise self._nonsense(
                f"{self.node} announces an answer of {size} bytes, more than the available memory"
            ) from error

    def _nonsense(self, what: str) -> ProtocolError:
        """Returns the error for bytes that are not an answer; retriable only if the peer has answered
        correctly before.
        """
        if self.state == READY:
            return GarbledAnswerError(what)
        cure = "without TLS" if self.tls is None else "with TLS"
        return ProtocolError(
            f"{what}: check security.protocol, and that this is the port of a Kafka listener {cure}"
        )

    def _match(self, frame: memoryview) -> tuple[Pending, memoryview]:
        (correlation_id,) = struct.unpack_from(">i", frame, 0)
        if not self.in_flight or self.in_flight[0].correlation_id != correlation_id:
            raise self._nonsense(f"{self.node} answered request {correlation_id} out of order")
        return self.in_flight.popleft(), frame

    def finish(self) -> None:
        """Decodes the next reply and completes its request.

        Raises:
            ProtocolError: the reply cannot be decoded; the request is completed with the same error.
        """
        pending, frame = self.replies.popleft()
        if pending is self._negotiation:
            self._finish_negotiation(pending, frame)
            return
        if pending is self._login_step:
            self._continue_login(pending, frame)
            return
        try:
            response = frames.decode_response(pending.api, pending.version, frame)
        except ProtocolError as error:
            garbled = GarbledAnswerError(str(error))
            pending.complete(None, garbled)
            raise garbled from error
        if throttle_time_ms := getattr(response, "throttle_time_ms", 0):
            self.throttle(throttle_time_ms)
        pending.complete(response, None)

    def _finish_negotiation(self, pending: Pending, frame: memoryview) -> None:
        offered = frames.decode_api_versions(pending.version, frame)
        if offered.retry_version is not None:
            self._negotiate(offered.retry_version)
            return
        pending.complete(None, None)
        self._negotiation = None
        self.versions = frames.for_transactions(offered) if self._transactional else offered.by_key
        self.features = offered.features
        if self._security is not None and self._security.mechanism:
            self.state = LOGGING_IN
            self._begin_login(self.deadline)
        else:
            self._become_ready()

    def _become_ready(self) -> None:
        self.state = READY
        while self.waiting:  # one by one: if the connection breaks, `close` fails the rest
            request = self.waiting.popleft()
            if not request.done:
                self._encode(request)

    # ------------------------------------------------------------ login

    def renew(self) -> None:
        """Logs in again behind the requests in flight; later ones wait."""
        self.renew_at = None
        now = time.monotonic()
        self.deadline = max([now, *(each.deadline for each in self.in_flight)]) + self._connect_timeout_s
        self._begin_login(self.deadline)

    def _begin_login(self, deadline: float) -> None:
        from bowstring.security.login import Login

        assert self._security is not None
        sasl = self._security.new_sasl(self.node.host)
        assert sasl is not None
        self._login = Login(sasl, self.versions, peer=f"{self.node.host}:{self.node.port}")
        self._step_login(self._login.first, deadline)

    def _step_login(self, step: Callable[[], LoginRequest | None], deadline: float) -> bool:
        """Sends what `step` returns; returns whether there is something."""
        from bowstring.security.login import LoginError

        try:
            request = step()
        except LoginError as error:
            failure = AuthenticationError(self.node, str(error), error.error_code)
            failure.retriable = error.retriable
            raise failure from error
        if request is None:
            return False
        timeout_s = max(0.001, deadline - time.monotonic())
        self._login_step = Pending(self.node, type(request.body), request.body, timeout_s)
        self._write(self._login_step, request.version)
        return True

    def _continue_login(self, pending: Pending, frame: memoryview) -> None:
        assert self._login is not None
        login = self._login
        response = frames.decode_response(pending.api, pending.version, frame)
        pending.complete(None, None)
        if self._step_login(lambda: login.next(response), self.deadline):
            return
        self._login = self._login_step = None
        after_s = login.reauthenticate_after_s(random.random())
        self.renew_at = time.monotonic() + after_s if after_s is not None else None
        self._become_ready()

    def throttle(self, throttle_time_ms: int) -> None:
        """Notes that the broker reads nothing for this long; no longer than THROTTLE_MAX_S counts."""
        self.throttled_until = time.monotonic() + min(throttle_time_ms / 1e3, THROTTLE_MAX_S)

    def expires_at(self, pending: Pending) -> float:
        """Returns when a request in flight has waited too long: time during which the broker reads nothing
        from a client above its quota does not count, up to THROTTLE_MAX_S.
        """
        if not self.throttled_until:
            return pending.deadline
        return max(pending.deadline, self.throttled_until + pending.timeout_s)

    def expire_waiting(self, now: float) -> None:
        """Fails the requests that were never sent and whose time is over."""
        late = [pending for pending in self.waiting if now >= pending.deadline]
        for pending in late:
            self.waiting.remove(pending)
        for pending in late:
            pending.complete(
                None, RequestTimedOutError(frames.api_name(pending.api), pending.node, pending.timeout_s)
            )

    def close(self, error: ClientError) -> None:
        """Closes the socket; fails all requests in flight with `error`."""
        if self.tls is not None and self.state == READY and not self.out:
            self.tls.end()
        self.state = CLOSED
        self._handshake = self._login = self._login_step = None
        if self.socket is not None:
            self.socket.close()
            self.socket = None
        self.out.clear()
        answered = [pending for pending, _ in self.replies]
        failed = [*answered, *self.in_flight, *self.unanswered, *self.waiting]
        self.replies.clear()
        self.in_flight.clear()
        self.unanswered.clear()
        self.waiting.clear()
        for pending in failed:
            pending.complete(None, error)
