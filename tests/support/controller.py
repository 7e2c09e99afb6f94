"""A controller's state with brokers and topics, whose decisions take effect at once."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.controller import brokers
from bowstring.engine.controller.decision import Decision
from bowstring.engine.controller.state import ControllerState
from bowstring.engine.metadata.image import ClusterImage, PartitionImage
from bowstring.protocol.errors import Error, KafkaError
from bowstring.protocol.features import SUPPORTED_FEATURES
from bowstring.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from bowstring.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from bowstring.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from bowstring.protocol.records.cluster_metadata.nodes import RegisterBrokerRecord
from bowstring.protocol.records.cluster_metadata.settings import ConfigRecord, FeatureLevelRecord
from bowstring.protocol.records.cluster_metadata.topics import PartitionRecord, TopicRecord
from bowstring.protocol.schema import MetadataRecord

TOPIC = "t"
TOPIC_ID = b"T" * 16
TOPIC_RESOURCE = 2
CLUSTER_ID = "cluster"
FAR = 1 << 40
"""An offset beyond all others: a broker there has caught up."""


def directory(broker: int, number: int = 0) -> bytes:
    """The id of a log directory of a broker."""
    return bytes([number + 1, broker]) * 8


def error_of(call: Callable[[], object]) -> Error:
    """The error with which a decision is refused."""
    with pytest.raises(KafkaError) as caught:
        call()
    return caught.value.error


def registration_request(broker: int, incarnation: int = 1, **fields: Any) -> BrokerRegistrationRequest:
    """A registration that the controller accepts."""
    facts: dict[str, Any] = {
        "cluster_id": CLUSTER_ID,
        "incarnation_id": bytes([incarnation]) * 16,
        "listeners": [Listener(name="PLAINTEXT", host="localhost", port=9092)],
        "features": [
            Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in SUPPORTED_FEATURES.items()
        ],
        "log_dirs": [directory(broker)],
    }
    return BrokerRegistrationRequest(broker_id=broker, **(facts | fields))


class ControllerCluster:
    """A state whose decisions take effect at once.

    Attributes:
        now_ms: The time of the next decision.
        log: All records so far, in order.
    """

    def __init__(
        self, live: int = 0, *, eligible_leaders: bool = False, level: int = 33, **configs: str
    ) -> None:
        self.now_ms = 1000
        self.log: list[MetadataRecord] = []
        static = {name.replace("_", "."): value for name, value in configs.items()}
        first: list[MetadataRecord] = [FeatureLevelRecord(name="metadata.version", feature_level=level)]
        if eligible_leaders:
            first.append(FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1))
        ids = iter(range(1, 1 << 30))
        self.state = ControllerState(
            ClusterImage(),
            node_id=100,
            cluster_id=CLUSTER_ID,
            configs=BrokerConfigs(static),
            random=random.Random(0),
            new_uuid=lambda: next(ids).to_bytes(16),
            now_ms=self.now_ms,
        )
        self.apply(first)
        for broker in range(1, live + 1):
            self.apply([_registration(broker, len(self.log))])
            self.state.sessions.heard(broker, self.epoch(broker), self.now_ms)

    # ------------------------------------------------------------ records

    def apply(self, records: Sequence[MetadataRecord]) -> None:
        """Appends records."""
        self.state.apply_all(records, len(self.log))
        self.log += records

    def decide(self, decision: Decision[Any] | None) -> Any:
        """Carries out a decision; returns its answer."""
        assert decision is not None, "there was nothing to decide"
        self.apply(decision.records)
        if decision.appended is not None:
            decision.appended(len(self.log) - 1)
        return decision.answer

    # ------------------------------------------------------------ topics

    def add_topic(
        self, *partitions: Sequence[int], name: str = TOPIC, topic_id: bytes = TOPIC_ID, **fields: Any
    ) -> None:
        """Creates a topic whose partitions have these replicas, all in sync."""
        self.apply([TopicRecord(name=name, topic_id=topic_id)])
        for index, replicas in enumerate(partitions):
            facts: dict[str, Any] = {
                "replicas": list(replicas),
                "isr": list(replicas),
                "leader": replicas[0],
                "leader_epoch": 0,
                "partition_epoch": 0,
                "directories": [directory(each) for each in replicas],
            }
            self.apply([PartitionRecord(topic_id=topic_id, partition_id=index, **(facts | fields))])

    def set_config(self, name: str, value: str, topic: str = TOPIC) -> None:
        """Sets a config of a topic."""
        self.apply([ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic, name=name, value=value)])

    def partition(self, index: int = 0, topic: str = TOPIC) -> PartitionImage:
        """A partition as it is now."""
        return self.state.image.topics[topic].partitions[index]

    def isr_request(self, isr: Sequence[int], index: int = 0, **fields: Any) -> AlterPartitionRequest:
        """The request by which the leader of a partition changes its ISR."""
        partition = self.partition(index)
        facts: dict[str, Any] = {
            "leader_epoch": partition.leader_epoch,
            "partition_epoch": partition.partition_epoch,
            "new_isr_with_epochs": [
                BrokerState(broker_id=each, broker_epoch=self.epoch(each)) for each in isr
            ],
        }
        sender = fields.pop("sender", partition.leader)
        data = AlterPartitionRequestPartitionData(**({"partition_index": index} | facts | fields))
        return AlterPartitionRequest(
            broker_id=sender,
            broker_epoch=self.epoch(sender),
            topics=[AlterPartitionRequestTopicData(topic_id=TOPIC_ID, partitions=[data])],
        )

    # ------------------------------------------------------------ brokers

    def epoch(self, broker: int) -> int:
        """The epoch of a broker's registration; -1 without one."""
        found = self.state.image.brokers.get(broker)
        return -1 if found is None else found.epoch

    def register(
        self, broker: int, incarnation: int = 1, version: int = 4, *, is_own: bool = False, **fields: Any
    ) -> int:
        """Registers a broker; returns its epoch."""
        request = registration_request(broker, incarnation, **fields)
        return self.decide(
            brokers.register(self.state, request, version, len(self.log), self.now_ms, is_own=is_own)
        ).broker_epoch

    def heartbeat(self, broker: int, offset: int = FAR, **fields: Any) -> Any:
        """Has a broker send a heartbeat; returns the answer."""
        request = BrokerHeartbeatRequest(
            broker_id=broker,
            **({"broker_epoch": self.epoch(broker), "current_metadata_offset": offset} | fields),
        )
        return self.decide(brokers.heartbeat(self.state, request, self.now_ms))

    def fence(self, broker: int) -> None:
        """Has a broker request its own fencing."""
        assert self.heartbeat(broker, want_fence=True).is_fenced


def _registration(broker: int, epoch: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker,
        broker_epoch=epoch,
        incarnation_id=bytes([1]) * 16,
        fenced=False,
        log_dirs=[directory(broker)],
    )
