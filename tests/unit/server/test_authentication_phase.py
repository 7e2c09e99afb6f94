"""The authentication phase of connections, and whose they are afterwards."""

import struct

import pytest

from bowstring._native.server.data_plane import DataPlane
from bowstring.protocol import API_VERSIONS
from bowstring.protocol.messages.api_versions import ApiVersionsRequest
from bowstring.protocol.messages.metadata import MetadataRequest
from bowstring.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from bowstring.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.plane_client import PlaneClient
from tests.support.taken_requests import Taken
from tests.support.waiting import wait_until

KEYS = (0, 1, 3, 17, 18, 36)
HANDSHAKE = SaslHandshakeRequest(mechanism="PLAIN")


class Authenticating:
    """A plane whose listener authenticates, a client of it, and its requests."""

    def __init__(self, keys=KEYS, **settings):
        ranges = {key: API_VERSIONS[key] for key in keys}
        self.plane = DataPlane(
            apis={key: (api.lowest, api.highest, api.flexible_from) for key, api in ranges.items()},
            **settings,
        )
        self.port = self.plane.listen("127.0.0.1", 0, authenticates=True)
        self.plane.start()
        self.taken = Taken(self)
        self.clients = []

    def client(self):
        self.clients.append(PlaneClient(self.port))
        return self.clients[-1]

    def take(self):
        self.taken.come(1)
        return self.taken.pop(0)

    def close(self):
        for client in self.clients:
            client.close()
        self.plane.stop()


@pytest.fixture
def start():
    started = []
    yield lambda **settings: started.append(Authenticating(**settings)) or started[-1]
    for each in started:
        each.close()


def answer(plane, request, body=b"\x00\x00\x00\x01"):
    plane.reply(request.connection_id, request.slot, body)


def admitted(served, principal="User:alice", **more):
    client = served.client()
    client.send(HANDSHAKE, 1)
    request = served.take()
    served.plane.admit(request.connection_id, principal, **more)
    answer(served.plane, request)
    client.read_frame()
    return client


def send_raw(client, data):
    client.socket.sendall(struct.pack(">i", len(data)) + data)


def test_every_other_request_ends_an_unauthenticated_connection(start):
    served = start(keys=tuple(API_VERSIONS))
    for key, api in API_VERSIONS.items():
        if key not in (17, 18, 36):
            client = served.client()
            send_raw(client, struct.pack(">hhih", key, api.lowest, 1, -1) + bytes(4))
            assert client.closed(), api.name
    assert served.plane.take_requests() == []


def test_three_apis_come_as_those_of_an_anonymous_client(start):
    served = start()
    client = served.client()
    for body, version in [
        (ApiVersionsRequest(), 0),
        (HANDSHAKE, 1),
        (SaslAuthenticateRequest(auth_bytes=b"x"), 2),
    ]:
        client.send(body, version)
        request = served.take()
        assert (request.api_key, request.principal, request.authenticating) == (
            body.api_key,
            "User:ANONYMOUS",
            True,
        )
        answer(served.plane, request)
        client.read_frame()


def test_requests_after_admission_carry_the_principal(start):
    served = start()
    client = admitted(served, "User:zoë")
    client.send(MetadataRequest(topics=[]), 9)
    request = served.take()
    assert (request.principal, request.authenticating) == ("User:zoë", False)


def test_a_request_sent_with_the_last_token_is_handled_after_admission(start):
    served = start()
    client = served.client()
    client.send(SaslAuthenticateRequest(auth_bytes=b"x"), 1)
    client.send(MetadataRequest(topics=[]), 9)
    first = served.take()
    served.plane.admit(first.connection_id, "User:alice")
    answer(served.plane, first)
    assert served.take().principal == "User:alice"


def test_tokens_without_headers_follow_a_handshake_of_version_0(start):
    served = start()
    client = served.client()
    client.send(HANDSHAKE, 0)
    answer(served.plane, served.take())
    client.read_frame()
    for token in (b"", b"\x00alice\x00secret"):
        for byte in struct.pack(">i", len(token)) + token:
            client.socket.sendall(bytes([byte]))
        request = served.take()
        assert (request.api_key, request.api_version, request.body) == (36, -1, token)
        served.plane.reply(request.connection_id, request.slot, token)
        assert client.read_frame() == token
    client.send(MetadataRequest(topics=[]), 9)
    assert served.take().api_version == -1


def test_a_last_token_may_have_no_answer(start):
    served = start()
    client = served.client()
    client.send(HANDSHAKE, 0)
    answer(served.plane, served.take())
    client.read_frame()
    send_raw(client, b"last")
    last = served.take()
    served.plane.admit(last.connection_id, "User:alice")
    served.plane.skip(last.connection_id, last.slot)
    client.send(MetadataRequest(), 9)
    answer(served.plane, served.take(), b"metadata")
    assert bytes(client.read_frame()) == b"metadata"
    client.close()


def test_large_requests_before_authentication_end_the_connection(start):
    served = start(sasl_max_bytes=100)
    client = served.client()
    client.socket.sendall(struct.pack(">ihhih", 101, 36, 1, 1, -1))
    assert client.closed()
    assert served.plane.take_events()[0][1] == "bad-sasl-size"
    client = admitted(served)
    client.send(MetadataRequest(topics=[]), 9)
    assert served.take().principal == "User:alice"


def test_a_connection_that_does_not_authenticate_is_closed(start):
    served = start(authentication_max_ms=20)
    late, idle = served.client(), admitted(served)
    late.send(HANDSHAKE, 1)
    answer(served.plane, served.take())
    wait_until(lambda: served.plane.counters()["connections"] == 1, "the end of the first connection")
    idle.send(MetadataRequest(topics=[]), 9)
    assert served.take().principal == "User:alice"


def test_an_expired_session_must_authenticate_again(start):
    served = start()
    client = admitted(served, lifetime_ms=1)
    wait_until(lambda: not accepted(served, client), "the end of the session")
    assert client.closed()


def accepted(served, client):
    try:
        client.send(MetadataRequest(topics=[]), 9)
        request = served.take() if not client.closed(timeout=0.01) else None
    except OSError:
        return False
    if request is None:
        return False
    answer(served.plane, request)
    client.read_frame()
    return True


def test_a_handshake_right_after_admission_is_none(start):
    served = start()
    client = admitted(served)
    client.send(HANDSHAKE, 1)
    request = served.take()
    assert (request.principal, request.authenticating) == ("User:alice", False)


def test_finish_closes_behind_the_answer(start):
    served = start()
    client = served.client()
    client.send(HANDSHAKE, 1)
    request = served.take()
    answer(served.plane, request, b"refused")
    served.plane.finish(request.connection_id)
    assert client.read_frame() == b"refused"
    assert client.closed()


def test_nothing_is_handled_between_the_last_answer_and_the_end(start):
    served = start()
    client = served.client()
    client.send(HANDSHAKE, 1)
    request = served.take()
    served.plane.finish(request.connection_id)
    client.send(HANDSHAKE, 1)
    answer(served.plane, request, b"refused")
    assert client.read_frame() == b"refused"
    assert client.closed()
    assert served.plane.take_requests() == []


def test_ends_of_authenticating_connections_are_reported(start):
    served = start()
    client = served.client()
    client.send(HANDSHAKE, 1)
    request = served.take()
    client.close()
    ended = []
    wait_until(
        lambda: served.plane.take_requests() == [] and (ended.extend(served.plane.take_ended()) or ended),
        "the end of the connection",
    )
    assert ended == [request.connection_id]


def test_many_subjects_come_and_go(start):
    served = start(reactors=3)
    for round_ in range(3):
        clients = [admitted(served, f"User:{round_}-{index}") for index in range(100)]
        for index, client in enumerate(clients):
            client.send(MetadataRequest(topics=[]), 9)
            assert served.take().principal == f"User:{round_}-{index}"
            client.close()
