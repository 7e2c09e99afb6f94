"""Sets positions that are unknown or out of range: by auto_offset_reset, with lookups of offsets."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bowstring.clients.consumer.fetch_config import FetchConfig
from bowstring.clients.consumer.partition_state import RESET_TIMESTAMPS, Epochs, PartitionState, Positions
from bowstring.clients.errors import ClientError, NoOffsetError, broker_error
from bowstring.clients.group.offset_requests import list_offsets_request
from bowstring.clients.net.client import NetworkClient
from bowstring.clients.net.connection import Pending
from bowstring.clients.net.metadata import ClusterMetadata
from bowstring.clients.records import Node, TopicPartition
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.list_offsets import ListOffsetsRequest


class PositionResets:
    """Mixed into Fetcher, which provides the connections and pauses partitions after errors."""

    client: NetworkClient
    cluster: ClusterMetadata
    positions: Positions
    error: ClientError | None
    _config: FetchConfig

    if TYPE_CHECKING:

        def _waits(self, state: PartitionState, now: float) -> bool: ...
        def _await_leader(self, partition: TopicPartition, state: PartitionState, now: float) -> None: ...
        def _pause(self, *states: PartitionState) -> None: ...
        def _is_about_leader(self, code: int) -> bool: ...
        def _later(self, partition: TopicPartition, state: PartitionState, error: ClientError) -> None: ...

    def without_position(self) -> list[TopicPartition]:
        """Returns partitions whose start position is not determined yet."""
        return [
            partition
            for partition, state in self.positions.items()
            if state.position is None and state.reset_timestamp is None
        ]

    def reset_by_policy(self, partition: TopicPartition) -> None:
        """Sets the position of a partition without a committed offset by auto_offset_reset."""
        timestamp = RESET_TIMESTAMPS.get(self._config.reset_policy)
        if timestamp is None:
            self.error = NoOffsetError(partition)
        else:
            self.positions[partition].reset(timestamp)

    def _reset_out_of_range(self, partition: TopicPartition, state: PartitionState, offset: int) -> None:
        """Sets the position by auto_offset_reset when the leader's log does not have `offset`; a follower's
        may only lack it.
        """
        if state.replica is not None:
            state.replica = None  # the leader may have it
        elif self._config.reset_policy == "none":
            self.error = broker_error(
                Errors.OFFSET_OUT_OF_RANGE.code,
                f"reading {partition}",
                f"offset {offset} is not in the log; seek() or set auto_offset_reset",
            )
        elif not state.has_buffered:
            state.reset(RESET_TIMESTAMPS[self._config.reset_policy])

    def _look_up_positions(self) -> None:
        by_leader: dict[Node, dict[TopicPartition, int]] = {}
        now = time.monotonic()
        for partition, state in self.positions.items():
            if state.reset_timestamp is None or state.asked or self._waits(state, now):
                continue
            node = self.cluster.leader(*partition)
            if node is None:
                self._await_leader(partition, state, now)
                continue
            if self.client.backing_off(node):
                self.cluster.invalidate()
                self._pause(state)
                continue
            by_leader.setdefault(node, {})[partition] = state.reset_timestamp
        for node, timestamps in by_leader.items():
            asked = self.positions.ask(timestamps)
            self.client.send(
                node,
                ListOffsetsRequest,
                list_offsets_request(timestamps, self._config.read_committed),
                callback=lambda pending, asked=asked: self._looked_up(pending, asked),  # type: ignore[misc]
            )

    def _looked_up(self, pending: Pending, asked: Epochs) -> None:
        states = self.positions.answered(asked)
        if pending.error is not None:
            if not pending.error.retriable:
                self.error = pending.error
            self.cluster.invalidate()
            self._pause(*states.values())
            return
        for topic in pending.response.topics:
            for part in topic.partitions:
                partition = TopicPartition(topic.name, part.partition_index)
                state = states.get(partition)
                if state is None:
                    continue
                if part.error_code:
                    error = broker_error(part.error_code, f"looking up offsets of {partition}")
                    if self._is_about_leader(part.error_code):
                        self._later(partition, state, error)
                    else:
                        self.error = error
                else:
                    state.seek(part.offset)
