"""Provides the clients for asyncio, with the methods of bowstring's own clients as coroutines.

    async with bowstring.aio.Producer("localhost:9092") as producer:
        metadata = await producer.send("greetings", b"hello")

They wrap the threaded clients and share their logic, settings and errors; see docs/guide/clients.md.
Each client belongs to the event loop that first uses it. No call blocks the loop: the client's own
threads resolve names, connect to brokers and fetch metadata.

Imported by: the public names of bowstring.
May import: clients, clients.admin, clients.arrow, clients.consumer, clients.producer, clients.share,
exactly_once.
"""

from __future__ import annotations

from bowstring.aio.admin import Admin
from bowstring.aio.consumer import Consumer
from bowstring.aio.exactly_once import transform
from bowstring.aio.producer import Producer
from bowstring.aio.share_consumer import ShareConsumer

__all__ = ["Admin", "Consumer", "Producer", "ShareConsumer", "transform"]
