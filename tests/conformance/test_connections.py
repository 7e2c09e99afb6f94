"""A thousand connections at once, from raw sockets and from real clients, while other clients work."""

import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.conformance.drivers import CLIENTS, Session
from tests.support.wire import Wire

CONNECTIONS = 1000
# Each franz-go client holds two: one for metadata, one for writing.
SWARM_CLIENTS = 500


@pytest.fixture(autouse=True)
def enough_open_files() -> Iterator[None]:
    """Raises this process's soft limit of open files; a thousand sockets do not fit the usual 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_thousand_connections_stay_open_and_answer(
    bootstrap: str, session: Callable[[str], Session], make_topic: Callable[..., str]
) -> None:
    host, port = bootstrap.split(":")
    with ExitStack() as stack:
        wires = [stack.enter_context(Wire(host, int(port))) for _ in range(CONNECTIONS)]
        for turn in range(2):
            for wire in wires:
                wire.send_api_versions()
            for wire in wires:
                assert wire.receive_api_versions(), f"turn {turn}"
        topic = make_topic()
        for name in CLIENTS:
            session(name).produce(topic, [{"partition": 0, "value": name.encode()}])
        got = session("java").consume(topic, len(CLIENTS))
        assert [each["value"].decode() for each in got] == list(CLIENTS)
        for wire in wires:
            wire.send_api_versions()
        assert all(wire.receive_api_versions() for wire in wires)


def test_connections_that_come_and_go(bootstrap: str) -> None:
    host, port = bootstrap.split(":")
    for number in range(CONNECTIONS):
        with Wire(host, int(port)) as wire:
            if number % 2:
                wire.send_api_versions()
                assert wire.receive_api_versions()
            elif number % 4:
                # A reset instead of an orderly close.
                wire.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")


def test_five_hundred_producers_at_once(
    session: Callable[[str], Session], make_topic: Callable[..., str]
) -> None:
    topic, franz = make_topic(), session("franz-go")
    assert franz.call("swarm", topic=topic, clients=SWARM_CLIENTS) == {"acked": SWARM_CLIENTS}
    got = franz.consume(topic, SWARM_CLIENTS)
    assert sorted(int(each["value"][:8]) for each in got) == list(range(SWARM_CLIENTS))
