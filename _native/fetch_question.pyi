from collections.abc import Mapping, Sequence

def fetch_frame(
    version: int,
    correlation_id: int,
    client_id: bytes,
    *,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    read_committed: bool,
    session_id: int,
    session_epoch: int,
    partition_max_bytes: int,
    named: Mapping[str, tuple[bytes, Sequence[tuple[int, int, int]]]],
    forgotten: Mapping[str, tuple[bytes, Sequence[int]]],
) -> bytes: ...
