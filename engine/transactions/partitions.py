"""Handles AddPartitionsToTxn and AddOffsetsToTxn, which begin transactions, and verifies partitions
(KIP-890).
"""

from collections.abc import Iterable
from typing import NamedTuple

from bowstring.engine.transactions.state import Entry, ShardState
from bowstring.engine.transactions.transaction import Status, TopicPartition
from bowstring.protocol.errors import Error, Errors


class Producer(NamedTuple):
    """A producer as a request names it."""

    transactional_id: str
    producer_id: int
    epoch: int


def _check(entry: Entry | None, producer: Producer) -> Error:
    if entry is None or entry.committed.producer_id != producer.producer_id:
        return Errors.INVALID_PRODUCER_ID_MAPPING
    if entry.committed.epoch != producer.epoch:
        return Errors.PRODUCER_FENCED
    if entry.committed.status.is_prepared:
        return Errors.CONCURRENT_TRANSACTIONS
    return Errors.NONE


def add(
    state: ShardState,
    producer: Producer,
    partitions: frozenset[TopicPartition],
    token: object,
    now_ms: int,
    *,
    version: int,
) -> None:
    """Adds partitions to the producer's transaction; answers with an Error once that is committed.

    Args:
        version: The transaction version that the request implies.
    """
    entry = state.entries.get(producer.transactional_id)
    if entry is not None and entry.pending is not None:
        # First of all: the producer may use an id that is still pending.
        return state.respond(token, Errors.CONCURRENT_TRANSACTIONS)
    error = _check(entry, producer)
    if error or entry is None:
        return state.respond(token, error)
    held = entry.committed
    if held.status is Status.ONGOING and partitions <= held.partitions:
        return state.respond(token, Errors.NONE)
    return state.change(
        entry,
        held.with_partitions(partitions, version, now_ms),
        lambda error, now_ms: state.respond(token, error),
    )


def verify(
    state: ShardState, producer: Producer, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, Error]:
    """Returns whether the partitions are in the producer's transaction: else TRANSACTION_ABORTABLE.

    Records that are being written are not checked: the partition's log checks again.
    """
    entry = state.entries.get(producer.transactional_id)
    error = _check(entry, producer)
    held = frozenset() if error or entry is None else entry.committed.partitions
    return {
        each: error or (Errors.NONE if each in held else Errors.TRANSACTION_ABORTABLE) for each in partitions
    }
