from collections.abc import Iterable, Mapping, Sequence
from typing import Self, TypedDict, Unpack, type_check_only

from typing_extensions import Buffer

Headers = Mapping[str, Buffer | None] | Sequence[tuple[str | Buffer, Buffer | None]]

@type_check_only
class BatchFields(TypedDict, total=False):
    base_offset: int
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    transactional: bool
    control: bool

class BatchBuilder:
    def __new__(cls, max_bytes: int = 2147483647) -> Self: ...
    @property
    def max_bytes(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    def append(
        self, key: Buffer | None, value: Buffer | None, timestamp: int, headers: Headers | None = None
    ) -> bool: ...
    def build(self, codec: int = 0, *, level: int | None = None, **fields: Unpack[BatchFields]) -> bytes: ...
    def clear(self) -> None: ...

def encode_headers(headers: Headers) -> bytes: ...
def encode_batch(
    records: Iterable[tuple[Buffer | None, Buffer | None, int, Headers | None]],
    codec: int = 0,
    *,
    level: int | None = None,
    **fields: Unpack[BatchFields],
) -> bytes: ...
def with_producer(
    batch: bytes, producer_id: int, producer_epoch: int, base_sequence: int, transactional: bool = False
) -> bytes: ...
