"""Reads as a consumer with isolation.level=read_committed does."""

from typing import NamedTuple

from bowstring._native.record.decode import batch_headers, decode_records
from tests.simulation.cluster.clients import Read, Reader


class Seen(NamedTuple):
    """A record as `decode_records` gives it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple


def committed_records(key, found, position):
    """The records that a consumer delivers of a fetch, and its next position."""
    if not found.data:
        return [], position
    records = decode_records(Seen, *key, found.data, position, aborted=found.aborted)
    return records, batch_headers(found.data)[-1].last_offset + 1


class CommittedReader(Reader):
    """Reads committed records, at leaders and followers."""

    def start(self):
        if not self.rests:
            self.ask("fetch", Read(self.key, self.position, True), self.answer)

    def answer(self, found):
        if found is not None and found.error == 0 and found.data:
            records, end = committed_records(self.key, found, self.position)
            self.world.tell("reads_committed", self, self.position, end, records)
        super().answer(found)
