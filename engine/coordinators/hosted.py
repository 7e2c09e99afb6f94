"""Holds a shard with its log, and the answers that wait for the log's high watermark."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from bowstring._native.log.partition_log import PartitionLog
from bowstring.engine.coordinators.effects import Respond
from bowstring.protocol.errors import Error


class Shard(Protocol):
    """The pure state machine of one partition of an internal topic."""

    @property
    def loading(self) -> bool:
        """Whether the log is still being read; until then requests get COORDINATOR_LOAD_IN_PROGRESS."""

    def loaded(self, now_ms: int, /) -> Sequence[object]:
        """Ends loading after the log has been read to its end."""

    def append_written(self, append_id: int, base_offset: int, /) -> None:
        """Reports that the records of an append are in the log from `base_offset` on."""

    def append_finished(self, append_id: int, error: Error, now_ms: int, /) -> Sequence[object]:
        """Reports that the records are below the high watermark (`error` is NONE), or that they were not
        written.
        """

    def unload(self, now_ms: int, /) -> Sequence[object]:
        """Ends the shard: answers waiting requests. Returns only answers."""


S = TypeVar("S", bound=Shard)


class WrittenTogether(NamedTuple):
    """Requests whose records are one batch, which was written. `end` answers them: NONE: it is committed."""

    end: Callable[[Error], None]


class Waiting(NamedTuple):
    """An append id, an answer or a batch that waits until the high watermark has reached an offset."""

    offset: int
    # on the loop's clock; None: for ever
    deadline_ms: int | None
    item: int | Respond | WrittenTogether


class HostedShard(Generic[S]):
    """A shard that this broker runs.

    Attributes:
        leader_epoch: The epoch in which this broker leads the partition.
        end_offset: The log end when it was read, or after the last append. Above it there is nothing that the
            shard's state does not have.
        is_read: The log has been read to its end.
        asked: The log whose durable end is awaited before the shard begins; None: no wait was needed yet.
        dismissed: This broker no longer coordinates the partition.
        waiting: In order of offsets.
    """

    def __init__(self, partition: int, shard: S, log: PartitionLog, leader_epoch: int) -> None:
        self.partition = partition
        self.shard = shard
        self.log = log
        self.leader_epoch = leader_epoch
        self.end_offset: int = log.log_end_offset
        self.is_read = False
        self.asked: PartitionLog | None = None
        self.dismissed = False
        self.waiting: deque[Waiting] = deque()
        self.effects: deque[Any] = deque()
        self.is_carrying = False
