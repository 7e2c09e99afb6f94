"""Serves an ASGI application with bowstring.web on a thread, for tests that speak real HTTP."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from bowstring.web.listening import Listening
from bowstring.web.serving import Site, serve


@contextmanager
def served(app, listening: Listening | None = None) -> Iterator[Site]:
    """Yields the site of an application; it stops when the block ends."""
    site = Site("test", listening or Listening(0), "registry", app)
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(serve([site], stop)))
    thread.start()
    try:
        yield site
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(30)
        loop.close()
    assert not thread.is_alive()
