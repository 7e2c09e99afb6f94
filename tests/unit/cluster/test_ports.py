"""A node's ports stay its own, even while nothing listens there."""

import errno
import socket
import subprocess
import sys

import pytest

from bowstring import Cluster
from bowstring.cluster.ports import ClaimedPorts
from tests.support import serving
from tests.support.addresses import own_address
from tests.support.serving import steady_port
from tests.support.waiting import HANG_S, wait_until


@pytest.fixture
def one():
    with ClaimedPorts() as made:
        yield made


@pytest.fixture
def other():
    with ClaimedPorts() as made:
        yield made


def test_a_port_is_given_once(one, other):
    ports = one.take(3)
    assert len(set(ports)) == len(one) == 3
    assert not other.take_these(ports[:1])
    one.close()
    assert other.take_these(ports)


def test_a_port_where_something_listens_is_not_given(one):
    port = steady_port()
    with socket.create_server(("127.0.0.1", port)):
        assert not one.take_these([port])


def test_of_ports_that_belong_together_all_are_given_or_none(one, other):
    (taken,) = one.take(1)
    (free,) = other.take(1)
    other.close()
    assert not other.take_these([free, taken]) and len(other) == 0
    assert one.take_these([free]), "its claim has ended"


def test_an_address_of_another_machine_is_an_error(one):
    with pytest.raises(OSError, match="assign requested address") as raised:
        one.take(2, "192.0.2.1")
    assert raised.value.errno == errno.EADDRNOTAVAIL and len(one) == 0


def test_what_a_killed_process_had_is_free_again(one):
    code = "from bowstring.cluster.ports import ClaimedPorts\np = ClaimedPorts()\nprint(*p.take(2), flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            ports = [int(each) for each in process.stdout.readline().split()]
            assert len(ports) == 2 and not any(one.take_these([each]) for each in ports)
        finally:
            process.kill()
    process.wait(HANG_S)
    wait_until(lambda: one.take_these(ports))


def test_the_ports_of_tests_stay_theirs_and_the_oldest_are_given_back(one, monkeypatch):
    mine = ClaimedPorts()
    monkeypatch.setattr(serving, "PORTS", mine)
    monkeypatch.setattr(serving, "PORTS_MAX", 3)
    try:
        first, *later = [steady_port() for _ in range(4)]
        assert len(mine) == 3
        assert not any(one.take_these([port]) for port in later)
        assert one.take_these([first])
    finally:
        mine.close()


def test_a_cluster_keeps_the_port_of_a_node_that_is_down(one):
    with Cluster(1) as cluster:
        cluster.kill(1)
        host, port = cluster.address(1).split(":")
        assert not one.take_these([int(port)], host)
    assert one.take_these([int(port)], host)


def test_ports_are_looked_at_where_they_are_to_be_free(one):
    port = steady_port()
    with socket.create_server((own_address(), port)):
        serving.PORTS.give_back(1)
        assert one.take_these([port])
        one.close()
        assert not one.take_these([port], own_address())
