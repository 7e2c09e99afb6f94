"""The proxies between nodes of a cluster on one machine."""

import socket
import threading

from bowstring.cluster import links
from tests.support.waiting import wait_until


def test_who_has_given_up_is_not_looked_up(monkeypatch):
    """Nodes that try again and again while the thread is held up leave a queue, which must end."""
    looked_up = []
    monkeypatch.setattr(links, "_node_of", lambda source, *_: looked_up.append(source) or -1)
    made = links.Links(dict)
    held, go_on = threading.Event(), threading.Event()
    try:
        port = made.add(1, "127.0.0.1", 1)
        made._loop.call_soon_threadsafe(lambda: held.set() or go_on.wait())
        held.wait()
        for _ in range(20):
            socket.create_connection(("127.0.0.1", port)).close()
        with socket.create_connection(("127.0.0.1", port)) as waiting:
            go_on.set()
            wait_until(lambda: looked_up)
            assert looked_up == [waiting.getsockname()]
    finally:
        go_on.set()
        made.close()
