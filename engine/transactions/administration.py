"""Serves admin clients (ListTransactions, DescribeTransactions; KIP-664), finds transactions that have
timed out, and expires transactional ids.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import groupby
from typing import Final

from bowstring.engine.patterns import whole_text
from bowstring.engine.transactions.records import tombstone
from bowstring.engine.transactions.state import Deadline, Entry, ShardState
from bowstring.engine.transactions.transaction import BY_LABEL, NO_TIMEOUT_MS, Status
from bowstring.protocol.errors import Error, Errors
from bowstring.protocol.messages import describe_transactions, list_transactions

_EXPIRED_AT_ONCE: Final = 1000


class TransactionFilter:
    """Selects transactions by state, producer id, duration in ms (KIP-994) and transactional id (KIP-1152).

    Attributes:
        unknown_states: Names that are no state's.

    Raises:
        KafkaError: INVALID_REGULAR_EXPRESSION.
    """

    def __init__(
        self,
        states: Iterable[str],
        producer_ids: Iterable[int],
        duration_ms: int = -1,
        pattern: str | None = None,
    ) -> None:
        states = list(states)
        self.unknown_states = [name for name in states if name not in BY_LABEL]
        self._any_state = not states
        self._states = {BY_LABEL[name] for name in states if name in BY_LABEL}
        self._producer_ids = set(producer_ids)
        self._duration_ms = duration_ms
        self._fits = whole_text(pattern, "Transaction ID pattern") if pattern else None

    def selects(self, entry: Entry, now_ms: int) -> bool:
        """Whether the filter selects the transaction."""
        held = entry.committed
        return (
            (not self._producer_ids or held.producer_id in self._producer_ids)
            and (self._any_state or held.status in self._states)
            and (self._duration_ms < 0 or now_ms - held.started_ms > self._duration_ms)
            and (self._fits is None or self._fits(held.transactional_id))
        )


def list_all(
    state: ShardState, wanted: TransactionFilter, now_ms: int
) -> Iterator[list_transactions.TransactionState]:
    """Yields the transactions that the filter selects."""
    for entry in list(state.entries.values()):
        if wanted.selects(entry, now_ms):
            yield list_transactions.TransactionState(
                transactional_id=entry.committed.transactional_id,
                producer_id=entry.committed.producer_id,
                transaction_state=entry.committed.status.label,
            )


def describe(state: ShardState, transactional_id: str) -> describe_transactions.TransactionState:
    """Describes one transactional id. Of a decided transaction, the partitions without marker are listed."""
    entry = state.entries.get(transactional_id)
    if entry is None:
        return describe_transactions.TransactionState(
            transactional_id=transactional_id, error_code=Errors.TRANSACTIONAL_ID_NOT_FOUND.code
        )
    held = entry.committed
    partitions = entry.unmarked if held.status.is_prepared else held.partitions
    return describe_transactions.TransactionState(
        transactional_id=transactional_id,
        transaction_state=held.status.label,
        transaction_timeout_ms=held.timeout_ms,
        transaction_start_time_ms=held.started_ms,
        producer_id=held.producer_id,
        producer_epoch=held.epoch,
        topics=[
            describe_transactions.TopicData(topic=topic, partitions=[index for _, index in each])
            for topic, each in groupby(sorted(partitions), key=lambda each: each[0])
        ],
    )


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
