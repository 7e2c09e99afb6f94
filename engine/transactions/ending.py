"""Handles EndTxn, and the markers that follow it.

Under transaction version 2 (KIP-890) each end raises the epoch. So the epoch distinguishes a repeated request
from the next one.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from bowstring.engine.transactions.state import Entry, NewProducerIdNeededError, ShardState
from bowstring.engine.transactions.transaction import (
    EPOCH_BUMP,
    MAX_EPOCH,
    NO_PRODUCER_ID,
    Status,
    TopicPartition,
    Transaction,
)
from bowstring.protocol.errors import Error, Errors
from bowstring.protocol.messages.end_txn import EndTxnResponse

_GOES_ON: Final = None


class EndRequest(NamedTuple):
    """What a producer requests. `version`: the transaction version that its request implies."""

    transactional_id: str
    producer_id: int
    epoch: int
    commit: bool
    version: int


def end_error(error: Error) -> EndTxnResponse:
    """Returns a refusal."""
    return EndTxnResponse(error_code=error.code)


def end(state: ShardState, request: EndRequest, new_id: int | None, token: object, now_ms: int) -> None:
    """Decides the outcome of a transaction. The answer comes once that is committed; markers follow.

    Raises:
        NewProducerIdNeededError: All epochs of the producer are used up.
    """
    entry = state.entries.get(request.transactional_id)
    if entry is None:
        return state.respond(token, end_error(Errors.INVALID_PRODUCER_ID_MAPPING))
    bumps = request.version >= EPOCH_BUMP
    verdict = _check_bumping(entry, request) if bumps else _check(entry, request)
    if verdict is not _GOES_ON:
        return state.respond(token, _settled(entry.committed, verdict, bumps=bumps))
    next_id = NO_PRODUCER_ID
    if bumps and entry.committed.is_exhausted:
        if new_id is None:
            raise NewProducerIdNeededError
        next_id = new_id
    to = entry.committed.prepared(
        commit=request.commit, version=request.version, next_producer_id=next_id, now_ms=now_ms
    )

    def finished(error: Error, now_ms: int) -> None:
        if error:
            return state.respond(token, end_error(error))
        after = to.completed(now_ms)
        state.respond(
            token,
            EndTxnResponse(producer_id=after.producer_id, producer_epoch=after.epoch)
            if bumps
            else EndTxnResponse(),
        )
        return state.send_markers(entry, now_ms)

    return state.change(entry, to, finished)


def _settled(held: Transaction, error: Error, *, bumps: bool) -> EndTxnResponse:
    if error or not bumps:
        return end_error(error)
    return EndTxnResponse(producer_id=held.producer_id, producer_epoch=held.epoch)


def _check(entry: Entry, request: EndRequest) -> Error | None:
    """Returns the answer to a request of a client before transaction version 2; None: the transaction ends
    now.
    """
    held = entry.committed
    if held.producer_id != request.producer_id:
        return Errors.INVALID_PRODUCER_ID_MAPPING
    if held.epoch != request.epoch:
        return Errors.PRODUCER_FENCED
    if entry.pending is not None:
        return Errors.CONCURRENT_TRANSACTIONS
    if held.status is Status.ONGOING:
        return _GOES_ON
    if held.status.is_complete and held.is_commit == request.commit:
        return Errors.NONE
    return Errors.INVALID_TXN_STATE


def _check_bumping(entry: Entry, request: EndRequest) -> Error | None:
    """Returns the answer under transaction version 2; None: the transaction ends now."""
    held = entry.committed
    overflowed = (
        held.previous_producer_id == request.producer_id
        and request.epoch == MAX_EPOCH - 1
        and held.epoch == 0
    )
    is_repeated = overflowed or held.epoch == request.epoch + 1
    if entry.pending is not None:
        return Errors.CONCURRENT_TRANSACTIONS
    if held.producer_id != request.producer_id and not overflowed:
        return Errors.INVALID_PRODUCER_ID_MAPPING
    may_repeat = is_repeated and held.status.is_complete
    if request.epoch != held.epoch and not may_repeat:
        return Errors.PRODUCER_FENCED
    if held.status is Status.ONGOING:
        return _GOES_ON
    if may_repeat:
        return Errors.NONE if held.is_commit == request.commit else Errors.INVALID_TXN_STATE
    # Without a partition there is nothing to commit. To abort raises the epoch: the producer may have sent
    # records that no partition has accepted yet.
    return Errors.INVALID_TXN_STATE if request.commit else _GOES_ON


def marked(state: ShardState, of: Transaction, partitions: Iterable[TopicPartition], now_ms: int) -> None:
    """Notes that partitions of a decided transaction have their marker, or no longer need one."""
    entry = state.entries.get(of.transactional_id)
    if entry is None or entry.committed is not of or not entry.unmarked:
        return
    entry.unmarked.difference_update(partitions)
    if not entry.unmarked and not entry.is_writing:
        state.complete(entry, now_ms)


def complete(state: ShardState, transactional_id: str, now_ms: int) -> None:
    """Repeats the write that ends a transaction."""
    entry = state.entries.get(transactional_id)
    if (
        entry is not None
        and entry.committed.status.is_prepared
        and not entry.unmarked
        and not entry.is_writing
    ):
        state.complete(entry, now_ms)
