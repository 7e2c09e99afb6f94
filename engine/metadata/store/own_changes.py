"""Commits the changes of a node alone to its metadata log and carries them out: creates and retires logs,
applies configs.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from bowstring._native.log.partition_log import LogError
from bowstring.engine import event_log
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.metadata.directory_ids import MIGRATING, change_of_directory
from bowstring.engine.metadata.image import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    TOPIC_RESOURCE,
    ClusterImage,
    ImageChange,
    Metadata,
    TopicImage,
)
from bowstring.engine.metadata.names import unified
from bowstring.engine.metadata.store.missing_logs import MissingLogs
from bowstring.engine.metadata.topic_changes import NewTopic, check_partition_total, create_topic
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.ids import random_uuid
from bowstring.protocol.records.cluster_metadata.settings import ConfigRecord
from bowstring.protocol.records.cluster_metadata.topics import PartitionRecord, RemoveTopicRecord, TopicRecord
from bowstring.protocol.schema import MetadataRecord

if TYPE_CHECKING:
    from bowstring.engine.storage.log_manager import LogManager


class OwnChanges:
    """Changes of a node alone: commit, then carry out."""

    def __init__(self, metadata: Metadata, logs: "LogManager", configs: BrokerConfigs, node_id: int) -> None:
        self._metadata = metadata
        self._logs = logs
        self._configs = configs
        self._node_id = node_id
        self.missing = MissingLogs(metadata, logs)
        self.when_changed: Callable[[], None] = lambda: None
        self.when_topic_deleted: Callable[[str, bytes], None] = lambda name, topic_id: None

    async def configure(self, image: ClusterImage, records: list[ConfigRecord]) -> None:
        """Carries out changes of configs that the image has."""
        if any(record.resource_type == BROKER_RESOURCE for record in records):
            self.load_dynamic_configs(image)
            await self._logs.configure_all(image)
        for record in records:
            if record.resource_type == CLIENT_METRICS_RESOURCE and record.value is not None:
                event_log.warning(
                    "a config is stored and reported, but has no effect yet; remove it to silence this "
                    "warning",
                    config=record.name,
                    of=f"client metrics subscription {record.resource_name}",
                )
        for name in {record.resource_name for record in records if record.resource_type == TOPIC_RESOURCE}:
            if name not in image.topics:
                continue  # deleted since
            await self._logs.configure(name, image)

    def load_dynamic_configs(self, image: ClusterImage) -> None:
        """Applies the broker configs of the image."""
        own = image.resource_configs(BROKER_RESOURCE, str(self._node_id))
        self._configs.set_dynamic(own, image.resource_configs(BROKER_RESOURCE, ""))

    async def commit(self, change: ImageChange, records: Sequence[MetadataRecord]) -> None:
        """Commits records and carries them out, within the change that they were decided in.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR when the metadata log cannot be written, or partitions that the
                records create have no log yet.
        """
        image = change.image
        self._assign_directories(image, records)
        removed = {
            record.topic_id: image.topics_by_id[record.topic_id].name
            for record in records
            if isinstance(record, RemoveTopicRecord)
        }
        delays = {name: self._delete_delay_ms(image, name) for name in removed.values()}
        try:
            await change.commit(records)
        except LogError as error:
            raise KafkaError(
                Errors.KAFKA_STORAGE_ERROR, f"the metadata log cannot be written: {error}"
            ) from error
        if removed:
            ids = {name: topic_id for topic_id, name in removed.items()}
            await self._logs.remove(delays, lambda name: self.when_topic_deleted(name, ids[name]))
            await self._logs.sync_removed()
        failures = [
            failure
            for topic_id in {each.topic_id: None for each in records if isinstance(each, PartitionRecord)}
            if (failure := await self._open(image, image.topics_by_id[topic_id])) is not None
        ]
        await self.configure(image, [record for record in records if isinstance(record, ConfigRecord)])
        self.when_changed()
        if failures:
            raise failures[0]

    def _assign_directories(self, image: ClusterImage, records: Sequence[MetadataRecord]) -> None:
        """Assigns a log directory to this broker's replicas of new partitions (KIP-858)."""
        names = {record.topic_id: record.name for record in records if isinstance(record, TopicRecord)}
        own = [
            (record, record.replicas.index(self._node_id))
            for record in records
            if isinstance(record, PartitionRecord) and self._node_id in record.replicas
        ]
        keys = [
            (names.get(record.topic_id) or image.topics_by_id[record.topic_id].name, record.partition_id)
            for record, _ in own
        ]
        for (record, place), directory_id in zip(own, self._logs.assign(keys), strict=True):
            # Old levels of metadata.version do not write it, but this broker needs it until it stops.
            record.directories = record.directories or [MIGRATING] * len(record.replicas)
            record.directories[place] = directory_id

    async def _open(self, image: ClusterImage, topic: TopicImage) -> KafkaError | None:
        """Returns why some partitions of the topic are not open yet. The topic exists nevertheless."""
        try:
            await self._logs.open_new(image, [topic])
        except (OSError, LogError) as error:
            self.missing.add(topic.id, topic.name, error)
            return KafkaError(
                Errors.KAFKA_STORAGE_ERROR,
                f"{topic.name} exists, but its partitions cannot be created yet; the broker tries again: "
                f"{error}",
            )
        return None

    def _delete_delay_ms(self, image: ClusterImage, topic: str) -> int:
        return int(self._configs.topic_value("file.delete.delay.ms", image.topic_configs(topic)))

    async def assign_directory(self, topic: TopicImage, index: int, directory_id: bytes) -> None:
        """Has the metadata log name the log directory of this node's replica (KIP-858).

        Raises:
            KafkaError: UNKNOWN_TOPIC_ID: the topic is deleted. KAFKA_STORAGE_ERROR.
        """
        async with self._metadata.changing() as change:
            found = change.image.topics_by_id.get(topic.id)
            if found is None:
                raise KafkaError(Errors.UNKNOWN_TOPIC_ID)
            await self.commit(change, [change_of_directory(found, index, self._node_id, directory_id)])

    async def create_missing_topic(self, name: str) -> None:
        """Creates a topic that a client requests, with the default counts, unless it exists.

        Raises:
            KafkaError: With the error that CreateTopics answers.
        """
        async with self._metadata.changing() as change:
            if name not in change.image.topics:
                records = create_topic(change.image, self._configs, NewTopic(name), random_uuid())
                await self.commit(change, records)

    async def create_internal_topic(
        self, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]
    ) -> bool:
        """Creates a coordinator's topic unless it exists, with at most as many replicas as there are brokers.

        Returns whether it was created by this call.
        """
        async with self._metadata.changing() as change:
            image = change.image
            if name in image.topics:
                return False
            wanted = NewTopic(name, partitions, min(replication_factor, len(image.brokers)), None, configs)
            await self.commit(change, create_topic(image, self._configs, wanted, random_uuid()))
            return True

    async def create_topics(self, topics: Sequence[NewTopic]) -> dict[str, KafkaError]:
        """Creates topics that a client does not create itself, unless they exist.

        Returns why topics could not be created, by name.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR when the metadata log cannot be written.
        """
        failed: dict[str, KafkaError] = {}
        records: list[MetadataRecord] = []
        unified_names: dict[str, str] = {}
        partitions = 0
        async with self._metadata.changing() as change:
            image = change.image
            for topic in topics:
                if topic.name in image.topics:
                    continue
                try:
                    other = unified_names.setdefault(unified(topic.name), topic.name)
                    if other != topic.name:
                        raise KafkaError(
                            Errors.INVALID_TOPIC_EXCEPTION,
                            f"Topic '{topic.name}' collides with existing topic: {other}",
                        )
                    made = create_topic(image, self._configs, topic, random_uuid())
                    partitions += sum(isinstance(record, PartitionRecord) for record in made)
                    check_partition_total(partitions)
                except KafkaError as error:
                    failed[topic.name] = error
                    continue
                records += made
            if records:
                await self.commit(change, records)
        return failed
