"""Carries out committed changes of configs, and creates what the broker itself needs in the cluster."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from bowstring.engine import event_log
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.metadata.image import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    TOPIC_RESOURCE,
    ClusterImage,
    Metadata,
    TopicImage,
)
from bowstring.engine.metadata.store.missing_logs import MissingLogs
from bowstring.engine.metadata.topic_changes import NewTopic
from bowstring.protocol.errors import KafkaError
from bowstring.protocol.records.cluster_metadata.settings import ConfigRecord

if TYPE_CHECKING:
    from bowstring.engine.storage.log_manager import LogManager


class ClusterChanges(ABC):
    """What a broker changes in its cluster without a client's request, and what follows from changes of
    configs. `OwnChanges` writes the records itself, `ForwardedChanges` queries the active controller.

    Attributes:
        missing: The partitions that could not be created yet.
    """

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

    @abstractmethod
    async def assign_directory(self, topic: TopicImage, index: int, directory_id: bytes) -> None:
        """Has the metadata log name the log directory of this node's replica (KIP-858).

        Raises:
            KafkaError: The change was refused, or could not be written.
        """

    @abstractmethod
    async def create_missing_topic(self, name: str) -> None:
        """Creates a topic that a client requests, with the default counts, unless it exists.

        Raises:
            KafkaError: With the error that CreateTopics answers.
        """

    @abstractmethod
    async def create_internal_topic(
        self, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]
    ) -> bool:
        """Creates a coordinator's topic unless it exists. Returns whether it was created by this call.

        Raises:
            KafkaError: The change was refused, or could not be written.
        """

    @abstractmethod
    async def create_topics(self, topics: Sequence[NewTopic]) -> dict[str, KafkaError]:
        """Creates topics that a client does not create itself, unless they exist.

        Returns why topics could not be created, by name.

        Raises:
            KafkaError: All of them were refused, or could not be written.
        """
