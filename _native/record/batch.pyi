from typing_extensions import Buffer

def validate(
    data: Buffer,
    *,
    now_ms: int,
    max_message_bytes: int = 1048588,
    key_required: bool = False,
    log_append_time: bool = False,
    timestamp_before_max_ms: int = ...,
    timestamp_after_max_ms: int = 3600000,
) -> tuple[int, str | None, list[int]]: ...
def assigned(data: Buffer, base_offset: int, leader_epoch: int) -> bytes: ...
def stamped(data: Buffer, append_time_ms: int) -> bytes: ...
def corrected(data: Buffer, max_timestamp: int) -> bytes: ...
