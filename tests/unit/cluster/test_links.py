"""The proxies between nodes of a cluster on one machine."""

import socket
import threading

from bowstring.cluster.links import Links
from tests.support.waiting import wait_until


def test_who_has_given_up_is_not_looked_up():
    """Nodes that try again and again while the thread is held up leave a queue, which must end."""
    looked_up = []
    held, go_on = threading.Event(), threading.Event()

    def pids():
        looked_up.append(True)
        if not held.is_set():
            held.set()
            go_on.wait()
        return {}

    links = Links(pids)
    try:
        address = "127.0.0.1", links.add(1, "127.0.0.1", 1)
        with socket.create_connection(address):
            held.wait()
            for _ in range(20):
                socket.create_connection(address).close()
            with socket.create_connection(address):
                go_on.set()
                wait_until(lambda: len(looked_up) == 2, looked_up)
    finally:
        go_on.set()
        links.close()
    assert len(looked_up) == 2
