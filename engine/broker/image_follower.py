"""Carries committed changes of the cluster out on a broker: logs, leaders and configs follow the image."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from bowstring._native.log.partition_log import LogError
from bowstring._native.server.data_plane import DataPlane
from bowstring.engine import event_log
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.metadata.image import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    ClusterImage,
    PartitionImage,
)
from bowstring.engine.metadata.store.commit import ClusterChanges
from bowstring.engine.protocol.records.cluster_metadata.markers import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from bowstring.engine.protocol.records.cluster_metadata.settings import ConfigRecord
from bowstring.engine.protocol.records.cluster_metadata.topics import (
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
)
from bowstring.engine.protocol.schema import MetadataRecord
from bowstring.engine.quorum.shell import Quorum
from bowstring.engine.storage.log_dir import partition_directory
from bowstring.engine.storage.log_manager import TopicLogs


class _Change(NamedTuple):
    """Topics whose partitions may differ, removed topics, and changed configs."""

    topics: set[bytes]
    removed: set[bytes]
    configs: list[ConfigRecord]


class ImageFollower:
    """Applies what the image says to this broker's logs, one change after the other."""

    def __init__(
        self,
        quorum: Quorum,
        changes: ClusterChanges,
        logs: TopicLogs,
        plane: DataPlane,
        *,
        configs: BrokerConfigs,
        node_id: int,
    ) -> None:
        self._quorum = quorum
        self._changes = changes
        self._logs = logs
        self._plane = plane
        self._configs = configs
        self._node_id = node_id
        self._names: dict[bytes, str] = {}
        self._led: dict[tuple[str, int], tuple[int, bool]] = {}
        self._waiting: deque[_Change] = deque()
        self._transaction: list[MetadataRecord] | None = None
        self._is_due = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    # ------------------------------------------------------------ life

    def listen(self) -> None:
        """Begins to collect changes; those that the image has now are not among them."""
        for topic in self._quorum.image.topics.values():
            self._names[topic.id] = topic.name
            self._note_leaders(topic.id)
        self._quorum.on_applied.append(self._applied)
        self._quorum.on_snapshot.append(self._replaced)

    def start(self) -> None:
        """Begins to carry changes out. Call on the control loop, when the logs of the image are open."""
        self._task = asyncio.get_running_loop().create_task(self._follow())

    async def stop(self) -> None:
        """Carries nothing out any more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    # ------------------------------------------------------------ what is told

    def _applied(self, records: Sequence[MetadataRecord], end_offset: int, epoch: int) -> None:
        done: list[MetadataRecord] = []
        for record in records:
            if isinstance(record, BeginTransactionRecord):
                self._transaction = []
            elif isinstance(record, AbortTransactionRecord):
                self._transaction = None
            elif isinstance(record, EndTransactionRecord):
                done += self._transaction or []
                self._transaction = None
            elif self._transaction is not None:
                self._transaction.append(record)
            else:
                done.append(record)
        self._add(
            _Change(
                {each.topic_id for each in done if isinstance(each, PartitionRecord | PartitionChangeRecord)},
                {each.topic_id for each in done if isinstance(each, RemoveTopicRecord)},
                [each for each in done if isinstance(each, ConfigRecord)],
            )
        )

    def _replaced(self, image: ClusterImage, end_offset: int, epoch: int) -> None:
        """A snapshot may have changed anything."""
        self._transaction = None
        configs = [
            ConfigRecord(resource_type=kind, resource_name=name, name=each, value=value)
            for (kind, name), values in image.configs.items()
            if kind in (BROKER_RESOURCE, TOPIC_RESOURCE)
            for each, value in values.items()
        ]
        self._add(_Change(set(image.topics_by_id), set(self._names) - set(image.topics_by_id), configs))

    def _add(self, change: _Change) -> None:
        if change.topics or change.removed or change.configs:
            self._waiting.append(change)
            self._is_due.set()

    # ------------------------------------------------------------ what is done

    async def _follow(self) -> None:
        while True:
            await self._is_due.wait()
            self._is_due.clear()
            while self._waiting:
                change = self._waiting.popleft()
                try:
                    await self._carry_out(change)
                except (OSError, LogError) as error:
                    event_log.error(
                        "a change of the cluster could not be carried out; fix the cause in detail, then "
                        "restart the broker",
                        detail=str(error),
                    )
                self._changes.when_changed()

    async def _carry_out(self, change: _Change) -> None:
        image = self._quorum.image
        for topic_id in change.removed:
            await self._remove(topic_id)
        for topic_id in change.topics:
            topic = image.topics_by_id.get(topic_id)
            if topic is not None:
                self._names[topic_id] = topic.name
                await self._logs.open_new(image, topic)
                self._lead(topic_id)
        if change.configs:
            await self._changes.configure(image, change.configs)

    async def _remove(self, topic_id: bytes) -> None:
        name = self._names.pop(topic_id, None)
        if name is None:
            return  # created and removed before this broker got to it
        count = len(self._logs.of_topic(name))
        # The topic's own configs are gone with it.
        self._logs.remove(name, int(self._configs.topic_value("file.delete.delay.ms", {})))
        for index in range(count):
            self._led.pop((name, index), None)
        self._changes.when_topic_deleted(name, topic_id)
        await self._logs.sync_removed()

    def _lead(self, topic_id: bytes) -> None:
        """Tells the data plane who leads."""
        topic = self._quorum.image.topics_by_id.get(topic_id)
        if topic is None:
            return
        for index, partition in enumerate(topic.partitions):
            now = (partition.leader_epoch, partition.is_served_by(self._node_id))
            log = self._logs.get(topic.name, index)
            if log is None or self._led.get((topic.name, index)) == now:
                continue
            if partition.leader == self._node_id and not now[1]:
                self._warn_unserved(topic.name, index, partition)
            self._led[topic.name, index] = now
            if log.leader_epoch < partition.leader_epoch and now[1]:
                log.assign_epoch(partition.leader_epoch, log.log_end_offset)
            self._plane.update_partition(
                topic.name,
                index,
                leader_epoch=partition.leader_epoch,
                is_leader=now[1],
                in_sync_replicas=len(partition.in_sync),
            )

    def _warn_unserved(self, topic: str, index: int, partition: PartitionImage) -> None:
        event_log.error(
            "a partition is not served, because brokers of a cluster do not replicate yet; create its topic "
            "with one replica, or move the partition to one broker",
            partition=partition_directory(topic, index),
            in_sync=",".join(map(str, partition.in_sync)),
        )

    def _note_leaders(self, topic_id: bytes) -> None:
        topic = self._quorum.image.topics_by_id[topic_id]
        for index, partition in enumerate(topic.partitions):
            self._led[topic.name, index] = (partition.leader_epoch, partition.is_served_by(self._node_id))
            if partition.leader == self._node_id and not partition.is_served_by(self._node_id):
                self._warn_unserved(topic.name, index, partition)
