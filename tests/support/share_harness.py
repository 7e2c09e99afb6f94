"""Drives a shard of the share coordinator: its appends are committed at once unless the test refuses them."""

import itertools
from typing import Any

from bowstring.engine.coordinators.effects import AppendRecords, Record, Respond
from bowstring.engine.share.coordinator.config import ShareCoordinatorConfig
from bowstring.engine.share.coordinator.partition import PartitionState
from bowstring.engine.share.coordinator.shard import Outcome, ShareShard
from bowstring.engine.share.persister.interface import SharePartitionKey, WrittenState
from bowstring.protocol.errors import Error, Errors
from bowstring.protocol.share_batches import StateBatch

TOPIC_ID = bytes(15) + b"\1"
KEY = SharePartitionKey("g", TOPIC_ID, 0)


class ShareHarness:
    """One shard. Attributes: `log`, its records; `refusal`, the error of the next writes."""

    def __init__(self, updates: int = 500, log: list[Record] | None = None) -> None:
        self.now_ms = 1_000_000
        self.config = ShareCoordinatorConfig(
            share_coordinator_snapshot_update_records_per_snapshot=updates,
            share_coordinator_cold_partition_snapshot_interval_ms=1000,
        )
        self.topics = {TOPIC_ID: 2}
        self.shard = ShareShard(self.config, lambda topic, index: index < self.topics.get(topic, 0))
        self.log = log or []
        self.refusal: Error = Errors.NONE
        self.answers: dict[object, Outcome] = {}
        self._tokens = itertools.count()
        for offset, record in enumerate(self.log):
            self.shard.replay(offset, *record)
        self.carry(self.shard.loaded(self.now_ms))

    def carry(self, effects: list[Any]) -> None:
        queue = list(effects)
        while queue:
            effect = queue.pop(0)
            if isinstance(effect, Respond):
                assert effect.token not in self.answers, "answered twice"
                self.answers[effect.token] = effect.body
            elif isinstance(effect, AppendRecords):
                if not self.refusal:
                    self.shard.append_written(effect.append_id, len(self.log))
                    self.log += effect.records
                queue += self.shard.append_finished(effect.append_id, self.refusal, self.now_ms)

    def restarted(self) -> "ShareHarness":
        """Returns a harness whose shard has read the log of this one."""
        updates = self.config.share_coordinator_snapshot_update_records_per_snapshot
        return ShareHarness(updates, list(self.log))

    def _ask(self, event: Any) -> Outcome:
        token = next(self._tokens)
        self.carry(event(token))
        return self.answers[token]

    def initialize(self, state_epoch: int = 0, start_offset: int = 0, key: SharePartitionKey = KEY) -> Error:
        return self._ask(
            lambda token: self.shard.initialize(key, state_epoch, start_offset, token, self.now_ms)
        ).error

    def read(self, leader_epoch: int = 0, key: SharePartitionKey = KEY) -> PartitionState:
        outcome = self._ask(lambda token: self.shard.read(key, leader_epoch, token, self.now_ms))
        assert not outcome.error and outcome.state is not None, outcome
        return outcome.state

    def read_error(self, leader_epoch: int = 0, key: SharePartitionKey = KEY) -> Error:
        return self._ask(lambda token: self.shard.read(key, leader_epoch, token, self.now_ms)).error

    def write(
        self,
        *batches: tuple[int, int, int, int],
        state_epoch: int = 0,
        leader_epoch: int = 0,
        start_offset: int = -1,
        count: int = 0,
        key: SharePartitionKey = KEY,
    ) -> Error:
        written = WrittenState(
            state_epoch, leader_epoch, start_offset, count, tuple(StateBatch(*each) for each in batches)
        )
        return self._ask(lambda token: self.shard.write(key, written, token, self.now_ms)).error

    def delete(self, key: SharePartitionKey = KEY) -> Error:
        return self._ask(lambda token: self.shard.delete(key, token)).error
