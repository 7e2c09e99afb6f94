"""Holds a shard with its log, and what waits for the log's high watermark."""

from collections import deque
from typing import NamedTuple

from bowstring._native.log.partition_log import PartitionLog
from bowstring.engine.transactions.effects import Effect
from bowstring.engine.transactions.shard import TransactionShard


class Waiting(NamedTuple):
    """An append that is finished when the high watermark has reached an offset."""

    offset: int
    append_id: int


class HostedShard:
    """A shard that this broker runs.

    Attributes:
        leader_epoch: The epoch in which this broker leads the partition; markers carry it as coordinator
            epoch.
        dismissed: This broker does not coordinate the partition any more.
        waiting: In order of offsets.
    """

    def __init__(self, partition: int, shard: TransactionShard, log: PartitionLog, leader_epoch: int) -> None:
        self.partition = partition
        self.shard = shard
        self.log = log
        self.leader_epoch = leader_epoch
        self.dismissed = False
        self.waiting: deque[Waiting] = deque()
        self.effects: deque[Effect] = deque()
        self.is_carrying = False
