"""What a broker does with a change of the image: its ReplicaManager, before a data plane that only counts."""

from __future__ import annotations

from typing import Any

from bowstring.engine.metadata.image import BrokerImage, ClusterImage, TopicImage
from bowstring.engine.replication.replica_manager import ReplicaManager


class Counted:
    """Takes the calls of a ReplicaManager and counts them by name."""

    def __init__(self) -> None:
        self.calls: dict[str, int] = {}

    def _count(self, name: str) -> None:
        self.calls[name] = self.calls.get(name, 0) + 1

    def lead(self, topic: str, partition: int, **role: Any) -> None:
        """As of the data plane."""
        self._count("lead")

    def follow(self, topic: str, partition: int, **role: Any) -> None:
        """As of the data plane."""
        self._count("follow")

    def set_isr(self, topic: str, partition: int, isr: Any, **change: Any) -> None:
        """As of the data plane."""
        self._count("set_isr")

    def try_join(self, topic: str, partition: int, broker_id: int, *, leader_epoch: int) -> bool:
        """As of the data plane."""
        self._count("try_join")
        return True

    def stop(self, topic: str, partition: int) -> None:
        """As of the data plane."""
        self._count("stop")

    def create(self, image: ClusterImage, topic: TopicImage, partition: int) -> bool:
        """As of the logs."""
        self._count("create")
        return True

    def remove(self, topic: str, partition: int) -> None:
        """As of the logs."""
        self._count("remove")


def address(broker: BrokerImage) -> tuple[str, int] | None:
    """Where a broker listens."""
    return broker.endpoints[0].host, broker.endpoints[0].port


def replicas_of(broker: int) -> tuple[ReplicaManager, Counted]:
    """Returns the replicas of a broker, and what counts their calls."""
    counted = Counted()
    return ReplicaManager(broker, counted, counted, address), counted
