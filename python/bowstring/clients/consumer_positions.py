"""Where a consumer is in its partitions and goes next: nothing here asks a broker."""

from __future__ import annotations

from bowstring.clients.errors import ConfigError
from bowstring.clients.ownership import OneThread
from bowstring.clients.positions import NO_END, PartitionState, Positions
from bowstring.clients.records import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition


class ConsumerPositions:
    """Mixed into Consumer, which gives the positions."""

    _owner: OneThread
    _positions: Positions
    _read_committed: bool

    def assignment(self) -> set[TopicPartition]:
        """The partitions that are read now."""
        return set(self._positions)

    def pause(self, *partitions: TopicPartition) -> None:
        """`poll` gives nothing from these until `resume`."""
        for partition in partitions:
            self._state(partition).paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        """Ends `pause`."""
        for partition in partitions:
            self._state(partition).paused = False

    def paused(self) -> set[TopicPartition]:
        """Those that are paused."""
        return {partition for partition, state in self._positions.items() if state.paused}

    def seek(self, partition: TopicPartition | tuple[str, int], offset: int) -> None:
        """The next record read is the first at or after `offset`."""
        if offset < 0:
            raise ConfigError(
                f"offset {offset} is negative; seek_to_beginning() and seek_to_end() find the ends"
            )
        if offset > NO_END:
            raise ConfigError(f"offset {offset} is larger than an offset can be, {NO_END}")
        self._state(partition).seek(offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Goes to the first record of these partitions, or of all assigned."""
        for partition in partitions or tuple(self._positions):
            self._state(partition).reset(EARLIEST_TIMESTAMP)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Goes behind the last record of these partitions, or of all assigned."""
        for partition in partitions or tuple(self._positions):
            self._state(partition).reset(LATEST_TIMESTAMP)

    def positions(self) -> dict[TopicPartition, int]:
        """Where reading goes on in every assigned partition whose position is known; asks nobody."""
        states = self._positions.items()
        return {partition: state.position for partition, state in states if state.position is not None}

    def lag(self, partition: TopicPartition) -> int | None:
        """Records between the position and the end as last told by the broker; None while unknown."""
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
