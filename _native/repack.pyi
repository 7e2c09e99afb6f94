from typing_extensions import Buffer

def validate_compressed(
    data: Buffer,
    *,
    now_ms: int,
    key_required: bool = False,
    log_append_time: bool = False,
    timestamp_before_max_ms: int = ...,
    timestamp_after_max_ms: int = 3600000,
    limit: int = ...,
) -> tuple[int, str | None, int]: ...
def recompress(data: Buffer, codec: int, *, level: int | None = None, limit: int = ...) -> bytes: ...
