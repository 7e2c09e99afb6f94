"""Sends requests on a few kept connections, without a client library: the program is what is measured."""

from __future__ import annotations

import json
import re
import selectors
import socket
import time
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from bench.procfs import cpu_seconds

TIMEOUT_S = 120.0
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
JSON = "application/vnd.schemaregistry.v1+json"


class Rate(NamedTuple):
    """What some requests took."""

    per_second: float
    cpu_ms: float


def request(url: str, method: str, path: str, body: object = None, kind: str = JSON) -> bytes:
    """Returns a request of HTTP 1.1 as bytes."""
    sent = b"" if body is None else json.dumps(body).encode()
    length = "" if body is None else f"content-type: {kind}\r\ncontent-length: {len(sent)}\r\n"
    return f"{method} {path} HTTP/1.1\r\nhost: {urlsplit(url).netloc}\r\n{length}\r\n".encode() + sent


def measure(url: str, pids: Sequence[int], requests: Sequence[bytes], connections: int) -> Rate:
    """Sends the requests, one after the other on each connection.

    Args:
        url: of the program.
        pids: of the processes whose CPU time counts.
        requests: ready to be sent.
        connections: how many.

    Raises:
        RuntimeError: an answer is no success.
    """
    answers = _Answers(url, requests, connections)
    cpu_before = sum(map(cpu_seconds, pids))
    began = time.perf_counter()
    answers.run()
    seconds = time.perf_counter() - began
    cpu = sum(map(cpu_seconds, pids)) - cpu_before
    return Rate(len(requests) / seconds, 1000 * cpu / len(requests))


def send_all(url: str, requests: Sequence[bytes], connections: int) -> list[bytes]:
    """Sends requests as `measure` does; returns the body of each answer."""
    answers = _Answers(url, requests, connections)
    answers.run()
    return answers.bodies


class _Connection:
    """A connection that waits for the answer to one request at a time."""

    def __init__(self, host: str, port: int):
        self.socket = socket.create_connection((host, port), timeout=TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.number = 0
        self.found = b""


class _Answers:
    """Requests that go out on several connections, in one thread."""

    def __init__(self, url: str, requests: Sequence[bytes], connections: int):
        self.bodies = [b""] * len(requests)
        self._requests = requests
        self._connections = connections
        self._left = iter(range(len(requests)))
        parts = urlsplit(url)
        self._address = parts.hostname or "", parts.port or 0
        self._waiting = selectors.DefaultSelector()

    def run(self) -> None:
        """Sends all of them; returns after the last answer."""
        for _ in range(self._connections):
            connection = _Connection(*self._address)
            self._waiting.register(connection.socket, selectors.EVENT_READ, connection)
            self._send_next(connection)
        while self._waiting.get_map():
            ready = self._waiting.select(TIMEOUT_S)
            if not ready:
                raise RuntimeError(f"no answer came for {TIMEOUT_S:g} s")
            for key, _ in ready:
                self._take(key.data)
        self._waiting.close()

    def _send_next(self, connection: _Connection) -> None:
        number = next(self._left, None)
        if number is None:
            self._waiting.unregister(connection.socket)
            connection.socket.close()
            return
        connection.number = number
        connection.socket.sendall(self._requests[number])

    def _take(self, connection: _Connection) -> None:
        received = connection.socket.recv(1 << 16)
        if not received:
            raise RuntimeError("the connection ended before the answer")
        found = connection.found + received
        head, mark, body = found.partition(b"\r\n\r\n")
        if not mark or len(body) < _length(head):
            connection.found = found
            return
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"{head.splitlines()[0].decode()}: {body.decode()}")
        connection.found = b""
        self.bodies[connection.number] = body
        self._send_next(connection)


def _length(head: bytes) -> int:
    found = _LENGTH.search(head)
    if found is None:
        raise RuntimeError(f"an answer has no length: {head.decode()}")
    return int(found[1])
