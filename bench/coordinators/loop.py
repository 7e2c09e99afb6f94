"""Drives many connections and timers from one thread, with epoll."""

from __future__ import annotations

import heapq
import itertools
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from bowstring.protocol import decode_response, encode_request
from bowstring.protocol.schema import Request, Response

SILENCE_SECONDS = 60.0
RECEIVE_BYTES = 1 << 17
CLIENT_ID = "bench"

# Called with an answer's frame, without its length, and the seconds that it took.
Answered = Callable[[bytes, float], None]


def frame_of(body: Request, version: int) -> bytes:
    """Encodes a request as sent. Its correlation id is 0: a connection answers in order."""
    data = encode_request(body, version, 0, CLIENT_ID)
    return struct.pack(">i", len(data)) + data


def answer_of(request: type[Request], version: int, frame: bytes) -> Any:
    """Decodes an answer's frame."""
    return decode_response(request.api_key, version, frame)[1]


class Wire:
    """One connection. Answers arrive in the order of the requests."""

    __slots__ = ("_received", "_socket", "_waiting", "descriptor")

    def __init__(self, connected: socket.socket):
        self._socket = connected
        self._received = b""
        self._waiting: deque[tuple[float, Answered]] = deque()
        self.descriptor = connected.fileno()

    def send(self, frame: bytes, answered: Answered) -> None:
        """Sends a frame of `frame_of`; `answered` is called when its answer has come."""
        self._waiting.append((time.monotonic(), answered))
        self._socket.sendall(frame)

    def ask(self, body: Request, version: int, answered: Callable[[Any], None]) -> None:
        """Sends a request; `answered` is called with the decoded answer."""
        kind = type(body)
        self.send(frame_of(body, version), lambda frame, seconds: answered(answer_of(kind, version, frame)))

    def receive(self, now: float) -> None:
        """Takes the answers that have arrived at the time `now`.

        Raises:
            ConnectionError: The broker closed the connection.
        """
        data = self._socket.recv(RECEIVE_BYTES)
        if not data:
            raise ConnectionError("the broker closed a connection")
        if self._received:
            data = self._received + data
        at, end = 0, len(data)
        while end - at >= 4:
            size = int.from_bytes(data[at : at + 4], "big")
            if end - at - 4 < size:
                break
            sent_at, answered = self._waiting.popleft()
            answered(data[at + 4 : at + 4 + size], now - sent_at)
            at += 4 + size
        self._received = data[at:]


class Loop:
    """Connections to one broker and timers; `with` closes them.

    Args:
        bootstrap: `host:port` of the broker.
    """

    def __init__(self, bootstrap: str):
        host, port = bootstrap.rsplit(":", 1)
        self._address = (host, int(port))
        self._held = ExitStack()
        self._epoll = self._held.enter_context(select.epoll())
        self._wires: dict[int, Wire] = {}
        self._sockets: dict[int, socket.socket] = {}
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def __enter__(self) -> Loop:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._held.close()

    def connect(self) -> Wire:
        """Opens a connection."""
        connected = self._held.enter_context(socket.create_connection(self._address, timeout=SILENCE_SECONDS))
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        wire = Wire(connected)
        self._epoll.register(connected, select.EPOLLIN)
        self._wires[wire.descriptor] = wire
        self._sockets[wire.descriptor] = connected
        return wire

    def close(self, wire: Wire) -> None:
        """Closes a connection, as the end of its process would."""
        del self._wires[wire.descriptor]
        self._epoll.unregister(wire.descriptor)
        self._sockets.pop(wire.descriptor).close()

    def at(self, when: float, call: Callable[[], None]) -> None:
        """Calls `call` at a time of time.monotonic()."""
        heapq.heappush(self._timers, (when, next(self._numbers), call))

    def run(self, done: Callable[[], bool], timeout_seconds: float = SILENCE_SECONDS) -> None:
        """Works until `done`, called after each turn, returns true.

        Raises:
            TimeoutError: It did not within `timeout_seconds`.
        """
        deadline = time.monotonic() + timeout_seconds
        timers = self._timers
        while not done():
            now = time.monotonic()
            if now > deadline:
                raise TimeoutError(f"not done within {timeout_seconds:.0f} s")
            while timers and timers[0][0] <= now:
                heapq.heappop(timers)[2]()
            # epoll counts milliseconds: without a limit it would wait up to one too long
            wait = min(timers[0][0], deadline) - now if timers else 0.1
            found = self._epoll.poll(max(0.0, min(wait, 0.1)), 1024)
            now = time.monotonic()
            for descriptor, _ in found:
                wire = self._wires.get(descriptor)
                if wire is not None:
                    wire.receive(now)

    def run_for(self, seconds: float) -> None:
        """Works for `seconds`."""
        until = time.monotonic() + seconds
        self.run(lambda: time.monotonic() >= until, seconds + SILENCE_SECONDS)

    def asked(self, wire: Wire, body: Request, version: int) -> Response:
        """Sends one request, and works until its answer is there."""
        answers: list[Response] = []
        wire.ask(body, version, answers.append)
        self.run(lambda: bool(answers))
        return answers[0]
