"""Implements Consumer's methods for positions that need no request to a broker."""

from __future__ import annotations

from bowstring.clients.consumer.partition_state import NO_END, PartitionState, Positions
from bowstring.clients.errors import ConfigError
from bowstring.clients.records import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition
from bowstring.clients.single_thread import SingleThread


class ConsumerPositions:
    """Mixed into Consumer, which provides the positions."""

    _owner: SingleThread
    _positions: Positions
    _read_committed: bool

    def assignment(self) -> set[TopicPartition]:
        """The assigned partitions."""
        return set(self._positions)

    def pause(self, *partitions: TopicPartition) -> None:
        """Makes `poll` return nothing from these partitions until `resume`.

        Args:
            partitions: assigned partitions.
        """
        for partition in partitions:
            state = self._state(partition)
            state.end_iteration()
            state.paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        """Ends `pause`.

        Args:
            partitions: assigned partitions.
        """
        for partition in partitions:
            self._state(partition).paused = False

    def paused(self) -> set[TopicPartition]:
        """The paused partitions."""
        return {partition for partition, state in self._positions.items() if state.paused}

    def seek(self, partition: TopicPartition | tuple[str, int], offset: int) -> None:
        """Sets the position: the next record read is the first at or after `offset`.

        Args:
            partition: an assigned partition.
            offset: offset to continue at.
        """
        if offset < 0:
            raise ConfigError(
                f"offset {offset} is negative; use seek_to_beginning() or seek_to_end() for the ends"
            )
        if offset > NO_END:
            raise ConfigError(f"offset {offset} is larger than the largest offset, {NO_END}")
        self._state(partition).seek(offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Moves to the first record of these partitions, or of all assigned.

        Args:
            partitions: assigned partitions; none for all.
        """
        for partition in partitions or tuple(self._positions):
            self._state(partition).reset(EARLIEST_TIMESTAMP)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Moves after the last record of these partitions, or of all assigned.

        Args:
            partitions: assigned partitions; none for all.
        """
        for partition in partitions or tuple(self._positions):
            self._state(partition).reset(LATEST_TIMESTAMP)

    def positions(self) -> dict[TopicPartition, int]:
        """Returns the known position of every assigned partition, without a request."""
        states = self._positions.items()
        return {partition: state.position for partition, state in states if state.position is not None}

    def lag(self, partition: TopicPartition) -> int | None:
        """Returns the number of records between the position and the last known end; None while unknown.

        Args:
            partition: an assigned partition.
        """
        state = self._state(partition)
        end = state.last_stable_offset if self._read_committed else state.high_watermark
        return max(0, end - state.position) if state.position is not None and end >= 0 else None

    def _state(self, partition: TopicPartition | tuple[str, int]) -> PartitionState:
        state = self._positions.get(TopicPartition(*partition))
        if self._owner.closed:
            raise self._owner.closed_error()
        if state is None:
            raise ConfigError(f"{TopicPartition(*partition)} is not assigned to this consumer")
        return state
