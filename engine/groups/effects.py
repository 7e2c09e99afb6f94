"""Defines the effects that a shard requests from its shell. The shell carries them out in order; effects of a
finished append follow those listed with the append.

The shell's contract:
- `AppendRecords`: write the records as one batch, then call `GroupShard.append_written` at once, and
  `GroupShard.append_finished` when the batch is below the high watermark, or with the error of a failed
  write.
- `Respond`: send only after every record appended before it is below the high watermark.
- `SetTimer`: replaces a timer of the same key; when it fires, call `GroupShard.timer_fired`.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

# ("session", group id, member id), ("join", group id), ("sync", group id), and those of consumer.timers
TimerKey = tuple[str, ...]
# key and value bytes; a value of None is a tombstone
Record = tuple[bytes, bytes | None]


@dataclass(slots=True)
class AppendRecords:
    """Write `records` to the shard's partition."""

    append_id: int
    records: list[Record]
    # False: the shell may split the records over several batches when one would be too large
    atomic: bool = True
    # set for offsets of a transaction (KIP-98)
    producer: "TransactionalProducer | None" = None


@dataclass(slots=True)
class AppendMarker:
    """Write a control batch that ends a producer's transaction; else as `AppendRecords`."""

    append_id: int
    batch: bytes
    # the transaction version of the coordinator (KIP-1228)
    version: int


class TransactionalProducer(NamedTuple):
    """The producer of a transaction, and the token with which it may begin one in the shard's partition."""

    producer_id: int
    epoch: int
    verification: int


@dataclass(slots=True)
class Respond:
    """Answer the request identified by `token`."""

    token: object
    # None: the request only waits for what was appended before
    body: Any


@dataclass(slots=True)
class SetTimer:
    """Call back after `delay_ms` milliseconds on a steady clock."""

    key: TimerKey
    delay_ms: int


@dataclass(slots=True)
class CancelTimer:
    """Cancel the timer; an unknown timer is not an error."""

    key: TimerKey


@dataclass(slots=True)
class ResolveRegexes:
    """Look up the topics of a group's regular expressions, then call `GroupShard.regexes_resolved`."""

    group_id: str
    regexes: tuple[str, ...]


@dataclass(slots=True)
class InitializeShareState:
    """Let share coordinators create the state of partitions, which begin where share.auto.offset.reset says;
    then call `GroupShard.share_state_initialized`.
    """

    group_id: str
    state_epoch: int
    # topic id and index
    partitions: tuple[tuple[bytes, int], ...]


@dataclass(slots=True)
class Note:
    """Write a line for operators to the broker's log."""

    text: str


Effect = (
    AppendRecords
    | AppendMarker
    | Respond
    | SetTimer
    | CancelTimer
    | ResolveRegexes
    | InitializeShareState
    | Note
)
