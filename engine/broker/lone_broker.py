"""Runs the broker of a node alone: it writes the metadata log itself."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

from bowstring.engine.api.table import BY_BROKER
from bowstring.engine.broker.broker import Broker
from bowstring.engine.broker.registration import start_records, stop_records
from bowstring.engine.metadata.directory_ids import change_of_directory
from bowstring.engine.metadata.image import PartitionImage, TopicImage
from bowstring.engine.metadata.store.log import MetadataLog
from bowstring.engine.metadata.store.own_changes import OwnChanges
from bowstring.engine.metadata.store.producer_ids import ProducerIds
from bowstring.protocol.schema import MetadataRecord


class LoneBroker(Broker):
    """A broker that no other node can join.

    `open` does everything that needs no event loop, also opening the partition logs. `start` begins to serve.
    """

    replication = None  # type: ignore[assignment]

    def __init__(self, settings: Mapping[str, str]) -> None:
        super().__init__(settings)
        self.alone = MetadataLog()
        self.metadata = self.alone
        self.handlers, self.offered = BY_BROKER

    # ------------------------------------------------------------ start

    def open(self, *, only_to_recover: bool = False) -> None:
        """Locks and recovers the log directories, binds the listeners, registers, opens every log.

        Args:
            only_to_recover: No client will be served, so configs that request missing protections are
                accepted.

        Raises:
            ConfigError, DataDirectoryError, OSError: The message says what is wrong and what to do.
        """
        super().open(only_to_recover=only_to_recover)
        with self._undone_on_failure():
            self.alone.commit_alone(start_records(self))
            self._are_logs_touched = True
            elsewhere = self.logs.open_all(self.metadata.image, self._recovery_threads())
            self.alone.commit_alone(self._found_elsewhere(elsewhere))

    def _open_metadata(self) -> None:
        self.alone.open(self.directory, self.configs)

    def _close_metadata_log(self) -> None:
        self.alone.close()

    def _make_changes(self) -> None:
        self.committer = OwnChanges(self.metadata, self.logs, self.configs, self.node_id)
        self.changes = self.committer  # type: ignore[assignment]
        self.producer_ids = ProducerIds(self.metadata, self.node_id)  # type: ignore[assignment]
        self.committer.when_changed = self._cluster_changed
        self.committer.when_topic_deleted = self._topic_deleted

    async def _assign_directory(self, topic: TopicImage, index: int, directory_id: bytes) -> None:
        await self.committer.assign_directory(topic, index, directory_id)

    def _found_elsewhere(self, elsewhere: Mapping[tuple[str, int], bytes]) -> list[MetadataRecord]:
        """Returns records that name the directories where partitions were found (Kafka's
        AssignReplicasToDirs).
        """
        topics = self.metadata.image.topics
        return [
            change_of_directory(topics[topic], index, self.node_id, directory_id)
            for (topic, index), directory_id in elsewhere.items()
        ]

    async def start(self) -> None:
        """Starts serving. Call on the control loop, after `open`."""
        self._warn()
        await self._start_metrics()
        await self._serve()
        self.alone.watch_snapshots()
        self.plane.start()
        self._not_ready = None

    def own_partitions(self) -> Iterator[tuple[str, int, PartitionImage]]:
        """Yields topic, index and state of each partition: this broker has all of them."""
        for topic in self.metadata.image.topics.values():
            for index, partition in enumerate(topic.partitions):
                yield topic.name, index, partition

    def _metrics_registry(self) -> Any:
        from bowstring.engine.broker import metrics

        return metrics.registry(self)

    # ------------------------------------------------------------ stop

    async def stop(self) -> None:
        """Stops accepting, finishes requests in progress, syncs and closes the logs, writes the
        clean-shutdown marker.
        """
        self._not_ready = "the broker is stopping"
        await self._stop_serving()
        await self.alone.settle()
        self._close_and_tell()

    def close(self) -> None:
        """Notes the planned stop in the metadata log; closes logs and directories. Writes no marker if a file
        could not be written; releases the locks in any case.
        """
        with ExitStack() as stack:
            stack.callback(super().close)
            if not self.directory.health.failed:
                self.alone.commit_alone(stop_records(self))

    def _broker_epoch(self) -> int:
        return self.metadata.image.brokers[self.node_id].epoch
