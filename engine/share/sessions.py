"""Keeps the share sessions of a broker (KIP-932): which partitions a member fetches, and its next epoch."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from bowstring.protocol.errors import Errors, KafkaError

INITIAL_EPOCH: Final = 0
"""Opens a session."""
FINAL_EPOCH: Final = -1
"""Closes the session."""
SESSION_PARTITIONS_MAX: Final = 100_000
"""Partitions of one session."""
PARTITIONS_MAX: Final = 1_000_000
"""Partitions of all sessions of a broker. Each takes some hundred bytes, whether it exists or not."""
_EPOCH_MAX: Final = 0x7FFFFFFF
# Connections that ended while their requests were still decoded; this many are remembered.
_ENDED_KEPT: Final = 4096
# Groups that a connection has left are remembered until it ends, but not more of them.
_GROUPS_KEPT: Final = 64


class SessionKey(NamedTuple):
    """A member of a share group."""

    group_id: str
    member_id: str


class SessionPartition(NamedTuple):
    """A partition of a session. `topic` is None if no topic had the id when the partition was added; one may
    have it later.
    """

    topic_id: bytes
    partition: int
    topic: str | None


def next_epoch(epoch: int) -> int:
    """Returns the epoch of the request after one with `epoch`."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == _EPOCH_MAX else epoch + 1


class ShareSession:
    """The session of one member.

    Attributes:
        epoch: That of the member's next request.
        connection_id: The session ends with this connection.
    """

    def __init__(self, key: SessionKey, connection_id: int, partitions: Iterable[SessionPartition]) -> None:
        self.key = key
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.connection_id = connection_id
        # The partition, and whether the next answer names it in any case.
        self._partitions: OrderedDict[tuple[bytes, int], tuple[SessionPartition, bool]] = OrderedDict(
            ((each.topic_id, each.partition), (each, False)) for each in partitions
        )

    def __len__(self) -> int:
        """Counts the partitions."""
        return len(self._partitions)

    def __iter__(self) -> Iterator[SessionPartition]:
        """Iterates in the order in which they are served."""
        return (partition for partition, _ in self._partitions.values())

    def add(self, partition: SessionPartition) -> bool:
        """Adds a partition; whether it is new."""
        key = (partition.topic_id, partition.partition)
        return self._partitions.setdefault(key, added := (partition, True)) is added

    def forget(self, key: tuple[bytes, int]) -> bool:
        """Removes a partition; whether it was there."""
        return self._partitions.pop(key, None) is not None

    def must_answer(self, topic_id: bytes, partition: int, *, has_records: bool, failed: bool) -> bool:
        """Returns whether an answer names a partition, and notes its values. One with records goes last."""
        key = (topic_id, partition)
        found = self._partitions.get(key)
        if found is None:
            return has_records or failed
        due = found[1]
        if due or failed:
            # After an error the partition is named again once it is over.
            self._partitions[key] = (found[0], failed)
        if has_records:
            self._partitions.move_to_end(key)
        return due or failed or has_records


class ShareSessions:
    """The sessions of a broker. Pure.

    Attributes:
        max_sessions: group.share.max.share.sessions.
    """

    def __init__(self, max_sessions: int) -> None:
        self.max_sessions = max_sessions
        self._partition_count = 0
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._by_connection: dict[int, dict[SessionKey, None]] = {}
        self._groups: dict[int, set[str]] = {}
        self._members: dict[str, int] = {}
        self._ended: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        """Counts the sessions."""
        return len(self._sessions)

    def get(self, key: SessionKey) -> ShareSession:
        """Returns a member's session.

        Raises:
            KafkaError: SHARE_SESSION_NOT_FOUND.
        """
        found = self._sessions.get(key)
        if found is None:
            raise KafkaError(Errors.SHARE_SESSION_NOT_FOUND)
        return found

    def open(
        self, key: SessionKey, connection_id: int, partitions: Iterable[SessionPartition]
    ) -> ShareSession:
        """Opens a session in place of an earlier one of the member.

        Raises:
            KafkaError: SHARE_SESSION_LIMIT_REACHED.
        """
        self.remove(key)
        session = ShareSession(key, connection_id, partitions)
        if (
            len(self._sessions) >= self.max_sessions
            or connection_id in self._ended
            or self._partition_count + len(session) > PARTITIONS_MAX
        ):
            raise KafkaError(Errors.SHARE_SESSION_LIMIT_REACHED)
        self._sessions[key] = session
        self._partition_count += len(session)
        self._by_connection.setdefault(connection_id, {})[key] = None
        self._groups.setdefault(connection_id, set()).add(key.group_id)
        self._members[key.group_id] = self._members.get(key.group_id, 0) + 1
        return session

    def advance(self, key: SessionKey, epoch: int) -> ShareSession:
        """Returns the session of a request with this epoch, and expects the following one next.

        Raises:
            KafkaError: SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH.
        """
        session = self.get(key)
        if session.epoch != epoch:
            raise KafkaError(Errors.INVALID_SHARE_SESSION_EPOCH)
        session.epoch = next_epoch(epoch)
        return session

    def add(self, session: ShareSession, partition: SessionPartition) -> None:
        """Adds a partition to a session.

        Raises:
            KafkaError: SHARE_SESSION_LIMIT_REACHED.
        """
        if len(session) >= SESSION_PARTITIONS_MAX or self._partition_count >= PARTITIONS_MAX:
            raise KafkaError(Errors.SHARE_SESSION_LIMIT_REACHED)
        added = session.add(partition)
        self._partition_count += added and self._sessions.get(session.key) is session

    def forget(self, session: ShareSession, key: tuple[bytes, int]) -> None:
        """Removes a partition from a session."""
        forgotten = session.forget(key)
        self._partition_count -= forgotten and self._sessions.get(session.key) is session

    def remove(self, key: SessionKey) -> ShareSession | None:
        """Forgets a session and returns it."""
        session = self._sessions.pop(key, None)
        if session is None:
            return None
        self._partition_count -= len(session)
        keys = self._by_connection[session.connection_id]
        del keys[key]
        if not keys:
            del self._by_connection[session.connection_id]
        self._members[key.group_id] -= 1
        if not self._members[key.group_id]:
            del self._members[key.group_id]
        return session

    def close(self, session: ShareSession) -> bool:
        """Forgets a session. False if the member has another one already: what closed this one was late."""
        if self._sessions.get(session.key) is not session:
            return False
        self.remove(session.key)
        return True

    def connection_ended(self, connection_id: int) -> tuple[list[ShareSession], set[str]]:
        """Forgets the sessions of an ended connection, which cannot open others. Returns them, and the groups
        that the connection had sessions of.
        """
        self._ended[connection_id] = None
        if len(self._ended) > _ENDED_KEPT:
            self._ended.popitem(last=False)
        ended = [self.remove(key) for key in list(self._by_connection.get(connection_id, ()))]
        return [session for session in ended if session is not None], self._groups.pop(connection_id, set())

    def left_groups(self, connection_id: int) -> set[str]:
        """Forgets and returns the groups that a connection has left, once there are many."""
        groups = self._groups.get(connection_id, set())
        if len(groups) <= _GROUPS_KEPT:
            return set()
        left = {group_id for group_id in groups if group_id not in self._members}
        groups -= left
        return left

    def has_ended(self, connection_id: int) -> bool:
        """Whether a connection ended, as far as that is remembered."""
        return connection_id in self._ended

    def has(self, key: SessionKey) -> bool:
        """Whether a member has a session."""
        return key in self._sessions

    def has_members(self, group_id: str) -> bool:
        """Whether a member of the group has a session."""
        return group_id in self._members
