"""Coordinates the share partitions of one partition of ``__share_group_state``: events in, effects out."""

from collections.abc import Callable, Set
from typing import NamedTuple

from bowstring._native.protocol.message_codec import ProtocolError
from bowstring.engine.coordinators.effects import AppendRecords, Note, Respond
from bowstring.engine.groups.append_errors import append_error_of_group
from bowstring.engine.share.coordinator.config import ShareCoordinatorConfig
from bowstring.engine.share.coordinator.partition import PartitionState, SharePartition, StateUpdate
from bowstring.engine.share.coordinator.records import encoded, read_record
from bowstring.engine.share.persister.interface import (
    UNINITIALIZED_START_OFFSET,
    UNKNOWN_COUNT,
    SharePartitionKey,
    WrittenState,
)
from bowstring.protocol.errors import Error, Errors
from bowstring.protocol.share_batches import combine

Effect = AppendRecords | Respond | Note

# Kafka's text, which it sends in place of the error's own
_NEGATIVE = "The {} cannot be a negative number."
_NOT_INITIALIZED = "{} operation on uninitialized share partition not allowed."
_NONE_YET = PartitionState(0, 0, 0, UNINITIALIZED_START_OFFSET)


class Outcome(NamedTuple):
    """The answer to each request. `message` says more than the error; `state` is set when it was read."""

    error: Error
    message: str | None = None
    state: PartitionState | None = None


_DONE = Outcome(Errors.NONE)


_Change = tuple[SharePartitionKey, PartitionState | StateUpdate | None]
"""A share partition, and its state in a record; None deletes it."""


class _Append(NamedTuple):
    """An append that is not committed yet; `token` is None if no request waits for it."""

    changes: list[_Change]
    token: object
    outcome: Outcome


class ShareShard:
    """Each event returns its effects, which are those of every coordinator.

    `now_ms` is wall-clock time in ms. `token` identifies a request and is returned in exactly one `Respond`,
    whose body is an `Outcome`. What is written changes the state at once; the runtime holds answers back
    until it is committed. Not thread-safe.

    Args:
        config: The configs of the coordinator.
        has_partition: Whether a topic id exists and has a partition.
    """

    def __init__(self, config: ShareCoordinatorConfig, has_partition: Callable[[bytes, int], bool]) -> None:
        self.loading = True
        self._config = config
        self._has_partition = has_partition
        self._partitions: dict[SharePartitionKey, SharePartition] = {}
        self._appends: dict[int, _Append] = {}
        self._last_append_id = 0
        self._outbox: list[Effect] = []
        # offset of the last tombstone
        self._deleted_offset = -1

    def __len__(self) -> int:
        return len(self._partitions)

    def of(self, key: SharePartitionKey) -> PartitionState | None:
        """Returns the state of a share partition."""
        found = self._partitions.get(key)
        return None if found is None else found.state

    def states(self) -> list[tuple[SharePartitionKey, PartitionState]]:
        """Returns all share partitions with their states, as they are now."""
        return [(key, partition.state) for key, partition in self._partitions.items()]

    # ---- the log

    def replay(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        """Applies a record of the log."""
        try:
            decoded = read_record(key, value) if key else None
        except ProtocolError as error:
            self._note(f"a record of the share log is skipped because it cannot be decoded: {error}")
            return
        if decoded is None:
            self._note("a record of the share log is skipped because its type is unknown")
            return
        self._apply(offset, *decoded)

    def _apply(
        self, offset: int, name: SharePartitionKey, change: PartitionState | StateUpdate | None
    ) -> None:
        held = self._partitions.get(name)
        if change is None:
            self._partitions.pop(name, None)
            self._deleted_offset = offset
        elif isinstance(change, PartitionState):
            if held is None:
                held = self._partitions[name] = SharePartition(
                    change, change.leader_epoch, change.state_epoch
                )
            held.snapshot(change, offset, self._config.share_coordinator_snapshot_update_records_per_snapshot)
        elif held is not None:
            held.update(change)
        else:
            self._note("an update of the share log is skipped because the snapshot before it is missing")

    def loaded(self, now_ms: int) -> list[Effect]:
        """Ends loading after the log has been read to its end."""
        self.loading = False
        return self._take_effects()

    def append_written(self, append_id: int, base_offset: int) -> None:
        """Applies the records of an append, which are in the log from `base_offset` on."""
        for offset, change in enumerate(self._appends[append_id].changes, base_offset):
            self._apply(offset, *change)

    def append_finished(self, append_id: int, error: Error, now_ms: int) -> list[Effect]:
        """Reports that the records are below the high watermark (`error` is NONE), or that they were not
        written.
        """
        append = self._appends.pop(append_id)
        if append.token is not None:
            outcome = Outcome(append_error_of_group(error)) if error else append.outcome
            self._outbox.append(Respond(append.token, outcome))
        return self._take_effects()

    def unload(self, now_ms: int) -> list[Effect]:
        """Ends the shard: answers waiting requests with NOT_COORDINATOR."""
        for append in self._appends.values():
            if append.token is not None:
                self._outbox.append(Respond(append.token, Outcome(Errors.NOT_COORDINATOR)))
        self._appends.clear()
        return self._take_effects()

    # ---- requests

    def read(self, key: SharePartitionKey, leader_epoch: int, token: object, now_ms: int) -> list[Effect]:
        """Handles ReadShareGroupState; a leader epoch newer than the known one is written first."""
        refusal = self._refusal(key, leader_epoch=leader_epoch, operation="Read")
        if refusal is not None:
            return self._answer(token, refusal)
        held = self._partitions[key]
        outcome = Outcome(Errors.NONE, state=held.state)
        if leader_epoch == held.newest_leader_epoch:
            return self._answer(token, outcome)
        state = held.state
        written = WrittenState(
            state.state_epoch, leader_epoch, state.start_offset, state.delivery_complete_count, ()
        )
        return self._append([(key, self._changed(key, written, leader_epoch, now_ms))], token, outcome)

    def write(
        self, key: SharePartitionKey, written: WrittenState, token: object, now_ms: int
    ) -> list[Effect]:
        """Handles WriteShareGroupState; at the same start offset the larger count holds."""
        refusal = self._refusal(
            key, leader_epoch=written.leader_epoch, state_epoch=written.state_epoch, operation="Write"
        )
        if refusal is not None:
            return self._answer(token, refusal)
        leader_epoch = self._partitions[key].state.leader_epoch
        return self._append([(key, self._changed(key, written, leader_epoch, now_ms))], token)

    def summarize(self, key: SharePartitionKey, token: object) -> list[Effect]:
        """Handles ReadShareGroupStateSummary; a share partition without state has start offset -1."""
        refusal = self._refusal(key)
        if refusal is not None:
            return self._answer(token, refusal)
        return self._answer(token, Outcome(Errors.NONE, state=self.of(key) or _NONE_YET))

    def initialize(
        self, key: SharePartitionKey, state_epoch: int, start_offset: int, token: object, now_ms: int
    ) -> list[Effect]:
        """Handles InitializeShareGroupState; replaces a state that is there, unless the start offset is -1.

        Group coordinators retry with -1 when the outcome of an earlier request is unknown. Unlike
        in Kafka, that takes nothing back from members that have begun meanwhile.
        """
        refusal = self._refusal(key, state_epoch=state_epoch)
        if refusal is not None:
            return self._answer(token, refusal)
        held = self.of(key)
        if held is not None and start_offset == UNINITIALIZED_START_OFFSET:
            if state_epoch <= held.state_epoch:
                return self._answer(token, _DONE)
            kept = held._replace(
                snapshot_epoch=held.snapshot_epoch + 1,
                state_epoch=state_epoch,
                created_ms=now_ms,
                written_ms=now_ms,
            )
            return self._append([(key, kept)], token)
        state = PartitionState(
            0 if held is None else held.snapshot_epoch + 1,
            state_epoch,
            0,
            start_offset,
            UNKNOWN_COUNT if start_offset == UNINITIALIZED_START_OFFSET else 0,
            (),
            now_ms,
            now_ms,
        )
        return self._append([(key, state)], token)

    def delete(self, key: SharePartitionKey, token: object) -> list[Effect]:
        """Handles DeleteShareGroupState."""
        refusal = self._refusal(key)
        if refusal is not None:
            return self._answer(token, refusal)
        if key not in self._partitions:
            return self._answer(token, _DONE)
        return self._append([(key, None)], token)

    # ---- housekeeping

    def needed_offset(self) -> int:
        """Returns the offset below which no record of the log is needed; -1 if nothing is known."""
        if self._partitions:
            return min(each.snapshot_offset for each in self._partitions.values())
        return self._deleted_offset

    def snapshot_cold(self, now_ms: int) -> list[Effect]:
        """Writes snapshots of share partitions at rest, so that older records are not needed for them. Call
        it every share.coordinator.cold.partition.snapshot.interval.ms.
        """
        if all(each.state.created_ms != each.state.written_ms for each in self._partitions.values()):
            return []  # all are at rest: nothing fills the log
        oldest_ms = now_ms - self._config.share_coordinator_cold_partition_snapshot_interval_ms
        changes: list[_Change] = [
            (key, each.state._replace(snapshot_epoch=each.state.snapshot_epoch + 1, written_ms=now_ms))
            for key, each in self._partitions.items()
            if each.state.written_ms <= oldest_ms
        ]
        return self._append(changes, None, atomic=False) if changes else []

    def topics_deleted(self, topic_ids: Set[bytes]) -> list[Effect]:
        """Deletes the state of deleted topics."""
        changes: list[_Change] = [(key, None) for key in self._partitions if key.topic_id in topic_ids]
        return self._append(changes, None, atomic=False) if changes else []

    # ---- inside

    def _refusal(
        self,
        key: SharePartitionKey,
        *,
        leader_epoch: int | None = None,
        state_epoch: int | None = None,
        operation: str | None = None,
    ) -> Outcome | None:
        """Checks a request's fields in Kafka's order; with `operation` the state must exist."""
        numbers = {"partition id": key.partition, "leader epoch": leader_epoch, "state epoch": state_epoch}
        for name, number in numbers.items():
            if number is not None and number < 0:
                return Outcome(Errors.INVALID_REQUEST, _NEGATIVE.format(name))
        held = self._partitions.get(key)
        if held is None and operation is not None:
            return Outcome(Errors.INVALID_REQUEST, _NOT_INITIALIZED.format(operation))
        if held is not None and leader_epoch is not None and leader_epoch < held.newest_leader_epoch:
            return Outcome(Errors.FENCED_LEADER_EPOCH)
        if held is not None and state_epoch is not None and state_epoch < held.newest_state_epoch:
            return Outcome(Errors.FENCED_STATE_EPOCH)
        if not self._has_partition(key.topic_id, key.partition):
            return Outcome(Errors.UNKNOWN_TOPIC_OR_PARTITION)
        return None

    def _changed(
        self, key: SharePartitionKey, written: WrittenState, leader_epoch: int, now_ms: int
    ) -> PartitionState | StateUpdate:
        """Returns a change as an update, or as a snapshot when there were enough updates.

        A write that its leader has repeated may arrive late: neither the start offset goes back then, nor the
        count of what is done from it on. A write without a start offset counts as late.
        """
        held = self._partitions[key]
        state = held.state
        count, stored = written.delivery_complete_count, state.delivery_complete_count
        if written.start_offset <= state.start_offset:
            count = stored if written.start_offset < state.start_offset else max(count, stored)
        written = written._replace(
            start_offset=max(written.start_offset, state.start_offset), delivery_complete_count=count
        )
        if held.updates < self._config.share_coordinator_snapshot_update_records_per_snapshot:
            return StateUpdate(
                state.snapshot_epoch,
                leader_epoch,
                written.start_offset,
                written.delivery_complete_count,
                combine((), written.batches, written.start_offset),
            )
        return PartitionState(
            state.snapshot_epoch + 1,
            state.state_epoch,
            leader_epoch,
            written.start_offset,
            written.delivery_complete_count,
            combine(state.batches, written.batches, written.start_offset),
            now_ms,
            now_ms,
        )

    def _append(
        self, changes: list[_Change], token: object, outcome: Outcome = _DONE, *, atomic: bool = True
    ) -> list[Effect]:
        self._last_append_id += 1
        self._appends[self._last_append_id] = _Append(changes, token, outcome)
        records = [encoded(key, change) for key, change in changes]
        self._outbox.append(AppendRecords(self._last_append_id, records, atomic))
        return self._take_effects()

    def _answer(self, token: object, outcome: Outcome) -> list[Effect]:
        self._outbox.append(Respond(token, outcome))
        return self._take_effects()

    def _note(self, text: str) -> None:
        self._outbox.append(Note(text))

    def _take_effects(self) -> list[Effect]:
        effects, self._outbox = self._outbox, []
        return effects
