"""Holds what the controller decides upon: the image after all appended records, its index, and soft state."""

from collections.abc import Callable, Iterable
from typing import Final

from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.controller.partition_index import PartitionIndex, PartitionKey
from bowstring.engine.controller.sessions import Sessions
from bowstring.engine.metadata.image import BROKER_RESOURCE, BrokerImage, ClusterImage, PartitionImage
from bowstring.engine.metadata.replica_placer import Randomness
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.features import (
    ELIGIBLE_LEADER_REPLICAS,
    HIGHEST_METADATA_VERSION,
    METADATA_VERSION,
    SUPPORTED_FEATURES,
)
from bowstring.protocol.records.cluster_metadata import markers, nodes, topics
from bowstring.protocol.schema import MetadataRecord

_MIN_IN_SYNC: Final = "min.insync.replicas"
_UNCLEAN: Final = "unclean.leader.election.enable"
_NO_LEADER: Final = -1
_RECOVERING: Final = 1


class ElectionCounters:
    """What this node's controller has decided since it started.

    Attributes:
        elections: Changes of a partition's leader to another broker.
        unclean: Those among them that may have lost records.
    """

    def __init__(self) -> None:
        self.elections = 0
        self.unclean = 0


class ControllerState:
    """The state of an active controller. Decisions read it; only `apply` and heartbeats change it.

    It begins as a copy of the committed image and is discarded when the leadership is lost, with all records
    that were appended and not committed.

    Args:
        image: The committed image; it is copied.
        node_id: This node.
        cluster_id: The cluster's id, in text form.
        configs: The static configs of this node.
        random: For the placement of replicas.
        new_uuid: Returns a new id for a topic.
        end_offset: The offset of the next record.
        now_ms: Steady time; sessions begin with it.
        voters: Returns the ids of the quorum's voters.
        counters: Counts elections.
    """

    def __init__(
        self,
        image: ClusterImage,
        *,
        node_id: int,
        cluster_id: str,
        configs: BrokerConfigs,
        random: Randomness,
        new_uuid: Callable[[], bytes],
        end_offset: int = 0,
        now_ms: int = 0,
        voters: Callable[[], Iterable[int]] = lambda: (),
        kraft_version: Callable[[], int] = lambda: 0,
        kraft_version_refusal: Callable[[int], str | None] = lambda version: None,
        counters: ElectionCounters | None = None,
    ) -> None:
        self.image = image.copy()
        self.counters = counters if counters is not None else ElectionCounters()
        if image.in_transaction:
            # No coordinator ends it any more: the first records of this controller abort it.
            self.image.apply(markers.AbortTransactionRecord())
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.configs = configs
        self.random = random
        self.new_uuid = new_uuid
        self.voters = voters
        self.kraft_version = kraft_version
        self.kraft_version_refusal = kraft_version_refusal
        self.supported_features = SUPPORTED_FEATURES
        self.index = PartitionIndex(self.image)
        self.sessions = Sessions(configs.value("broker.session.timeout.ms"))
        # Where registrations are in the log. A broker is unfenced once its metadata has reached its own. For
        # those from before this controller, the end of the log is late enough.
        self.registration_offsets = dict.fromkeys(self.image.brokers, end_offset - 1)
        for broker in self.image.brokers.values():
            self.sessions.register(broker.id, fenced=broker.fenced)
            if not broker.fenced:
                self.sessions.heard(broker.id, broker.epoch, now_ms)

    # ------------------------------------------------------------ records

    def apply_all(self, records: Iterable[MetadataRecord], base_offset: int) -> None:
        """Applies records that were appended from `base_offset` on."""
        for offset, record in enumerate(records, base_offset):
            self.apply(record, offset)

    def apply(self, record: MetadataRecord, offset: int) -> None:
        """Applies one record that was appended. Records of a metadata transaction count at once: later
        decisions come after its end.
        """
        if isinstance(record, (topics.PartitionChangeRecord, topics.PartitionRecord)):
            self._apply_partition(record)
            return
        if isinstance(record, _MARKERS):
            return
        if isinstance(record, topics.RemoveTopicRecord):
            self._unindex(record.topic_id)
        if isinstance(record, topics.ClearElrRecord):
            self._apply_clear(record)
            return
        self.image.apply(record)
        if isinstance(record, nodes.RegisterBrokerRecord):
            self.registration_offsets[record.broker_id] = offset
            self.sessions.remove(record.broker_id)
            self.sessions.register(record.broker_id, fenced=record.fenced)
        elif isinstance(record, nodes.BrokerRegistrationChangeRecord):
            broker = record.broker_id
            self.sessions.register(broker, fenced=self.image.brokers[broker].fenced)
        elif isinstance(record, (nodes.FenceBrokerRecord, nodes.UnfenceBrokerRecord)):
            self.sessions.register(record.id, fenced=self.image.brokers[record.id].fenced)
        elif isinstance(record, nodes.UnregisterBrokerRecord):
            self.registration_offsets.pop(record.broker_id, None)
            self.sessions.remove(record.broker_id)

    def _apply_partition(self, record: topics.PartitionRecord | topics.PartitionChangeRecord) -> None:
        key = record.topic_id, record.partition_id
        old = self.find_partition(key)
        self.image.apply(record)
        new = self.partition(key)
        self.index.update(key, old, new)
        if old is not None and new.leader not in (old.leader, _NO_LEADER):
            self.counters.elections += 1
            self.counters.unclean += record.leader_recovery_state == _RECOVERING

    def _unindex(self, topic_id: bytes) -> None:
        for number, partition in enumerate(self.image.topics_by_id[topic_id].partitions):
            self.index.update((topic_id, number), partition, None)

    def _apply_clear(self, record: topics.ClearElrRecord) -> None:
        image = self.image
        cleared = [image.topics[record.topic_name]] if record.topic_name else list(image.topics.values())
        before = [topic.partitions for topic in cleared]
        image.apply(record)
        for topic, old in zip(cleared, before, strict=True):
            for number, new in enumerate(topic.partitions):
                if new is not old[number]:
                    self.index.update((topic.id, number), old[number], new)

    # ------------------------------------------------------------ partitions

    def partition(self, key: PartitionKey) -> PartitionImage:
        """Returns a partition that exists."""
        return self.image.topics_by_id[key[0]].partitions[key[1]]

    def find_partition(self, key: PartitionKey) -> PartitionImage | None:
        """Returns a partition; None when there is no such partition."""
        topic = self.image.topics_by_id.get(key[0])
        if topic is None or not 0 <= key[1] < len(topic.partitions):
            return None
        return topic.partitions[key[1]]

    def min_in_sync(self, topic: str) -> int:
        """Returns min.insync.replicas of a topic."""
        return int(self._topic_config(topic, _MIN_IN_SYNC))

    def allows_unclean_election(self, topic: str) -> bool:
        """Returns unclean.leader.election.enable of a topic."""
        return self._topic_config(topic, _UNCLEAN).strip().lower() == "true"

    def _topic_config(self, topic: str, name: str) -> str:
        text = self.image.topic_configs(topic).get(name)
        if text is None:
            text = self.image.resource_configs(BROKER_RESOURCE, "").get(name)
        if text is None:
            text = self.configs.topic_default(name)
        assert text is not None, f"{name} has a default"
        return text

    # ------------------------------------------------------------ features

    @property
    def metadata_version(self) -> int:
        """The finalized metadata.version."""
        return self.image.features.get(METADATA_VERSION, HIGHEST_METADATA_VERSION)

    @property
    def has_eligible_leaders(self) -> bool:
        """Whether partitions have eligible leader replicas (KIP-966)."""
        return self.image.features.get(ELIGIBLE_LEADER_REPLICAS, 0) > 0

    # ------------------------------------------------------------ brokers

    def broker(self, broker: int, epoch: int) -> BrokerImage:
        """Returns the registration of a broker that made a request.

        Raises:
            KafkaError: STALE_BROKER_EPOCH: it is not registered, or registered in another epoch.
        """
        found = self.image.brokers.get(broker)
        if found is None:
            raise KafkaError(
                Errors.STALE_BROKER_EPOCH, f"No broker registration found for broker id {broker}"
            )
        if found.epoch != epoch:
            raise KafkaError(
                Errors.STALE_BROKER_EPOCH,
                f"Expected broker epoch {found.epoch}, but got broker epoch {epoch}",
            )
        return found


_MARKERS: Final = (
    markers.NoOpRecord,
    markers.BeginTransactionRecord,
    markers.EndTransactionRecord,
    markers.AbortTransactionRecord,
)
