"""What a shard asks its shell to do. Effects are carried out in the order in which the shard gave them: those
that come of an append's end follow whatever was listed with the append.

The shell's contract:
- `AppendRecords`: write the records as one batch, then call `GroupShard.append_written` at once, and
  `GroupShard.append_finished` when the batch is below the high watermark, or with a failed write's error.
- `Respond`: sent only after every record appended before it is below the high watermark.
- `SetTimer`: replaces a timer of the same key; when it fires, call `GroupShard.timer_fired`.
"""

from dataclasses import dataclass

from bowstring.engine.protocol.schema import Struct

# ("session", group id, member id), ("join", group id), ("sync", group id)
TimerKey = tuple[str, ...]
# Key and value bytes; a value of None is a tombstone
Record = tuple[bytes, bytes | None]


@dataclass(slots=True)
class AppendRecords:
    """Write `records` to the shard's partition."""

    append_id: int
    records: list[Record]
    # False: the shell may split the records over several batches when one would be too large
    atomic: bool = True


@dataclass(slots=True)
class Respond:
    """Answer the request that `token` stands for."""

    token: object
    body: Struct


@dataclass(slots=True)
class SetTimer:
    """Call back in `delay_ms` milliseconds of steady time."""

    key: TimerKey
    delay_ms: int


@dataclass(slots=True)
class CancelTimer:
    """Forget the timer; no such timer is no error."""

    key: TimerKey


@dataclass(slots=True)
class Note:
    """A line for the broker's log: something an operator of the group wants to know."""

    text: str


Effect = AppendRecords | Respond | SetTimer | CancelTimer | Note
