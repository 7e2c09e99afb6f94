"""Raw conversations before authentication: in any order, cut, doubled, damaged; nothing of them stays."""

import random
import socket
import struct

import pytest

from bowstring import Broker
from tests.support.embedded import engine_of
from tests.support.waiting import HANG_S, wait_until

USERS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'
CONFIG = {
    "listeners": "INNER://127.0.0.1:0,OUTER://127.0.0.1:0",
    "listener.security.protocol.map": "INNER:PLAINTEXT,OUTER:SASL_PLAINTEXT",
    "inter.broker.listener.name": "INNER",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.outer.plain.sasl.jaas.config": USERS,
    "connection.failed.authentication.delay.ms": "0",
    "bowstring.authentication.timeout.ms": "300",
}


def frame(data):
    return struct.pack(">i", len(data)) + data


def request(key, version, body):
    return frame(struct.pack(">hhih", key, version, 1, -1) + body)


def handshake(version, mechanism):
    return request(17, version, struct.pack(">h", len(mechanism)) + mechanism)


PLAIN_TOKEN = b"\0alice\0secret"
TOKENS = (PLAIN_TOKEN, b"n,,n=alice,r=abc", b"", b"\1", b"c=biws,r=abc,p=aaaa")
PIECES = [
    *(handshake(version, name) for version in (0, 1) for name in (b"PLAIN", b"SCRAM-SHA-256", b"GSSAPI")),
    *(request(36, version, struct.pack(">i", len(token)) + token) for version in (0, 1) for token in TOKENS),
    *map(frame, TOKENS),
    *(request(key, 0, b"") for key in (0, 1, 3, 18, 19)),
    *(struct.pack(">i", size) for size in (-1, 1 << 30)),
    b"\x16\x03\x01\x02\0\x01\0",
]


@pytest.fixture(scope="module")
def engine():
    with Broker(config=CONFIG) as broker:
        yield engine_of(broker)


@pytest.fixture
def connect(engine):
    (port,) = [each.port for each in engine.listeners if each.name == "OUTER"]
    return lambda: socket.create_connection(("127.0.0.1", port), timeout=HANG_S)


def received(client, size):
    data = b""
    while len(data) < size and (more := client.recv(size - len(data))):
        data += more
    return data


@pytest.mark.parametrize("one_by_one", [False, True])
def test_a_log_in_of_old_clients(connect, one_by_one):
    """SaslHandshake of version 0, then tokens without headers: as sarama sends them."""
    with connect() as client:
        data = handshake(0, b"PLAIN") + frame(PLAIN_TOKEN) + request(18, 0, b"")
        for piece in [data[at : at + 1] for at in range(len(data))] if one_by_one else [data]:
            client.sendall(piece)
        (size,) = struct.unpack(">i", received(client, 4))
        assert received(client, size)[4:6] == b"\0\0"
        assert received(client, 4) == bytes(4), "an empty token"
        (size,) = struct.unpack(">i", received(client, 4))
        assert received(client, size)[4:6] == b"\0\0"


@pytest.mark.parametrize("seed", range(4))
def test_random_conversations_leave_nothing(engine, connect, seed):
    chance = random.Random(seed)
    for _ in range(150):
        data = bytearray(b"".join(chance.choices(PIECES, k=chance.randrange(1, 7))))
        if chance.random() < 0.3:
            for _ in range(3):
                data[chance.randrange(len(data))] = chance.randrange(256)
        with connect() as client:
            client.sendall(data[: chance.randrange(1, len(data) + 1)])
            if chance.random() < 0.2:
                client.shutdown(socket.SHUT_WR)
    wait_until(lambda: engine.plane.counters()["connections"] == 0, "the end of all connections")
    wait_until(lambda: len(engine.authentication) == 0, "the end of what was kept for them")


def test_half_open_connections_are_closed(engine, connect):
    clients = [connect() for _ in range(100)]
    wait_until(lambda: engine.plane.counters()["connections"] == 0, "the end of all connections")
    for client in clients:
        client.close()
