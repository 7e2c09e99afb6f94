from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from bowstring._native.client.accumulator import Accumulator
from bowstring._native.client.producer_batch import Batch, RecordFuture
from bowstring._native.client.sender_loop import SenderLoop

Payload = bytes | bytearray | memoryview | str | None

class RecordSender:
    accumulator: Accumulator
    loop: SenderLoop
    key_serializer: Callable[[Any], bytes | None] | None
    """Makes bytes of the keys that `send` is given; None takes bytes and text as they are."""
    value_serializer: Callable[[Any], bytes | None] | None
    """Makes bytes of the values that `send` is given; None takes bytes and text as they are."""
    def send(
        self,
        topic: str,
        value: Payload | object = None,
        key: Payload | object = None,
        *,
        headers: Mapping[str, Payload]
        | Mapping[bytes, Payload]
        | Iterable[tuple[str | bytes, Payload]]
        | None = None,
        timestamp: int | datetime | None = None,
        partition: int | None = None,
        on_delivery: Callable[[RecordFuture], Any] | None = None,
    ) -> RecordFuture: ...
    def submit(self, topic: str, partition: int, batch: Batch) -> None: ...
