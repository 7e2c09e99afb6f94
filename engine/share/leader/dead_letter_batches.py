"""Builds the records of dead-letter topics (KIP-1191). Pure.

A loop for each letter is one for each record that a group gives up, not for each record that it reads.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from bowstring._native.record.compression import CompressionError
from bowstring._native.record.decode import batch_headers, decode_batches
from bowstring._native.record.types import CorruptBatch

_REJECTED: Final = b"Offset rejected by client."
_EXCEEDED: Final = b"Offset delivery count exceeded the threshold."
_FRAMING_BYTES: Final = 256
"""Of a batch with one record: its header, lengths and the names of the letter's headers."""

Header = tuple[str, bytes]
Content = tuple[bytes | None, bytes | None]
"""Key and value."""
NO_CONTENT: Final[Content] = (None, None)


class DeadLetter(NamedTuple):
    """Records from one offset to another that a share group gives up.

    Attributes:
        rejected: A member has rejected them; else they were delivered too often.
    """

    first: int
    last: int
    delivery_count: int
    rejected: bool


class Source(NamedTuple):
    """Where the records of letters are, and whose they were."""

    group_id: str
    topic: str
    partition: int

    def headers(self, letter: DeadLetter, offset: int) -> list[Header]:
        """Returns the headers of one letter, in Kafka's order."""
        return [
            ("__dlq.errors.topic", self.topic.encode()),
            ("__dlq.errors.partition", str(self.partition).encode()),
            ("__dlq.errors.offset", str(offset).encode()),
            ("__dlq.errors.group", self.group_id.encode()),
            ("__dlq.errors.delivery.count", str(letter.delivery_count).encode()),
            ("__dlq.errors.message", _REJECTED if letter.rejected else _EXCEEDED),
        ]


def fits(headers: list[Header], content: Content, max_bytes: int) -> bool:
    """Whether a batch may hold a letter with this content. Without room the letter has headers only."""
    size = sum(len(value) for _, value in headers) + sum(len(each or b"") for each in content)
    return size + _FRAMING_BYTES <= max_bytes


class Resolved(NamedTuple):
    """Keys and values by offset, and the last offset about which all is known."""

    contents: dict[int, Content]
    last: int


def resolve(data: bytes, first: int, last: int, max_bytes: int) -> Resolved:
    """Returns the contents of records from `first` to `last`, if `data` has them.

    A record of a batch that decompresses to more than `max_bytes`, or is corrupt, has none; nor has one that
    the log does not have any more.
    """
    contents: dict[int, Content] = {}
    known, size_bytes = first - 1, 0
    for batch_last, batch in _batches(data):
        if known >= last or size_bytes >= max_bytes:
            break
        try:
            records = decode_batches(batch, limit=max_bytes)
        except (CompressionError, CorruptBatch):
            records = []
        for record in records:
            if first <= record.offset <= last and not record.control:
                contents[record.offset] = (record.key, record.value)
                size_bytes += len(record.key or b"") + len(record.value or b"")
        known = max(known, min(batch_last, last))
    # without a batch at `first` the log has nothing more
    return Resolved(contents, last if known < first else known)


def _batches(data: bytes) -> Iterator[tuple[int, bytes]]:
    try:
        found = batch_headers(data)
    except CorruptBatch:
        return
    for header in found:
        yield header.last_offset, data[header.position : header.position + header.size_bytes]
