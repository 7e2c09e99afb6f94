from collections.abc import Iterator
from typing import Any, TypeVar

from typing_extensions import Buffer

from bowstring._native.protocol.message_layout import ProtocolError as ProtocolError
from bowstring._native.protocol.message_layout import StructBase

S = TypeVar("S", bound=StructBase)

def encode(
    message: StructBase, version: int, header: StructBase | None = None, header_version: int = 0
) -> bytes: ...

class Elements:
    count: int
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...

def decode_lazily(cls: type[S], version: int, data: Buffer, start: int = 0) -> S: ...
def decode(cls: type[S], version: int, data: Buffer, start: int = 0) -> S: ...
def decode_prefix(cls: type[S], version: int, data: Buffer, start: int = 0) -> tuple[S, int]: ...
