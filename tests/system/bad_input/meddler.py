"""A proxy in front of a broker that damages answers, to test clients with answers that our broker never sends."""

import contextlib
import random
import socket
import struct
import threading

from tests.support.waiting import pause

DRIP_PAUSE_S = 0.02
DRIP_BYTES = 40


class Closed(Exception):
    """The proxy ends this connection."""


def whole(body):
    return struct.pack(">i", len(body)) + body


def garbage(body):
    return whole(body[:4] + random.Random(7).randbytes(max(40, len(body) - 4)))


def flipped(body):
    """Flips one bit in sixteen bytes, never in the correlation id."""
    spoiled, rng = bytearray(body), random.Random(5)
    for _ in range(1 + len(body) // 16):
        if len(body) > 4:
            spoiled[rng.randrange(4, len(body))] ^= 1 << rng.randrange(8)
    return whole(bytes(spoiled))


def other_id(body):
    (number,) = struct.unpack_from(">i", body)
    return whole(struct.pack(">i", number + 1000) + body[4:])


def cut(body, sock):
    sock.sendall(whole(body)[: 4 + len(body) // 2])
    raise Closed


def close(body, sock):
    raise Closed


def silence(body, sock):
    pass


def drip(body, sock):
    """Sends byte after byte, too slowly, without end."""
    for byte in whole(body)[:DRIP_BYTES]:
        sock.sendall(bytes([byte]))
        pause(DRIP_PAUSE_S, "a slow peer")


def pieces(body, sock):
    """Sends the whole, correct answer in small pieces."""
    frame = whole(body)
    for at in range(0, min(len(frame), 600), 7):
        sock.sendall(frame[at : min(at + 7, 600)])
    sock.sendall(frame[600:])


# Kinds of damage: the bytes to send instead, or a function that sends.
SPOILED = {
    "garbage": garbage,
    "flipped bits": flipped,
    "another correlation id": other_id,
    "cut short": lambda body: whole(body[: 4 + (len(body) - 4) * 2 // 3]),
    "too long": lambda body: whole(body + bytes(range(200, 207))),
    "twice": lambda body: whole(body) * 2,
    "no bytes at all": lambda body: whole(b""),
    "three bytes": lambda body: whole(body[:3]),
    "a negative length": lambda body: struct.pack(">i", -5) + body,
    "a huge length": lambda body: struct.pack(">i", 0x7FFFFFFF) + body,
    "not Kafka": lambda body: b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
}
SENT = {
    "closed in the middle": cut,
    "closed": close,
    "silence": silence,
    "drip": drip,
    "in pieces": pieces,
}
WAYS = [*SPOILED, *SENT]


class Meddler:
    """Forwards requests and answers, but damages the first `times` answers of each API in `apis`.

    Addresses in answers name the proxy instead of the broker. `spoiled` counts by API key; `spoil` None passes
    everything on.
    """

    def __init__(self, bootstrap, way=None, apis=None, times=1):
        host, port = bootstrap.rsplit(":", 1)
        self.broker = (host, int(port))
        self.way = way
        self.apis = apis
        self.times = times
        self.spoiled = {}
        self.sockets = []
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.accepting = threading.Thread(target=self._accept, daemon=True)
        self.accepting.start()

    @property
    def bootstrap(self):
        return f"127.0.0.1:{self.port}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # Ends accept(), which close() does not: it might go on with another listener that gets the same descriptor.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.accepting.join()
        self.listener.close()
        for sock in self.sockets:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                broker = socket.create_connection(self.broker)
                for sock in (client, broker):
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.sockets += [client, broker]
                asked = {}
                for target, ends in ((self._requests, (client, broker)), (self._answers, (broker, client))):
                    threading.Thread(target=self._pump, args=(target, *ends, asked), daemon=True).start()

    def _pump(self, target, source, sink, asked):
        try:
            with contextlib.suppress(OSError, Closed):
                stream = source.makefile("rb")
                while len(prefix := stream.read(4)) == 4:
                    target(stream.read(struct.unpack(">i", prefix)[0]), sink, asked)
        finally:
            for sock in (source, sink):
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    def _requests(self, body, broker, asked):
        key, _, number = struct.unpack_from(">hhi", body)
        asked[number] = key
        broker.sendall(whole(body))

    def _answers(self, body, client, asked):
        (number,) = struct.unpack_from(">i", body)
        key = asked.pop(number)
        name = self.broker[0].encode()
        ours, theirs = (name + struct.pack(">i", port) for port in (self.port, self.broker[1]))
        body = body.replace(theirs, ours)
        if not self._spoils(key):
            client.sendall(whole(body))
        elif self.way in SENT:
            SENT[self.way](body, client)
        else:
            client.sendall(SPOILED[self.way](body))

    def _spoils(self, key):
        with self.lock:
            if self.way is None or (self.apis is not None and key not in self.apis):
                return False
            if self.spoiled.get(key, 0) >= self.times:
                return False
            self.spoiled[key] = self.spoiled.get(key, 0) + 1
            return True
