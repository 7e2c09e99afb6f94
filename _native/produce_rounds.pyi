from collections.abc import Mapping, Sequence, Sized
from typing import Any

from bowstring._native.accumulator import Accumulator
from bowstring._native.produce_batch import Batch
from bowstring.clients.cluster import Cluster
from bowstring.clients.network import NetworkClient
from bowstring.clients.producer_config import ProducerSettings
from bowstring.clients.records import Node

# A batch's outcome: its error or None, and where it went.
Outcome = tuple[Any, Exception | None, int, int]

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

def collect(
    shared: Accumulator,
    cluster: Cluster,
    client: NetworkClient,
    in_flight: Mapping[Node, Sized],
    settings: ProducerSettings,
    now: float,
    hurry: bool,
) -> tuple[dict[Node, list[Any]], float]: ...
def seal_all(
    shared: Accumulator,
    batches: Sequence[Batch],
    now: float,
    settings: ProducerSettings,
    producer: tuple[int, int],
) -> None: ...
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
    finished: list[Outcome],
) -> list[Any]: ...
def failures(finished: Sequence[Outcome]) -> list[tuple[Any, Exception]]: ...
def publish(shared: Accumulator, finished: Sequence[Outcome]) -> None: ...
