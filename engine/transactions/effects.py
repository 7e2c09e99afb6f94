"""Defines the effects that a shard requests from its shell, which carries them out in order.

`AppendRecords`, `Respond` and `Note` are those of every coordinator.

- `SendMarkers`: write the markers of a decided transaction; call `TransactionShard.marked` for each
  partition that has its marker, or needs none. Never give up while the shard is here.
- `Ended`: requests that got CONCURRENT_TRANSACTIONS may be tried again.
- `CompleteLater`: call `TransactionShard.complete` after a pause.
"""

from dataclasses import dataclass

from bowstring.engine.coordinators.effects import AppendRecords, Note, Respond
from bowstring.engine.transactions.transaction import TopicPartition, Transaction


@dataclass(slots=True)
class SendMarkers:
    """Write markers to `partitions` of a transaction in a PREPARE_* status."""

    transaction: Transaction
    partitions: frozenset[TopicPartition]


@dataclass(slots=True)
class Ended:
    """The last transaction of the id has its markers, and that is in the log."""

    transactional_id: str


@dataclass(slots=True)
class CompleteLater:
    """The write that ends the transaction was refused; try again."""

    transactional_id: str


Effect = AppendRecords | Respond | SendMarkers | Ended | CompleteLater | Note
