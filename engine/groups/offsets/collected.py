"""Collects the offsets of OffsetCommit and TxnOffsetCommit."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from bowstring.engine.groups.offsets.store import CommittedOffset, OffsetKey
from bowstring.protocol.errors import Errors

A = TypeVar("A")


@dataclass(slots=True)
class CollectedOffsets:
    """The offsets of one request that may be written.

    Attributes:
        expire_timestamp_ms: As in `CommittedOffset`.
        metadata_max_bytes: Longer metadata is refused (offset.metadata.max.bytes).
    """

    group_id: str
    now_ms: int
    expire_timestamp_ms: int
    metadata_max_bytes: int
    offsets: list[tuple[OffsetKey, CommittedOffset]] = field(default_factory=list)

    def add(
        self, topic: str, topic_id: bytes, partitions: Iterable[Any], answer: Callable[..., A]
    ) -> list[A]:
        """Adds the partitions of a topic; returns an answer for each, with an error for refused ones."""
        answers = []
        for part in partitions:
            index, metadata = part.partition_index, part.committed_metadata or ""
            too_large = utf16_length(metadata) > self.metadata_max_bytes
            code = Errors.OFFSET_METADATA_TOO_LARGE.code if too_large else 0
            answers.append(answer(partition_index=index, error_code=code))
            if not too_large:
                offset = CommittedOffset(
                    part.committed_offset,
                    part.committed_leader_epoch,
                    metadata,
                    self.now_ms,
                    self.expire_timestamp_ms,
                    topic_id,
                    -1,
                )
                self.offsets.append(((self.group_id, topic, index), offset))
        return answers


def utf16_length(text: str) -> int:
    """Returns the length as Java counts it."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
