"""Lists the parts of a broker that request handlers use."""

import time
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, cast

from bowstring._native.server.data_plane import DataPlane
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.coordinators.coordinators import Coordinators
from bowstring.engine.metadata.committer import Committer
from bowstring.engine.metadata.image import Metadata
from bowstring.engine.metadata.names import GROUPS_TOPIC, SHARE_TOPIC, TRANSACTIONS_TOPIC
from bowstring.engine.metadata.replica_placer import Randomness
from bowstring.engine.metadata.store.cluster_changes import ClusterChanges
from bowstring.engine.metadata.store.log import MetadataLog
from bowstring.engine.metadata.store.producer_ids import ProducerIds
from bowstring.engine.metadata.topic_changes import NO_RANDOMNESS
from bowstring.engine.requests.binding import bound
from bowstring.engine.requests.led_logs import LedLogs, LedReplicas
from bowstring.engine.requests.listeners import Listener
from bowstring.engine.requests.time_slices import TimeSlices
from bowstring.engine.storage.disk_reads import DiskReads
from bowstring.engine.storage.log_directories import LogDirectories
from bowstring.engine.storage.log_directory import LogDirectory
from bowstring.engine.storage.log_manager import LogManager
from bowstring.engine.storage.replica_moves import ReplicaMoves
from bowstring.protocol.errors import Error

if TYPE_CHECKING:
    from bowstring.engine.controller.service import QuorumController
    from bowstring.engine.groups.service import GroupCoordinatorService
    from bowstring.engine.network.broker_peers import BrokerPeers
    from bowstring.engine.quorum.service import QuorumService
    from bowstring.engine.share.coordinator.service import ShareCoordinatorService
    from bowstring.engine.share.latest_offsets import LatestOffsets
    from bowstring.engine.share.leader.share_partitions import SharePartitions
    from bowstring.engine.share.persister.network import NetworkPersister
    from bowstring.engine.transactions.marker_writer import Marker
    from bowstring.engine.transactions.service import TransactionCoordinatorService


class BrokerServices:
    """The parts of the broker that API handlers and local readers use.

    Attributes:
        configs: The configs in force.
        node_id: This node.
        directories: The log directories.
        metadata: The metadata log and its image.
        alone: The metadata log of a node alone; unused in a cluster.
        logs: The partition logs.
        moves: Moves of partitions between log directories.
        plane: The native data plane.
        changes: Creates what the broker needs in the cluster, and carries changes of configs out.
        committer: Commits what handlers decide; on a broker of a cluster they decide nothing.
        producer_ids: Allocates producer ids.
        listeners: The client listeners, with the ports really bound.
        advertised: The advertised listeners, in the same order.
        handlers: The module that answers, by API key.
        offered: The keys of all APIs that this node offers here.
        quorum: This node's replica of the metadata quorum; None on a node alone.
        controller: This node's controller; None on listeners of brokers.
        replication: The replicas of this broker; None on a node alone and on listeners of controllers.
        inter_broker_listener: Name of the listener through which brokers connect to one another.
        random: For the placement of replicas.
        time_slices: Shares the control thread among long requests.
        disk_reads: Threads that read from the disk for requests.
    """

    configs: BrokerConfigs
    node_id: int
    directories: LogDirectories
    metadata: Metadata
    alone: MetadataLog
    logs: LogManager
    moves: ReplicaMoves
    plane: DataPlane
    changes: ClusterChanges
    committer: Committer
    producer_ids: ProducerIds
    listeners: list[Listener]
    advertised: list[Listener]
    handlers: Mapping[int, str]
    offered: tuple[int, ...]
    quorum: "QuorumService | None" = None
    controller: "QuorumController | None" = None
    replication: "LedReplicas | None" = None
    inter_broker_listener: str
    random: Randomness = NO_RANDOMNESS
    time_slices: TimeSlices
    disk_reads: DiskReads
    _persister: "NetworkPersister | None" = None
    _latest_offsets: "LatestOffsets | None" = None
    _share_partitions: "SharePartitions | None" = None

    def bind_parts(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a function of a handler's module with the parts that it states."""
        return bound(function, partial(getattr, self))

    @property
    def cluster_id(self) -> str:
        """The cluster's id, in text form."""
        return self.directories.cluster_id

    @cached_property
    def led_logs(self) -> LedLogs:
        """The logs of the partitions that this broker leads."""
        return LedLogs(self.metadata, self.logs, self.node_id, self.replication)

    @property
    def directory(self) -> LogDirectory:
        """The log directory with the metadata log; usually the only one."""
        return self.directories.metadata

    @cached_property
    def peers(self) -> "BrokerPeers":
        """The connections to brokers."""
        from bowstring.engine.network.broker_peers import BrokerPeers

        return BrokerPeers(self.metadata, self.inter_broker_listener)

    @cached_property
    def coordinators(self) -> Coordinators:
        """The coordinators, by internal topic."""
        return Coordinators(
            {
                TRANSACTIONS_TOPIC: self._new_transactions,
                GROUPS_TOPIC: self._new_groups,
                SHARE_TOPIC: self._new_share_coordinator,
            }
        )

    @property
    def groups(self) -> "GroupCoordinatorService":
        """The group coordinator; created and started on first use, on the control loop."""
        return cast("GroupCoordinatorService", self.coordinators.of(GROUPS_TOPIC))

    def _new_groups(self) -> "GroupCoordinatorService":
        from bowstring.engine.groups.service import GroupCoordinatorService

        return GroupCoordinatorService(
            self.configs,
            self.metadata,
            self.logs,
            self.plane,
            self.changes,
            persister=lambda: self.persister,
        )

    @property
    def transactions(self) -> "TransactionCoordinatorService":
        """The transaction coordinator; created and started on first use, on the control loop."""
        return cast("TransactionCoordinatorService", self.coordinators.of(TRANSACTIONS_TOPIC))

    def _new_transactions(self) -> "TransactionCoordinatorService":
        from bowstring.engine.transactions.service import TransactionCoordinatorService

        return TransactionCoordinatorService(
            self.configs,
            self.metadata,
            self.logs,
            self.plane,
            changes=self.changes,
            producer_ids=self.producer_ids,
            node_id=self.node_id,
            peers=self.peers,
            mark_group=self._mark_group,
        )

    @property
    def share_coordinator(self) -> "ShareCoordinatorService":
        """The share coordinator; created and started on first use, on the control loop."""
        return cast("ShareCoordinatorService", self.coordinators.of(SHARE_TOPIC))

    def _new_share_coordinator(self) -> "ShareCoordinatorService":
        from bowstring.engine.share.coordinator.service import ShareCoordinatorService

        return ShareCoordinatorService(self.configs, self.metadata, self.logs, self.plane, self.changes)

    @property
    def persister(self) -> "NetworkPersister":
        """Reads and writes the state of share partitions; created on first use, on the control loop."""
        if self._persister is None:
            from bowstring.engine.share.persister.network import NetworkPersister

            self._persister = NetworkPersister(
                lambda: self.share_coordinator,
                self.node_id,
                self.peers,
                timeout_s=self.configs.value("request.timeout.ms") / 1000,
            )
        return self._persister

    @property
    def latest_offsets(self) -> "LatestOffsets":
        """Finds the end offsets of partitions; created on first use, on the control loop."""
        if self._latest_offsets is None:
            from bowstring.engine.share.latest_offsets import LatestOffsets

            self._latest_offsets = LatestOffsets(
                self.metadata,
                self.node_id,
                self.led_logs.high_watermark,
                self.peers,
                timeout_s=self.configs.value("request.timeout.ms") / 1000,
            )
        return self._latest_offsets

    @property
    def share_partitions(self) -> "SharePartitions":
        """The share partitions that this broker leads; created on first use, on the control loop."""
        if self._share_partitions is None:
            from bowstring.engine.share.leader.dead_letters import DeadLetters
            from bowstring.engine.share.leader.share_partitions import SharePartitions

            self._share_partitions = SharePartitions(
                self.configs,
                self.metadata,
                self.plane,
                self.persister,
                leader_log=self.led_logs.of,
                time_slices=self.time_slices,
                disk_reads=self.disk_reads,
                dead_letters=DeadLetters(
                    self.configs,
                    self.metadata,
                    self.changes,
                    leader_log=self.led_logs.of,
                    peers=self.peers,
                    disk_reads=self.disk_reads,
                    time_slices=self.time_slices,
                    timeout_s=self.configs.value("request.timeout.ms") / 1000,
                ),
            )
        return self._share_partitions

    def connections_ended(self, connection_ids: list[int]) -> None:
        """Ends the state of connections, those that sent a ShareFetch."""
        if self._share_partitions is not None:
            for connection_id in connection_ids:
                self._share_partitions.connection_ended(connection_id)

    async def _mark_group(self, partition: int, marker: "Marker") -> Error:
        batch = marker.batch(time.time_ns() // 1_000_000)
        return await self.groups.end_transaction(
            partition, batch, marker.producer_id, commit=marker.commit, version=marker.version
        )

    def high_watermark_advanced(self, topic: str, partition: int) -> None:
        """Passes on what `DataPlane.watch` has requested."""
        self.coordinators.high_watermark_advanced(topic, partition)

    def coordinator_role_changed(self, topic: str, partition: int) -> None:
        """Lets the coordinators follow a change of who leads a partition. Call it on the control loop after
        the data plane has the new role.
        """
        if topic in self.coordinators.topics:
            self.coordinators.of(topic).role_changed(partition)
        elif self._share_partitions is not None:
            self._share_partitions.role_changed(topic, partition)
