"""Hosts the shards of the partitions of ``__share_group_state`` that this broker leads."""

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Final

from bowstring._native.log.partition_log import LogError, PartitionLog
from bowstring.engine import event_log
from bowstring.engine.coordinators.effects import Respond
from bowstring.engine.coordinators.hosted import HostedShard
from bowstring.engine.coordinators.internal_topic import InternalTopic
from bowstring.engine.coordinators.log_replay import batches_of
from bowstring.engine.coordinators.runtime import CoordinatorRuntime, wall_ms
from bowstring.engine.metadata.names import SHARE_TOPIC
from bowstring.engine.share.coordinator.config import ShareCoordinatorConfig
from bowstring.engine.share.coordinator.results import partition_result
from bowstring.engine.share.coordinator.shard import Effect, Outcome, ShareShard
from bowstring.engine.share.persister.interface import (
    UNINITIALIZED_START_OFFSET,
    SharePartitionKey,
    WrittenState,
    coordinator_key,
)
from bowstring.engine.share.persister.state_apis import DELETE, INITIALIZE, READ, SUMMARY, WRITE
from bowstring.protocol.errors import KafkaError
from bowstring.protocol.share_batches import StateBatch

if TYPE_CHECKING:
    from bowstring._native.server.data_plane import DataPlane
    from bowstring.engine.configs import BrokerConfigs
    from bowstring.engine.coordinators.cluster_changes import ClusterChanges
    from bowstring.engine.metadata.image import ImageSource
    from bowstring.engine.storage.log_manager import LogManager

_TOPIC: Final = InternalTopic(
    SHARE_TOPIC,
    "share.coordinator.state.topic.num.partitions",
    "share.coordinator.state.topic.replication.factor",
    lambda value: {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "min.insync.replicas": str(value("share.coordinator.state.topic.min.isr")),
        "retention.ms": "-1",
        "segment.bytes": str(value("share.coordinator.state.topic.segment.bytes")),
    },
    "share partitions",
)

Event = Callable[[ShareShard, SharePartitionKey, Any, object, int], list[Effect]]
"""(shard, share partition, partition of the request, token, now in ms) to effects."""


class ShareCoordinatorService(CoordinatorRuntime[ShareShard]):
    """The coordinator of the share partitions whose keys hash to partitions that this broker leads."""

    topic: ClassVar = _TOPIC
    answers_wait: ClassVar = True

    def __init__(
        self,
        configs: "BrokerConfigs",
        metadata: "ImageSource",
        logs: "LogManager",
        plane: "DataPlane",
        changes: "ClusterChanges",
    ) -> None:
        super().__init__(configs, metadata, logs, plane, changes)
        self.config = ShareCoordinatorConfig.read(configs.value)
        # ids of topics that were deleted while the log of a partition was read
        self._deleted: dict[int, set[bytes]] = {}

    def start(self) -> None:
        """Leads the partitions that the data plane leads. Call on the control loop."""
        super().start()
        config = self.config
        prune_ms = config.share_coordinator_state_topic_prune_interval_ms
        snapshot_ms = config.share_coordinator_cold_partition_snapshot_interval_ms
        self._spawn(self._repeat(prune_ms, self.prune))
        self._spawn(self._repeat(snapshot_ms, lambda: self.snapshot_cold(wall_ms())))

    def _other_topic_deleted(self, topic: str, topic_id: bytes) -> None:
        for hosted in list(self._hosted.values()):
            if hosted.shard.loading:
                self._deleted.setdefault(hosted.partition, set()).add(topic_id)
            elif self._leads(hosted):
                self._carry(hosted, hosted.shard.topics_deleted({topic_id}))

    # ------------------------------------------------------------ shards

    def _new_shard(self) -> ShareShard:
        return ShareShard(self.config, self._has_partition)

    def _has_partition(self, topic_id: bytes, partition: int) -> bool:
        topic = self._metadata.image.topics_by_id.get(topic_id)
        return topic is not None and partition < len(topic.partitions)

    def _replay(self, log: PartitionLog, shard: ShareShard, go_on: Callable[[], bool]) -> None:
        for records in batches_of(log, go_on, self.config.share_coordinator_load_buffer_size):
            for record in records:
                shard.replay(record.offset, record.key, record.value)

    def _loaded_now(self, hosted: HostedShard[ShareShard]) -> None:
        super()._loaded_now(hosted)
        deleted = self._deleted.pop(hosted.partition, None)
        if deleted:
            self._carry(hosted, hosted.shard.topics_deleted(deleted))

    def unread(self) -> Iterator[tuple[str, str, int, int, int]]:
        """Yields group, topic, partition, start offset, and the number of records from there on that need no
        delivery any more, of the share partitions that this broker coordinates and whose groups have read.
        """
        for hosted in self.ready():
            for key, state in hosted.shard.states():
                topic = self._metadata.image.topics_by_id.get(key.topic_id)
                if topic is not None and state.start_offset != UNINITIALIZED_START_OFFSET:
                    done = max(0, state.delivery_complete_count)
                    yield key.group_id, topic.name, key.partition, state.start_offset, done

    # ------------------------------------------------------------ requests

    async def serve(self, api_key: int, key: SharePartitionKey, data: Any) -> Any:
        """Carries out a request for one share partition.

        Args:
            api_key: One of STATE_APIS.
            data: The partition of the request.

        Returns: The partition of the response.
        """
        try:
            hosted = self._loaded(self.partition_of(coordinator_key(key)))
            answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            self._carry(hosted, _EVENTS[api_key](hosted.shard, key, data, answer, wall_ms()))
            outcome = await self._in_time(answer, self.config.share_coordinator_write_timeout_ms / 1000)
        except KafkaError as error:
            outcome = Outcome(error.error, error.detail)
        return partition_result(api_key, key.partition, outcome)

    # ------------------------------------------------------------ time

    async def prune(self) -> None:
        """Deletes the records that no share partition needs."""
        for hosted in self.ready():
            # Snapshots may replace older ones only when they are committed.
            answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            self._carry(hosted, [Respond(answer, hosted.shard.needed_offset())])
            try:
                offset = await self._in_time(answer, self.config.share_coordinator_write_timeout_ms / 1000)
                if not hosted.dismissed and offset > hosted.log.log_start_offset:
                    hosted.log.delete_records(min(offset, hosted.log.high_watermark))
            except KafkaError:
                continue  # the next round tries again
            except LogError as error:
                event_log.warning(
                    f"old records of {SHARE_TOPIC} cannot be deleted",
                    partition=f"{SHARE_TOPIC}-{hosted.partition}",
                    detail=str(error),
                )

    def snapshot_cold(self, now_ms: int) -> None:
        """Writes snapshots of share partitions at rest."""
        for hosted in self.ready():
            with self._guarded(hosted.partition):
                self._carry(hosted, hosted.shard.snapshot_cold(now_ms))


def _write(shard: ShareShard, key: SharePartitionKey, data: Any, token: object, now_ms: int) -> list[Effect]:
    written = WrittenState(
        data.state_epoch,
        data.leader_epoch,
        data.start_offset,
        data.delivery_complete_count,
        tuple(
            StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
            for each in data.state_batches
        ),
    )
    return shard.write(key, written, token, now_ms)


_EVENTS: Final[dict[int, Event]] = {
    INITIALIZE.key: lambda shard, key, data, token, now_ms: shard.initialize(
        key, data.state_epoch, data.start_offset, token, now_ms
    ),
    READ.key: lambda shard, key, data, token, now_ms: shard.read(key, data.leader_epoch, token, now_ms),
    WRITE.key: _write,
    DELETE.key: lambda shard, key, data, token, now_ms: shard.delete(key, token),
    SUMMARY.key: lambda shard, key, data, token, now_ms: shard.summarize(key, token),
}
