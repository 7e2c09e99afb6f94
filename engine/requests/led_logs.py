"""Finds the logs of partitions that this broker leads."""

from typing import TYPE_CHECKING, Protocol

from bowstring._native.log.partition_log import PartitionLog
from bowstring.engine.metadata.image import Metadata
from bowstring.protocol.errors import Errors, KafkaError

if TYPE_CHECKING:
    from bowstring.engine.storage.log_manager import LogManager


class LedReplicas(Protocol):
    """The view of a broker's replicas that its requests need."""

    def leads(self, topic_id: bytes, partition: int) -> bool:
        """Whether this broker leads a partition, and the data plane has it."""

    def low_watermark(self, topic: str, partition: int) -> int | None:
        """The smallest log start offset of the replicas that are alive; None if this broker does not lead."""

    def take_events(self) -> None:
        """Acts on the data plane's events about replicas."""


class LedLogs:
    """The logs of the partitions that a broker leads.

    Args:
        replicas: The replicas of the broker.
    """

    def __init__(self, metadata: Metadata, logs: "LogManager", node_id: int, replicas: LedReplicas) -> None:
        self._metadata = metadata
        self._logs = logs
        self._node_id = node_id
        self._replicas = replicas

    def of(
        self, topic: str, partition: int, current_leader_epoch: int = -1, *, or_follower: bool = False
    ) -> PartitionLog:
        """Returns the log of a partition that this broker leads, if the client's leader epoch matches (-1:
        any); with `or_follower` also of one that it follows.

        Raises:
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH,
                UNKNOWN_LEADER_EPOCH, KAFKA_STORAGE_ERROR.
        """
        found = self._metadata.image.topics.get(topic)
        if found is None or not 0 <= partition < len(found.partitions):
            raise KafkaError(Errors.UNKNOWN_TOPIC_OR_PARTITION)
        image = found.partitions[partition]
        log = self._logs.get(topic, partition)
        if self._logs.is_missing(topic, partition):
            raise KafkaError(Errors.KAFKA_STORAGE_ERROR)
        leads = image.leader == self._node_id and self._replicas.leads(found.id, partition)
        if log is None or not (leads or or_follower):
            raise KafkaError(Errors.NOT_LEADER_OR_FOLLOWER)
        if current_leader_epoch not in (-1, image.leader_epoch):
            older = current_leader_epoch < image.leader_epoch
            raise KafkaError(Errors.FENCED_LEADER_EPOCH if older else Errors.UNKNOWN_LEADER_EPOCH)
        return log

    def high_watermark(self, topic: str, partition: int) -> int:
        """Returns the high watermark of a partition that this broker leads.

        Raises:
            KafkaError: As from `of`.
        """
        return int(self.of(topic, partition).high_watermark)
