"""Connections to other nodes: versions, missing answers, other addresses."""

import asyncio

import pytest

from bowstring.engine.network.connection import NoAnswerError, PeerConnection, UnsupportedByPeerError
from bowstring.engine.network.peers import Peers
from bowstring.protocol import decode_request_header, encode_response
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from bowstring.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from tests.support.addresses import own_address
from tests.support.waiting import FOR_EVER_S

DESCRIBE = 55
API_VERSIONS = 18


class Peer:
    """A node with ApiVersions up to a version, and DescribeQuorum in a range; `mute` ones do not answer."""

    def __init__(self, *, newest=4, describes=(0, 2), mute=False, closes=False):
        self.newest, self.describes, self.mute, self.closes = newest, describes, mute, closes
        self.asked = []

    async def serve(self, reader, writer):
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                header = decode_request_header(await reader.readexactly(size))
                self.asked.append((header.api_key, header.api_version))
                await self.answer(header, writer)
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    async def answer(self, header, writer):
        version = header.api_version
        if header.api_key == API_VERSIONS and version > self.newest:
            version, body = 0, ApiVersionsResponse(error_code=Errors.UNSUPPORTED_VERSION.code)
        elif header.api_key == API_VERSIONS:
            low, high = self.describes
            offered = ApiVersion(api_key=DESCRIBE, min_version=low, max_version=high)
            body = ApiVersionsResponse(api_keys=[offered])
        elif self.closes:
            writer.close()
            return
        elif self.mute:
            return
        else:
            body = DescribeQuorumResponse(error_code=version)
        frame = encode_response(header.api_key, version, header.correlation_id, body)
        writer.write(len(frame).to_bytes(4, "big") + frame)
        await writer.drain()


def run(peer, scenario):
    async def all_of_it():
        server = await asyncio.start_server(peer.serve, own_address(), 0)
        connection = PeerConnection(own_address(), server.sockets[0].getsockname()[1], "test")
        try:
            await scenario(connection)
        finally:
            connection.close()
            server.close()

    asyncio.run(all_of_it())


def ask(connection, versions=(0, 2), timeout_s=FOR_EVER_S):
    return connection.exchange(DescribeQuorumRequest(), versions, timeout_s)


@pytest.mark.parametrize(("describes", "version"), [((0, 2), 2), ((0, 1), 1), ((1, 9), 2)])
def test_the_newest_common_version_is_used(describes, version):
    async def scenario(connection):
        for _ in range(2):
            answer, used = await ask(connection)
            assert (answer.error_code, used) == (version, version)

    peer = Peer(describes=describes)
    run(peer, scenario)
    assert peer.asked == [(API_VERSIONS, 4), (DESCRIBE, version), (DESCRIBE, version)]


def test_a_node_that_does_not_know_this_apiversions_is_asked_again():
    async def scenario(connection):
        await ask(connection)

    peer = Peer(newest=3)
    run(peer, scenario)
    assert peer.asked[:2] == [(API_VERSIONS, 4), (API_VERSIONS, 0)]


def test_no_common_version():
    async def scenario(connection):
        with pytest.raises(UnsupportedByPeerError):
            await ask(connection, versions=(2, 2))
        await ask(connection, versions=(0, 2))

    run(Peer(describes=(0, 1)), scenario)


@pytest.mark.parametrize("trouble", [{"mute": True}, {"closes": True}])
def test_a_missing_answer_closes_the_connection_and_the_next_request_makes_another(trouble):
    peer = Peer(**trouble)

    async def scenario(connection):
        with pytest.raises(NoAnswerError):
            await ask(connection, timeout_s=FOR_EVER_S if peer.closes else 0.2)
        peer.mute = peer.closes = False
        await ask(connection)

    run(peer, scenario)
    assert [key for key, _ in peer.asked] == [API_VERSIONS, DESCRIBE] * 2


def test_nobody_listens():
    async def scenario():
        server = await asyncio.start_server(Peer().serve, own_address(), 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        with pytest.raises(NoAnswerError):
            await ask(PeerConnection(own_address(), port, "test"))

    asyncio.run(scenario())


def test_a_node_has_one_connection_until_it_moves():
    peers = Peers("test")
    first = peers.at(1, "a", 1)
    assert peers.at(1, "a", 1) is first
    assert peers.at(2, "a", 1) is not first
    assert peers.at(1, "b", 1) is not first
    peers.close()


def test_a_connection_that_was_closed_while_idle_is_made_again():
    async def scenario(connection):
        await ask(connection)
        await asyncio.sleep(0)
        connection._reader.feed_eof()
        assert (await ask(connection))[1] == 2

    run(Peer(), scenario)
