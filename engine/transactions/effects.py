"""Defines the effects that a shard requests from its shell, which carries them out in order.

- `AppendRecords`: write the records as one batch, then call `TransactionShard.append_finished` when the
  batch is below the high watermark, or with the error of a write that did not happen. While the outcome is
  unknown, do neither.
- `Respond`: answer the request.
- `SendMarkers`: write the markers of a decided transaction; call `TransactionShard.marked` for each
  partition that has its marker, or needs none. Never give up while the shard is here.
- `CompleteLater`: call `TransactionShard.complete` after a pause.
"""

from dataclasses import dataclass
from typing import Any

from bowstring.engine.transactions.transaction import TopicPartition, Transaction

# key and value bytes; a value of None is a tombstone
Record = tuple[bytes, bytes | None]


@dataclass(slots=True)
class AppendRecords:
    """Write `records` to the shard's partition."""

    append_id: int
    records: list[Record]


@dataclass(slots=True)
class Respond:
    """Answer the request identified by `token`."""

    token: object
    body: Any


@dataclass(slots=True)
class SendMarkers:
    """Write markers to `partitions` of a transaction in a PREPARE_* status."""

    transaction: Transaction
    partitions: frozenset[TopicPartition]


@dataclass(slots=True)
class CompleteLater:
    """The write that ends the transaction was refused; try again."""

    transactional_id: str


@dataclass(slots=True)
class Note:
    """Write a line for operators to the broker's log."""

    text: str


Effect = AppendRecords | Respond | SendMarkers | CompleteLater | Note
