"""Carries the bytes of a connection to another node over TLS, and logs in by SASL.

A link owns its socket, so that it can be given to a reactor: no byte that arrived is then left in a buffer of
the event loop.
"""

import asyncio
import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from bowstring.protocol import ProtocolError, decode_response, encode_request
from bowstring.protocol.messages.api_versions import ApiVersionsRequest

if TYPE_CHECKING:
    from bowstring._native.tls.session import TlsSession
    from bowstring.security.client_settings import ClientSecurity
    from bowstring.security.login import LoginRequest

SOFTWARE: Final = "bowstring"
SOFTWARE_VERSION: Final = "1"
_API_VERSIONS_VERSION: Final = 3
_RESERVE_S: Final = 30.0
"""Before the end of a session: a busy node, too, replaces its connection in time. Half of a short session."""
_RECEIVE_BYTES: Final = 64 << 10
_FRAME_MAX_BYTES: Final = 1 << 20
"""Of an answer while logging in."""
_TLS: Final = (
    "closed the connection during the TLS handshake; check that its listener has TLS, and accepts this "
    "node's certificate"
)
_FIRST: Final = (
    "closed the connection before the first answer; check that its listener has this security protocol, "
    "and that it trusts this node's certificate"
)
_SASL: Final = "closed the connection during the SASL login; check user name and password"


class LinkSecurityError(ConnectionError):
    """One side does not accept the other: its certificate, its login, or how it talks."""


class SecureLink:
    """One connection. Not thread-safe; one task reads or writes at a time.

    `readexactly`, `write`, `drain` and `at_eof` do what those of asyncio's streams do.

    Attributes:
        when_closed: What it means that the other side closes the connection, while `secure` runs.
        versions: The versions of APIs that the node has.
        renews_at_s: Until then, by the loop's clock, the login holds with some reserve; None: for good.
    """

    def __init__(self, sock: socket.socket, peer: str) -> None:
        self.when_closed = _TLS
        self.versions: dict[int, tuple[int, int]] = {}
        self.renews_at_s: float | None = None
        self._sock = sock
        self._peer = peer
        self._session: TlsSession | None = None
        self._loop = asyncio.get_running_loop()
        self._received = bytearray()
        self._unsent = bytearray()
        self._correlation_id = 0
        self._has_ended = False
        self._waits = False
        self._is_closed = False

    # ------------------------------------------------------------ beginning

    async def secure(self, client: "ClientSecurity", host: str, client_id: str) -> None:
        """Makes the TLS session, and logs in.

        Raises:
            LinkSecurityError: The message says what is wrong.
            OSError, EOFError: The other side ended the connection.
        """
        if client.tls is not None:
            from bowstring._native.tls.session import TlsSession

            self._session = TlsSession(client.tls, client.server_host(host), self._peer)
            await self._handshake(self._session)
        self.when_closed = _FIRST
        # With TLS 1.3 a client has ended the handshake before the other side looks at its certificate.
        await self._ask_versions(client_id)
        self.when_closed = _SASL
        if client.protocol.startswith("SASL"):
            await self._log_in(client, host, client_id)

    async def _handshake(self, session: "TlsSession") -> None:
        self._unsent += session.outgoing()
        await self.drain()
        while not session.established:
            await self._receive()

    async def _log_in(self, client: "ClientSecurity", host: str, client_id: str) -> None:
        """Logs in (KIP-43, KIP-152), and finds out how long that holds (KIP-368)."""
        from bowstring.security.login import Login, LoginError

        sasl = client.new_sasl(host)
        assert sasl is not None, "protocols with SASL have a mechanism"
        try:
            login = Login(sasl, self.versions, peer=self._peer)
            request: LoginRequest | None = login.first()
            while request is not None:
                answer = await self._ask(request.body, request.version, client_id)
                # It derives keys, or gets a token from an identity provider.
                request = await self._loop.run_in_executor(None, login.next, answer)
        except (LoginError, ValueError) as error:
            raise LinkSecurityError(str(error)) from error
        after_s = login.reauthenticate_after_s(random.random())
        if after_s is not None:
            lifetime_s = login.lifetime_ms / 1000
            self.renews_at_s = self._loop.time() + min(after_s, max(lifetime_s / 2, lifetime_s - _RESERVE_S))

    async def _ask_versions(self, client_id: str) -> None:
        asked = ApiVersionsRequest(client_software_name=SOFTWARE, client_software_version=SOFTWARE_VERSION)
        answer = await self._ask(asked, _API_VERSIONS_VERSION, client_id)
        if answer.error_code:
            raise LinkSecurityError(f"{self._peer} answered ApiVersions with error {answer.error_code}")
        self.versions = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}

    async def _ask(self, request: Any, version: int, client_id: str) -> Any:
        self._correlation_id += 1
        frame = encode_request(request, version, self._correlation_id, client_id)
        self.write(len(frame).to_bytes(4, "big") + frame)
        await self.drain()
        size = int.from_bytes(await self.readexactly(4), "big")
        if not 4 <= size <= _FRAME_MAX_BYTES:
            raise LinkSecurityError(
                f"{self._peer} answered with a frame of {size} bytes; check the security protocol of its "
                "listener at this port"
            )
        answer = await self.readexactly(size)
        if int.from_bytes(answer[:4], "big", signed=True) != self._correlation_id:
            raise LinkSecurityError(f"{self._peer} answered another request than the last")
        try:
            return decode_response(request.api_key, version, answer)[1]
        except ProtocolError as error:
            raise LinkSecurityError(f"{self._peer} sent an answer that cannot be read: {error}") from error

    # ------------------------------------------------------------ bytes

    def write(self, data: bytes) -> None:
        """Adds bytes to those that `drain` sends."""
        if self._session is None:
            self._unsent += data
        else:
            self._session.send(data)
            self._unsent += self._session.outgoing()

    async def drain(self) -> None:
        """Sends all bytes."""
        if self._unsent:
            unsent, self._unsent = self._unsent, bytearray()
            with self._waiting():
                await self._loop.sock_sendall(self._sock, unsent)

    async def readexactly(self, n: int) -> bytes:
        """Returns the next `n` bytes.

        Raises:
            EOFError: The connection ends before.
        """
        while len(self._received) < n:
            await self._receive()
        found = bytes(self._received[:n])
        del self._received[:n]
        return found

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        """The loop watches the socket: it must stay open until the loop no longer does."""
        if self._is_closed:
            raise EOFError("the connection is closed")
        self._waits = True
        try:
            yield
        finally:
            self._waits = False
            if self._is_closed:
                self._sock.close()

    async def _receive(self) -> None:
        if self._session is not None and self._session.is_closed:  # the socket may be open still
            self._has_ended = True
        if self._has_ended:
            raise EOFError(f"{self._peer} closed the connection")
        with self._waiting():
            data = await self._loop.sock_recv(self._sock, _RECEIVE_BYTES)
        if not data:
            self._has_ended = True
            raise EOFError(f"{self._peer} closed the connection")
        self._receive_into(data)
        await self.drain()

    def _receive_into(self, data: bytes) -> None:
        if self._session is None:
            self._received += data
            return
        try:
            self._received += self._session.receive(data)
        except ValueError as error:
            self._send_alert()
            raise LinkSecurityError(str(error)) from error
        self._unsent += self._session.outgoing()

    def _send_alert(self) -> None:
        """Sends the TLS alert for what is wrong, if the socket has room."""
        assert self._session is not None
        with suppress(OSError, ValueError):  # the connection ends in any case
            self._sock.send(self._session.outgoing())

    def at_eof(self) -> bool:
        """Whether the other side has ended the connection while it was idle. Takes what has arrived."""
        try:
            while not self._has_ended and (data := self._sock.recv(_RECEIVE_BYTES)):
                self._receive_into(data)
            return True
        except (BlockingIOError, InterruptedError):
            return self._session is not None and self._session.is_closed
        except OSError:
            return True

    def is_due(self) -> bool:
        """Whether it is time to log in again."""
        return self.renews_at_s is not None and self._loop.time() >= self.renews_at_s

    # ------------------------------------------------------------ end

    @property
    def has_more(self) -> bool:
        """Whether the other side sent more than was requested."""
        return bool(self._received)

    def detach(self) -> tuple[int, object, float]:
        """Gives the connection away, without a byte in any buffer: all that was written is sent.

        Returns:
            The socket's descriptor, the TLS session as `TlsSession.release` returns it or None, and in how
            many seconds the login is to be renewed; 0 for never.
        """
        assert not self._unsent and not self._received, "nothing was asked after the login"
        stream = self._session.release() if self._session is not None else None
        renew_after_s = 0.0 if self.renews_at_s is None else max(0.001, self.renews_at_s - self._loop.time())
        return self._sock.detach(), stream, renew_after_s

    def close(self) -> None:
        """Ends the connection. Who waits for an answer gets an EOFError."""
        self._is_closed = True
        if self._session is not None and not self._has_ended:
            with suppress(OSError, ValueError):  # it is over
                self._session.close()
                self._sock.send(self._session.outgoing())
        if self._waits:
            with suppress(OSError):
                self._sock.shutdown(socket.SHUT_RDWR)
        else:
            self._sock.close()
