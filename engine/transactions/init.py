"""Handles InitProducerId with a transactional id, and ends transactions whose producer must not continue."""

from typing import NamedTuple

from bowstring.engine.transactions.state import Entry, NewProducerIdNeededError, ShardState
from bowstring.engine.transactions.transaction import (
    EPOCH_BUMP,
    MAX_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMEOUT_MS,
    Status,
    Transaction,
)
from bowstring.protocol.errors import Error, Errors
from bowstring.protocol.messages.init_producer_id import InitProducerIdResponse


class InitRequest(NamedTuple):
    """What a producer requests.

    Attributes:
        expected: Producer id and epoch of a producer that continues after an error (KIP-360); None for a new
            one.
        is_two_phase: Another coordinator ends the transactions (KIP-939): they have no timeout.
    """

    transactional_id: str
    timeout_ms: int
    expected: tuple[int, int] | None
    is_two_phase: bool = False


def init_error(error: Error) -> InitProducerIdResponse:
    """Returns a refusal."""
    return InitProducerIdResponse(error_code=error.code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_EPOCH)


def init(state: ShardState, request: InitRequest, new_id: int | None, token: object, now_ms: int) -> None:
    """Gives a producer its id and a new epoch, which fences earlier producers of the transactional id.

    An ongoing transaction is aborted first; the producer gets CONCURRENT_TRANSACTIONS and retries.

    Args:
        new_id: A producer id that was never used, if the caller has one.

    Raises:
        NewProducerIdNeededError: One is needed.
    """
    if request.is_two_phase:
        request = request._replace(timeout_ms=NO_TIMEOUT_MS)
    elif not 0 < request.timeout_ms <= state.config.transaction_max_timeout_ms:
        return state.respond(token, init_error(Errors.INVALID_TRANSACTION_TIMEOUT))
    entry = state.entries.get(request.transactional_id)
    if entry is None:
        if new_id is None:
            raise NewProducerIdNeededError
        entry = state.entries[request.transactional_id] = Entry(
            Transaction(request.transactional_id, new_id, timeout_ms=request.timeout_ms, updated_ms=now_ms)
        )
    held = entry.committed
    if entry.pending is not None:
        return state.respond(token, init_error(Errors.CONCURRENT_TRANSACTIONS))
    if not _is_valid(held, request.expected):
        return state.respond(token, init_error(Errors.PRODUCER_FENCED))
    if held.status is Status.ONGOING:
        return fence(state, entry, new_id, token, now_ms)
    assert not held.status.is_prepared, "its markers are pending"
    to = _next(held, request, new_id, now_ms)
    if to is None:
        return state.respond(token, init_error(Errors.PRODUCER_FENCED))
    return state.change(
        entry,
        to,
        lambda error, now_ms: state.respond(
            token,
            init_error(error)
            if error
            else InitProducerIdResponse(producer_id=to.producer_id, producer_epoch=to.epoch),
        ),
    )


def _is_valid(held: Transaction, expected: tuple[int, int] | None) -> bool:
    """Whether a continuing producer is the last one, or repeats a request that gave it a new id."""
    if expected is None or held.epoch == NO_EPOCH or expected[0] == held.producer_id:
        return True
    return expected[0] == held.previous_producer_id and expected[1] >= MAX_EPOCH - 1


def _next(held: Transaction, request: InitRequest, new_id: int | None, now_ms: int) -> Transaction | None:
    expected = request.expected
    if held.is_exhausted and (expected is None or expected[1] == held.epoch):
        if new_id is None:
            raise NewProducerIdNeededError
        return held.rotated(new_id, request.timeout_ms, now_ms, keeps_last_epoch=expected is not None)
    return held.bumped(request.timeout_ms, None if expected is None else expected[1], now_ms)


def fence(state: ShardState, entry: Entry, new_id: int | None, token: object | None, now_ms: int) -> None:
    """Aborts the ongoing transaction of a producer and raises its epoch.

    Args:
        token: Of the InitProducerId that waits; None when the transaction has timed out.

    Raises:
        NewProducerIdNeededError: The producer needs a new id afterwards.
    """
    held = entry.committed
    level = state.level()
    next_id = NO_PRODUCER_ID
    if level >= EPOCH_BUMP and held.is_exhausted:
        if new_id is None:
            raise NewProducerIdNeededError
        next_id = new_id
    version = level if level >= EPOCH_BUMP else 0
    to = held.prepared(commit=False, version=version, next_producer_id=next_id, now_ms=now_ms, fences=True)

    def finished(error: Error, now_ms: int) -> None:
        if token is not None:
            state.respond(token, init_error(error or Errors.CONCURRENT_TRANSACTIONS))
        if not error:
            state.send_markers(entry, now_ms)

    state.change(entry, to, finished)
