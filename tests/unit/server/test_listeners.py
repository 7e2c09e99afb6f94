"""Listeners: bound early, so that an address in use is found at once; clients are refused until they are served."""

import socket

import pytest

from bowstring._native.server.data_plane import DataPlane

HOSTS = ["127.0.0.1", "::1"]


@pytest.fixture
def planes():
    made = []
    yield lambda: made.append(DataPlane(apis={18: (0, 4, 3)})) or made[-1]
    for plane in made:
        plane.stop()


def is_refused(host, port):
    try:
        socket.create_connection((host, port)).close()
    except ConnectionRefusedError:
        return True
    return False


@pytest.mark.parametrize("host", HOSTS)
def test_clients_are_refused_until_the_plane_accepts(planes, host):
    plane = planes()
    port = plane.listen(host, 0)
    assert port > 0
    assert is_refused(host, port)
    plane.start(accepts=False)
    assert is_refused(host, port)
    plane.accept()
    assert not is_refused(host, port)


def test_a_started_plane_accepts_at_all_its_listeners(planes):
    plane = planes()
    ports = [plane.listen(host, 0) for host in HOSTS]
    plane.start()
    assert not any(map(is_refused, HOSTS, ports))


def test_an_address_where_another_process_listens_is_refused_at_once(planes):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port}: Address already in use"):
            planes().listen("127.0.0.1", port)


def test_of_two_that_have_bound_an_address_the_later_one_says_so(planes):
    first, second = planes(), planes()
    port = first.listen("127.0.0.1", 0)
    second.listen("127.0.0.1", port)
    first.start()
    with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port}: Address already in use"):
        second.start()
    assert not is_refused("127.0.0.1", port)
