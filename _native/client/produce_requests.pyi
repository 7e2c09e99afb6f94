from collections.abc import Mapping, Sequence
from typing import Any

from bowstring._native.client.accumulator import Accumulator
from bowstring._native.client.producer_batch import Batch

class SendCounters:
    requests: int
    records: int
    batches: int
    batch_bytes: int
    batch_bytes_max: int
    plain_bytes: int
    queue_s: float
    queue_max_s: float
    answers: int
    latency_s: float
    latency_max_s: float
    sample_at: float
    def sent(self, batches: Sequence[Batch], now: float) -> None: ...
    def answered(self, latency_s: float) -> None: ...

class Acknowledgements:
    @property
    def topics(self) -> list[tuple[str, bytes | None, list[tuple[int, int, int]]]]: ...
    @property
    def throttle_time_ms(self) -> int: ...

def partitions_by_topic(batches: Sequence[Batch]) -> dict[str, list[tuple[int, memoryview]]]: ...
def interleave(
    head: bytes, correlation_id: int, topics: list[tuple[bytes, list[tuple[int, memoryview]]]], version: int
) -> list[memoryview]: ...
def parse_acknowledgements(frame: memoryview, version: int) -> Acknowledgements | None: ...
def acknowledge(
    shared: Accumulator,
    sent: Sequence[Batch],
    answer: Acknowledgements,
    names: Mapping[bytes, str],
) -> list[Any]: ...
