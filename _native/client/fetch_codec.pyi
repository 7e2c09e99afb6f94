from collections.abc import Mapping, Sequence
from typing import NamedTuple

class FetchedPartition(NamedTuple):
    topic: str
    topic_id: bytes
    partition: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: list[tuple[int, int]]
    records: memoryview | None
    preferred_replica: int
    leader: tuple[int, int] | None

class FetchAnswer(NamedTuple):
    error_code: int
    session_id: int
    partitions: list[FetchedPartition]
    endpoints: list[tuple[int, str, int, str | None]]
    throttle_time_ms: int = 0

class MalformedAnswer(ValueError): ...

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
    rack: bytes = b"",
) -> bytes: ...
def parse_fetch_answer(frame: memoryview, version: int) -> FetchAnswer: ...
