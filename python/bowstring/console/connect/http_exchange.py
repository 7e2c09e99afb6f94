"""Sends one HTTP request and reads its answer, within a time and a size."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Mapping
from typing import NamedTuple

import h11

_READ_BYTES = 64 << 10


class Address(NamedTuple):
    """Where a service listens. `prefix`: what paths begin with."""

    scheme: str
    host: str
    port: int
    prefix: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.prefix}"


class TooLargeError(Exception):
    """An answer has more bytes than it may have."""


async def exchange(
    address: Address,
    method: str,
    target: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    tls: ssl.SSLContext | None,
    timeout_s: float,
    bytes_max: int,
) -> tuple[int, bytes]:
    """Returns status and body of an answer. Redirects are not followed.

    Args:
        address: of the service.
        method: of HTTP.
        target: path and query, behind the address's prefix.
        headers: beside Host and Content-Length.
        body: what is sent; empty for none.
        tls: for https.
        timeout_s: for all of it, from the connection to the last byte.
        bytes_max: of the answer's body.

    Raises:
        TimeoutError: it takes longer.
        OSError: there is no connection, or it breaks.
        TooLargeError: the answer is too large.
        h11.RemoteProtocolError: what answers does not speak HTTP, or ends early.
    """
    async with asyncio.timeout(timeout_s):
        server_name = address.host if tls is not None else None
        reader, writer = await asyncio.open_connection(
            address.host, address.port, ssl=tls, server_hostname=server_name
        )
        try:
            host = f"[{address.host}]" if ":" in address.host else address.host
            sent = [("host", f"{host}:{address.port}"), *headers.items(), ("connection", "close")]
            if body or method in ("POST", "PUT"):
                sent.append(("content-length", str(len(body))))
            link = h11.Connection(h11.CLIENT)
            request = h11.Request(method=method, target=address.prefix + target, headers=sent)
            data = link.send(request) or b""
            data += (link.send(h11.Data(data=body)) or b"") if body else b""
            writer.write(data + (link.send(h11.EndOfMessage()) or b""))
            await writer.drain()
            return await _answer(link, reader, bytes_max)
        finally:
            # An abort, not a close: whoever does not read must not hold the connection.
            with contextlib.suppress(Exception):
                writer.transport.abort()


async def _answer(link: h11.Connection, reader: asyncio.StreamReader, bytes_max: int) -> tuple[int, bytes]:
    status, body = 0, bytearray()
    while True:
        event = link.next_event()
        if event is h11.NEED_DATA:
            link.receive_data(await reader.read(_READ_BYTES))
        elif isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > bytes_max:
                raise TooLargeError(f"the answer has more than {bytes_max} bytes")
        elif isinstance(event, h11.EndOfMessage):
            return status, bytes(body)
