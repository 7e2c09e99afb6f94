"""Finds transactions that have passed their timeout, whatever the clock, and expires transactional ids."""

from functools import partial
from typing import Final

from bowstring.engine.transactions.records import tombstone
from bowstring.engine.transactions.state import Deadline, Entry, ShardState
from bowstring.engine.transactions.transaction import NO_TIMEOUT_MS, Status
from bowstring.protocol.errors import Error

_EXPIRED_AT_ONCE: Final = 1000


def timed_out(state: ShardState, now_ms: int, steady_ms: int) -> list[str]:
    """Returns the ids of ongoing transactions that have passed their timeout.

    Their start in the log is a time of day, which may be set forward or back meanwhile; Kafka then aborts all
    of them, or none for days. Here it only says how old a transaction is when it is seen first; from then on
    the steady clock counts. One that began since the last call is no older than that call.
    """
    seen, most_ms = state.deadlines, None if state.looked_ms is None else steady_ms - state.looked_ms
    state.looked_ms, state.deadlines = steady_ms, {}
    found = []
    for transactional_id, entry in state.entries.items():
        held = entry.committed
        if held.status is not Status.ONGOING or held.timeout_ms == NO_TIMEOUT_MS:
            continue
        deadline = seen.get(transactional_id)
        if deadline is None or deadline.started_ms != held.started_ms:
            age_ms = max(0, now_ms - held.started_ms)
            age_ms = age_ms if most_ms is None else min(age_ms, most_ms)
            deadline = Deadline(held.started_ms, steady_ms - age_ms + held.timeout_ms)
        state.deadlines[transactional_id] = deadline
        if entry.pending is None and deadline.steady_ms < steady_ms:
            found.append(transactional_id)
    return found


def expire(state: ShardState, now_ms: int) -> None:
    """Forgets transactional ids that were not used for transactional.id.expiration.ms."""
    old = [
        entry
        for entry in state.entries.values()
        if entry.pending is None
        and not entry.is_writing
        and (entry.committed.status is Status.EMPTY or entry.committed.status.is_complete)
        and entry.committed.updated_ms <= now_ms - state.config.transactional_id_expiration_ms
    ]
    for first in range(0, len(old), _EXPIRED_AT_ONCE):
        portion = old[first : first + _EXPIRED_AT_ONCE]
        for entry in portion:
            entry.is_writing = True
            entry.pending = entry.committed  # requests get CONCURRENT_TRANSACTIONS meanwhile
        state.append(
            [tombstone(entry.committed.transactional_id) for entry in portion],
            partial(_forget, state, portion),
        )


def _forget(state: ShardState, entries: list[Entry], error: Error, now_ms: int) -> None:
    for entry in entries:
        entry.is_writing = False
        entry.pending = None
        if not error:
            state.entries.pop(entry.committed.transactional_id, None)
