from typing import TypeVar

from typing_extensions import Buffer

from bowstring._native.layout import ProtocolError as ProtocolError
from bowstring._native.layout import StructBase

S = TypeVar("S", bound=StructBase)

def encode(
    message: StructBase, version: int, header: StructBase | None = None, header_version: int = 0
) -> bytes: ...
def decode(cls: type[S], version: int, data: Buffer, start: int = 0) -> S: ...
def decode_prefix(cls: type[S], version: int, data: Buffer, start: int = 0) -> tuple[S, int]: ...
