"""Holds a shard of groups with its log, and its timers."""

from collections.abc import Callable

from bowstring._native.log.partition_log import PartitionLog
from bowstring._native.protocol.commit_requests import CommitRequest
from bowstring.engine.coordinators.hosted import HostedShard
from bowstring.engine.groups.effects import TimerKey
from bowstring.engine.groups.leases import SessionLeases
from bowstring.engine.groups.shard import GroupShard
from bowstring.engine.groups.timers import TimerQueue
from bowstring.protocol.errors import Error

AnswerCommit = Callable[[Error], None]
GatheredCommit = tuple[CommitRequest, AnswerCommit]


class HostedGroups(HostedShard[GroupShard]):
    """The groups of a partition that this broker coordinates.

    Attributes:
        deleted_topics: Names and ids of topics that were deleted while the log was read.
        timers: On the loop's clock, in ms.
        leases: Those of members whose heartbeats reactors answer.
        commits: Those that are written at the end of this pass of the control loop.
    """

    def __init__(self, partition: int, shard: GroupShard, log: PartitionLog, leader_epoch: int) -> None:
        super().__init__(partition, shard, log, leader_epoch)
        self.deleted_topics: list[tuple[str, bytes]] = []
        self.timers: TimerQueue[TimerKey] = TimerQueue()
        self.leases = SessionLeases(self.timers)
        self.commits: list[GatheredCommit] = []

    def due_ms(self) -> int | None:
        """Returns when a timer fires or a wait ends, or a time before that; None when there is neither."""
        timer_ms = self.timers.next_deadline_ms()
        wait_ms = self.waiting[0].deadline_ms if self.waiting else None
        if timer_ms is None or wait_ms is None:
            return wait_ms if timer_ms is None else timer_ms
        return min(timer_ms, wait_ms)
