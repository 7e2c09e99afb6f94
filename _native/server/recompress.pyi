from typing_extensions import Buffer

from bowstring._native.server.control_request import SlowBatch

SCHEMAS_MISSING: int
MISSING_MAX: int

def working_bytes(slow: SlowBatch, tries: int = 0) -> tuple[int, int]: ...
def repack(
    slow: SlowBatch, *, now_ms: int, level: int | None = None, limit: int = ...
) -> tuple[int, str | None] | None: ...
def validate_compressed(
    data: Buffer,
    *,
    now_ms: int,
    key_required: bool = False,
    log_append_time: bool = False,
    timestamp_before_max_ms: int = ...,
    timestamp_after_max_ms: int = 3600000,
    limit: int = ...,
) -> tuple[int, str | None, list[int]]: ...
def recompress(data: Buffer, codec: int, *, level: int | None = None, limit: int = ...) -> bytes: ...
