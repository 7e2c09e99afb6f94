"""Generates a load of many connections, each with one small request at a time, as many clients would.

It implements the protocol itself, in one thread, because a client for each connection would use up the
processors.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

from bench.peers.wire import check_produced, produce_frame
from bowstring._native.record.encode import encode_batch

if TYPE_CHECKING:
    from bench.kreps.loads import Order, Progress

# Of an order's settings, beside those that producers have.
CONNECTIONS = "connections"
PARTITIONS = "partitions"
RECORDS_A_REQUEST = 10
SILENCE_SECONDS = 30.0
REPLY_BYTES_MAX = 65536
LATENCIES_MAX = 200_000


def produce(order: Order, progress: Progress) -> Iterator[None]:
    """Sends requests of RECORDS_A_REQUEST records, one in flight on each connection, until all are
    acknowledged.
    """
    requests = -(-order.records // RECORDS_A_REQUEST)
    with ExitStack() as held:
        load = _Load(held, order)
        yield
        load.run(requests, progress)


class _Load:
    def __init__(self, held: ExitStack, order: Order):
        value, now_ms = b"x" * order.record_bytes, int(time.time() * 1000)
        batch = encode_batch([(None, value, now_ms, None)] * RECORDS_A_REQUEST)
        host, port = order.bootstrap.split(",")[0].rsplit(":", 1)
        self._topic = order.topic
        self._epoll = held.enter_context(select.epoll())
        self._sockets: dict[int, socket.socket] = {}
        self._frames: dict[int, bytes] = {}
        self._sent_at: dict[int, float] = {}
        for number in range(int(order.settings[CONNECTIONS])):
            made = held.enter_context(socket.create_connection((host, int(port)), timeout=SILENCE_SECONDS))
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._epoll.register(made, select.EPOLLIN)
            self._sockets[made.fileno()] = made
            partition = number % int(order.settings[PARTITIONS])
            self._frames[made.fileno()] = produce_frame(
                order.topic, partition, batch, int(order.settings["acks"])
            )

    def run(self, requests: int, progress: Progress) -> None:
        """Sends `requests`; returns when all are answered."""
        left, answered = requests, 0
        for descriptor in list(self._sockets)[:left]:
            self._send(descriptor)
            left -= 1
        while answered < requests:
            found = self._epoll.poll(SILENCE_SECONDS)
            if not found:
                raise TimeoutError(f"no answer within {SILENCE_SECONDS:.0f} s, after {answered} requests")
            now = time.monotonic()
            for descriptor, _ in found:
                self._receive(descriptor)
                answered += 1
                progress.records += RECORDS_A_REQUEST
                if len(progress.latencies_ms) < LATENCIES_MAX:
                    progress.latencies_ms.append((now - self._sent_at[descriptor]) * 1000)
                if left > 0:
                    self._send(descriptor)
                    left -= 1

    def _send(self, descriptor: int) -> None:
        self._sent_at[descriptor] = time.monotonic()
        self._sockets[descriptor].sendall(self._frames[descriptor])

    def _receive(self, descriptor: int) -> None:
        reply = self._sockets[descriptor].recv(REPLY_BYTES_MAX)
        while len(reply) < 4 or len(reply) < 4 + struct.unpack_from(">i", reply)[0]:
            more = self._sockets[descriptor].recv(REPLY_BYTES_MAX)
            if not more:
                raise ConnectionError("the broker closed a connection")
            reply += more
        check_produced(reply[8:], self._topic)
