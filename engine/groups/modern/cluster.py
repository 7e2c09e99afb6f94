"""Shows groups what they need of the cluster: topics, racks, and the configs of groups."""

import struct
from collections.abc import Callable, Iterable, Mapping, Set
from typing import Final, NamedTuple

from xxhash import xxh3_64_intdigest

from bowstring.engine.metadata.image import GROUP_RESOURCE, ClusterImage, ImageSource, TopicImage

# A byte before the hashed data of a topic; Kafka increments it when it hashes differently.
_HASH_VERSION: Final = b"\x00"
# Hashes of deleted topics are dropped when there are this many more hashes than topics.
_SPARE_HASHES: Final = 1_000
_SIGN: Final = 1 << 63


class NoCluster(NamedTuple):
    """An image source without topics, for a shard that has no groups of KIP-848."""

    image: ClusterImage = ClusterImage()


class ClusterView:
    """The cluster as it is now. It does not change while the coordinator handles an event.

    Args:
        source: Where the image of the cluster is.
        broker_config: Returns a config of this broker that is in force, by name.
    """

    def __init__(self, source: ImageSource, broker_config: Callable[[str], int | None] | None = None) -> None:
        self._source = source
        self._broker_config = broker_config
        # by topic id: version of the topic, and hash
        self._hashes: dict[bytes, tuple[int, int]] = {}

    @property
    def topics_version(self) -> int:
        """Changes when topics are created, are deleted or get other partitions or replicas."""
        return self._source.image.topics_version

    @property
    def created_version(self) -> int:
        """Changes when topics are created."""
        return self._source.image.created_version

    @property
    def offset(self) -> int:
        """End of the metadata log; 0 if the source does not say."""
        return int(getattr(self._source, "end_offset", 0))

    def topic_names(self) -> Iterable[str]:
        """Returns the names of all topics."""
        return self._source.image.topics

    def topic_id(self, name: str) -> bytes | None:
        """Returns the id of a topic; None if there is no such topic."""
        topic = self._source.image.topics.get(name)
        return None if topic is None else topic.id

    def topic_name(self, topic_id: bytes) -> str | None:
        """Returns the name of a topic; None if there is no such topic."""
        topic = self._source.image.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def partition_count(self, topic_id: bytes) -> int:
        """Returns the number of partitions of a topic; 0 if there is no such topic."""
        topic = self._source.image.topics_by_id.get(topic_id)
        return 0 if topic is None else len(topic.partitions)

    def topic_ids(self, names: Iterable[str]) -> frozenset[bytes]:
        """Returns the ids of those topics that exist."""
        topics = self._source.image.topics
        return frozenset([topics[name].id for name in _among(names, topics)])

    def broker_config(self, name: str) -> int | None:
        """Returns a config of this broker; None if the view does not show configs."""
        return None if self._broker_config is None else self._broker_config(name)

    def group_configs(self, group_id: str) -> Mapping[str, str]:
        """Returns the configs set on a group itself."""
        return self._source.image.resource_configs(GROUP_RESOURCE, group_id)

    def metadata_hash(self, names: Iterable[str]) -> int:
        """Returns the hash that says whether subscribed topics have changed: existence, ids, partitions and
        racks (Kafka 4.1). It is 0 if none of them exists, and otherwise Kafka's, as a signed int64.
        """
        topics = self._source.image.topics
        # Names of topics are ASCII, so this is Java's order.
        known = sorted(_among(names, topics))
        if not known:
            return 0
        hashes = [self._topic_hash(topics[name]) for name in known]
        return _signed(xxh3_64_intdigest(struct.pack(f"<{len(hashes)}Q", *hashes)))

    def _topic_hash(self, topic: TopicImage) -> int:
        kept = self._hashes.get(topic.id)
        if kept is not None and kept[0] == topic.version:
            return kept[1]
        if len(self._hashes) > len(self._source.image.topics) + _SPARE_HASHES:
            self._hashes.clear()
        found = xxh3_64_intdigest(self._hashed(topic))
        self._hashes[topic.id] = (topic.version, found)
        return found

    def _hashed(self, topic: TopicImage) -> bytes:
        """Returns the data to hash: id, name, number of partitions, and the racks of each partition."""
        brokers = self._source.image.brokers
        parts = [_HASH_VERSION, topic.id[7::-1], topic.id[:7:-1], _string(topic.name)]
        parts.append(len(topic.partitions).to_bytes(4, "little"))
        for index, partition in enumerate(topic.partitions):
            parts.append(index.to_bytes(4, "little"))
            racks = [broker.rack for id in partition.replicas if (broker := brokers.get(id)) is not None]
            for rack in sorted((rack for rack in racks if rack is not None), key=_java_order):
                text = _string(rack)
                parts += (text[-4:], text)
        return b"".join(parts)


def _among(names: Iterable[str], topics: Mapping[str, TopicImage]) -> Iterable[str]:
    """Returns the names of topics that exist; very many names cost little if they are a set."""
    return topics.keys() & names if isinstance(names, Set) else filter(topics.__contains__, names)


def _string(text: str) -> bytes:
    """Returns the text's UTF-16 code units and their number."""
    units = text.encode("utf-16-le", "surrogatepass")
    return units + (len(units) // 2).to_bytes(4, "little")


def _java_order(text: str) -> bytes:
    """Sorts as Java does, by UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")


def _signed(value: int) -> int:
    return value - 2 * _SIGN if value & _SIGN else value
