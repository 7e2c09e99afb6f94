from threading import Lock

from bowstring._native.gil_turns import Poller
from bowstring._native.produce_channel import ProduceChannels
from bowstring.clients.sender import Sender

class SenderRounds:
    def __init__(
        self,
        channels: ProduceChannels,
        sender: Sender,
        turn: Lock,
        poller: Poller,
        wake_descriptor: int,
    ) -> None: ...
    def send_due(self) -> float: ...
    def run(self, due: float, until: float) -> list[tuple[int, int]]: ...
