"""Connections in memory: bytes arrive late, in pieces and in order; links are cut, and connections break."""

import asyncio
from collections import deque

from tests.simulation.nodes.kernel import MS

PIECES = 0.1


class Network:
    """The links between nodes, and the listener at each address.

    Attributes:
        listeners: By host and port: the one that takes connections (`accept(end)`), and its node's name.
        cut: Pairs of names, from and to, between which nothing arrives.
    """

    def __init__(self, kernel, delay_ms):
        self.kernel = kernel
        self.delay_ms = delay_ms
        self.listeners: dict[tuple[str, int], tuple[str, object]] = {}
        self.cut: set[tuple[str, str]] = set()
        self.ends: dict[str, dict[int, End]] = {}
        self._held: list[tuple[tuple[str, str], object, tuple]] = []
        self._random = kernel.random("network")

    def delay_ns(self):
        """How long a message takes."""
        low, high = self.delay_ms
        return int(self._random.uniform(low, high) * MS)

    def listen(self, host, port, name, accept):
        self.listeners[host, port] = (name, accept)

    def stop_listening(self, name):
        """Refuses connections to a node from now on."""
        self.listeners = {at: each for at, each in self.listeners.items() if each[0] != name}

    def carry(self, source, destination, call, *args):
        """Calls at the other side of a link, once it is not cut."""
        if (source, destination) in self.cut:
            self._held.append(((source, destination), call, args))
        else:
            call(*args)

    def set_cut(self, pairs):
        """Cuts these links, and heals all others: held-back data arrives then."""
        self.cut = set(pairs)
        held, self._held = self._held, []
        for link, call, args in held:
            if link in self.cut:
                self._held.append((link, call, args))
            else:
                self.kernel.after(self.delay_ns(), self.carry, *link, call, *args)

    def send(self, source, destination, call, *args):
        """Calls at another node, some time later; the order is not kept."""
        self.kernel.after(self.delay_ns(), self.carry, source, destination, call, *args)

    # ---- connections

    async def connect(self, loop, host, port):
        """Returns a transport of a new connection.

        Raises:
            ConnectionRefusedError: No process listens there.
        """
        done = loop.create_future()
        source = loop.name
        known = self.listeners.get((host, port))
        target = known[0] if known is not None else self.name_of(host)
        self.send(source, target, self._arrives, loop, source, target, host, port, done)
        return await done

    @staticmethod
    def name_of(host):
        """The node of an address; each has one of its own."""
        return f"node{host.rpartition('.')[2]}"

    def _arrives(self, loop, source, target, host, port, done):
        found = self.listeners.get((host, port))
        if found is None:
            self.send(target, source, loop.arrives, ("connect", id(done)), _refuse, done)
            return
        near, far = End(self, source, target), End(self, target, source)
        near.peer, far.peer = far, near
        transport = Transport(loop, near)
        near.owner = transport
        found[1](far)
        self.send(target, source, loop.arrives, ("connect", near.number), _connected, done, transport)

    def end_all(self, name):
        """A process has ended: its connections are reset."""
        for end in list(self.ends.get(name, {}).values()):
            end.reset()


class End:
    """One end of a connection.

    Attributes:
        owner: Gets `received(bytes)` and `ended(error)`.
    """

    def __init__(self, network, name, other):
        self.network = network
        self.number = network.kernel.number()
        self.name = name
        self.other = other
        self.peer: End
        self.owner = None
        self.is_open = True
        self._last = 0
        self._queue: deque = deque()
        network.ends.setdefault(name, {})[self.number] = self

    def send(self, data):
        """Sends bytes to the other end."""
        if not self.is_open:
            return
        random = self.network._random
        if len(data) > 1 and random.random() < PIECES:
            at = random.randrange(1, len(data))
            self._post("received", data[:at])
            data = data[at:]
        self._post("received", data)

    def close(self, error=None):
        """Ends the connection: the other end gets the data sent before, and then the end."""
        if self.is_open:
            self.is_open = False
            self.network.ends[self.name].pop(self.number, None)
            self._post("ended", error)

    def reset(self):
        """The process of this end is gone."""
        self.owner = None
        self.close(ConnectionResetError(104, "Connection reset by peer"))

    def _post(self, what, value):
        kernel = self.network.kernel
        self._last = max(self._last + 1, kernel.now + self.network.delay_ns())
        self._queue.append((what, value))
        kernel.at(self._last, self.network.carry, self.name, self.other, self._deliver)

    def _deliver(self):
        what, value = self._queue.popleft()
        peer = self.peer
        if peer.owner is not None and peer.is_open:
            getattr(peer.owner, what)(value)


class Transport(asyncio.Transport):
    """An end of a connection, as asyncio's streams use it."""

    def __init__(self, loop, end):
        super().__init__({"peername": (end.other, 0), "sockname": (end.name, 0)})
        self._loop = loop
        self._end = end
        self._protocol: asyncio.Protocol | None = None
        self._early: list[tuple] | None = []
        self._is_closing = False
        self._is_lost = False

    # ---- from the network

    def received(self, data):
        self._loop.arrives(self._end.number, self._act, "data", data)

    def ended(self, error):
        self._loop.arrives(self._end.number, self._act, "end", error)

    def begin(self):
        early, self._early = self._early, None
        for what, value in early:
            self._act(what, value)

    def _act(self, what, value):
        if self._early is not None:
            self._early.append((what, value))
        elif self._is_lost or self._is_closing:
            return
        elif what == "data":
            self._protocol.data_received(value)
        elif value is None and self._protocol.eof_received():
            return
        else:
            self._lose(value)

    def _lose(self, error):
        if not self._is_lost:
            self._is_closing = self._is_lost = True
            self._end.close()
            self._protocol.connection_lost(error)

    # ---- what streams use

    def set_protocol(self, protocol):
        self._protocol = protocol

    def get_protocol(self):
        return self._protocol

    def is_closing(self):
        return self._is_closing

    def is_reading(self):
        return not self._is_closing

    def pause_reading(self):
        pass

    def resume_reading(self):
        pass

    def write(self, data):
        if not self._is_closing:
            self._end.send(bytes(data))

    def can_write_eof(self):
        return False

    def get_write_buffer_size(self):
        return 0

    def close(self):
        if not self._is_closing:
            self._is_closing = True
            self._loop.call_soon(self._lose_after_close)

    def _lose_after_close(self):
        if not self._is_lost:
            self._is_lost = True
            self._end.close()
            self._protocol.connection_lost(None)

    def abort(self):
        self.close()


def _refuse(done):
    if not done.done():
        done.set_exception(ConnectionRefusedError(111, "Connection refused"))


def _connected(done, transport):
    if done.done():
        transport._end.close()
    else:
        done.set_result(transport)
