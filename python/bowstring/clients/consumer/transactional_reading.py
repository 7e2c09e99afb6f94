"""Implements what Consumer offers to transactions that read and write (KIP-447)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from bowstring.clients.consumer.coordinator import ConsumerCoordinator, Listener
from bowstring.clients.consumer.partition_state import Positions
from bowstring.clients.errors import ConfigError
from bowstring.clients.records import GroupMetadata, OffsetAndMetadata, TopicPartition
from bowstring.clients.single_thread import SingleThread


class TransactionalReading:
    """Mixed into Consumer, which provides the group and the positions."""

    _group: ConsumerCoordinator | None
    _owner: SingleThread
    _positions: Positions
    _read_committed: bool

    def group_metadata(self) -> GroupMetadata:
        """Returns the group, and this member in its present generation, for `Producer.send_offsets`.

        Raises:
            ConfigError: there is no group_id.
        """
        with self._owner:
            if self._group is None:
                raise ConfigError("group_metadata() needs a group_id: give one to Consumer")
            return self._group.metadata()

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns what `commit` stores without arguments: the position in each partition that has one."""
        with self._owner:
            return self._positions.consumed()

    # ------------------------------------------------------------ for transform()

    def check_exactly_once(self) -> None:
        """Checks that offsets are committed by transactions only, and that aborted records are not read.

        Raises:
            ConfigError: they are not.
        """
        if self._group is None:
            raise ConfigError("transform() needs a consumer with a group_id, whose offsets it commits")
        if self._group.commits_automatically:
            raise ConfigError("transform() commits offsets itself: give Consumer enable_auto_commit=False")
        if not self._read_committed:
            raise ConfigError(
                'transform() would read aborted records: give Consumer isolation_level="read_committed"'
            )

    def last_taken(self) -> dict[TopicPartition, int]:
        """Returns where the last poll began, by partition that it returned records of."""
        with self._owner:
            return self._positions.taken()

    def move_back(self, positions: Mapping[TopicPartition, int]) -> None:
        """Moves to these positions in the partitions that are still assigned.

        Args:
            positions: offset of the next record to read, by partition.
        """
        with self._owner:
            for partition, position in positions.items():
                state = self._positions.get(partition)
                if state is not None:
                    state.seek(position)

    def move_to_committed(self, otherwise: Mapping[TopicPartition, int]) -> None:
        """Moves to the offsets of the group, once no transaction can change them.

        Args:
            otherwise: the partitions, with the position in those without an offset.
        """
        with self._owner:
            for partition, position in otherwise.items():
                state = self._positions.get(partition)
                if state is not None:
                    state.ask_committed(position)

    @contextmanager
    def watching_partitions(self, before: Listener, lost: Listener) -> Iterator[None]:
        """Watches partitions that the group revokes.

        Args:
            before: called with partitions that will move to another member.
            lost: called with partitions that may have moved.
        """
        assert self._group is not None, "check_exactly_once() comes first"
        with self._owner:
            self._group.watchers = (before, lost)
        try:
            yield
        finally:
            self._group.watchers = None
