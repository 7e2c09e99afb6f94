"""The Unix domain socket through which readers on this machine are given segment files (docs/local-reads.md).

One for each broker. It runs on the control loop; looking at a log, which may wait for the disk, on an
executor thread. Reactors take no part in it, and without readers it costs nothing.
"""

import array
import asyncio
import errno
import os
import socket
import stat
import struct
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from bowstring._native.log_waiters import LogWaiters
from bowstring.engine.broker import log_lines
from bowstring.engine.broker.local_requests import Answer, LocalRequests
from bowstring.engine.configs import ConfigError
from bowstring.engine.protocol.ids import format_uuid, random_uuid
from bowstring.engine.protocol.local_reads import REQUEST_BYTES_MAX, LocalFrameError

if TYPE_CHECKING:
    from bowstring.engine.broker.broker import Broker

SOCKET_FILE: Final = "bowstring.local.sock"
SOCKET_CONFIG: Final = "bowstring.local.socket"
INSTANCE_CONFIG: Final = "bowstring.local.instance"
# sizeof(sockaddr_un.sun_path), less the NUL
ADDRESS_BYTES_MAX: Final = 107

_BACKLOG: Final = 64
_CONNECTIONS_MAX: Final = 256
_REST_S: Final = 0.1
_LENGTH: Final = struct.Struct(">i")
_CREDENTIALS: Final = struct.Struct("3i")


class LocalClient(NamedTuple):
    """Who is at the other end.

    Attributes:
        peer: process and user, as the kernel names them.
        principal: as on a TCP listener without authentication.
    """

    peer: str
    principal: str = "User:ANONYMOUS"


class LocalSocket:
    """Listens, and answers one request after the other on each connection.

    Attributes:
        path: where it is; None before `bind` and after `stop`.
        connections: how many are open.
    """

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._setting: str = broker.configs.value(SOCKET_CONFIG)
        self._listener: socket.socket | None = None
        self._identity = (-1, -1)
        self._tasks: set[asyncio.Task[None]] = set()
        self._requests: LocalRequests | None = None
        self.path: Path | None = None

    @property
    def connections(self) -> int:
        """Readers that are connected."""
        return len(self._tasks)

    @property
    def answered(self) -> int:
        """Requests for segments that were answered, since start."""
        return self._requests.answered if self._requests is not None else 0

    # ------------------------------------------------------------ life

    def bind(self) -> None:
        """Takes its path, so that what is wrong with it is known before anything is served.

        Where the log directory refuses it, the broker goes on without it and says so.

        Raises:
            ConfigError: The config names no absolute path, or one that somebody else uses.
            OSError: The path that it names cannot be bound.
        """
        chosen = self._setting != "on"
        path = Path(self._setting) if chosen else self._broker.directory.path / SOCKET_FILE
        if not path.is_absolute():
            raise ConfigError(f'{SOCKET_CONFIG} is "{self._setting}"; it takes on, off, or an absolute path')
        try:
            self._listener = bind(path, int(self._broker.configs.value(f"{SOCKET_CONFIG}.permissions"), 8))
        except OSError as error:
            if chosen:
                raise OSError(error.errno, f"cannot listen on {path}: {error.strerror or error}") from error
            log_lines.warning("there is no socket for local reads", path=str(path), detail=str(error))
            return
        facts = path.lstat()
        self._identity = (facts.st_dev, facts.st_ino)
        self.path = path

    def start(self) -> None:
        """Begins to listen, if it is bound. On the control loop."""
        if self._listener is None:
            return
        self._listener.listen(_BACKLOG)
        instance = format_uuid(random_uuid())
        # What DescribeConfigs answers, by which clients find the socket and know it for this broker's.
        self._broker.configs.static[SOCKET_CONFIG] = str(self.path)
        self._broker.configs.static[INSTANCE_CONFIG] = instance
        self._requests = LocalRequests(self._broker, instance, LogWaiters(self._broker.plane))
        loop = asyncio.get_running_loop()
        loop.add_reader(self._requests.waiters.fd, self._requests.wake)
        loop.add_reader(self._listener.fileno(), self._accept)

    async def stop(self) -> None:
        """Ends every connection and removes the socket."""
        if self._listener is None or self._requests is None or self.path is None:
            return
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._listener.fileno())
        self._listener.close()
        self._listener = None
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        loop.remove_reader(self._requests.waiters.fd)
        self._requests.waiters.close()
        try:
            facts = self.path.lstat()
            if (facts.st_dev, facts.st_ino) == self._identity:
                self.path.unlink()
        except OSError as error:
            if error.errno != errno.ENOENT:
                log_lines.warning("the socket for local reads stays", path=str(self.path), detail=str(error))
        self.path = None

    def _accept(self) -> None:
        assert self._listener is not None
        loop = asyncio.get_running_loop()
        try:
            accepted, _ = self._listener.accept()
        except BlockingIOError:
            return
        except OSError as error:
            # No descriptor is left: the listener rests instead of spinning.
            log_lines.warning("a local reader could not be accepted", detail=str(error))
            loop.remove_reader(self._listener.fileno())
            loop.call_later(_REST_S, self._listen_again)
            return
        accepted.setblocking(False)
        if len(self._tasks) >= _CONNECTIONS_MAX:
            log_lines.warning("a local reader was turned away", connections=len(self._tasks))
            accepted.close()
            return
        task = loop.create_task(self._serve(accepted))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _listen_again(self) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().add_reader(self._listener.fileno(), self._accept)

    # ------------------------------------------------------------ one connection

    async def _serve(self, connection: socket.socket) -> None:
        assert self._requests is not None
        client = LocalClient(_peer(connection))
        try:
            while (body := await _receive(connection)) is not None:
                answer = await self._requests.answer(connection, client.principal, body)
                await _send(connection, answer)
        except LocalFrameError as error:
            log_lines.warning("malformed request of a local reader", peer=client.peer, detail=str(error))
        except OSError:
            pass  # it went away: there is no one to tell
        finally:
            connection.close()


def bind(path: Path, permissions: int) -> socket.socket:
    """A socket at `path`, not yet listening; what a broker that is gone left there is replaced.

    Raises:
        ConfigError: Something else is there, or somebody listens.
        OSError: The kernel refuses.
    """
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        address = str(path)
        if len(os.fsencode(address)) > ADDRESS_BYTES_MAX:
            address = f"/proc/self/fd/{directory}/{path.name}"
        _clear(path, address)
        listener.bind(address)
        os.chmod(path, permissions)  # nobody can connect before listen()
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    finally:
        os.close(directory)
    return listener


def _clear(path: Path, address: str) -> None:
    try:
        facts = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(facts.st_mode):
        raise ConfigError(f"{path} is no socket; remove it, or set {SOCKET_CONFIG} to another path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(address)
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
    raise ConfigError(f"somebody listens on {path}; set {SOCKET_CONFIG} to another path")


def _peer(connection: socket.socket) -> str:
    process, user, _ = _CREDENTIALS.unpack(
        connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    )
    return f"local:pid={process},uid={user}"


async def _receive(connection: socket.socket) -> bytes | None:
    """The next request; None when the reader has closed."""
    head = await _exactly(connection, _LENGTH.size)
    if head is None:
        return None
    (size,) = _LENGTH.unpack(head)
    if not 0 < size <= REQUEST_BYTES_MAX:
        raise LocalFrameError(f"a request of {size} bytes; 1 to {REQUEST_BYTES_MAX} are taken")
    body = await _exactly(connection, size)
    if body is None:
        raise LocalFrameError("the connection ended within a request")
    return body


async def _exactly(connection: socket.socket, size: int) -> bytes | None:
    loop = asyncio.get_running_loop()
    data = b""
    while len(data) < size:
        piece = await loop.sock_recv(connection, size - len(data))
        if not piece:
            if data:
                raise LocalFrameError("the connection ended within a request")
            return None
        data += piece
    return data


async def _send(connection: socket.socket, answer: Answer) -> None:
    """Descriptors travel with the first bytes; ours are closed whatever happens."""
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
    loop.add_writer(connection.fileno(), partial(_settle, ready))
    try:
        await ready
    finally:
        loop.remove_writer(connection.fileno())


def _settle(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
