from collections.abc import Callable, Sequence
from typing import Any

from bowstring._native.accumulator import Accumulator
from bowstring._native.produce_rounds import Outcome
from bowstring.clients.cluster import Cluster
from bowstring.clients.connection import Connection, Pending
from bowstring.clients.network import NetworkClient
from bowstring.clients.producer_config import ProducerSettings
from bowstring.clients.producer_metrics import ProducerMetrics
from bowstring.clients.records import Node

class SentBatches:
    batches: list[Any]
    def __init__(self, batches: Sequence[Any], answered: Callable[[list[Any], Pending], None]) -> None: ...
    def __call__(self, pending: Pending) -> None: ...

class ProduceChannel:
    def __init__(self, connection: Connection, version: int, head: bytes) -> None: ...

class ProduceChannels:
    by_node: dict[Node, ProduceChannel]
    producer: tuple[int, int]
    finished: list[Outcome]
    def __init__(
        self,
        shared: Accumulator,
        client: NetworkClient,
        settings: ProducerSettings,
        metrics: ProducerMetrics,
        cluster: Cluster,
        pending_type: type[Pending],
        api: type,
        answered: Callable[[list[Any], Pending], None],
        unmentioned: Callable[[Any], None],
    ) -> None: ...
    def open(self, node: Node, channel: ProduceChannel) -> None: ...
    def forget(self) -> None: ...
