"""Creates the coordinators of a broker and what share groups need, each with its first use."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from bowstring._native.log.partition_log import PartitionLog
from bowstring._native.server.data_plane import DataPlane
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.coordinators.cluster_changes import ClusterChanges
from bowstring.engine.coordinators.coordinators import Coordinators
from bowstring.engine.coordinators.producer_ids import ProducerIds
from bowstring.engine.metadata.image import ClusterImage, Metadata
from bowstring.engine.metadata.names import GROUPS_TOPIC, SHARE_TOPIC, TRANSACTIONS_TOPIC
from bowstring.engine.requests.led_logs import LedLogs
from bowstring.engine.requests.time_slices import TimeSlices
from bowstring.engine.storage.disk_reads import DiskReads
from bowstring.engine.storage.log_manager import LogManager
from bowstring.protocol.errors import Error
from bowstring.protocol.records.cluster_metadata.markers import NoOpRecord
from bowstring.protocol.schema import MetadataRecord

if TYPE_CHECKING:
    from bowstring.engine.groups.service import GroupCoordinatorService
    from bowstring.engine.network.broker_peers import BrokerPeers
    from bowstring.engine.share.coordinator.service import ShareCoordinatorService
    from bowstring.engine.share.latest_offsets import LatestOffsets
    from bowstring.engine.share.leader.share_partitions import SharePartitions
    from bowstring.engine.share.persister.network import NetworkPersister
    from bowstring.engine.transactions.marker_writer import Marker
    from bowstring.engine.transactions.service import TransactionCoordinatorService

PARTS: Final = frozenset(
    {
        "coordinators",
        "groups",
        "latest_offsets",
        "persister",
        "share_coordinator",
        "share_partitions",
        "transactions",
    }
)
"""The attributes of `Coordination` that handlers may state as parts."""


class Coordination:
    """What a broker coordinates, and the share partitions that it leads. Each part is created when it is
    first used, on the control loop, and stays until `stop`.

    Args:
        peers: Returns the connections to brokers.

    Attributes:
        coordinators: The coordinators, by internal topic.
    """

    coordinators: Coordinators

    def __init__(
        self,
        configs: BrokerConfigs,
        metadata: Metadata,
        logs: LogManager,
        plane: DataPlane,
        *,
        node_id: int,
        changes: ClusterChanges,
        producer_ids: ProducerIds,
        led_logs: LedLogs,
        peers: Callable[[], "BrokerPeers"],
        time_slices: TimeSlices,
        disk_reads: DiskReads,
    ) -> None:
        self.coordinators = Coordinators(
            {
                TRANSACTIONS_TOPIC: self._new_transactions,
                GROUPS_TOPIC: self._new_groups,
                SHARE_TOPIC: self._new_share_coordinator,
            }
        )
        self._configs = configs
        self._metadata = metadata
        self._logs = logs
        self._plane = plane
        self._node_id = node_id
        self._changes = changes
        self._producer_ids = producer_ids
        self._led_logs = led_logs
        self._peers = peers
        self._time_slices = time_slices
        self._disk_reads = disk_reads
        self._persister: NetworkPersister | None = None
        self._latest_offsets: LatestOffsets | None = None
        self._share_partitions: SharePartitions | None = None

    def image_changed(self, changed: "Sequence[MetadataRecord] | ClusterImage", *_where: int) -> None:
        """Passes on to the group coordinator that records, or a snapshot, have changed the image."""
        if isinstance(changed, ClusterImage) or any(type(each) is not NoOpRecord for each in changed):
            groups = self.coordinators.get(GROUPS_TOPIC)
            if groups is not None:
                groups.image_changed()

    # ------------------------------------------------------------ parts

    @property
    def groups(self) -> "GroupCoordinatorService":
        """The group coordinator."""
        return cast("GroupCoordinatorService", self.coordinators.of(GROUPS_TOPIC))

    def _new_groups(self) -> "GroupCoordinatorService":
        from bowstring.engine.groups.service import GroupCoordinatorService

        return GroupCoordinatorService(
            self._configs,
            self._metadata,
            self._logs,
            self._plane,
            self._changes,
            persister=lambda: self.persister,
        )

    @property
    def transactions(self) -> "TransactionCoordinatorService":
        """The transaction coordinator."""
        return cast("TransactionCoordinatorService", self.coordinators.of(TRANSACTIONS_TOPIC))

    def _new_transactions(self) -> "TransactionCoordinatorService":
        from bowstring.engine.transactions.service import TransactionCoordinatorService

        return TransactionCoordinatorService(
            self._configs,
            self._metadata,
            self._logs,
            self._plane,
            changes=self._changes,
            producer_ids=self._producer_ids,
            node_id=self._node_id,
            peers=self._peers(),
            mark_group=self._mark_group,
        )

    async def _mark_group(self, partition: int, marker: "Marker") -> Error:
        batch = marker.batch(time.time_ns() // 1_000_000)
        return await self.groups.end_transaction(
            partition, batch, marker.producer_id, commit=marker.commit, version=marker.version
        )

    @property
    def share_coordinator(self) -> "ShareCoordinatorService":
        """The share coordinator."""
        return cast("ShareCoordinatorService", self.coordinators.of(SHARE_TOPIC))

    def _new_share_coordinator(self) -> "ShareCoordinatorService":
        from bowstring.engine.share.coordinator.service import ShareCoordinatorService

        return ShareCoordinatorService(self._configs, self._metadata, self._logs, self._plane, self._changes)

    @property
    def persister(self) -> "NetworkPersister":
        """Reads and writes the state of share partitions."""
        if self._persister is None:
            from bowstring.engine.share.persister.network import NetworkPersister

            self._persister = NetworkPersister(
                lambda: self.share_coordinator, self._node_id, self._peers(), timeout_s=self._timeout_s()
            )
        return self._persister

    @property
    def latest_offsets(self) -> "LatestOffsets":
        """Finds the end offsets of partitions."""
        if self._latest_offsets is None:
            from bowstring.engine.share.latest_offsets import LatestOffsets

            self._latest_offsets = LatestOffsets(
                self._metadata,
                self._node_id,
                self._led_logs.high_watermark,
                self._peers(),
                timeout_s=self._timeout_s(),
            )
        return self._latest_offsets

    @property
    def share_partitions(self) -> "SharePartitions":
        """The share partitions that this broker leads."""
        if self._share_partitions is None:
            from bowstring.engine.share.leader.dead_letters import DeadLetters
            from bowstring.engine.share.leader.share_partitions import SharePartitions

            self._share_partitions = SharePartitions(
                self._configs,
                self._metadata,
                self._plane,
                self.persister,
                leader_log=self._led_logs.of,
                time_slices=self._time_slices,
                disk_reads=self._disk_reads,
                dead_letters=DeadLetters(
                    self._configs,
                    self._metadata,
                    self._changes,
                    leader_log=self._led_logs.of,
                    peers=self._peers(),
                    disk_reads=self._disk_reads,
                    time_slices=self._time_slices,
                    timeout_s=self._timeout_s(),
                ),
            )
        return self._share_partitions

    def _timeout_s(self) -> float:
        return float(self._configs.value("request.timeout.ms")) / 1000

    # ------------------------------------------------------------ life

    def begin_held(self) -> None:
        """Begins the coordinators whose topics exist: they read their logs before the first request, and
        continue decisions from before the last stop.
        """
        for topic in self.coordinators.topics:
            if topic in self._metadata.image.topics:
                self.coordinators.of(topic)

    def role_changed(self, topic: str, partition: int) -> None:
        """Follows a change of who leads a partition. Call it after the data plane has the new role."""
        if topic in self.coordinators.topics:
            self.coordinators.of(topic).role_changed(partition)
        elif self._share_partitions is not None:
            self._share_partitions.role_changed(topic, partition)

    def topic_deleted(self, name: str, topic_id: bytes) -> None:
        """Deletes what is held of a deleted topic."""
        self.coordinators.topic_deleted(name, topic_id)
        if self._share_partitions is not None:
            self._share_partitions.topic_deleted(topic_id)

    def log_replaced(self, topic: str, partition: int, log: PartitionLog) -> None:
        """Has the coordinator of an internal topic use another log of a partition."""
        coordinator = self.coordinators.get(topic)
        if coordinator is not None:
            coordinator.log_replaced(partition, log)

    def connections_ended(self, connection_ids: list[int]) -> None:
        """Ends the state of connections, those that sent a ShareFetch."""
        if self._share_partitions is not None:
            for connection_id in connection_ids:
                self._share_partitions.connection_ended(connection_id)

    async def stop(self) -> None:
        """Stops what has begun; requests that wait for it are refused."""
        if self._share_partitions is not None:
            await self._share_partitions.stop()
        await self.coordinators.stop()
        if self._persister is not None:
            await self._persister.stop()

    # ------------------------------------------------------------ figures

    def group_shards(self) -> Iterable[tuple[int, Any]]:
        """Returns the shards of groups that this broker coordinates; none without a member so far."""
        groups = self.coordinators.get(GROUPS_TOPIC)
        return () if groups is None else groups.shards()

    def share_lags(self) -> Iterable[tuple[str, str, int, int, int]]:
        """Returns `ShareCoordinatorService.unread` of this broker."""
        coordinator = self.coordinators.get(SHARE_TOPIC)
        return () if coordinator is None else coordinator.unread()

    def group_rebalances(self) -> Mapping[str, int]:
        """Returns how many rebalances this broker has coordinated since it started, by group type."""
        groups = self.coordinators.get(GROUPS_TOPIC)
        return {} if groups is None else groups.rebalances

    def led_share_partitions(self) -> Iterable[tuple[str, str, int, int]]:
        """Returns `SharePartitions.in_flight` of this broker."""
        return () if self._share_partitions is None else self._share_partitions.in_flight()

    def dead_letter_counts(self) -> tuple[int, int]:
        """Returns the records that share groups gave up, with and without a copy in a dead-letter topic."""
        led = self._share_partitions
        if led is None or led.dead_letters is None:
            return 0, 0
        return led.dead_letters.written, led.dead_letters.lost
