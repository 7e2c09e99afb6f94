"""Carries the connections between nodes, so that the link between two of them can be cut or slowed.

Every listener of a node that other nodes use has a proxy, whose address the node advertises. A node
advertises one address to all others, so a proxy looks up the connecting node: the kernel's table of
connections has the socket, and one of the nodes' processes has it open.

A cut link loses nothing that TCP would deliver later: bytes wait until the link is healed. Whoever waits for
them sees what it would see in a network that drops packets.
"""

import asyncio
import contextlib
import os
import socket
import struct
import threading
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Future
from typing import Any, Final, TypeVar

_BUFFER_BYTES: Final = 128 << 10
_CONNECTION_TABLE: Final = "/proc/net/tcp"
# The state of a connection whose peer has closed it, at the start of struct tcp_info.
_CLOSE_WAIT: Final = 8
_LINGER_NO_TIME: Final = struct.pack("ii", 1, 0)
_UNKNOWN: Final = -1

_Result = TypeVar("_Result")


class _Link:
    """What happens to bytes from one node to another."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()
        self.delay_s = 0.0

    def cut(self) -> None:
        self._open.clear()

    def heal(self) -> None:
        self._open.set()
        self.delay_s = 0.0

    async def pass_through(self) -> None:
        await self._open.wait()
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
            await self._open.wait()


class Links:
    """Proxies before the listeners of nodes, on a thread of their own.

    Args:
        pids: Returns the processes of nodes by node id; called on the thread.
    """

    def __init__(self, pids: Callable[[], dict[int, int]]) -> None:
        self._pids = pids
        self._links: dict[tuple[int, int], _Link] = {}
        self._servers: list[asyncio.Server] = []
        self._listeners: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="bowstring-links", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()

    # ------------------------------------------------------------ what the cluster requests

    def add(self, node_id: int, host: str, port: int) -> int:
        """Makes a proxy before a listener; returns the port of the proxy.

        Args:
            node_id: Whose listener it is.
            host: Address of the listener.
            port: Port of the listener.
        """
        listener = socket.create_server((host, 0), backlog=128)
        listener.setblocking(False)
        self._listeners.append(listener)
        self._do(self._spawn(self._accept(listener, node_id, (host, port))))
        return int(listener.getsockname()[1])

    def cut(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Holds all bytes from the first node of each pair to the second one."""
        self._do(self._each(pairs, _Link.cut))

    def heal(self, pairs: Iterable[tuple[int, int]] | None = None) -> None:
        """Lets bytes pass at once, delayed ones included; without pairs, on all links."""
        self._do(self._each(pairs, _Link.heal))

    def delay(self, pairs: Iterable[tuple[int, int]], delay_s: float) -> None:
        """Holds each piece of up to 128 KiB for this time."""
        self._do(self._each(pairs, lambda link: setattr(link, "delay_s", delay_s)))

    def close(self) -> None:
        """Closes all connections."""
        if not self._thread.is_alive():
            return
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _do(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        done: Future[_Result] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return done.result()

    async def _each(self, pairs: Iterable[tuple[int, int]] | None, change: Callable[[_Link], None]) -> None:
        for pair in list(self._links) if pairs is None else pairs:
            change(self._link(*pair))

    async def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _end(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for listener in self._listeners:
            listener.close()

    def _link(self, source: int, target: int) -> _Link:
        found = self._links.get((source, target))
        if found is None:
            found = self._links[source, target] = _Link()
        return found

    # ------------------------------------------------------------ connections

    async def _accept(self, listener: socket.socket, node_id: int, address: tuple[str, int]) -> None:
        while True:
            incoming, source = await self._loop.sock_accept(listener)
            await self._spawn(self._carry(incoming, source, node_id, address))

    async def _carry(
        self, incoming: socket.socket, source: tuple[str, int], target_id: int, address: tuple[str, int]
    ) -> None:
        outgoing = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        outgoing.setblocking(False)
        with incoming, outgoing:
            if _is_closed_by_peer(incoming):
                return  # a lookup takes longer than another attempt: a queue of those would never end
            source_id = _node_of(source, incoming.getsockname(), self._pids())
            if source_id == _UNKNOWN:
                return  # it has gone already
            there, back = self._link(source_id, target_id), self._link(target_id, source_id)
            await there.pass_through()
            if _is_closed_by_peer(incoming):
                return  # it has given up before the link was healed, and so had never connected
            try:
                await self._loop.sock_connect(outgoing, address)
            except OSError:
                _reset_on_close(incoming)
                return
            for each in (incoming, outgoing):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump(incoming, outgoing, there))
                both.create_task(self._pump(outgoing, incoming, back))

    async def _pump(self, source: socket.socket, target: socket.socket, link: _Link) -> None:
        buffer = memoryview(bytearray(_BUFFER_BYTES))
        try:
            while size := await self._loop.sock_recv_into(source, buffer):
                await link.pass_through()
                await self._loop.sock_sendall(target, buffer[:size])
            await link.pass_through()
            target.shutdown(socket.SHUT_WR)
        except OSError:
            # As the peer has done. The other direction ends when it reads from, or writes to, either of them.
            for each in (source, target):
                _reset_on_close(each)
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)


def _node_of(source: tuple[str, int], proxy: tuple[str, int], pids: dict[int, int]) -> int:
    """Returns the node whose process has the socket that connects `source` to `proxy`, or _UNKNOWN."""
    inode = _inode_of(f"{_hex(source)} {_hex(proxy)}")
    if inode is None:
        return _UNKNOWN
    name = f"socket:[{inode}]"
    for node_id, pid in pids.items():
        folder = f"/proc/{pid}/fd"
        with contextlib.suppress(OSError):  # the process has ended
            for file in os.listdir(folder):
                with contextlib.suppress(OSError):  # the file was closed meanwhile
                    if os.readlink(f"{folder}/{file}") == name:
                        return node_id
    return _UNKNOWN


def _hex(address: tuple[str, int]) -> str:
    """An IPv4 address as the kernel's table has it."""
    (number,) = struct.unpack("=I", socket.inet_aton(address[0]))
    return f"{number:08X}:{address[1]:04X}"


def _inode_of(addresses: str) -> str | None:
    with open(_CONNECTION_TABLE, encoding="ascii") as table:
        for line in table:
            if addresses in line:
                return line.split()[9]
    return None


def _is_closed_by_peer(connection: socket.socket) -> bool:
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _CLOSE_WAIT


def _reset_on_close(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NO_TIME)
