"""The clients for asyncio: the surface of bowstring's own, awaitable.

    async with bowstring.aio.Producer("localhost:9092") as producer:
        metadata = await producer.send("greetings", b"hello")

They stand on the threaded clients and share their logic, settings and errors; see docs/clients.md. Each
client belongs to the event loop that first uses it. No call blocks the loop: names are resolved, brokers
connected and metadata fetched in threads of the client's own.
"""

from __future__ import annotations

from bowstring.aio.admin import Admin
from bowstring.aio.consumer import Consumer
from bowstring.aio.producer import Producer

__all__ = ["Admin", "Consumer", "Producer"]
