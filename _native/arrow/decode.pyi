from collections.abc import Iterable
from typing import Self

from typing_extensions import Buffer

from bowstring._native.record.decode import Aborted

COLUMN_BITS: dict[str, int]

class ArrowRows:
    def __new__(
        cls,
        columns: Iterable[str],
        *,
        views: bool = False,
        microseconds: bool = False,
        rows_max: int = ...,
        bytes_max: int = ...,
        window_ms: int = ...,
    ) -> Self: ...
    @property
    def rows(self) -> int: ...
    @property
    def bytes_max(self) -> int: ...
    @property
    def full(self) -> bool: ...
    def take_counts(self) -> list[tuple[int, int, int]]: ...
    def reserve(self, rows: int, data_bytes: int) -> None: ...
    def append(
        self,
        data: Buffer,
        from_offset: int,
        end_offset: int = ...,
        *,
        topic: int = 0,
        partition: int = 0,
        aborted: Aborted | None = None,
        verify_crc: bool = False,
        resumed: tuple[bytes | None] | None = None,
        limit: int = ...,
    ) -> tuple[int, int, tuple[bytes | None] | None]: ...
    def take(self) -> tuple[int, dict[str, object]]: ...
