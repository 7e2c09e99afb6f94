"""A peer that ends its TLS session, and keeps its socket open, has ended the connection."""

import asyncio
import socket

import pytest

from bowstring._native.client.tls_channel import TlsChannel
from bowstring._native.tls.session import TlsSession
from bowstring.clients.net.handshake import TlsHandshake
from bowstring.clients.records import Node
from bowstring.engine.network.secure_link import SecureLink
from bowstring.security.client_settings import ClientSecurity
from tests.support.tls_contexts import client_context, server_context
from tests.support.waiting import HANG_S


class Peer:
    """A server's end of a socket with TLS; the other one is the test's."""

    def __init__(self):
        self.socket, self.other = socket.socketpair()
        self.socket.settimeout(HANG_S)
        self.session = TlsSession(server_context())

    def send(self):
        self.socket.sendall(self.session.outgoing())

    def shake(self):
        """Makes the handshake, which the other side begins."""
        while not self.session.established:
            self.session.receive(self.socket.recv(1 << 16))
            self.send()

    def end(self, data=b""):
        if data:
            self.session.send(data)
        self.session.close()
        self.send()

    def close(self):
        self.socket.close()
        self.other.close()


@pytest.fixture
def peer():
    made = Peer()
    yield made
    made.close()


@pytest.fixture
def channel(peer):
    client = TlsSession(client_context(), "localhost")
    peer.session.receive(client.outgoing())
    while not (client.established and peer.session.established):
        client.receive(peer.session.outgoing())
        peer.session.receive(client.outgoing())
    client.receive(peer.session.outgoing())
    peer.other.setblocking(False)
    return TlsChannel(peer.other.fileno(), client.release())


@pytest.mark.parametrize("data", [b"", b"last words"])
def test_a_channel(peer, channel, data):
    peer.end(data)
    buffer = bytearray(100_000)
    if data:
        assert channel.receive_some(buffer, 0) == len(data) and buffer.startswith(data)
    with pytest.raises(EOFError):
        channel.receive_some(buffer, 0)


@pytest.mark.parametrize("room", [10, 100_000])
def test_a_channel_that_waits_for_the_rest_of_an_answer(peer, channel, room):
    peer.end(b"12345")
    with pytest.raises(EOFError):
        channel.receive_rest(memoryview(bytearray(room)), 0)


def test_a_channel_gives_the_answer_that_came_before(peer, channel):
    peer.end(b"12345")
    buffer = bytearray(5)
    assert channel.receive_rest(memoryview(buffer), 0) == 5 and buffer == b"12345"


def test_a_handshake_that_is_given_up(peer):
    security = ClientSecurity("SSL", client_context(), True, "", None)
    peer.other.setblocking(False)
    handshake = TlsHandshake(Node(1, "localhost", 9), security, peer.other)
    handshake.flush()
    peer.session.receive(peer.socket.recv(1 << 16))
    peer.send()
    handshake.receive()
    peer.session.receive(peer.socket.recv(1 << 16))
    peer.end()
    with pytest.raises(EOFError):
        handshake.receive()


def test_a_link_between_nodes(peer):
    async def scenario():
        peer.other.setblocking(False)
        security = ClientSecurity("SSL", client_context(), True, "", None)
        link = SecureLink(peer.other, "node 2")
        loop = asyncio.get_running_loop()
        securing = loop.create_task(link.secure(security, "localhost", "test"))
        await loop.run_in_executor(None, peer.shake)
        await loop.run_in_executor(None, peer.end)
        async with asyncio.timeout(HANG_S):
            with pytest.raises(EOFError, match="node 2 closed the connection"):
                await securing

    asyncio.run(scenario())
