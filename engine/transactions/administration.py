"""Serves admin clients: ListTransactions and DescribeTransactions (KIP-664)."""

from collections.abc import Iterable, Iterator
from itertools import groupby

from bowstring.engine.patterns import whole_text
from bowstring.engine.transactions.state import Entry, ShardState
from bowstring.engine.transactions.transaction import BY_LABEL
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages import describe_transactions, list_transactions


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
