"""Requests that go on to the leader, on real sockets."""

import asyncio
import contextlib
import json
import socket
import ssl
import threading

import pytest

from bowstring.registry.api import forwarder as forwarding
from bowstring.registry.api.forwarder import TIMEOUT_S, ForwardedRequest, Forwarder
from bowstring.registry.registry_error import RegistryError
from bowstring.registry.registry_node import NodeSettings
from bowstring.registry.schema_work import REQUEST_S
from bowstring.registry.store.store_target import StoreTarget
from tests.support.addresses import own_address
from tests.support.certificates import authority
from tests.support.registry_double import RegistryDouble, record_schema
from tests.support.waiting import HANG_S, wait_until_async

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"


@pytest.fixture
def forwarder():
    made = Forwarder()
    yield made
    made.close()


class Leader:
    """Takes connections; answers once it is released.

    Attributes:
        requests: the first words of all of them.
        ends_after: of a connection: the requests that it answers; it takes one more, and closes.
    """

    def __init__(self, tls=None):
        self.requests, self.ends_after, self.tls = [], None, tls
        self.socket = socket.create_server((own_address(), 0))
        self.url = f"http{'s' if tls else ''}://{own_address()}:{self.socket.getsockname()[1]}"
        self.asked, self.released = threading.Event(), threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.socket.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection):
        if self.tls is not None:
            connection = self.tls.wrap_socket(connection, server_side=True)
        with connection, contextlib.suppress(OSError):
            left = self.ends_after
            while data := connection.recv(1000):
                self.requests.append(data.split()[0])
                self.asked.set()
                self.released.wait(HANG_S)
                if left == 0:
                    return
                left = None if left is None else left - 1
                connection.sendall(ANSWER)


@pytest.fixture
def leader():
    made = Leader()
    yield made
    made.released.set()
    made.socket.close()


def request(leader, method="POST"):
    return ForwardedRequest(leader.url, method, "/subjects/a/versions", {}, b"")


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


def test_a_leader_has_the_time_that_it_may_take():
    settings = NodeSettings(StoreTarget("broker:9092"), "http://127.0.0.1:1")
    assert REQUEST_S + settings.write_timeout_s < TIMEOUT_S


@pytest.mark.parametrize(("method", "sent"), [("POST", 2), ("DELETE", 2), ("PUT", 3)])
def test_what_may_have_been_done_is_not_sent_twice(monkeypatch, leader, method, sent):
    monkeypatch.setattr(forwarding, "THREADS", 1)  # so that the second request has a kept connection
    forwarder = Forwarder()
    leader.ends_after = 1
    leader.released.set()

    async def ask():
        return await forwarder.forward(request(leader, method))

    assert asyncio.run(ask()).status == 200
    if method == "PUT":
        assert asyncio.run(ask()).status == 200
    else:
        with pytest.raises(RegistryError) as failed:
            asyncio.run(ask())
        assert failed.value.code == 50003
    assert leader.requests == [method.encode()] * sent
    forwarder.close()


def test_a_request_that_waits_when_the_leader_goes_is_not_sent_again(forwarder, leader):
    async def leave():
        forwarder.leader_is(leader.url)
        waiting = asyncio.ensure_future(forwarder.forward(request(leader, "PUT")))
        await asyncio.to_thread(leader.asked.wait, HANG_S)
        forwarder.leader_is(None)
        with pytest.raises(RegistryError, match="leads no more"):
            await asyncio.wait_for(waiting, HANG_S)

    asyncio.run(leave())
    assert leader.requests == [b"PUT"]


def test_many_writes_for_a_stopped_leader_do_not_hold_reads(monkeypatch, leader):
    monkeypatch.setattr(forwarding, "WAIT_S", 0.2)
    registry = RegistryDouble()
    registry.node.is_leader, registry.node.leader_url = False, leader.url
    registry.forwarder.leader_is(leader.url)

    def write():
        return registry.answer("POST", "/subjects/a/versions", {"schema": record_schema("a")})

    async def storm():
        writes = [asyncio.ensure_future(write()) for _ in range(500)]
        await asyncio.to_thread(leader.asked.wait, HANG_S)
        for _ in range(20):
            assert (await registry.answer("GET", "/subjects"))[0] == 200
        await wait_until_async(lambda: sum(each.done() for each in writes) >= 500 - forwarding.THREADS)
        registry.forwarder.leader_is(None)
        answers = await asyncio.wait_for(asyncio.gather(*writes), HANG_S)
        assert {json.loads(body)["error_code"] for _, _, body in answers} == {50003}
        refused = [json.loads(body)["message"] for status, _, body in answers if status == 503]
        assert len(refused) >= 500 - forwarding.THREADS and all(
            "nothing was written" in each for each in refused
        )
        assert len(leader.requests) <= forwarding.THREADS
        leader.released.set()
        registry.forwarder.leader_is(leader.url)
        assert (await write())[0] == 200

    asyncio.run(storm())
    registry.forwarder.close()


def test_large_writes_that_wait_are_bounded(monkeypatch, forwarder, leader):
    monkeypatch.setattr(forwarding, "WAITING_BYTES_MAX", 1000)

    async def ask():
        forwarder.leader_is(leader.url)
        large = request(leader)._replace(body=b"x" * 600)
        waiting = [asyncio.ensure_future(forwarder.forward(large)) for _ in range(2)]
        await asyncio.to_thread(leader.asked.wait, HANG_S)
        with pytest.raises(RegistryError, match="2 writes wait") as refused:
            await forwarder.forward(large)
        assert (refused.value.status, refused.value.code) == (503, 50003)
        leader.released.set()
        assert [each.status for each in await asyncio.gather(*waiting)] == [200, 200]
        assert (await forwarder.forward(large)).status == 200

    asyncio.run(ask())


def test_a_closed_forwarder_ends_what_is_under_way(forwarder, leader):
    async def close():
        waiting = asyncio.ensure_future(forwarder.forward(request(leader)))
        await asyncio.to_thread(leader.asked.wait, HANG_S)
        forwarder.close()
        with pytest.raises(RegistryError):
            await asyncio.wait_for(waiting, HANG_S)

    asyncio.run(close())


def test_a_shutdown_keeps_tls(tmp_path, monkeypatch):
    """SSLSocket.shutdown forgets TLS first: what its thread sends then would go out in plain."""
    identity = authority().identity(names=(own_address(),))
    (tmp_path / "pem").write_bytes(identity.certificate + identity.key)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "pem")
    called = []
    monkeypatch.setattr(ssl.SSLSocket, "shutdown", lambda *given: called.append(given))
    leader = Leader(tls)
    forwarder = Forwarder(ssl.create_default_context(cadata=authority().certificate.decode()))

    async def leave():
        forwarder.leader_is(leader.url)
        waiting = asyncio.ensure_future(forwarder.forward(request(leader)))
        await asyncio.to_thread(leader.asked.wait, HANG_S)
        forwarder.leader_is(None)
        with pytest.raises(RegistryError, match="leads no more"):
            await asyncio.wait_for(waiting, HANG_S)

    asyncio.run(leave())
    assert called == []
    forwarder.close()
    leader.released.set()
    leader.socket.close()
