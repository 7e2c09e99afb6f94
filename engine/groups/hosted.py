"""Holds a shard with its log and what waits for the log, for the shell."""

from collections import deque
from typing import NamedTuple

from bowstring._native.log.partition_log import PartitionLog
from bowstring.engine.groups.effects import Effect, Respond, TimerKey
from bowstring.engine.groups.shard import GroupShard
from bowstring.engine.groups.timers import TimerQueue


class Waiting(NamedTuple):
    """An append id or an answer that waits until the high watermark has reached an offset."""

    offset: int
    deadline_ms: int
    item: int | Respond


class HostedShard:
    """A shard, its log, and what waits for the log's high watermark.

    Attributes:
        leader_epoch: The epoch in which this broker leads the partition.
        end_offset: The log end when it was read, or after the last append. Above it there is nothing that the
            shard's state does not have.
        dismissed: This broker does not coordinate the partition any more.
        deleted_topics: Topics that were deleted while the log was read.
    """

    def __init__(self, partition: int, shard: GroupShard, log: PartitionLog, leader_epoch: int) -> None:
        self.partition = partition
        self.shard = shard
        self.log = log
        self.leader_epoch = leader_epoch
        self.end_offset: int = log.log_end_offset
        self.dismissed = False
        self.deleted_topics: list[tuple[str, bytes]] = []
        # in order of offsets and of deadlines
        self.waiting: deque[Waiting] = deque()
        self.timers: TimerQueue[TimerKey] = TimerQueue()
        self.effects: deque[Effect] = deque()
        self.is_carrying = False

    def due_ms(self) -> int | None:
        """Returns when a timer fires or a wait ends, or a time before that; None when there is neither."""
        timer_ms = self.timers.next_deadline_ms()
        if not self.waiting:
            return timer_ms
        wait_ms = self.waiting[0].deadline_ms
        return wait_ms if timer_ms is None else min(timer_ms, wait_ms)
