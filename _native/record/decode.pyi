from collections.abc import Iterable
from typing import TypeVar

from typing_extensions import Buffer

from bowstring._native.base.object_decoder import ObjectDecoder
from bowstring._native.record.types import BatchHeader, BatchRows, Record

R = TypeVar("R", bound=tuple[object, ...])

class Aborted:
    def __init__(self, transactions: Iterable[tuple[int, int]]) -> None: ...

class RecordColumns:
    @property
    def rows(self) -> int: ...
    @property
    def sources(self) -> list[Buffer]: ...
    @property
    def batches(self) -> list[BatchRows]: ...
    @property
    def offsets(self) -> memoryview[int]: ...
    @property
    def timestamps(self) -> memoryview[int]: ...
    @property
    def key_positions(self) -> memoryview[int]: ...
    @property
    def key_lengths(self) -> memoryview[int]: ...
    @property
    def value_positions(self) -> memoryview[int]: ...
    @property
    def value_lengths(self) -> memoryview[int]: ...
    @property
    def header_positions(self) -> memoryview[int]: ...
    @property
    def header_counts(self) -> memoryview[int]: ...
    def source_of(self, row: int) -> Buffer: ...

def batch_headers(data: Buffer) -> list[BatchHeader]: ...
def scan(data: Buffer, *, verify_crc: bool = True) -> tuple[int, int, int]: ...
def decode_batches(data: Buffer, *, verify_crc: bool = True, limit: int = ...) -> list[Record]: ...
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
def decode_good_records(
    cls: type[R],
    topic: str,
    partition: int,
    data: Buffer,
    from_offset: int = 0,
    *,
    verify_crc: bool = False,
    aborted: Aborted | Iterable[tuple[int, int]] = (),
    limit: int = ...,
) -> tuple[list[R], int, int, tuple[int, int]]: ...
def decode_good_objects(
    cls: type[R],
    topic: str,
    partition: int,
    data: Buffer,
    from_offset: int,
    keys: ObjectDecoder | None,
    values: ObjectDecoder | None,
    *,
    verify_crc: bool = ...,
    most: int = ...,
    aborted: Aborted | Iterable[tuple[int, int]] = (),
    limit: int = ...,
) -> tuple[list[R], int, int, tuple[int, int], list[tuple[int, str, str]]]: ...
def payload_bytes(data: Buffer, *, limit: int = ...) -> tuple[int, int]: ...
def decode_columns(data: Buffer, *, verify_crc: bool = True, limit: int = ...) -> RecordColumns: ...
