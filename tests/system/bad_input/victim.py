"""The broker that receives bad input."""

from tests.support.target import BowstringBroker, Broker
from tests.support.wire import (
    Wire,
    batch,
    create_topic,
    fetch,
    list_offsets,
    list_offsets_answer,
    produce,
    produce_answer,
    record,
    wait_for_leaders,
)

# The records here are from 2023.
KEEP = {"log.retention.ms": "-1"}
SOUND = batch(record(b"sound"), 1)


class Victim:
    """The broker that is sent bad input, with a topic of sound records that must outlive all of it."""

    topic = "sound"

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.create(self.topic)

    def connect(self, **options: float | int) -> Wire:
        """A new connection."""
        return Wire(self.broker.host, self.broker.port, **options)  # type: ignore[arg-type]

    def create(self, topic: str) -> None:
        """Creates a topic of one partition."""
        with self.connect() as wire:
            wire.ask(create_topic(topic))
        wait_for_leaders(self.broker.bootstrap, topic, 1)

    def log_end(self) -> int:
        """The log end offset of the sound topic."""
        with self.connect() as wire:
            answer = wire.ask(list_offsets(self.topic, 0, -1))
            assert answer is not None
            code, offset = list_offsets_answer(answer, self.topic)
            assert code == 0
            return offset

    def still_serves(self) -> None:
        """A normal client writes a record and reads back every record ever accepted, all of them sound."""
        assert self.broker.alive(), self.broker.tail()
        end = self.log_end()
        with self.connect() as wire:
            answer = wire.ask(produce(self.topic, SOUND))
            assert answer is not None
            assert produce_answer(answer, self.topic) == (0, end)
            read = wire.ask(fetch(self.topic, 0, max_bytes=1 << 26))
            assert read is not None
            # Byte for byte from the attributes on; offset, length, leader epoch and CRC come before them.
            batches = read[len(read) % len(SOUND) :]
            stored = [batches[at : at + len(SOUND)] for at in range(0, len(batches), len(SOUND))]
            assert len(stored) == end + 1
            assert {each[17:] for each in stored} == {SOUND[17:]}

    def log_size(self) -> int:
        """Lines logged so far."""
        return len(self.broker.log_lines())

    @property
    def terse(self) -> bool:
        """Whether one line for each closed connection is promised (Kafka prints stack traces)."""
        return isinstance(self.broker, BowstringBroker)
