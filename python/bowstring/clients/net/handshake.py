"""Drives the TLS handshake of one connection over its socket."""

from __future__ import annotations

import socket

from bowstring._native.client.tls_channel import TlsChannel
from bowstring._native.tls.session import TlsSession
from bowstring.clients.errors import TlsError
from bowstring.clients.records import Node
from bowstring.security.client_settings import ClientSecurity

RECEIVE_BYTES = 65536


class TlsHandshake:
    """A handshake; when it is done, its session goes on in native code.

    Args:
        node: the broker's address.
        security: of the client, with TLS.
        connected: the socket.

    Raises:
        TlsError: the host's name is invalid.
    """

    def __init__(self, node: Node, security: ClientSecurity, connected: socket.socket):
        assert security.tls is not None
        self._node, self._socket = node, connected
        try:
            self._session = TlsSession(
                security.tls, security.server_host(node.host), f"{node.host}:{node.port}"
            )
        except ValueError as error:
            raise self._failure(error) from error
        self._unsent = memoryview(self._session.outgoing())
        self._plain = b""

    @property
    def wants_write(self) -> bool:
        """Whether the socket had no room for all."""
        return bool(self._unsent)

    def flush(self) -> None:
        """Sends what the socket accepts now."""
        while self._unsent:
            try:
                sent = self._socket.send(self._unsent)
            except BlockingIOError:
                return
            self._unsent = self._unsent[sent:]

    def receive(self) -> None:
        """Goes on with what has arrived.

        Raises:
            TlsError: the sides do not agree, or the broker's certificate is not acceptable.
            EOFError: the broker closed the connection.
        """
        try:
            data = self._socket.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return
        if not data:
            raise EOFError
        try:
            self._plain += self._session.receive(data)
        except ValueError as error:
            self._unsent = memoryview(self._session.outgoing())  # the TLS alert
            self.flush()
            raise self._failure(error) from error
        self._unsent = memoryview(bytes(self._unsent) + self._session.outgoing())
        self.flush()
        if self._session.is_closed:
            raise EOFError

    def finish(self) -> tuple[TlsChannel, bytes] | None:
        """Returns the channel, and plain text that came with the end of the handshake; None before."""
        if not self._session.established or self._unsent:
            return None
        return TlsChannel(self._socket.fileno(), self._session.release()), self._plain

    def _failure(self, error: ValueError) -> TlsError:
        return TlsError(self._node, f"cannot connect to {self._node.host}:{self._node.port}: {error}")
