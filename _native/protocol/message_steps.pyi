from collections.abc import AsyncIterator
from typing import Any, Final

from bowstring._native.protocol.message_layout import ProtocolError, StructBase

DONE: Final = 0
GOING_ON: Final = 1
WAITING: Final = 2
PAUSE: Final[Any]

class TooLargeError(ProtocolError): ...

class Encoding:
    def __init__(
        self,
        message: StructBase,
        version: int,
        header: StructBase | None = None,
        header_version: int = 0,
        *,
        size_max: int = ...,
    ) -> None: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def source(self) -> AsyncIterator[Any]: ...
    def step(self, until_ns: int) -> int: ...
    def add(self, element: Any) -> None: ...
    def end(self) -> None: ...
    def take(self) -> bytes: ...
