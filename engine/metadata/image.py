"""Applies metadata records to an image of the cluster. Nothing else changes an image."""

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any, Final, NamedTuple, Protocol

from bowstring.engine.metadata.acls_image import AclsImage
from bowstring.engine.metadata.client_quotas_image import ClientQuotasImage
from bowstring.engine.metadata.delegation_tokens_image import DelegationTokensImage
from bowstring.engine.metadata.names import unified
from bowstring.engine.metadata.scram_image import ScramImage
from bowstring.engine.metadata.unsupported_records import KEPT_RECORDS, UnsupportedRecords
from bowstring.protocol.records.cluster_metadata import markers, nodes, security, settings, topics
from bowstring.protocol.schema import MetadataRecord

TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
CLIENT_METRICS_RESOURCE: Final = 16
GROUP_RESOURCE: Final = 32

PARTITION_KINDS_MAX: Final = 32_768
"""How many different states of partitions an image shares at most. Each change makes a new one, and nothing
says when the last partition leaves an old one, so they are forgotten from time to time."""


_VERSIONS: Final = count(1)
"""Of topics, across all images of the process: a snapshot makes a new image, and groups compare versions."""


class PartitionImage(NamedTuple):
    """Replicas, leader and state of a partition. Equal values share one object, because a cluster has few
    different ones.
    """

    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    directories: tuple[bytes, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    leader_recovery_state: int = 0
    eligible_leaders: tuple[int, ...] = ()
    last_known_leaders: tuple[int, ...] = ()

    def min_in_sync(self, wanted: int) -> int:
        """Returns how many in-sync replicas an acks=all write needs if min.insync.replicas is `wanted`.

        As in Kafka, never more than the number of replicas (KIP-966).
        """
        return min(wanted, len(self.replicas))


class TopicImage:
    """A topic: its name, id, and partitions by index.

    Attributes:
        version: The image's `topics_version` since which number and replicas of the partitions are the same.
    """

    __slots__ = ("id", "name", "partitions", "version")

    def __init__(self, name: str, id: bytes, version: int = 0) -> None:
        self.name = name
        self.id = id
        self.version = version
        self.partitions: list[PartitionImage] = []

    def __repr__(self) -> str:
        return f"TopicImage({self.name!r}, {len(self.partitions)} partitions)"


class Endpoint(NamedTuple):
    """The address of a broker's listener."""

    listener: str
    host: str
    port: int
    security_protocol: int


class BrokerImage(NamedTuple):
    """A registered broker. `features` are (name, lowest, highest) of what it supports."""

    id: int
    epoch: int
    incarnation_id: bytes
    endpoints: tuple[Endpoint, ...]
    rack: str | None
    fenced: bool
    directories: tuple[bytes, ...]
    features: tuple[tuple[str, int, int], ...] = ()
    in_controlled_shutdown: bool = False
    cordoned: tuple[bytes, ...] = ()

    @property
    def is_active(self) -> bool:
        """Whether the broker may lead partitions: neither fenced nor in controlled shutdown."""
        return not self.fenced and not self.in_controlled_shutdown

    def endpoint(self, listener: str) -> Endpoint | None:
        """Returns the broker's address on a listener."""
        return next((each for each in self.endpoints if each.listener == listener), None)


class MetadataError(Exception):
    """A record that does not fit the records before it: the log is damaged, or another program wrote it.

    Attributes:
        record: The record; inside a metadata transaction it is one before the end of the transaction.
    """

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.record: MetadataRecord | None = None


class ClusterImage:
    """Topics, brokers, configs, client quotas, rules of access control, features and producer id blocks, and
    all other records, which are only kept.

    Attributes:
        kept: Records of features that this version does not implement yet (SCRAM credentials, ...).
        topics_version: Changes when a topic is created or deleted, or gets other partitions or replicas. No
            two images have the same version with different topics.
        created_version: The `topics_version` of the last creation of a topic.
    """

    def __init__(self) -> None:
        self.topics_version = 0
        self.created_version = 0
        self.topics: dict[str, TopicImage] = {}
        self.topics_by_id: dict[bytes, TopicImage] = {}
        self.unified_names: dict[str, str] = {}
        self.brokers: dict[int, BrokerImage] = {}
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.features: dict[str, int] = {}
        self.next_producer_id = 0
        self.partition_count = 0
        self.client_quotas = ClientQuotasImage()
        self.acls = AclsImage()
        self.scram = ScramImage()
        self.delegation_tokens = DelegationTokensImage()
        self.kept = UnsupportedRecords()
        self._partition_kinds: dict[PartitionImage, PartitionImage] = {}
        # Records of a metadata transaction (KIP-868) that has begun and not ended; None outside a
        # transaction.
        self._transaction: list[MetadataRecord] | None = None

    def copy(self) -> "ClusterImage":
        """Returns an image that later records do not change. It shares what no record changes in place."""
        new = ClusterImage()
        for topic in self.topics.values():
            copied = TopicImage(topic.name, topic.id, topic.version)
            copied.partitions = topic.partitions.copy()
            new.topics[topic.name] = new.topics_by_id[topic.id] = copied
        new.topics_version, new.created_version = self.topics_version, self.created_version
        new.unified_names = self.unified_names.copy()
        new.brokers = self.brokers.copy()
        new.configs = {resource: configs.copy() for resource, configs in self.configs.items()}
        new.features = self.features.copy()
        new.next_producer_id = self.next_producer_id
        new.partition_count = self.partition_count
        new.client_quotas = self.client_quotas.copy()
        new.acls = self.acls.copy()
        new.scram = self.scram.copy()
        new.delegation_tokens = self.delegation_tokens.copy()
        new.kept = self.kept.copy()
        new._partition_kinds = self._partition_kinds.copy()
        new._transaction = None if self._transaction is None else self._transaction.copy()
        return new

    def resource_configs(self, resource_type: int, name: str) -> dict[str, str]:
        """Returns the configs set on a resource itself. Do not modify."""
        return self.configs.get((resource_type, name), _NOTHING)

    def topic_configs(self, name: str) -> dict[str, str]:
        """Returns the configs set on a topic itself. Do not modify."""
        return self.configs.get((TOPIC_RESOURCE, name), _NOTHING)

    def apply_all(self, records: Iterable[MetadataRecord]) -> None:
        """Applies records in order."""
        for record in records:
            self.apply(record)

    @property
    def in_transaction(self) -> bool:
        """Whether a metadata transaction has begun and not ended; its records are not part of the image
        yet.
        """
        return self._transaction is not None

    def apply(self, record: MetadataRecord) -> None:
        """Applies one record. The records of a metadata transaction take effect together when it ends.

        Raises:
            MetadataError: The record does not fit the image.
        """
        if self._transaction is not None and not isinstance(record, _MARKERS):
            self._transaction.append(record)
            return
        action = _ACTIONS.get(type(record))
        if action is None:
            raise MetadataError(
                f"{type(record).__name__} in the metadata log needs a feature that this version does not have"
            )
        try:
            action(self, record)
        except MetadataError as error:
            error.record = error.record or record
            raise

    # ------------------------------------------------------------ transactions

    def _begin(self, record: markers.BeginTransactionRecord) -> None:
        if self._transaction is not None:
            raise MetadataError("a transaction begins inside another in the metadata log")
        self._transaction = []

    def _end(self, record: markers.EndTransactionRecord) -> None:
        records, self._transaction = self._in_transaction(record), None
        self.apply_all(records)

    def _abort(self, record: markers.AbortTransactionRecord) -> None:
        self._in_transaction(record)
        self._transaction = None

    def _in_transaction(self, record: MetadataRecord) -> list[MetadataRecord]:
        if self._transaction is None:
            raise MetadataError(
                f"{type(record).__name__} in the metadata log does not follow a transaction's begin"
            )
        return self._transaction

    # ------------------------------------------------------------ topics

    def _add_topic(self, record: topics.TopicRecord) -> None:
        if record.name in self.topics or record.topic_id in self.topics_by_id:
            raise MetadataError(f"topic {record.name} is created twice in the metadata log")
        self.topics_version = self.created_version = next(_VERSIONS)
        topic = TopicImage(record.name, record.topic_id, self.topics_version)
        self.topics[topic.name] = topic
        self.topics_by_id[topic.id] = topic
        self.unified_names.setdefault(unified(topic.name), topic.name)

    def _topic(self, topic_id: bytes, record: MetadataRecord) -> TopicImage:
        topic = self.topics_by_id.get(topic_id)
        if topic is None:
            raise MetadataError(f"{type(record).__name__} names an unknown topic id: {topic_id.hex()}")
        return topic

    def _remove_topic(self, record: topics.RemoveTopicRecord) -> None:
        topic = self._topic(record.topic_id, record)
        self.topics_version = next(_VERSIONS)
        del self.topics[topic.name]
        del self.topics_by_id[topic.id]
        # Only one topic can have a unified name: creation refuses a second one.
        self.unified_names.pop(unified(topic.name), None)
        self.configs.pop((TOPIC_RESOURCE, topic.name), None)
        self.partition_count -= len(topic.partitions)

    def _add_partition(self, record: topics.PartitionRecord) -> None:
        topic = self._topic(record.topic_id, record)
        index = record.partition_id
        image = self._shared(
            PartitionImage(
                tuple(record.replicas),
                tuple(record.isr),
                record.leader,
                record.leader_epoch,
                record.partition_epoch,
                tuple(record.directories),
                tuple(record.adding_replicas),
                tuple(record.removing_replicas),
                record.leader_recovery_state,
                tuple(record.eligible_leader_replicas or ()),
                tuple(record.last_known_elr or ()),
            )
        )
        self._reshaped(topic)
        if index == len(topic.partitions):
            topic.partitions.append(image)
            self.partition_count += 1
        elif 0 <= index < len(topic.partitions):
            topic.partitions[index] = image
        else:
            raise MetadataError(f"partition {topic.name}-{index} is created before its predecessors")

    def _change_partition(self, record: topics.PartitionChangeRecord) -> None:
        topic = self._topic(record.topic_id, record)
        if not 0 <= record.partition_id < len(topic.partitions):
            raise MetadataError(f"partition {topic.name}-{record.partition_id} changes but does not exist")
        if record.replicas is not None:
            self._reshaped(topic)
        old = topic.partitions[record.partition_id]
        topic.partitions[record.partition_id] = self._shared(changed_partition(old, record))

    def _reshaped(self, topic: TopicImage) -> None:
        self.topics_version = topic.version = next(_VERSIONS)

    def _clear_eligible_leaders(self, record: topics.ClearElrRecord) -> None:
        """Clears the eligible leaders of one topic, or of all topics when the record names none (KIP-966)."""
        if record.topic_name:
            if record.topic_name not in self.topics:
                raise MetadataError(
                    f"{record.topic_name} has its eligible leaders cleared but does not exist"
                )
            cleared = [self.topics[record.topic_name]]
        else:
            cleared = list(self.topics.values())
        for topic in cleared:
            topic.partitions = [
                self._shared(each._replace(eligible_leaders=(), last_known_leaders=()))
                for each in topic.partitions
            ]

    def _shared(self, image: PartitionImage) -> PartitionImage:
        kinds = self._partition_kinds
        if len(kinds) >= PARTITION_KINDS_MAX:
            kinds.clear()
        return kinds.setdefault(image, image)

    # ------------------------------------------------------------ settings

    def _set_config(self, record: settings.ConfigRecord) -> None:
        resource = (record.resource_type, record.resource_name)
        if record.value is None:
            configs = self.configs.get(resource)
            if configs is not None:
                configs.pop(record.name, None)
                if not configs:
                    del self.configs[resource]
        else:
            self.configs.setdefault(resource, {})[record.name] = record.value

    def _set_feature(self, record: settings.FeatureLevelRecord) -> None:
        if record.feature_level == 0:
            self.features.pop(record.name, None)
        else:
            self.features[record.name] = record.feature_level

    def _set_producer_ids(self, record: settings.ProducerIdsRecord) -> None:
        if record.next_producer_id < self.next_producer_id:
            raise MetadataError("the metadata log assigns a producer id block twice")
        self.next_producer_id = record.next_producer_id

    def _set_client_quota(self, record: settings.ClientQuotaRecord) -> None:
        self.client_quotas.apply(record)

    def _add_acl(self, record: security.AccessControlEntryRecord) -> None:
        self.acls.add(record)

    def _remove_acl(self, record: security.RemoveAccessControlEntryRecord) -> None:
        self.acls.remove(record)

    def _add_scram(self, record: security.UserScramCredentialRecord) -> None:
        self.scram.add(record)

    def _remove_scram(self, record: security.RemoveUserScramCredentialRecord) -> None:
        self.scram.remove(record)

    def _add_delegation_token(self, record: security.DelegationTokenRecord) -> None:
        self.delegation_tokens.add(record)

    def _remove_delegation_token(self, record: security.RemoveDelegationTokenRecord) -> None:
        self.delegation_tokens.remove(record)

    # ------------------------------------------------------------ brokers

    def _register_broker(self, record: nodes.RegisterBrokerRecord) -> None:
        self.brokers[record.broker_id] = BrokerImage(
            record.broker_id,
            record.broker_epoch,
            record.incarnation_id,
            tuple(
                Endpoint(each.name, each.host, each.port, each.security_protocol)
                for each in record.end_points
            ),
            record.rack,
            record.fenced,
            tuple(record.log_dirs),
            tuple(
                (each.name, each.min_supported_version, each.max_supported_version)
                for each in record.features
            ),
            record.in_controlled_shutdown,
            tuple(record.cordoned_log_dirs or ()),
        )

    def _unregister_broker(self, record: nodes.UnregisterBrokerRecord) -> None:
        self.brokers.pop(record.broker_id, None)

    def _change_broker(self, record: nodes.BrokerRegistrationChangeRecord) -> None:
        broker = self.brokers.get(record.broker_id)
        if broker is None:
            raise MetadataError(f"broker {record.broker_id} changes but is not registered")
        fenced = broker.fenced if record.fenced == 0 else record.fenced > 0
        self.brokers[record.broker_id] = broker._replace(
            fenced=fenced,
            directories=tuple(record.log_dirs) or broker.directories,
            in_controlled_shutdown=broker.in_controlled_shutdown or record.in_controlled_shutdown > 0,
            cordoned=_changed(broker.cordoned, record.cordoned_log_dirs),
        )

    def _fence_broker(self, record: nodes.FenceBrokerRecord) -> None:
        self._set_fenced(record.id, True)

    def _unfence_broker(self, record: nodes.UnfenceBrokerRecord) -> None:
        self._set_fenced(record.id, False)

    def _set_fenced(self, broker_id: int, fenced: bool) -> None:
        if broker_id not in self.brokers:
            raise MetadataError(f"broker {broker_id} is fenced or unfenced but is not registered")
        self.brokers[broker_id] = self.brokers[broker_id]._replace(fenced=fenced)

    def _keep(self, record: MetadataRecord) -> None:
        self.kept.apply(record)

    def _ignore(self, record: MetadataRecord) -> None:
        pass


_NOTHING: Final[dict[str, str]] = {}
_NO_CHANGE: Final = -2
_RECOVERY_UNCHANGED: Final = -1
_MARKERS: Final = (
    markers.BeginTransactionRecord,
    markers.EndTransactionRecord,
    markers.AbortTransactionRecord,
)


def changed_partition(old: PartitionImage, record: topics.PartitionChangeRecord) -> PartitionImage:
    """Returns a partition after a change. The leader epoch rises whenever the record names a leader."""
    state = record.leader_recovery_state
    return PartitionImage(
        _changed(old.replicas, record.replicas),
        _changed(old.in_sync, record.isr),
        old.leader if record.leader == _NO_CHANGE else record.leader,
        old.leader_epoch + (record.leader != _NO_CHANGE),
        old.partition_epoch + 1,
        _changed(old.directories, record.directories),
        _changed(old.adding, record.adding_replicas),
        _changed(old.removing, record.removing_replicas),
        old.leader_recovery_state if state == _RECOVERY_UNCHANGED else state,
        _changed(old.eligible_leaders, record.eligible_leader_replicas),
        _changed(old.last_known_leaders, record.last_known_elr),
    )


def _changed(old: tuple[Any, ...], new: Sequence[Any] | None) -> tuple[Any, ...]:
    return old if new is None else tuple(new)


_ACTIONS: Final[dict[type[MetadataRecord], Callable[[ClusterImage, Any], None]]] = {
    topics.TopicRecord: ClusterImage._add_topic,
    topics.RemoveTopicRecord: ClusterImage._remove_topic,
    topics.PartitionRecord: ClusterImage._add_partition,
    topics.PartitionChangeRecord: ClusterImage._change_partition,
    settings.ConfigRecord: ClusterImage._set_config,
    settings.FeatureLevelRecord: ClusterImage._set_feature,
    settings.ProducerIdsRecord: ClusterImage._set_producer_ids,
    settings.ClientQuotaRecord: ClusterImage._set_client_quota,
    security.AccessControlEntryRecord: ClusterImage._add_acl,
    security.RemoveAccessControlEntryRecord: ClusterImage._remove_acl,
    security.UserScramCredentialRecord: ClusterImage._add_scram,
    security.RemoveUserScramCredentialRecord: ClusterImage._remove_scram,
    security.DelegationTokenRecord: ClusterImage._add_delegation_token,
    security.RemoveDelegationTokenRecord: ClusterImage._remove_delegation_token,
    nodes.RegisterBrokerRecord: ClusterImage._register_broker,
    nodes.UnregisterBrokerRecord: ClusterImage._unregister_broker,
    nodes.BrokerRegistrationChangeRecord: ClusterImage._change_broker,
    nodes.FenceBrokerRecord: ClusterImage._fence_broker,
    nodes.UnfenceBrokerRecord: ClusterImage._unfence_broker,
    topics.ClearElrRecord: ClusterImage._clear_eligible_leaders,
    markers.BeginTransactionRecord: ClusterImage._begin,
    markers.EndTransactionRecord: ClusterImage._end,
    markers.AbortTransactionRecord: ClusterImage._abort,
    markers.NoOpRecord: ClusterImage._ignore,
    markers.ZkMigrationStateRecord: ClusterImage._ignore,
    **dict.fromkeys(KEPT_RECORDS, ClusterImage._keep),
}


class ImageSource(Protocol):
    """Provides the current image of the cluster, as the metadata log does."""

    @property
    def image(self) -> ClusterImage:
        """The newest image."""


class Metadata(ImageSource, Protocol):
    """This node's replica of the metadata log as request handlers see it."""

    @property
    def end_offset(self) -> int:
        """The image has the records below."""
