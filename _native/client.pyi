from collections.abc import Iterable
from typing import TypeVar

from typing_extensions import Buffer

from bowstring._native.aborted import Aborted

R = TypeVar("R", bound=tuple[object, ...])

def empty_buffer(size: int) -> bytearray: ...
def scan(data: Buffer, *, verify_crc: bool = True) -> tuple[int, int, int]: ...
def decode_records(
    cls: type[R],
    topic: str,
    partition: int,
    data: Buffer,
    from_offset: int = 0,
    *,
    aborted: Aborted | Iterable[tuple[int, int]] = (),
    limit: int = ...,
) -> list[R]: ...
def payload_bytes(data: Buffer, *, limit: int = ...) -> tuple[int, int]: ...
def murmur2(data: bytes) -> int: ...
def with_producer(batch: bytes, producer_id: int, producer_epoch: int, base_sequence: int) -> bytes: ...
def binary_column(values: list[bytes | None]) -> tuple[bytes, memoryview, bytes | None]: ...
