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

class FetchAnswer(NamedTuple):
    error_code: int
    session_id: int
    partitions: list[FetchedPartition]

class MalformedAnswer(ValueError): ...

def parse_fetch_answer(frame: memoryview, version: int) -> FetchAnswer: ...
