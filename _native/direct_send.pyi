from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import Any

from bowstring._native.accumulator import Accumulator, Lane
from bowstring.clients.connection import Connection
from bowstring.clients.network import NetworkClient
from bowstring.clients.producer_config import ProducerSettings
from bowstring.clients.producer_metrics import ProducerMetrics

class ShortCut:
    def __init__(
        self,
        number: int,
        connection: Connection,
        out: deque[memoryview],
        descriptor: int,
        head: bytes,
        version: int,
        flexible: bool,
    ) -> None: ...
    def head_of(self, correlation_id: int, batch_bytes: int) -> bytes: ...
    def tail(self) -> bytes: ...

class DirectSender:
    number: int
    producer: tuple[int, int]
    def __init__(
        self,
        shared: Accumulator,
        turn: Lock,
        client: NetworkClient,
        settings: ProducerSettings,
        metrics: ProducerMetrics,
        pending_type: type,
        api: type,
        answered: Callable[[list[Any], Any], None],
    ) -> None: ...
    def forget(self) -> None: ...
    def holds(self, cut: ShortCut | None) -> bool: ...
    def __call__(self, lane: Lane) -> None: ...
