"""Starts the parts that every broker has in order, and stops them in reverse order."""

import asyncio
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from bowstring._native.log.partition_log import LogError, PartitionLog
from bowstring._native.server.data_plane import DataPlane
from bowstring.engine import event_log
from bowstring.engine.broker.committed_configs import CommittedConfigs
from bowstring.engine.broker.coordination import PARTS as COORDINATION_PARTS
from bowstring.engine.broker.coordination import Coordination
from bowstring.engine.broker.dispatcher import Dispatcher
from bowstring.engine.broker.housekeeping import Housekeeping
from bowstring.engine.broker.node import make_plane, new_log_directories, node_id_of
from bowstring.engine.configs import BrokerConfigs, ConfigError
from bowstring.engine.coordinators.cluster_changes import ClusterChanges
from bowstring.engine.coordinators.producer_ids import ProducerIds
from bowstring.engine.metadata.image import Metadata, PartitionImage, TopicImage
from bowstring.engine.metadata.store.start_checks import check_metadata_log, explained
from bowstring.engine.network.broker_addresses import inter_broker_listener
from bowstring.engine.requests.led_logs import LedLogs, LedReplicas
from bowstring.engine.requests.listeners import (
    Listener,
    advertised_listeners,
    client_listeners,
    told_elsewhere,
)
from bowstring.engine.requests.time_slices import TimeSlices
from bowstring.engine.storage.cleaner import LogCleaner
from bowstring.engine.storage.descriptor_reserve import DescriptorReserve, raise_file_limit
from bowstring.engine.storage.disk_reads import DiskReads
from bowstring.engine.storage.log_directories import LogDirectories
from bowstring.engine.storage.log_directory import LogDirectory
from bowstring.engine.storage.log_healer import LogHealer
from bowstring.engine.storage.log_manager import LogManager
from bowstring.engine.storage.replica_moves import ReplicaMoves
from bowstring.engine.storage.scrubber import Scrubber
from bowstring.protocol.errors import Errors
from bowstring.protocol.records.cluster_metadata.security import (
    AccessControlEntryRecord,
    UserScramCredentialRecord,
)
from bowstring.protocol.records.cluster_metadata.settings import ClientQuotaRecord

if TYPE_CHECKING:
    from bowstring.engine.broker.metrics_server import MetricsServer
    from bowstring.engine.local.socket import LocalSocket
    from bowstring.engine.network.broker_peers import BrokerPeers
    from bowstring.engine.quorum.service import QuorumService


class Broker(ABC):
    """A broker on its log directories; `LoneBroker` and `ClusterBroker` add the source of its metadata.

    `open` does what needs no event loop. `start` begins to serve, on the control loop. `stop` shuts down
    cleanly. Nothing outside this package sees a broker as a whole: handlers state the parts that they use, by
    the names that these have here and in `Coordination`. A part is not replaced after `open`.

    Attributes:
        configs: The configs in force.
        node_id: This node.
        directories: The log directories.
        metadata: The metadata log and its image.
        logs: The partition logs.
        led_logs: Those of partitions that this broker leads.
        moves: Moves of partitions between log directories.
        plane: The native data plane.
        changes: Has the controller create what the broker needs in the cluster.
        producer_ids: Gives out producer ids.
        listeners: The client listeners, with the ports really bound.
        advertised: The advertised listeners, in the same order.
        handlers: The module that answers, by API key.
        offered: The keys of all APIs that this node offers here.
        quorum: This node's replica of the metadata quorum.
        replication: The replicas of this broker.
        time_slices: Shares the control thread among long requests.
        disk_reads: Threads that read from the disk for requests.
        coordination: The coordinators, and what share groups need.
        dispatcher: Answers requests; holds their counters.
        housekeeping: Runs retention, flushing and checkpoints on timers.
        cleaner: Compacts logs.
        scrubber: Looks for damage in the logs; holds its counters.
        descriptors: Keeps file descriptors for the logs.
        healer: Returns logs to service after errors that pass.
        lost: Set when the node cannot continue with its log directories: its process ends, as Kafka's does.
        local: Gives segment files to readers on this machine; None when it is switched off.
    """

    configs: BrokerConfigs
    node_id: int
    directories: LogDirectories
    metadata: Metadata
    logs: LogManager
    led_logs: LedLogs
    moves: ReplicaMoves
    plane: DataPlane
    changes: ClusterChanges
    producer_ids: ProducerIds
    listeners: list[Listener]
    advertised: list[Listener]
    handlers: Mapping[int, str]
    offered: tuple[int, ...]
    quorum: "QuorumService"
    replication: LedReplicas
    time_slices: TimeSlices
    disk_reads: DiskReads
    coordination: Coordination
    dispatcher: Dispatcher
    housekeeping: Housekeeping
    cleaner: LogCleaner
    scrubber: Scrubber
    healer: LogHealer
    local: "LocalSocket | None"

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.configs = BrokerConfigs(settings)
        self.node_id = node_id_of(self.configs)
        self.directories = new_log_directories(self.configs)
        self.time_slices = TimeSlices()
        self.disk_reads = DiskReads()
        self.housekeeping = Housekeeping(self)
        self.listeners = []
        self.advertised = []
        self.local = None
        self.descriptors = DescriptorReserve()
        self._metrics: MetricsServer | None = None
        self._not_ready: str | None = "the broker is starting"
        self.lost = asyncio.Event()
        self._are_logs_touched = False

    # ------------------------------------------------------------ start

    def open(self, *, only_to_recover: bool = False) -> None:
        """Locks the log directories, opens the metadata log, binds the listeners.

        Args:
            only_to_recover: No client will be served: listeners are not bound, and configs that request
                missing protections are accepted.

        Raises:
            ConfigError, DataDirectoryError, OSError: The message says what is wrong and what to do.
        """
        if not only_to_recover:
            self._refuse_unenforced()
        wanted = client_listeners(self.configs)
        if "broker" not in self.configs.value("process.roles"):
            raise ConfigError(
                "process.roles must include broker: a node without that role has no logs to open"
            )
        raise_file_limit()
        check_metadata_log(self.directory.path)
        self.directories.open(self.node_id)
        with self._undone_on_failure():
            self.descriptors.keep()
            self._open_metadata()
            self.plane = make_plane(self.configs, self.offered)
            if not only_to_recover:
                self._listen(wanted)
            self.logs = LogManager(self.directories, self.configs, self.plane, self.node_id)
            self._committed_configs = CommittedConfigs(self.configs, self.logs, self.node_id)
            self._make_changes()
            self._make_dispatcher()
            if not only_to_recover:
                self._bind_local()
            self._make_workers()
            self._committed_configs.load(self.metadata.image)
            if not only_to_recover:
                self._refuse_unenforced()
            self.logs.when_replaced = self._log_replaced

    @contextmanager
    def _undone_on_failure(self) -> Iterator[None]:
        """Closes what is open if a step of `open` fails. Partition logs that no step has touched stay as they
        were found.
        """
        try:
            yield
        except BaseException as error:
            self._close_metadata_log()
            if self._are_logs_touched:
                self.logs.durability.close(is_clean=lambda _: False)
            else:
                self.directories.leave_as_found()
            self.directories.close()
            self.descriptors.give_back()
            if isinstance(error, LogError):
                raise explained(error, self.directory.path) from error
            raise

    @abstractmethod
    def _open_metadata(self) -> None:
        """Opens the metadata log."""

    @abstractmethod
    def _close_metadata_log(self) -> None:
        """Closes the metadata log; does nothing if it is not open."""

    @abstractmethod
    def _make_changes(self) -> None:
        """Creates `changes`, `producer_ids`, and other parts that need the partition logs."""

    @abstractmethod
    async def _assign_directory(self, topic: TopicImage, index: int, directory_id: bytes) -> None:
        """Has the metadata log name the log directory of this node's replica (KIP-858)."""

    def _make_dispatcher(self) -> None:
        """Creates what answers requests; coordinators begin later."""
        self.led_logs = LedLogs(self.metadata, self.logs, self.node_id, self.replication)
        self.coordination = Coordination(
            self.configs,
            self.metadata,
            self.logs,
            self.plane,
            node_id=self.node_id,
            changes=self.changes,
            producer_ids=self.producer_ids,
            led_logs=self.led_logs,
            peers=lambda: self.peers,
            time_slices=self.time_slices,
            disk_reads=self.disk_reads,
        )
        self.dispatcher = Dispatcher(
            self.plane, self.handlers, self.part, advertised=self.advertised, time_slices=self.time_slices
        )
        self.dispatcher.when_ended = self.coordination.connections_ended
        self.dispatcher.when_advanced = self.coordination.coordinators.high_watermark_advanced
        if self.replication is not None:
            self.dispatcher.when_replicas_change = self.replication.take_events

    def part(self, name: str) -> Any:
        """Returns the part that handlers state by a name. Call on the control loop, after `open`."""
        return getattr(self.coordination if name in COORDINATION_PARTS else self, name)

    @property
    def cluster_id(self) -> str:
        """The cluster's id, in text form."""
        return self.directories.cluster_id

    @cached_property
    def peers(self) -> "BrokerPeers":
        """The connections to brokers."""
        from bowstring.engine.network.broker_peers import BrokerPeers

        return BrokerPeers(self.metadata, inter_broker_listener(self.configs))

    @property
    def directory(self) -> LogDirectory:
        """The log directory with the metadata log; usually the only one."""
        return self.directories.metadata

    def _recovery_threads(self) -> int:
        return int(self.configs.value("num.recovery.threads.per.data.dir") * len(self.directories.opened))

    def _make_workers(self) -> None:
        """Creates the parts that work on logs outside requests."""
        self.cleaner = LogCleaner(self.configs, self.metadata, self.logs)
        self.scrubber = Scrubber(self.configs, self.metadata, self.logs)
        self.healer = LogHealer(self.logs, self.logs.durability.waiting_logs)
        self.moves = ReplicaMoves(
            self.configs,
            self.metadata,
            self.directories,
            self.logs,
            self.plane,
            assign=self._assign_directory,
            when_retired=self.housekeeping.cluster_changed,
        )

    def _refuse_unenforced(self) -> None:
        if reasons := self.configs.unenforced():
            raise ConfigError("\n".join(reasons))

    def _listen(self, wanted: list[Listener]) -> None:
        self.listeners = [
            listener._replace(port=self.plane.listen(listener.host, listener.port)) for listener in wanted
        ]
        self.advertised = advertised_listeners(self.configs, self.listeners)

    def _bind_local(self) -> None:
        if self.configs.value("bowstring.local.socket") != "off":
            from bowstring.engine.local.socket import LocalSocket

            self.local = LocalSocket(
                self.configs,
                self.plane,
                directory=self.directory.path,
                cluster_id=self.cluster_id,
                node_id=self.node_id,
                metadata=self.metadata,
                led_logs=self.led_logs,
            )
            self.local.bind()

    @abstractmethod
    async def start(self) -> None:
        """Starts serving. Call on the control loop, after `open`."""

    async def _serve(self) -> None:
        self.coordination.begin_held()
        self.descriptors.start()
        self.directories.when_told = self._look_at_directories
        self.descriptors.when_over = self.logs.durability.when_stuck = self.healer.look
        self.healer.when_healed = self._logs_healed
        asyncio.get_running_loop().add_reader(self.directories.event_fd, self.directories.look)
        self.directories.look()
        self.dispatcher.start()
        self.housekeeping.start()
        self.cleaner.start()
        self.scrubber.start()
        self.logs.durability.start(asyncio.get_running_loop())
        self.moves.resume(self.logs.unfinished)
        if self.local is not None:
            self.local.start()

    def _warn(self) -> None:
        for name in self.configs.without_effect():
            event_log.warning(
                "a config is accepted and reported, but has no effect yet; remove it to silence this warning",
                config=name,
            )
        for told in told_elsewhere(self.listeners, self.advertised):
            event_log.warning(
                "clients get an advertised address on which this broker does not listen; run a proxy or a "
                "tunnel from that address, or set listeners too",
                advertised=told,
                listeners=",".join(str(each.host) for each in self.listeners),
            )
        for what, kind in (
            ("access control entries", AccessControlEntryRecord),
            ("SCRAM credentials", UserScramCredentialRecord),
            ("client quotas", ClientQuotaRecord),
        ):
            if count := sum(1 for _ in self.metadata.image.kept.of(kind)):
                event_log.warning(
                    f"the metadata log holds {what}, which this broker keeps but does not enforce; do not "
                    "rely on them",
                    count=count,
                )

    async def _start_metrics(self) -> None:
        port = self.configs.value("bowstring.metrics.port")
        if port >= 0:
            from bowstring.engine.broker.metrics_server import MetricsServer

            self._metrics = MetricsServer(self._metrics_registry, self.why_not_ready)
            await self._metrics.start(self.listeners[0].host or None, port)

    @abstractmethod
    def _metrics_registry(self) -> Any:
        """Returns the registry of this broker's metrics."""

    @abstractmethod
    def own_partitions(self) -> Iterator[tuple[str, int, PartitionImage]]:
        """Yields topic, index and state of each partition that this broker has."""

    def why_not_ready(self) -> str | None:
        """Returns why this broker cannot serve clients now; None when it can."""
        return self._not_ready or self.directories.why_lost

    @property
    def metrics_port(self) -> int:
        """Port on which metrics are served; -1 when they are not."""
        return self._metrics.port if self._metrics is not None else -1

    # ------------------------------------------------------------ changes

    def _cluster_changed(self) -> None:
        self.plane.verify_transactions(self.configs.value("transaction.partition.verification.enable"))
        self.housekeeping.cluster_changed()
        self.cleaner.cluster_changed()

    def _topic_deleted(self, name: str, topic_id: bytes) -> None:
        self.cleaner.topic_deleted(name)
        self.coordination.topic_deleted(name, topic_id)

    def _look_at_directories(self) -> None:
        if self.directories.why_lost is not None:
            self.lost.set()
        self.healer.look()

    def _logs_healed(self, partitions: Sequence[tuple[str, int]]) -> None:
        """Coordinators that gave up a partition take it again."""
        for topic, index in partitions:
            if topic in self.metadata.image.topics:
                self.coordination.role_changed(topic, index)

    def _log_replaced(self, topic: str, index: int, log: PartitionLog) -> None:
        self.cleaner.log_replaced(topic, index, log)
        self.coordination.log_replaced(topic, index, log)

    # ------------------------------------------------------------ stop

    @abstractmethod
    async def stop(self) -> None:
        """Stops accepting, finishes requests in progress, syncs and closes the logs, writes the
        clean-shutdown marker.
        """

    async def _stop_serving(self) -> None:
        self.housekeeping.stop()
        await self.cleaner.stop()
        self.scrubber.stop()
        await self.healer.stop()
        await self.moves.stop()
        await self.coordination.stop()
        self.peers.close()
        await self.dispatcher.stop()
        if self.local is not None:
            await self.local.stop()
        await self._stop_metrics()
        self.descriptors.stop()
        asyncio.get_running_loop().remove_reader(self.directories.event_fd)
        self.plane.stop()
        self.disk_reads.stop()

    async def _stop_metrics(self) -> None:
        if self._metrics is not None:
            await self._metrics.stop()
            self._metrics = None

    def _close_and_tell(self) -> None:
        started = time.monotonic()
        self.close()  # runs on the loop itself: no other task is left
        event_log.info("broker stopped cleanly", seconds=round(time.monotonic() - started, 3))

    def close(self) -> None:
        """Closes logs and directories. Writes no marker if a file could not be written; releases the locks in
        any case.
        """
        self._close(self._broker_epoch())

    def _close(self, epoch: int) -> None:
        try:
            with ExitStack() as stack:  # callbacks run in reverse order; the first error is raised at the end
                stack.callback(self.directories.mark_clean, epoch)
                stack.callback(self._close_metadata)
                stack.callback(self.logs.close, self.configs.value("num.recovery.threads.per.data.dir"))
        finally:
            self.directories.close()
            self.descriptors.give_back()

    @abstractmethod
    def _broker_epoch(self) -> int:
        """Returns the epoch of this broker's registration."""

    def _close_metadata(self) -> None:
        try:
            self._close_metadata_log()
        except LogError:
            self.directories.unclean.add(self.directory)
            raise
        failure = self.directory.health.failure
        if failure is not None:
            number, doing, where = failure
            raise LogError(
                Errors.KAFKA_STORAGE_ERROR.code,
                f"{self.directory.path} has failed: {doing} in {where}: {os.strerror(number)}",
            )
