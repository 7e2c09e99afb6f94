from typing import Unpack

from typing_extensions import Buffer

from bowstring._native.record.encode import BatchFields

Column = tuple[Buffer, Buffer] | tuple[Buffer, Buffer, Buffer | None]

def encode_columns(
    value: Column | None,
    *,
    key: Column | None = None,
    headers: Column | None = None,
    timestamps: int | Buffer = 0,
    begin: int = 0,
    end: int | None = None,
    max_bytes: int = 1048576,
    codec: int = 0,
    level: int | None = None,
    **fields: Unpack[BatchFields],
) -> list[bytes]: ...
def binary_column(values: list[bytes | None]) -> tuple[bytes, memoryview, bytes | None]: ...
