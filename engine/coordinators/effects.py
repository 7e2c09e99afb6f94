"""Defines the effects that every shard may request from its runtime, which carries them out in order.

- `AppendRecords`: write the records, then call `append_written` at once, and `append_finished` when they are
  below the high watermark, or with the error of a write that did not happen. While the outcome is unknown, do
  neither.
- `Respond`: answer the request.
"""

from dataclasses import dataclass
from typing import Any

# key and value bytes; a value of None is a tombstone
Record = tuple[bytes, bytes | None]


@dataclass(slots=True)
class AppendRecords:
    """Write `records` to the shard's partition."""

    append_id: int
    records: list[Record]
    # False: the records may be split over several batches when one would be too large
    atomic: bool = True


@dataclass(slots=True)
class Respond:
    """Answer the request identified by `token`."""

    token: object
    body: Any


@dataclass(slots=True)
class Note:
    """Write a line for operators to the broker's log."""

    text: str
