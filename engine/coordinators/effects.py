"""Defines the effects that every shard may request from its runtime, which carries them out in order.

- `AppendRecords`, `AppendMarker`: write, then call `append_written` at once, and `append_finished` when what
  was written is below the high watermark, or with the error of a write that did not happen. While the outcome
  is unknown, do neither. Effects of a finished append follow those listed with the append.
- `Respond`: answer the request.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

# key and value bytes; a value of None is a tombstone
Record = tuple[bytes, bytes | None]


class TransactionalProducer(NamedTuple):
    """The producer of a transaction, and the token with which it may begin one in the shard's partition."""

    producer_id: int
    epoch: int
    verification: int


@dataclass(slots=True)
class AppendRecords:
    """Write `records` to the shard's partition."""

    append_id: int
    records: list[Record]
    # False: the records may be split over several batches when one would be too large
    atomic: bool = True
    # set for offsets of a transaction (KIP-98)
    producer: TransactionalProducer | None = None


@dataclass(slots=True)
class AppendMarker:
    """Write a control batch that ends a producer's transaction."""

    append_id: int
    batch: bytes
    # the transaction version of the coordinator (KIP-1228)
    version: int


class Token(Protocol):
    """What a request gets its answer through, such as a future that its handler awaits."""

    def done(self) -> bool:
        """Whether it is answered, or nobody waits any more."""

    def set_result(self, result: Any, /) -> None:
        """Answers it."""

    def set_exception(self, exception: BaseException, /) -> None:
        """Answers it with an error."""


@dataclass(slots=True)
class Respond:
    """Answer the request identified by `token`."""

    token: object
    # None: the request only waits for earlier appends
    body: Any


@dataclass(slots=True)
class Note:
    """Write a line for operators to the broker's log."""

    text: str
