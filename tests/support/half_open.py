"""Holds many connections whose TLS handshakes never end: `python -m tests.support.half_open PORT COUNT BEGUN SECONDS`.

BEGUN of them send half a ClientHello, or a whole one and then ignore what the server says; the others send nothing. Those
that the server closes are replaced. After a line on standard input the oldest are replaced all the time, and each sends a
ClientHello or half of it. After the end of standard input none is replaced. Prints a line of JSON four times a second: how
many are open, were begun, and were closed by the server. Ends after SECONDS, or once none is open.
"""

import contextlib
import errno
import json
import os
import resource
import select
import socket
import ssl
import sys
import time

ADDRESSES = [f"127.0.{n}.2" for n in range(1, 9)]
AT_ONCE = 256
REPORT_S = 0.25
REPLACED = 40  # one of so many, with each report
IP_BIND_ADDRESS_NO_PORT = 24


def first_flights():
    """What the three kinds of connections send."""
    outgoing = ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    hello = outgoing.read()
    return b"", hello[: len(hello) // 2], hello


class Attack:
    def __init__(self, port, count, begun):
        self.port, self.count = port, count
        silent, *self.loud = first_flights()
        every = count // begun | 1  # odd: they spread over the server's threads
        self.flights = [self.loud[n // every % 2] if n % every == 0 else silent for n in range(2 * every)]
        self.open = {}
        self.begun = self.closed = 0
        self.poll = select.epoll()

    def begin(self):
        """Opens one; False: the server's queue is full for now."""
        connection = socket.socket()
        connection.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
        connection.bind((ADDRESSES[self.begun % len(ADDRESSES)], 0))
        connection.settimeout(REPORT_S)
        try:
            connection.connect(("127.0.0.1", self.port))
            connection.setblocking(False)
            if flight := self.flights[self.begun % len(self.flights)]:
                connection.send(flight)
        except OSError as error:
            connection.close()
            if error.errno in (errno.EMFILE, errno.EADDRNOTAVAIL):
                raise
            return False
        self.begun += 1
        self.open[connection.fileno()] = connection
        self.poll.register(connection, select.EPOLLRDHUP)
        return True

    def step(self, renews):
        for _ in range(AT_ONCE):
            if not renews or len(self.open) >= self.count or not self.begin():
                break
        full = not renews or len(self.open) >= self.count
        for descriptor, _ in self.poll.poll(REPORT_S if full else 0, AT_ONCE):
            self.open.pop(descriptor).close()
            self.closed += 1

    def press(self):
        """Closes the oldest, so that others come in their places."""
        self.flights = self.loud
        for descriptor in list(self.open)[: self.count // REPLACED]:
            self.open.pop(descriptor).close()

    def report(self):
        print(json.dumps({"open": len(self.open), "begun": self.begun, "closed": self.closed}), flush=True)


def main():
    port, count, begun, seconds = (int(each) for each in sys.argv[1:])
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    attack = Attack(port, count, begun)
    ends_s = time.monotonic() + seconds
    renews, presses, report_s = True, False, 0.0
    while time.monotonic() < ends_s and (renews or attack.open):
        attack.step(renews)
        if renews and select.select([sys.stdin], [], [], 0)[0]:
            presses = renews = bool(os.read(0, 100))
        if time.monotonic() >= report_s:
            if presses:
                attack.press()
            attack.report()
            report_s = time.monotonic() + REPORT_S
    attack.report()


if __name__ == "__main__":
    main()
