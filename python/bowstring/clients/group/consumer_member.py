"""Implements membership of a KIP-848 consumer group: adopts the coordinator's assignments.

Partitions that stay are read without a pause. Those that go are given up first, with a commit; then a
heartbeat reports them, and the coordinator assigns them to others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from bowstring.clients.errors import ClientError, broker_error
from bowstring.clients.group.coordinated import (
    IDLE_S,
    RETRY_PAUSE_S,
    CoordinatedMember,
    Done,
    GroupEvents,
    commit_failed,
)
from bowstring.clients.group.member_thread import MemberThread
from bowstring.clients.group.membership import JOIN_EPOCH, Phase, Place, Refusal
from bowstring.clients.group.topic_ids import TopicIds
from bowstring.clients.net.client import NetworkClient
from bowstring.clients.net.metadata import ClusterMetadata
from bowstring.clients.records import OffsetAndMetadata, TopicPartition
from bowstring.protocol.errors import Errors

_COMMIT_LOST = (
    Errors.UNKNOWN_MEMBER_ID.code,
    Errors.FENCED_MEMBER_EPOCH.code,
    Errors.FENCED_INSTANCE_ID.code,
)
# The coordinator does not have the protocol, or does not let it join this group.
_OTHER_PROTOCOL = (
    Errors.UNSUPPORTED_VERSION.code,
    Errors.GROUP_ID_NOT_FOUND.code,
    Errors.INCONSISTENT_GROUP_PROTOCOL.code,
)


class ConsumerGroupMember(CoordinatedMember):
    """One member of one consumer group.

    Args:
        regex: returns the expression that the coordinator resolves, None for a list of topics.
    """

    def __init__(
        self,
        client: NetworkClient,
        cluster: ClusterMetadata,
        thread: MemberThread,
        events: GroupEvents,
        *,
        group_id: str,
        group_instance_id: str | None,
        regex: Callable[[], str | None],
    ):
        super().__init__(client, cluster, group_id, group_instance_id)
        self._thread = thread
        self._events = events
        self._regex = regex
        self._ids = TopicIds(client, cluster)
        self._target: frozenset[Place] | None = None
        self.refused_protocol = False
        """Whether the coordinator lets no member join this group by this protocol."""
        self.member_id = thread.member[0]

    # ------------------------------------------------------------ the clockwork

    @property
    def stable(self) -> bool:
        """Whether the assignment is complete and in force."""
        return self._thread.phase is Phase.MEMBER and self._target is None

    def polled(self) -> None:
        """See CoordinatedMember."""
        self._thread.last_poll = time.monotonic()

    def tick(self, *, join: bool = True) -> float:
        """See CoordinatedMember."""
        wait_s = self._find()
        if not join:
            return IDLE_S if wait_s is None else wait_s
        self._thread.subscribe(self._cluster.nodes(), self._events.topics(), self._regex())
        self.member_id, epoch = self._thread.member
        self.generation = epoch if epoch > JOIN_EPOCH else -1
        self._hear()
        wait_s = IDLE_S if wait_s is None else wait_s
        return wait_s if self._target is None else min(wait_s, self._take_over(self._target))

    def _hear(self) -> None:
        refusal = self._thread.take_refusal()
        if refusal is not None:
            self._refuse(refusal)
        if self._thread.phase is Phase.LOST:
            self._target = None
            self._events.lose()
            self._thread.release()
        target = self._thread.take_target()
        if target is not None:
            self._target = target
        if self._thread.phase is Phase.MEMBER:
            self._over()
        elif self._thread.error is not None:
            self._note(self._thread.error)

    def _refuse(self, refusal: Refusal) -> None:
        group = f"group {self._group_id!r}"
        if refusal.code in _OTHER_PROTOCOL and not refusal.joined:
            self.refused_protocol = True
        if refusal.code < 0:
            self.error = self._thread.error
        else:
            self.error = broker_error(refusal.code, group, refusal.message)
        if self._thread.phase is Phase.FAILED and len(self._events.owned()):
            self._events.lose()

    def _take_over(self, target: frozenset[Place]) -> float:
        """Gives up partitions, then takes new ones; returns seconds until the next check."""
        partitions, unknown = self._ids.resolve(target)
        owned = set(self._events.owned())
        revoked = sorted(owned.difference(partitions))
        if revoked:
            self._events.revoke(revoked)
        if self._thread.phase is Phase.LOST:
            return 0.0  # removed while the listener ran
        if unknown and not revoked and owned == set(partitions):
            return RETRY_PAUSE_S
        self._events.assign(sorted(partitions))
        self._thread.settle(target.difference(unknown))
        if unknown:
            return RETRY_PAUSE_S
        self._target = None
        return 0.0

    # ------------------------------------------------------------ committing and leaving

    def identity(self) -> tuple[str, int]:
        """See CoordinatedMember: heartbeats may have raised the epoch since the last step."""
        member_id, epoch = self._thread.member
        return member_id, epoch if epoch > JOIN_EPOCH else -1

    def reader(self) -> tuple[str, int] | None:
        """See CoordinatedMember. A member that has lost its place sends no id or epoch."""
        return self.identity() if self._thread.phase is Phase.MEMBER else None

    def _watch_commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], done: Done
    ) -> Callable[[TopicPartition, int], None]:
        sent = self.generation

        def refused(partition: TopicPartition, code: int) -> None:
            epoch = self._thread.member[1]
            if code == Errors.STALE_MEMBER_EPOCH.code and epoch > JOIN_EPOCH:
                # The epoch went up while the commit was under way: the member still owns the partitions.
                self.generation = epoch
                if epoch != sent:
                    self.commit(offsets, done)
                    return
                done(_again(self._commit_error(partition, code)))
            else:
                done(self._commit_error(partition, code))

        return refused

    def _commit_error(self, partition: TopicPartition, code: int) -> ClientError:
        if code in _COMMIT_LOST:
            return commit_failed(self._group_id, code)
        return super()._commit_error(partition, code)

    def leave(self, *, for_good: bool = True) -> None:
        """See CoordinatedMember."""
        self._thread.leave()
        if for_good:
            self._thread.close()
        self._target = None
        self.generation = -1


def _again(error: ClientError) -> ClientError:
    """Marks an error that may not repeat for the same request."""
    error.retriable = True
    return error
