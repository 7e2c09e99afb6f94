"""Implements one non-blocking socket to one broker: frames, requests in flight, agreed API versions.

A connection first sends ApiVersions (KIP-35, KIP-511); other requests wait for its answer. Every request is
encoded in the newest version that both sides support.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from bowstring._native.arrow.buffer_pool import receive_buffer
from bowstring._native.client.socket_io import receive_rest, receive_some, send_queue
from bowstring.clients.errors import (
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

# A request, or a function that creates one for the agreed version.
Body = Request | Callable[[int], Request | frames.FramedRequest]
Api = type[Request]

RECEIVE_BUFFER_BYTES = 65536
# The answer to ApiVersions has some hundred bytes; a peer that announces more does not speak Kafka.
NEGOTIATION_BYTES_MAX = 1 << 20

CONNECTING, NEGOTIATING, READY, CLOSED = range(4)
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
    ):
        self.node = node
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

    @property
    def wants_write(self) -> bool:
        """Whether the selector must wait for room in the send buffer."""
        return self.state == CONNECTING or bool(self.out)

    @property
    def ready(self) -> bool:
        """Whether the broker's API versions are known."""
        return self.state == READY

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
        self.state = NEGOTIATING
        self._negotiate(frames.API_VERSIONS_HIGHEST if self._meant is None else frames.API_VERSIONS_NAMING)
        return True

    def _negotiate(self, version: int) -> None:
        timeout_s = max(0.001, self.deadline - time.monotonic())
        body = frames.api_versions_body(version, self._meant)
        pending = Pending(self.node, ApiVersionsRequest, body, timeout_s)
        self._negotiation = pending
        self._write(pending, version)

    def send(self, pending: Pending) -> None:
        """Queues a request; it is encoded once the broker's versions are known."""
        if self.state == READY:
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
        self._cut()  # bytes that a produce channel has left
        while True:
            if self.large is not None and not self._receive_large(self.large):
                return
            received = receive_some(self.socket.fileno(), self.received, self.received_bytes)
            if received < 0:
                return
            full = received == RECEIVE_BUFFER_BYTES - self.received_bytes
            self.received_bytes += received
            self._cut()
            if not full and self.large is None:
                return

    def _receive_large(self, frame: memoryview) -> bool:
        """Returns whether the frame that is too large for the small buffer is complete."""
        assert self.socket is not None
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
        return ProtocolError(f"{what}: check that this is a Kafka listener without TLS")

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
        try:
            response = frames.decode_response(pending.api, pending.version, frame)
        except ProtocolError as error:
            garbled = GarbledAnswerError(str(error))
            pending.complete(None, garbled)
            raise garbled from error
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
        self.state = READY
        while self.waiting:  # one by one: if the connection breaks, `close` fails the rest
            request = self.waiting.popleft()
            if not request.done:
                self._encode(request)

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
        self.state = CLOSED
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
