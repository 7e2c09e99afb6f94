"""The inside of an embedded broker, for tests of its parts: its users have no business there, so it has no public name."""

import asyncio

from bowstring import Broker
from bowstring.engine.broker.broker import Broker as Engine


def engine_of(broker: Broker) -> Engine:
    """What the embedded broker runs on its control thread; it must be running."""
    return broker._running()


def loop_of(broker: Broker) -> asyncio.AbstractEventLoop:
    """The event loop of its control thread."""
    assert broker._loop is not None, "the broker is not running"
    return broker._loop
