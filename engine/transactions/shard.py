"""Coordinates the transactional ids of one partition of ``__transaction_state``: events in, effects out."""

from collections.abc import Callable, Iterable, Iterator

from bowstring._native.protocol.message_codec import ProtocolError
from bowstring.engine.transactions import administration, ending, init, partitions, timeouts
from bowstring.engine.transactions.administration import TransactionFilter
from bowstring.engine.transactions.config import TransactionConfig
from bowstring.engine.transactions.effects import Effect
from bowstring.engine.transactions.ending import EndRequest
from bowstring.engine.transactions.init import InitRequest
from bowstring.engine.transactions.partitions import Producer
from bowstring.engine.transactions.records import read_key, read_value
from bowstring.engine.transactions.state import Entry, ShardState
from bowstring.engine.transactions.transaction import Status, TopicPartition, Transaction
from bowstring.protocol.errors import Error, Errors
from bowstring.protocol.messages import describe_transactions, list_transactions


class TransactionShard:
    """Each event returns its effects; `effects` describes how the shell must carry them out.

    `now_ms` is wall-clock time in ms. `token` identifies a request and is returned in exactly one
    `Respond`. `new_id`
    is a producer id that was never used, or None: an event that needs one raises NewProducerIdNeededError
    and changes nothing. Not thread-safe.

    Args:
        config: The configs of the coordinator.
        level: Returns the finalized level of transaction.version.

    Attributes:
        loading: Whether the log is still being read; until then requests get COORDINATOR_LOAD_IN_PROGRESS.
    """

    def __init__(self, config: TransactionConfig, level: Callable[[], int]) -> None:
        self.state = ShardState(config, level)
        self.loading = True

    # ---- the log

    def replay(self, key: bytes | None, value: bytes | None) -> None:
        """Applies a record of the log while `loading`."""
        try:
            transactional_id = read_key(key) if key else None
            if transactional_id is None:
                self.state.note("a record of the transaction log is skipped because its type is unknown")
            elif value is None:
                self.state.entries.pop(transactional_id, None)
            else:
                self.state.entries[transactional_id] = Entry(read_value(transactional_id, value))
        except (ProtocolError, ValueError) as error:
            self.state.note(
                f"a record of the transaction log is skipped because it cannot be decoded: {error}"
            )

    def loaded(self, now_ms: int) -> list[Effect]:
        """Ends loading after the log has been read to its end; continues ending decided transactions."""
        self.loading = False
        for entry in self.state.entries.values():
            if entry.committed.status.is_prepared:
                self.state.send_markers(entry, now_ms)
        return self.state.take_effects()

    def append_written(self, append_id: int, base_offset: int) -> None:
        """Does nothing: the state changes when the records are committed."""

    def append_finished(self, append_id: int, error: Error, now_ms: int) -> list[Effect]:
        """Reports that the records are below the high watermark (`error` is NONE), or that they were not
        written.
        """
        self.state.appends.pop(append_id)(error, now_ms)
        return self.state.take_effects()

    def unload(self, now_ms: int) -> list[Effect]:
        """Ends the shard: answers waiting requests with NOT_COORDINATOR. Returns only answers."""
        for finished in list(self.state.appends.values()):
            finished(Errors.NOT_LEADER_OR_FOLLOWER, now_ms)
        self.state.appends.clear()
        return self.state.take_effects()

    # ---- requests of producers

    def init_producer_id(
        self, request: InitRequest, new_id: int | None, token: object, now_ms: int
    ) -> list[Effect]:
        """Handles InitProducerId; answers with an InitProducerIdResponse."""
        init.init(self.state, request, new_id, token, now_ms)
        return self.state.take_effects()

    def end(self, request: EndRequest, new_id: int | None, token: object, now_ms: int) -> list[Effect]:
        """Handles EndTxn; answers with an EndTxnResponse."""
        ending.end(self.state, request, new_id, token, now_ms)
        return self.state.take_effects()

    def add_partitions(
        self,
        producer: Producer,
        added: frozenset[TopicPartition],
        token: object,
        now_ms: int,
        *,
        version: int,
    ) -> list[Effect]:
        """Handles AddPartitionsToTxn; answers with an Error, which is that of all partitions."""
        partitions.add(self.state, producer, added, token, now_ms, version=version)
        return self.state.take_effects()

    def verify_partitions(
        self, producer: Producer, wanted: frozenset[TopicPartition], token: object
    ) -> list[Effect]:
        """Handles AddPartitionsToTxn that only verifies; answers with Errors by partition."""
        self.state.respond(token, partitions.verify(self.state, producer, wanted))
        return self.state.take_effects()

    # ---- ending transactions

    def marked(self, of: Transaction, marked: Iterable[TopicPartition], now_ms: int) -> list[Effect]:
        """Reports that partitions of a decided transaction have their marker, or need none."""
        ending.marked(self.state, of, marked, now_ms)
        return self.state.take_effects()

    def complete(self, transactional_id: str, now_ms: int) -> list[Effect]:
        """Follows `CompleteLater`."""
        ending.complete(self.state, transactional_id, now_ms)
        return self.state.take_effects()

    def timed_out(self, now_ms: int, steady_ms: int) -> list[str]:
        """Returns the ids of transactions to `abort`. Call every
        transaction.abort.timed.out.transaction.cleanup.interval.ms.

        Args:
            steady_ms: From a clock that is never set, unlike that of `now_ms`.
        """
        return timeouts.timed_out(self.state, now_ms, steady_ms)

    def abort(self, transactional_id: str, new_id: int | None, now_ms: int) -> list[Effect]:
        """Aborts a transaction that has timed out, and fences its producer."""
        entry = self.state.entries.get(transactional_id)
        if entry is not None and entry.pending is None and entry.committed.status is Status.ONGOING:
            init.fence(self.state, entry, new_id, None, now_ms)
        return self.state.take_effects()

    # ---- administration

    def list_transactions(
        self, wanted: TransactionFilter, now_ms: int
    ) -> Iterator[list_transactions.TransactionState]:
        """Yields the transactions that the filter selects."""
        return administration.list_all(self.state, wanted, now_ms)

    def describe(self, transactional_id: str) -> describe_transactions.TransactionState:
        """Describes one transactional id."""
        return administration.describe(self.state, transactional_id)

    def expire(self, now_ms: int) -> list[Effect]:
        """Forgets unused transactional ids. Call every
        transaction.remove.expired.transaction.cleanup.interval.ms.
        """
        timeouts.expire(self.state, now_ms)
        return self.state.take_effects()
