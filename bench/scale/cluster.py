"""A cluster in the controller's state alone: its brokers register, send heartbeats and get topics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

from bowstring._native.record.decode import decode_batches
from bowstring._native.record.encode import encode_batch
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.controller import brokers, topics
from bowstring.engine.controller.activation import activation_records
from bowstring.engine.controller.batches import split
from bowstring.engine.controller.decision import Decision
from bowstring.engine.controller.state import ControllerState
from bowstring.engine.metadata.image import ClusterImage
from bowstring.engine.metadata.records import decode_record, encode_record
from bowstring.engine.metadata.topic_changes import NewTopic
from bowstring.protocol.features import SUPPORTED_FEATURES
from bowstring.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from bowstring.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from bowstring.protocol.schema import MetadataRecord

CLUSTER_ID = "scale"
REPLICAS = 3
REGISTRATION_VERSION = 3
CONFIGS = BrokerConfigs({"min.insync.replicas": "2", "broker.session.timeout.ms": "9000"})


def new_state(image: ClusterImage, *, end_offset: int, now_ms: int) -> ControllerState:
    """Returns the state of a controller that becomes active with this image."""
    random = Random(1)
    return ControllerState(
        image,
        node_id=1000,
        cluster_id=CLUSTER_ID,
        configs=CONFIGS,
        random=random,
        new_uuid=lambda: random.randbytes(16),
        end_offset=end_offset,
        now_ms=now_ms,
        voters=lambda: (1000, 1001, 1002),
    )


def encoded(records: Sequence[MetadataRecord], base_offset: int) -> bytes:
    """Returns the batch of the metadata log with these records."""
    entries = [(None, encode_record(record), 0, ()) for record in records]
    return encode_batch(entries, base_offset=base_offset, leader_epoch=1)


def decoded(batch: bytes) -> list[MetadataRecord]:
    """Returns the records of a batch."""
    return [decode_record(record.value or b"") for record in decode_batches(batch)]


def heartbeat(broker: int, epoch: int, offset: int, **fields: Any) -> BrokerHeartbeatRequest:
    """Returns the heartbeat of a broker that has applied the log up to `offset`."""
    return BrokerHeartbeatRequest(
        broker_id=broker,
        broker_epoch=epoch,
        current_metadata_offset=offset,
        **{"want_fence": False, "want_shut_down": False, **fields},
    )


def registration(broker: int) -> BrokerRegistrationRequest:
    """Returns the registration of a broker with one log directory."""
    return BrokerRegistrationRequest(
        broker_id=broker,
        cluster_id=CLUSTER_ID,
        incarnation_id=broker.to_bytes(16, "big"),
        listeners=[Listener(name="PLAINTEXT", host=f"broker-{broker}.example", port=9092)],
        features=[
            Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in SUPPORTED_FEATURES.items()
        ],
        log_dirs=[(1000 + broker).to_bytes(16, "big")],
        previous_broker_epoch=-1,
    )


class Controller:
    """An active controller whose appends are committed at once.

    Attributes:
        state: What it decides upon.
        end_offset: Of the log.
    """

    def __init__(self, image: ClusterImage | None = None, end_offset: int = 0) -> None:
        image = image if image is not None else ClusterImage()
        first = activation_records(image, [], CONFIGS)
        self.state = new_state(image, end_offset=end_offset, now_ms=0)
        self.end_offset = end_offset
        self.append(first)

    def append(self, records: Iterable[MetadataRecord]) -> None:
        """Applies records to the state."""
        for record in records:
            self.state.apply(record, self.end_offset)
            self.end_offset += 1

    def take(self, decision: Decision[Any]) -> list[MetadataRecord]:
        """Applies a decision; returns its records."""
        version = self.state.metadata_version
        for batch in split(decision.records, atomic=decision.atomic, metadata_version=version):
            self.append(batch)
        return decision.records

    def beat(self, broker: int, now_ms: int) -> list[MetadataRecord]:
        """Takes a heartbeat of a broker that has applied all."""
        epoch = self.state.image.brokers[broker].epoch
        return self.take(brokers.heartbeat(self.state, heartbeat(broker, epoch, self.end_offset - 1), now_ms))

    def start_broker(self, broker: int, now_ms: int) -> None:
        """Registers a broker and lets it serve."""
        self.take(
            brokers.register(self.state, registration(broker), REGISTRATION_VERSION, self.end_offset, now_ms)
        )
        self.beat(broker, now_ms)

    def create_topic(self, name: str, partitions: int) -> list[MetadataRecord]:
        """Creates a topic by the controller's own placement."""
        return self.take(topics.create(self.state, NewTopic(name, partitions, REPLICAS)))
