"""The cluster as its metadata records leave it. Applying records is the only way to change an image."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from bowstring.engine.metadata.names import unified
from bowstring.engine.protocol.records.cluster_metadata import markers, nodes, settings, topics
from bowstring.engine.protocol.schema import MetadataRecord

TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4


class PartitionImage(NamedTuple):
    """Where a partition lives and who leads it. Equal ones are one object: a cluster has few kinds."""

    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    directories: tuple[bytes, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


class TopicImage:
    """A topic: its name, id, and partitions by index."""

    __slots__ = ("id", "name", "partitions")

    def __init__(self, name: str, id: bytes) -> None:
        self.name = name
        self.id = id
        self.partitions: list[PartitionImage] = []

    def __repr__(self) -> str:
        return f"TopicImage({self.name!r}, {len(self.partitions)} partitions)"


class Endpoint(NamedTuple):
    """Where a broker's listener is reached."""

    listener: str
    host: str
    port: int
    security_protocol: int


class BrokerImage(NamedTuple):
    """A registered broker."""

    id: int
    epoch: int
    incarnation_id: bytes
    endpoints: tuple[Endpoint, ...]
    rack: str | None
    fenced: bool
    directories: tuple[bytes, ...]

    def endpoint(self, listener: str) -> Endpoint | None:
        """The broker's address on a listener."""
        return next((each for each in self.endpoints if each.listener == listener), None)


class MetadataError(Exception):
    """A record that cannot follow those before it: the log is damaged, or another program wrote it."""


class ClusterImage:
    """Topics, brokers, configs, features and producer id blocks."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicImage] = {}
        self.topics_by_id: dict[bytes, TopicImage] = {}
        self.unified_names: dict[str, str] = {}
        self.brokers: dict[int, BrokerImage] = {}
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.features: dict[str, int] = {}
        self.next_producer_id = 0
        self.partition_count = 0
        self._partition_kinds: dict[PartitionImage, PartitionImage] = {}

    def resource_configs(self, resource_type: int, name: str) -> dict[str, str]:
        """What is set for a resource itself; not to be changed."""
        return self.configs.get((resource_type, name), _NOTHING)

    def topic_configs(self, name: str) -> dict[str, str]:
        """What a topic sets itself; not to be changed."""
        return self.configs.get((TOPIC_RESOURCE, name), _NOTHING)

    def apply_all(self, records: Iterable[MetadataRecord]) -> None:
        """Applies records in order."""
        for record in records:
            self.apply(record)

    def apply(self, record: MetadataRecord) -> None:
        """Applies one record.

        Raises:
            MetadataError: It does not fit what is there.
        """
        action = _ACTIONS.get(type(record))
        if action is None:
            raise MetadataError(
                f"{type(record).__name__} in the metadata log needs a feature that this version does not have"
            )
        action(self, record)

    # ------------------------------------------------------------ topics

    def _add_topic(self, record: topics.TopicRecord) -> None:
        if record.name in self.topics or record.topic_id in self.topics_by_id:
            raise MetadataError(f"topic {record.name} is created twice in the metadata log")
        topic = TopicImage(record.name, record.topic_id)
        self.topics[topic.name] = topic
        self.topics_by_id[topic.id] = topic
        self.unified_names.setdefault(unified(topic.name), topic.name)

    def _topic(self, topic_id: bytes, record: MetadataRecord) -> TopicImage:
        topic = self.topics_by_id.get(topic_id)
        if topic is None:
            raise MetadataError(
                f"{type(record).__name__} names a topic id that is not there: {topic_id.hex()}"
            )
        return topic

    def _remove_topic(self, record: topics.RemoveTopicRecord) -> None:
        topic = self._topic(record.topic_id, record)
        del self.topics[topic.name]
        del self.topics_by_id[topic.id]
        # Only one topic can hold a unified name: creation refuses a second.
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
            )
        )
        if index == len(topic.partitions):
            topic.partitions.append(image)
            self.partition_count += 1
        elif 0 <= index < len(topic.partitions):
            topic.partitions[index] = image
        else:
            raise MetadataError(f"partition {topic.name}-{index} comes before its predecessors")

    def _change_partition(self, record: topics.PartitionChangeRecord) -> None:
        topic = self._topic(record.topic_id, record)
        if not 0 <= record.partition_id < len(topic.partitions):
            raise MetadataError(f"partition {topic.name}-{record.partition_id} changes but is not there")
        old = topic.partitions[record.partition_id]
        leader = old.leader if record.leader == _NO_CHANGE else record.leader
        topic.partitions[record.partition_id] = self._shared(
            PartitionImage(
                _changed(old.replicas, record.replicas),
                _changed(old.in_sync, record.isr),
                leader,
                old.leader_epoch + (record.leader != _NO_CHANGE),
                old.partition_epoch + 1,
                _changed(old.directories, record.directories),
                _changed(old.adding, record.adding_replicas),
                _changed(old.removing, record.removing_replicas),
            )
        )

    def _shared(self, image: PartitionImage) -> PartitionImage:
        return self._partition_kinds.setdefault(image, image)

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
            raise MetadataError("the metadata log hands producer ids out twice")
        self.next_producer_id = record.next_producer_id

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
        )

    def _unregister_broker(self, record: nodes.UnregisterBrokerRecord) -> None:
        self.brokers.pop(record.broker_id, None)

    def _change_broker(self, record: nodes.BrokerRegistrationChangeRecord) -> None:
        broker = self.brokers.get(record.broker_id)
        if broker is None:
            raise MetadataError(f"broker {record.broker_id} changes but is not registered")
        fenced = broker.fenced if record.fenced == 0 else record.fenced > 0
        directories = tuple(record.log_dirs) or broker.directories
        self.brokers[record.broker_id] = broker._replace(fenced=fenced, directories=directories)

    def _ignore(self, record: MetadataRecord) -> None:
        pass


_NOTHING: Final[dict[str, str]] = {}
_NO_CHANGE: Final = -2


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
    nodes.RegisterBrokerRecord: ClusterImage._register_broker,
    nodes.UnregisterBrokerRecord: ClusterImage._unregister_broker,
    nodes.BrokerRegistrationChangeRecord: ClusterImage._change_broker,
    nodes.RegisterControllerRecord: ClusterImage._ignore,
    markers.NoOpRecord: ClusterImage._ignore,
}
