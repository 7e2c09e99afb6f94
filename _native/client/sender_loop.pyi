from enum import IntEnum
from threading import Lock
from typing import Any

from bowstring._native.client.accumulator import PartitionQueue
from bowstring._native.client.produce_channel import ProduceChannels
from bowstring._native.client.socket_io import Poller
from bowstring.clients.producer.config import ProducerSettings
from bowstring.clients.records import Node

class Event(IntEnum):
    NOTHING = 0
    TIME = 1
    CALLED = 2
    UNREADY = 3
    SOCKETS = 4
    BROKEN = 5
    UNMENTIONED = 6
    FULL = 7
    UNPLACED = 8
    UNREACHED = 9
    UNJOINED = 10
    ROOM = 11

class SenderLoop:
    @property
    def turn(self) -> Lock: ...
    @property
    def due(self) -> float: ...
    @property
    def asleep(self) -> bool: ...
    @property
    def sent_by_callers(self) -> int: ...
    def __init__(
        self, channels: ProduceChannels, settings: ProducerSettings, poller: Poller, wake_descriptor: int
    ) -> None: ...
    def run(self, due: float, until: float) -> int: ...
    def send(self, others: dict[Node, int]) -> dict[Node, list[Any]]: ...
    def take_found(self) -> list[tuple[int, int]]: ...
    def take_unplaced(self) -> list[PartitionQueue]: ...
    def take_unreached(self) -> list[PartitionQueue]: ...
    def take_unjoined(self) -> list[PartitionQueue]: ...
