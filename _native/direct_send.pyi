from threading import Lock

from bowstring._native.accumulator import Lane
from bowstring._native.gil_turns import Poller
from bowstring._native.produce_channel import ProduceChannels

class DirectSender:
    sent: int
    def __init__(self, channels: ProduceChannels, turn: Lock, poller: Poller) -> None: ...
    def __call__(self, lane: Lane) -> None: ...
