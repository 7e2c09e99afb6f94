from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, ClassVar, Protocol

from bowstring._native.client.accumulator import Accumulator
from bowstring._native.client.producer_batch import Batch, RecordFuture
from bowstring._native.client.sender_loop import SenderLoop

class DataclassObject(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Any]]

class StructObject(Protocol):
    """An object of a msgspec struct."""

    __struct_fields__: ClassVar[tuple[str, ...]]

class ModelObject(Protocol):
    """An object of a pydantic model."""

    def model_dump_json(self) -> str: ...

class MessageObject(Protocol):
    def SerializeToString(self) -> bytes: ...

# What a format encodes.
Fields = Mapping[str, Any] | DataclassObject | StructObject | ModelObject | MessageObject
Payload = bytes | bytearray | memoryview | str | None

class RecordSender:
    accumulator: Accumulator
    loop: SenderLoop
    key_serializer: Callable[[Any], bytes | None] | None
    """Makes bytes of the keys that `send` is given; None takes bytes and text as they are."""
    value_serializer: Callable[[Any], bytes | None] | None
    """Makes bytes of the values that `send` is given; None takes bytes and text as they are."""
    schema_headers: Callable[[str, Any, Any, Any], Any] | None
    """Adds the headers that name the schemas of a record's key and value; None: there are none."""
    def send(
        self,
        topic: str,
        value: Payload | Fields = None,
        key: Payload | Fields = None,
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
