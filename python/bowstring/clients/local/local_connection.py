"""Implements the client side of a broker's Unix socket: identity and open segment files
(docs/internals/local-reads.md).
"""

from __future__ import annotations

import os
import socket
import struct
from typing import Any

from bowstring.clients.errors import BrokerError, ClientTimeoutError, LocalReadsUnavailableError, broker_error
from bowstring.protocol import local_reads
from bowstring.protocol.local_reads import Hello, LocalFrameError, Segments, SegmentsRequest

ADDRESS_BYTES_MAX = 107
ANSWER_BYTES_MAX = 64 << 20
RECEIVE_BYTES = 1 << 16
_LENGTH = struct.Struct(">i")


class LocalConnection:
    """A connection to the socket of a broker on this machine: one thread, one request at a time.

    Args:
        path: of the socket, as the broker reports it over TCP.
        client_id: name that the broker logs.
        token: logs in; the broker gives it over TCP. Empty: without a login.
        timeout_ms: time for an answer, in addition to the wait that the request allows.

    Raises:
        LocalReadsUnavailableError: no process answers there, or this user may not connect.
    """

    def __init__(
        self, path: str, client_id: str = "bowstring-local", timeout_ms: int = 30_000, *, token: str = ""
    ):
        self.path = path
        self._timeout_s = timeout_ms / 1000
        self._correlation_id = 0
        self._socket = _connect(path, self._timeout_s)
        try:
            self.hello = self._hello(client_id, token)
        except BaseException:
            self.close()
            raise

    def _hello(self, client_id: str, token: str) -> Hello:
        try:
            reader, descriptors = self._ask(
                local_reads.encode_hello_request(self._next(), client_id, token),
                self._timeout_s,
                f"asking {self.path}",
            )
            _close_all(descriptors)
            return local_reads.decode_hello(reader)
        except BrokerError as error:
            raise self._lost(str(error)) from error
        except LocalFrameError as error:
            raise self._lost(f"the process that listens there is not a broker: {error}") from error

    def segments(self, request: SegmentsRequest) -> Segments:
        """Returns the segments with the requested records; the caller closes their descriptors.

        Raises:
            BrokerError: the broker refuses, with the error that Fetch would return.
            LocalReadsUnavailableError: the broker is gone, or this process has no free descriptor.
            ClientTimeoutError: no answer within the timeout.
        """
        frame = local_reads.encode_segments_request(self._next(), request)
        context = f"reading {request.topic}-{request.partition} at offset {request.fetch_offset}"
        reader, descriptors = self._ask(frame, self._timeout_s + request.max_wait_ms / 1000, context)
        try:
            answer = local_reads.decode_segments(reader)
            if request.descriptors and len(descriptors) != len(answer.segments):
                raise self._lost(
                    f"only {len(descriptors)} of {len(answer.segments)} descriptors arrived; raise the "
                    "limit on open files (ulimit -n)"
                )
        except LocalFrameError as error:
            _close_all(descriptors)
            raise self._lost(str(error)) from error
        except BaseException:
            _close_all(descriptors)
            raise
        for segment, descriptor in zip(answer.segments, descriptors, strict=False):
            segment.fd = descriptor
        return answer

    def close(self) -> None:
        """Closes the connection; received files stay open."""
        self._socket.close()

    # ------------------------------------------------------------ frames

    def _next(self) -> int:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        return self._correlation_id

    def _lost(self, reason: str) -> LocalReadsUnavailableError:
        self.close()
        return LocalReadsUnavailableError(f"{self.path}: {reason}")

    def _ask(self, frame: bytes, timeout_s: float, context: str) -> tuple[Any, list[int]]:
        descriptors: list[int] = []
        try:
            self._socket.settimeout(timeout_s)
            self._socket.sendall(frame)
            body = self._receive(descriptors)
            correlation_id, code, message, reader = local_reads.decode_response_header(body)
        except TimeoutError as error:
            self.close()
            _close_all(descriptors)
            raise ClientTimeoutError(
                f"{context}: the broker did not answer within {timeout_s:g} s"
            ) from error
        except (OSError, LocalFrameError) as error:
            _close_all(descriptors)
            raise self._lost(str(error)) from error
        if correlation_id != self._correlation_id:
            _close_all(descriptors)
            raise self._lost(f"got answer {correlation_id} to request {self._correlation_id}")
        if code:
            _close_all(descriptors)
            raise broker_error(code, context, message)
        return reader, descriptors

    def _receive(self, descriptors: list[int]) -> bytes:
        """Receives one frame; open files come with its first bytes."""
        data = bytearray()
        wanted = _LENGTH.size
        while len(data) < wanted:
            piece, given, flags, _ = socket.recv_fds(
                self._socket, RECEIVE_BYTES, local_reads.SEGMENTS_MAX, socket.MSG_CMSG_CLOEXEC
            )
            descriptors += given
            if flags & socket.MSG_CTRUNC:
                raise LocalFrameError(
                    "descriptors were lost because this process has too many open files: raise the limit "
                    "(ulimit -n)"
                )
            if not piece:
                raise LocalFrameError("the broker closed the connection")
            data += piece
            if wanted == _LENGTH.size and len(data) >= wanted:
                (size,) = _LENGTH.unpack_from(data)
                if not 0 < size <= ANSWER_BYTES_MAX:
                    raise LocalFrameError(f"an answer has the invalid size {size}")
                wanted += size
        if len(data) > wanted:
            raise LocalFrameError(f"{len(data) - wanted} unexpected bytes follow an answer")
        return bytes(data[_LENGTH.size :])


def _connect(path: str, timeout_s: float) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(timeout_s)
    directory = -1
    try:
        address = path
        if len(os.fsencode(path)) > ADDRESS_BYTES_MAX:
            directory = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            address = f"/proc/self/fd/{directory}/{os.path.basename(path)}"
        connection.connect(address)
    except OSError as error:
        connection.close()
        reason = {
            FileNotFoundError: "this socket does not exist on this machine",
            ConnectionRefusedError: "no process listens there",
            PermissionError: "this user may not connect; see bowstring.local.socket.permissions",
        }.get(type(error), error.strerror or str(error))
        raise LocalReadsUnavailableError(f"{path}: {reason}") from error
    finally:
        if directory >= 0:
            os.close(directory)
    return connection


def _close_all(descriptors: list[int]) -> None:
    while descriptors:
        os.close(descriptors.pop())
