"""Drives a shard of the transaction coordinator: its appends are committed at once unless the test holds them."""

import itertools
from typing import Any

from bowstring.engine.coordinators.effects import AppendRecords, Respond
from bowstring.engine.transactions.config import TransactionConfig
from bowstring.engine.transactions.effects import CompleteLater, Effect, Ended, SendMarkers
from bowstring.engine.transactions.ending import EndRequest
from bowstring.engine.transactions.init import InitRequest
from bowstring.engine.transactions.partitions import Producer
from bowstring.engine.transactions.shard import TransactionShard
from bowstring.engine.transactions.state import Entry, NewProducerIdNeededError
from bowstring.engine.transactions.transaction import Transaction
from bowstring.protocol.errors import Error, Errors

ID = "x"
T0 = ("t", 0)
T1 = ("t", 1)


class TransactionHarness:
    """One shard. Attributes: `log`, the committed records; `markers`, the markers to be sent."""

    def __init__(self, level: int = 2, **config: int) -> None:
        self.level = level
        self.now_ms = 1_000_000
        self.step_ms = 0  # by which the clock was set forward
        self.next_id = 1000
        self.config = TransactionConfig(**config)
        self.shard = TransactionShard(self.config, lambda: self.level)
        self.shard.loaded(self.now_ms)
        self.log: list[tuple[bytes, bytes | None]] = []
        self.markers: list[SendMarkers] = []
        self.later: list[str] = []
        self.ended: list[str] = []
        self.holds_markers = False
        self.held: list[AppendRecords] | None = None
        self.refusal: Error = Errors.NONE
        self.answers: dict[object, Any] = {}
        self._tokens = itertools.count()

    # ---- effects

    def carry(self, effects: list[Effect]) -> None:
        queue = list(effects)
        while queue:
            effect = queue.pop(0)
            if isinstance(effect, Respond):
                assert effect.token not in self.answers, "answered twice"
                self.answers[effect.token] = effect.body
            elif isinstance(effect, AppendRecords):
                if self.held is not None:
                    self.held.append(effect)
                    continue
                if not self.refusal:
                    self.log += effect.records
                queue += self.shard.append_finished(effect.append_id, self.refusal, self.now_ms)
            elif isinstance(effect, SendMarkers):
                self.markers.append(effect)
                if not self.holds_markers:
                    for partition in sorted(effect.partitions):
                        queue += self.shard.marked(effect.transaction, [partition], self.now_ms)
            elif isinstance(effect, CompleteLater):
                self.later.append(effect.transactional_id)
            elif isinstance(effect, Ended):
                self.ended.append(effect.transactional_id)

    def commit_held(self, error: Error = Errors.NONE) -> None:
        held, self.held = self.held or [], None
        for effect in held:
            if not error:
                self.log += effect.records
            self.carry(self.shard.append_finished(effect.append_id, error, self.now_ms))

    def write_markers(self) -> None:
        sent, self.markers = self.markers, []
        for effect in sent:
            for partition in sorted(effect.partitions):
                self.carry(self.shard.marked(effect.transaction, [partition], self.now_ms))

    def restarted(self, *, holds_markers: bool = False) -> "TransactionHarness":
        """Returns a harness whose shard has read the log of this one."""
        other = TransactionHarness(self.level)
        other.holds_markers = holds_markers
        other.config, other.now_ms, other.next_id = self.config, self.now_ms, self.next_id + 1000
        other.shard = TransactionShard(self.config, lambda: other.level)
        latest = dict(self.log)
        for key, value in latest.items():
            if value is not None:
                other.shard.replay(key, value)
        other.log = list(self.log)
        other.carry(other.shard.loaded(self.now_ms))
        return other

    # ---- requests: each returns its token

    def _with_id(self, event: Any) -> object:
        token = next(self._tokens)
        try:
            self.carry(event(None, token))
        except NewProducerIdNeededError:
            self.next_id += 1
            self.carry(event(self.next_id, token))
        return token

    def ask_init(
        self, expected: tuple[int, int] | None = None, *, timeout_ms: int = 60_000, id: str = ID
    ) -> object:
        request = InitRequest(id, timeout_ms, expected)
        return self._with_id(
            lambda new_id, token: self.shard.init_producer_id(request, new_id, token, self.now_ms)
        )

    def ask_end(
        self, producer: tuple[int, int], *, commit: bool = True, version: int = 2, id: str = ID
    ) -> object:
        request = EndRequest(id, *producer, commit, version)
        return self._with_id(lambda new_id, token: self.shard.end(request, new_id, token, self.now_ms))

    def ask_add(
        self, producer: tuple[int, int], *partitions: tuple[str, int], version: int = 2, id: str = ID
    ) -> object:
        token = next(self._tokens)
        added = frozenset(partitions or (T0,))
        self.carry(
            self.shard.add_partitions(Producer(id, *producer), added, token, self.now_ms, version=version)
        )
        return token

    # ---- answers

    def init(self, expected: tuple[int, int] | None = None, **how: Any) -> tuple[int, int]:
        """Returns producer id and epoch."""
        answer = self.answers[self.ask_init(expected, **how)]
        assert answer.error_code == 0, Errors.of(answer.error_code)
        return answer.producer_id, answer.producer_epoch

    def init_error(self, expected: tuple[int, int] | None = None, **how: Any) -> Error:
        return Errors.of(self.answers[self.ask_init(expected, **how)].error_code)

    def end(self, producer: tuple[int, int], **how: Any) -> tuple[int, int]:
        """Returns the producer id and epoch with which the client continues."""
        answer = self.answers[self.ask_end(producer, **how)]
        assert answer.error_code == 0, Errors.of(answer.error_code)
        return answer.producer_id, answer.producer_epoch

    def end_error(self, producer: tuple[int, int], **how: Any) -> Error:
        return Errors.of(self.answers[self.ask_end(producer, **how)].error_code)

    def add(self, producer: tuple[int, int], *partitions: tuple[str, int], **how: Any) -> Error:
        error: Error = self.answers[self.ask_add(producer, *partitions, **how)]
        return error

    def verify(self, producer: tuple[int, int], *partitions: tuple[str, int]) -> Error:
        token = next(self._tokens)
        wanted = frozenset(partitions or (T0,))
        self.carry(self.shard.verify_partitions(Producer(ID, *producer), wanted, token))
        (error,) = set(self.answers[token].values())
        return error

    # ---- the state

    def entry(self, id: str = ID) -> Entry:
        return self.shard.state.entries[id]

    def held_state(self, id: str = ID) -> Transaction:
        return self.entry(id).committed

    def abort_timed_out(self) -> list[str]:
        found = self.shard.timed_out(self.now_ms, self.now_ms - self.step_ms)
        for each in found:
            self._with_id(lambda new_id, token, each=each: self.shard.abort(each, new_id, self.now_ms))
        return found
