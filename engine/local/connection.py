"""Serves one reader that has connected to the local socket: takes its requests, sends answers and files."""

import array
import asyncio
import socket
import struct
from functools import partial
from typing import Final

from bowstring.engine import event_log
from bowstring.engine.local.requests import Answer, LocalClient, LocalRequests
from bowstring.protocol.local_reads import REQUEST_BYTES_MAX, LocalFrameError

_LENGTH: Final = struct.Struct(">i")
_CREDENTIALS: Final = struct.Struct("3i")


async def serve(connection: socket.socket, requests: LocalRequests) -> None:
    """Answers the requests of one reader, one after another, until it disconnects; closes the connection."""
    peer = _peer(connection)
    client = requests.client()
    try:
        while (body := await _receive_in_time(connection, client, requests)) is not None:
            answer = await requests.answer(connection, client, body)
            await _send_in_time(connection, client, requests, answer)
            if answer.is_last:
                break
    except LocalFrameError as error:
        event_log.warning(
            "a local reader sent a malformed request and its connection is closed; check the version "
            "of the client",
            peer=peer,
            detail=str(error),
        )
    except OSError:
        pass  # the reader disconnected: no one to answer
    except TimeoutError:
        pass  # it has not logged in in time, or its login has ended: a client that goes on gets a new token
    finally:
        requests.ended(client)
        connection.close()


async def _receive_in_time(
    connection: socket.socket, client: LocalClient, requests: LocalRequests
) -> bytes | None:
    async with asyncio.timeout(requests.left_s(client)):
        return await _receive(connection)


async def _send_in_time(
    connection: socket.socket, client: LocalClient, requests: LocalRequests, answer: Answer
) -> None:
    async with asyncio.timeout(requests.send_s(client)):
        await _send(connection, answer)


def _peer(connection: socket.socket) -> str:
    process, user, _ = _CREDENTIALS.unpack(
        connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    )
    return f"local:pid={process},uid={user}"


async def _receive(connection: socket.socket) -> bytes | None:
    """Receives the next request; None when the reader has closed."""
    head = await _exactly(connection, _LENGTH.size)
    if head is None:
        return None
    (size,) = _LENGTH.unpack(head)
    if not 0 < size <= REQUEST_BYTES_MAX:
        raise LocalFrameError(f"a request has {size} bytes; 1 to {REQUEST_BYTES_MAX} are allowed")
    body = await _exactly(connection, size)
    if body is None:
        raise LocalFrameError("the connection ended inside a request")
    return body


async def _exactly(connection: socket.socket, size: int) -> bytes | None:
    loop = asyncio.get_running_loop()
    data = b""
    while len(data) < size:
        piece = await loop.sock_recv(connection, size - len(data))
        if not piece:
            if data:
                raise LocalFrameError("the connection ended inside a request")
            return None
        data += piece
    return data


async def _send(connection: socket.socket, answer: Answer) -> None:
    """Sends an answer. Descriptors are sent with the first bytes; this process's copies are always closed."""
    try:
        sent = 0
        if answer.descriptors:
            rights = array.array("i", answer.descriptors)
            ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)]
            while sent == 0:
                try:
                    sent = connection.sendmsg([answer.frame], ancillary)
                except BlockingIOError:
                    await _writable(connection)
        await asyncio.get_running_loop().sock_sendall(connection, answer.frame[sent:])
    finally:
        answer.close()


async def _writable(connection: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_writer(connection.fileno(), partial(_resolve, ready))
    try:
        await ready
    finally:
        loop.remove_writer(connection.fileno())


def _resolve(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
