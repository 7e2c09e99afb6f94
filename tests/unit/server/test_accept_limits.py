"""Limits of connections: over the limit of a host they are closed, over that of a listener accepting waits."""

import ipaddress
import socket
import time

import pytest

from bowstring._native.server.plane_accept_limits import NO_LIMIT, PlaneAcceptLimits
from tests.support.plane_client import PlaneClient
from tests.support.plane_requests import batch, only, produce
from tests.support.readable import readable
from tests.support.served_plane import Served
from tests.support.waiting import HANG_S, wait_until

SHORT_S = 0.03
HERE = ipaddress.IPv6Address("::ffff:127.0.0.1").packed


class Limited:
    """A plane with two listeners, of which brokers may use the second."""

    def __init__(self, directory, reactors, window_ms=100):
        self.served = Served(
            directory, reactors=reactors, quota_samples=2, quota_window_ms=window_ms, accepts=False
        )
        self.ports = [self.served.port, self.served.plane.listen("127.0.0.1", 0)]
        self.limits = PlaneAcceptLimits(self.served.plane)
        self.served.plane.start()
        self.clients = []

    def set(self, *, most=NO_LIMIT, rate=NO_LIMIT, of_host=NO_LIMIT, rate_of_host=0, hosts=None, of_listener=NO_LIMIT,
            listener_rate=NO_LIMIT, protects=False):  # fmt: skip
        self.limits.set(
            most=most,
            rate=rate,
            most_of_host=of_host,
            rate_of_host=rate_of_host,
            hosts=hosts or {},
            listeners=[(of_listener, listener_rate, False), (NO_LIMIT, NO_LIMIT, protects)],
        )

    def connect(self, listener=0):
        client = PlaneClient(self.ports[listener])
        self.clients.append(client)
        return client

    @property
    def counters(self):
        return self.limits.counters()

    def close(self):
        for client in self.clients:
            client.close()
        self.served.close()


@pytest.fixture(params=[1, 2], ids=["one-reactor", "two-reactors"])
def limited(tmp_path, request):
    limited = Limited(tmp_path, request.param)
    yield limited
    limited.close()


@pytest.fixture
def patient(tmp_path):
    """One with a sample of an hour: nothing that comes too fast is served in the time of a test."""
    limited = Limited(tmp_path, 2, window_ms=3_600_000)
    yield limited
    limited.close()


def ask(client):
    assert only(client.call(produce(batch(b"x"), 9), 9)).error_code == 0


def is_served(client):
    client.send(produce(batch(b"x"), 9), 9)
    return readable(client.socket, SHORT_S)


def test_connections_are_counted_without_limits(limited):
    for _ in range(3):
        ask(limited.connect())
    ask(limited.connect(1))
    assert limited.counters["listeners"] == [3, 1]
    limited.clients.pop().close()
    wait_until(lambda: limited.counters["listeners"] == [3, 0])


def test_more_connections_of_a_host_than_allowed_are_closed(limited):
    limited.set(of_host=2)
    first, second = limited.connect(), limited.connect()
    ask(first)
    ask(second)
    assert limited.connect().closed()
    assert limited.connect(1).closed(), "over all listeners"
    assert limited.counters["refused"] == 2
    first.close()
    wait_until(lambda: limited.counters["listeners"] == [1, 0])
    ask(limited.connect())


def test_a_host_may_have_a_limit_of_its_own(limited):
    limited.set(of_host=0, hosts={HERE: (1, 0)})
    ask(limited.connect())
    assert limited.connect().closed()
    other = socket.socket()
    other.bind(("127.0.0.2", 0))
    other.settimeout(HANG_S)
    other.connect(("127.0.0.1", limited.ports[0]))
    assert other.recv(1) == b""
    other.close()


def test_a_full_listener_accepts_again_when_a_connection_ends(limited):
    limited.set(of_listener=1)
    first = limited.connect()
    ask(first)
    second = limited.connect()
    assert not is_served(second)
    ask(limited.connect(1))
    first.close()
    assert only(second.receive(0, 9)).error_code == 0


def test_a_higher_limit_lets_waiting_connections_in(limited):
    limited.set(most=1)
    ask(limited.connect())
    second = limited.connect()
    assert not is_served(second)
    limited.set(most=2)
    assert only(second.receive(0, 9)).error_code == 0


def test_brokers_are_let_in_beyond_the_limit_and_others_make_room(limited):
    limited.set(most=2, protects=True)
    idle, active = limited.connect(), limited.connect()
    ask(idle)
    ask(active)
    before_ms = time.monotonic_ns() // 1_000_000
    wait_until(lambda: time.monotonic_ns() // 1_000_000 > before_ms + 1)
    ask(active)
    waiting = limited.connect()
    assert not is_served(waiting)
    broker = limited.connect(1)
    ask(broker)
    wait_until(lambda: limited.counters["listeners"] == [1, 1])
    assert limited.counters["ended"] == 1
    ask(broker)
    assert not readable(waiting.socket, SHORT_S)
    more = limited.connect(1)
    ask(more)
    wait_until(lambda: limited.counters["listeners"] == [0, 2])
    assert idle.closed()
    assert active.closed()


def test_connections_that_come_too_fast_are_served_later(limited):
    limited.set(rate=1e-6)
    began = time.monotonic()
    ask(limited.connect())
    ask(limited.connect(1))
    assert time.monotonic() - began >= 0.15, "one after the other waits for a sample"
    assert limited.counters["delayed"] == 2
    assert limited.counters["delayed_ms"] == 200


def test_the_rate_of_a_listener_does_not_delay_others(patient):
    patient.set(listener_rate=1e-6)
    assert not is_served(patient.connect())
    ask(patient.connect(1))


def test_connections_of_a_host_that_come_too_fast_are_not_served(patient):
    patient.set(rate_of_host=1.5 / 3600)
    ask(patient.connect())
    assert not is_served(patient.connect())
    assert patient.counters["refused_later"] == 1
    assert patient.counters["refused"] == 0
    assert patient.counters["listeners"] == [1, 0]
    patient.set(rate_of_host=1.5 / 3600, hosts={HERE: (-1, NO_LIMIT)})
    ask(patient.connect())


def test_they_are_closed_after_a_time(limited):
    limited.set(rate_of_host=1e-6)
    began = time.monotonic()
    assert limited.connect().closed()
    assert time.monotonic() - began >= 0.09


def test_limits_of_other_listeners_are_refused(limited):
    with pytest.raises(ValueError, match="each listener"):
        limited.limits.set(most=1, rate=1, most_of_host=1, rate_of_host=0, hosts={}, listeners=[])
    with pytest.raises(ValueError, match="16 bytes"):
        limited.set(hosts={b"abcd": (1, 0)})


def test_a_stop_closes_what_was_not_served(patient):
    patient.set(rate=1e-6)
    assert not is_served(patient.connect())
    patient.set(rate_of_host=1e-6)
    assert not is_served(patient.connect(1))
    patient.served.plane.stop()
