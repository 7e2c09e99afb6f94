"""Requests that go on to the leader, on real sockets."""

import asyncio
import contextlib
import socket
import threading

import pytest

from bowstring.registry.api.forwarder import ForwardedRequest, Forwarder
from bowstring.registry.registry_error import RegistryError
from tests.support.addresses import own_address
from tests.support.waiting import HANG_S

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"


@pytest.fixture
def forwarder():
    made = Forwarder()
    yield made
    made.close()


class Leader:
    """Takes connections; answers once it is released."""

    def __init__(self):
        self.socket = socket.create_server((own_address(), 0))
        self.url = f"http://{own_address()}:{self.socket.getsockname()[1]}"
        self.asked, self.released = threading.Event(), threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.socket.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection):
        with connection, contextlib.suppress(OSError):
            while connection.recv(1000):
                self.asked.set()
                self.released.wait(HANG_S)
                connection.sendall(ANSWER)


@pytest.fixture
def leader():
    made = Leader()
    yield made
    made.released.set()
    made.socket.close()


def request(leader):
    return ForwardedRequest(leader.url, "POST", "/subjects/a/versions", {}, b"{}")


def test_connections_are_kept(forwarder, leader):
    leader.released.set()
    for _ in range(3):
        assert asyncio.run(forwarder.forward(request(leader))).body == b"{}"


def test_a_frozen_leader_that_is_replaced_delays_nobody(forwarder, leader):
    async def replace():
        forwarder.leader_is(leader.url)
        waiting = [asyncio.ensure_future(forwarder.forward(request(leader))) for _ in range(40)]
        await asyncio.to_thread(leader.asked.wait, HANG_S)
        forwarder.leader_is("http://127.0.0.1:1")
        return await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), HANG_S)

    found = asyncio.run(replace())
    assert {each.code for each in found if isinstance(each, RegistryError)} == {50003}
    assert len(found) == 40
    leader.released.set()
    forwarder.leader_is(leader.url)
    assert asyncio.run(forwarder.forward(request(leader))).status == 200
