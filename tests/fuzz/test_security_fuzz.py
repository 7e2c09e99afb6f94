"""Seeded fuzzing of TLS states and of the phase before authentication: what peers send is truncated, repeated,
interleaved with another connection's, oversized, damaged, and cut anywhere.

A round prints its seed when it fails; the same seed makes the same damage.
"""

import contextlib
import os
import random
import struct
import time

import pytest

from bowstring._native.server.data_plane import DataPlane
from bowstring._native.tls.context import TlsError
from bowstring._native.tls.session import TlsSession
from bowstring.protocol import API_VERSIONS, encode_request
from bowstring.protocol.messages.api_versions import ApiVersionsRequest
from bowstring.protocol.messages.metadata import MetadataRequest
from bowstring.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from bowstring.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.certificates import authority, client_identity
from tests.support.plane_client import PlaneClient
from tests.support.tls_contexts import client_context, python_context, server_context
from tests.support.waiting import wait_until

SEED = int(os.environ.get("BOWSTRING_FUZZ_SEED", "20240519"))
SECONDS = float(os.environ.get("BOWSTRING_FUZZ_SECONDS", "1.5"))
LEAST = 30
RECORD_HEAD = 5
STEPS_MAX = 60
LIMIT_MS = 300  # of a handshake, and of authentication
KEYS = (0, 1, 3, 17, 18, 36)


def rounds():
    """Yields a source of randomness for each round, for SECONDS."""
    ends_s = time.monotonic() + SECONDS
    number = 0
    while number < LEAST or time.monotonic() < ends_s:
        try:
            yield random.Random(f"{SEED} {number}")
        except BaseException:
            print("round", number, "of seed", SEED)
            raise
        number += 1


def records(data):
    """Cuts bytes into TLS records."""
    at = 0
    while at < len(data):
        end = at + RECORD_HEAD + int.from_bytes(data[at + 3 : at + RECORD_HEAD], "big")
        yield data[at:end]
        at = end


def damage(rng, data, others):
    """What comes in the place of these bytes; `others` is what other connections have sent."""
    pieces = list(records(data)) or [b""]
    at = rng.randrange(len(pieces))
    piece = pieces[at]
    wound = rng.randrange(9)
    if wound == 0:
        pieces[at] = piece[: rng.randrange(len(piece) + 1)]
    elif wound == 1:
        pieces[at:at] = [piece] * rng.choice((1, 2, 40))
    elif wound == 2 and others:
        pieces[at:at] = rng.sample(others, min(len(others), rng.randrange(1, 4)))
    elif wound == 3:
        size = rng.choice((0, 1, 16_384, 16_385, 16_640, 16_641, 65_535))
        pieces[at] = piece[:3] + struct.pack(">H", size) + rng.randbytes(size)
    elif wound == 4 and piece:
        changed = bytearray(piece)
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        pieces[at] = bytes(changed)
    elif wound == 5:
        pieces[at] = bytes([rng.choice((20, 21, 22, 23, 24, 0, 255))]) + piece[1:]
    elif wound == 6:
        rng.shuffle(pieces)
    elif wound == 7:
        del pieces[at]
    else:
        pieces[at:at] = [b"\x14\x03\x03\x00\x01\x01" * rng.choice((1, 2, 40))]
    return b"".join(pieces)


def cut(rng, data):
    """Yields the bytes in pieces of a size, or one by one."""
    step = rng.choice((1, 1, 2, 5, 100, 1 << 20))
    for at in range(0, len(data), step):
        yield data[at : at + step]


def sessions(rng):
    """A client and a server that may agree."""
    version = {"protocols": [rng.choice(("TLSv1.2", "TLSv1.3"))]}
    asks = rng.choice((None, "requested", "required"))
    server = {"client_auth": asks, "trusted": authority().certificate} if asks else {}
    own = {}
    if asks == "required" or (asks and rng.random() < 0.5):
        identity = client_identity()
        own = {"certificate_chain": identity.certificate, "private_key": identity.key}
    return (
        TlsSession(client_context(**version, **own), "localhost"),
        TlsSession(server_context(**server)),
    )


def play(rng, sent):
    """One conversation, one side of which gets something else now and then."""
    sides = list(sessions(rng))
    victim, harm = rng.randrange(2), rng.choice((0.1, 0.3, 1.0))
    for step in range(STEPS_MAX):
        giver, taker = sides[step % 2], sides[1 - step % 2]
        if giver.established and rng.random() < 0.5:
            giver.send(rng.randbytes(rng.choice((0, 1, 100, 20_000))))
        data = giver.outgoing()
        sent += records(data)
        del sent[:-20]
        if step % 2 == victim and rng.random() < harm:
            data = damage(rng, data, sent)
        for piece in cut(rng, data):
            taker.receive(piece)


def test_tls_states():
    """A session ends with TlsError, or goes on."""
    sent = []
    failed = 0
    for rng in rounds():
        with contextlib.suppress(TlsError):
            play(rng, sent)
            continue
        failed += 1
    assert failed > 0


@pytest.fixture
def serve():
    started = []

    def serve(tls=None, authenticates=False):
        plane = DataPlane(
            apis={
                key: (each.lowest, each.highest, each.flexible_from)
                for key, each in API_VERSIONS.items()
                if key in KEYS
            },
            authentication_max_ms=LIMIT_MS,
        )
        port = plane.listen("127.0.0.1", 0, tls=tls, authenticates=authenticates)
        plane.start()
        started.append(plane)
        return plane, port

    yield serve
    for each in started:
        each.stop()


def send(client, data):
    """The broker may have closed the connection."""
    with contextlib.suppress(OSError):
        client.socket.sendall(data)


def test_tls_listeners(serve):
    """Damaged handshakes and records end; a sound client is served between them, and none is left."""
    plane, port = serve(tls=server_context())
    sent = []
    clients = []
    for rng in rounds():
        session = TlsSession(client_context(), "localhost")
        client = PlaneClient(port)
        clients.append(client)
        with contextlib.suppress(TlsError, OSError):
            for step in range(rng.choice((1, 2, 3))):
                data = session.outgoing()
                sent += records(data)
                del sent[:-20]
                harmed = damage(rng, data, sent) if step or rng.random() < 0.5 else data
                for piece in cut(rng, harmed):
                    send(client, piece)
                client.socket.settimeout(0.02)
                session.receive(client.socket.recv(1 << 16))
                if session.established:
                    session.send(rng.randbytes(rng.choice((3, 100, 40_000))))
        if rng.random() < 0.7:
            clients.pop(rng.randrange(len(clients))).close()
        if rng.random() < 0.1:
            PlaneClient(port, python_context()).close()
    for each in clients:
        each.close()
    wait_until(lambda: plane.counters()["connections"] == 0, plane.counters)


def message(rng, number):
    """A request, perhaps one that is not allowed before authentication."""
    body, version = rng.choice(
        [
            (ApiVersionsRequest(), 3),
            (SaslHandshakeRequest(mechanism=rng.choice(("PLAIN", "", "x" * 1000))), rng.choice((0, 1))),
            (
                SaslAuthenticateRequest(auth_bytes=rng.randbytes(rng.choice((0, 1, 50, 5000)))),
                rng.choice((0, 2)),
            ),
            (MetadataRequest(topics=None), 1),
        ]
    )
    frame = encode_request(body, version, number, "fuzz")
    if rng.random() < 0.3:
        changed = bytearray(frame)
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        frame = bytes(changed[: rng.choice((len(changed), rng.randrange(len(changed))))])
    size = (
        len(frame) if rng.random() < 0.9 else rng.choice((0, -1, 1, len(frame) + 9, 1 << 20, (1 << 31) - 1))
    )
    return struct.pack(">i", size) + frame


def test_states_of_authentication(serve):
    """Whatever comes before authentication, and in whichever pieces, only what is allowed reaches the control thread."""
    plane, port = serve(authenticates=True)
    clients = []
    admitted = set()
    for rng in rounds():
        clients.append(PlaneClient(port))
        data = b"".join(message(rng, number) for number in range(rng.randrange(1, 5)))
        data *= rng.choice((1, 1, 1, 3))
        for piece in cut(rng, data[: rng.choice((len(data), rng.randrange(len(data))))]):
            send(clients[-1], piece)
        for request in plane.take_requests():
            assert request.api_key in (17, 18, 36) or request.connection_id in admitted, request.api_key
            if request.api_key == 36 and rng.random() < 0.3:
                plane.admit(request.connection_id, "User:a")
                admitted.add(request.connection_id)
            plane.reply(request.connection_id, request.slot, b"\x00\x00\x00\x01")
        if len(clients) > 8 or rng.random() < 0.5:
            clients.pop(rng.randrange(len(clients))).close()
    for each in clients:
        each.close()
    wait_until(lambda: not plane.take_requests() and plane.counters()["connections"] == 0, plane.counters)
