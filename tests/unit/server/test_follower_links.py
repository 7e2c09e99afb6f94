"""Followers of leaders with secured listeners use connections that the control thread has made."""

import socket

import pytest

from bowstring._native.tls.session import TlsSession
from tests.support.plane_requests import batch, only, produce
from tests.support.readable import readable
from tests.support.replicated_planes import Planes
from tests.support.tls_contexts import client_context, server_context
from tests.support.waiting import wait_until


class SecuredPlanes(Planes):
    """Their control threads connect to leaders. `refused` and `ignored` are how many orders they do not carry out."""

    def __init__(self, directory, *, renew_after_ms=0, refused=0, ignored=0, has_tls=False, **settings):
        self.renew_after_ms, self.refused, self.ignored = renew_after_ms, refused, ignored
        self.dials = []
        self.context = client_context() if has_tls else None
        tls = server_context() if has_tls else None
        super().__init__(directory, is_secured=True, wait_max_ms=50, tls=tls, **settings)

    def _control(self, broker):
        plane = self.served[broker].plane
        while not self.stopping.is_set():
            if readable(plane.control_fd, 0.05):
                plane.take_requests()
                replicas = self.replicas[broker]
                self.events[broker] += replicas.take_events()
                for dial in replicas.take_dials():
                    self.carry_out(broker, replicas, dial)

    def carry_out(self, broker, replicas, dial):
        self.dials.append((broker, dial))
        if self.ignored > 0:
            self.ignored -= 1
        elif self.refused > 0:
            self.refused -= 1
            replicas.refuse_dial(dial, "the certificate is not trusted: é" + "x" * 500)
        else:
            replicas.give_link(dial, *self.connect(dial[0]), renew_after_ms=self.renew_after_ms)

    def connect(self, leader):
        with socket.create_connection(("127.0.0.1", self.served[leader].port)) as connected:
            stream = None if self.context is None else shaken_hands(connected, self.context)
            connected.setblocking(False)
            return connected.detach(), stream


def shaken_hands(connected, context):
    session = TlsSession(context, "localhost")
    connected.sendall(session.outgoing())
    while not session.established:
        assert session.receive(connected.recv(65536)) == b""
        connected.sendall(session.outgoing())
    return session.release()


@pytest.fixture
def made():
    found = []
    yield found.append
    for each in found:
        each.close()


with_and_without_tls = pytest.mark.parametrize("has_tls", [False, True], ids=["plain", "tls"])


@with_and_without_tls
@pytest.mark.parametrize("reactors", [1, 2])
def test_followers_copy_over_given_connections(tmp_path, made, reactors, has_tls):
    planes = SecuredPlanes(tmp_path, reactors=reactors, has_tls=has_tls)
    made(planes)
    planes.elect(0, 1)
    client = planes.client(0)
    for size in range(0, 200_000, 10_000):
        assert only(client.call(produce(batch(b"a" * size), 9, acks=-1), 9)).error_code == 0
    planes.await_equal()
    assert {dial[0] for _, dial in planes.dials} == {0}


def test_a_refused_connection_is_asked_for_again_and_logged_once(tmp_path, made):
    planes = SecuredPlanes(tmp_path, refused=3, count=2)
    made(planes)
    planes.elect(0, 1)
    assert only(planes.client(0).call(produce(batch(b"a"), 9, acks=-1), 9)).error_code == 0
    planes.await_equal()
    assert len(planes.dials) == 4
    events = [each for each in planes.served[1].plane.take_events() if each[1] == "replica-fetch-failed"]
    assert len(events) == 1 and "no connection to leader 0" in events[0][2]
    assert "the certificate is not trusted" in events[0][2]


@with_and_without_tls
def test_connections_are_replaced_before_their_logins_end(tmp_path, made, has_tls):
    planes = SecuredPlanes(tmp_path, renew_after_ms=30, count=2, has_tls=has_tls)
    made(planes)
    planes.elect(0, 1)
    client = planes.client(0)
    sent = 0

    def has_renewed():
        nonlocal sent
        assert only(client.call(produce(batch(b"%d" % sent), 9, acks=-1), 9)).error_code == 0
        sent += 1
        return len(planes.dials) > 5

    wait_until(has_renewed)
    planes.await_equal()
    assert planes.log(1).log_end_offset == sent


@with_and_without_tls
def test_a_change_of_leader_needs_another_connection(tmp_path, made, has_tls):
    planes = SecuredPlanes(tmp_path, renew_after_ms=20, has_tls=has_tls)
    made(planes)
    for epoch, leader in enumerate([0, 1, 2, 0], 1):
        planes.elect(leader, epoch)
        assert only(planes.client(leader).call(produce(batch(b"a"), 9, acks=-1), 9)).error_code == 0
        planes.await_equal()


def test_a_connection_for_a_stale_order_is_closed(tmp_path, made):
    planes = SecuredPlanes(tmp_path, count=2, ignored=1, has_tls=True)
    made(planes)
    planes.elect(0, 1)
    wait_until(lambda: planes.dials)
    broker, (leader, reactor, number, dial) = planes.dials[0]
    planes.replicas[broker].give_link((leader, reactor, number, dial + 7), *planes.connect(leader))
    for stale in ((leader, reactor, number, dial + 7), (leader + 5, reactor, number, dial)):
        ours, given = socket.socketpair()
        given.setblocking(False)
        planes.replicas[broker].give_link(stale, given.detach(), None)
        ours.settimeout(20)
        assert ours.recv(1) == b""
        ours.close()
    planes.carry_out(broker, planes.replicas[broker], (leader, reactor, number, dial))
    assert only(planes.client(0).call(produce(batch(b"a"), 9, acks=-1), 9)).error_code == 0
    planes.await_equal()


def test_a_connection_that_comes_after_the_end_is_closed(tmp_path):
    planes = SecuredPlanes(tmp_path, count=2, ignored=1, has_tls=True)
    planes.elect(0, 1)
    wait_until(lambda: planes.dials)
    broker, dial = planes.dials[0]
    replicas = planes.replicas[broker]
    late = planes.connect(dial[0])
    planes.stopping.set()
    for thread in planes.threads:
        thread.join()
    planes.served[broker].plane.stop()
    ours, given = socket.socketpair()
    replicas.give_link(dial, given.detach(), None)
    replicas.give_link(dial, *late)
    replicas.refuse_dial(dial, "it is over")
    planes.close()
    planes.replicas.clear()
    planes.served.clear()
    planes.threads.clear()
    del replicas
    ours.settimeout(20)
    assert ours.recv(1) == b""
    ours.close()
