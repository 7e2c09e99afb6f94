"""Starts the parts of a broker in order, and stops them in reverse order."""

import asyncio
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from bowstring._native.log.partition_log import LogError, PartitionLog
from bowstring._native.server.data_plane import DataPlane
from bowstring.engine import background, event_log
from bowstring.engine.api.table import BY_BROKER
from bowstring.engine.broker.committed_configs import CommittedConfigs
from bowstring.engine.broker.connection_limits import ConnectionLimits, check_connection_limits
from bowstring.engine.broker.controller_node import ControllerServer
from bowstring.engine.broker.coordination import PARTS as COORDINATION_PARTS
from bowstring.engine.broker.coordination import Coordination
from bowstring.engine.broker.directory_assignments import DirectoryAssignments
from bowstring.engine.broker.dispatcher import Dispatcher
from bowstring.engine.broker.housekeeping import Housekeeping
from bowstring.engine.broker.image_follower import ImageFollower
from bowstring.engine.broker.lifecycle import BrokerLifecycle
from bowstring.engine.broker.listening import listen
from bowstring.engine.broker.node import (
    NodeLostError,
    behind,
    caught_up,
    check_formatted,
    check_listener_configs,
    make_plane,
    new_authentication,
    new_log_directories,
    node_id_of,
)
from bowstring.engine.broker.quota_publisher import QuotaPublisher
from bowstring.engine.broker.replication import Replication
from bowstring.engine.broker.start_warnings import (
    warn_at_start,
    warn_of_anonymous_nodes,
    warn_of_open_metrics,
)
from bowstring.engine.configs import BrokerConfigs, ConfigError
from bowstring.engine.coordinators.cluster_changes import ClusterChanges
from bowstring.engine.coordinators.producer_ids import ProducerIds
from bowstring.engine.metadata.features import names_directories
from bowstring.engine.metadata.image import ClusterImage, Metadata
from bowstring.engine.metadata.store.start_checks import (
    check_metadata_log,
    check_metadata_log_is_here,
    explained,
)
from bowstring.engine.network.broker_addresses import (
    check_peer_security,
    inter_broker_listener,
    inter_broker_security,
)
from bowstring.engine.quorum.own_cluster import is_own_cluster, needs_no_format, with_itself
from bowstring.engine.quorum.service import QuorumService
from bowstring.engine.quorum.settings import CONTROLLER, quorum_settings
from bowstring.engine.quorum.synced_end import stored_synced_end
from bowstring.engine.requests.led_logs import LedLogs
from bowstring.engine.requests.listeners import Listener, advertised_listeners, client_listeners
from bowstring.engine.requests.time_slices import TimeSlices
from bowstring.engine.security.authorizer import Authorizer
from bowstring.engine.storage import lost_logs
from bowstring.engine.storage.checkpoints import RECOVERY_POINTS
from bowstring.engine.storage.cleaner import LogCleaner
from bowstring.engine.storage.descriptor_reserve import DescriptorReserve, raise_file_limit
from bowstring.engine.storage.disk_reads import DiskReads
from bowstring.engine.storage.log_directories import LogDirectories
from bowstring.engine.storage.log_directory import NO_EPOCH, LogDirectory
from bowstring.engine.storage.log_healer import LogHealer
from bowstring.engine.storage.log_manager import LogManager
from bowstring.engine.storage.replica_moves import ReplicaMoves
from bowstring.engine.storage.scrubber import Scrubber
from bowstring.protocol.errors import Errors

if TYPE_CHECKING:
    from bowstring.engine.broker.audit_topic_writer import AuditTopicWriter
    from bowstring.engine.broker.metrics_server import MetricsServer
    from bowstring.engine.local.socket import LocalSocket
    from bowstring.engine.network.broker_peers import BrokerPeers
    from bowstring.engine.network.peer_security import PeerSecurity
    from bowstring.engine.security.authentication import Authentication
    from bowstring.engine.security.tls_listeners import TlsListeners


class Broker:
    """A broker on its log directories. Its metadata comes from the quorum, where it may be a controller.

    `open` does what needs no event loop: it opens the metadata log and binds the listeners. `start` registers
    with the controller, opens the logs that the cluster has assigned to this broker, and serves. Clients are
    refused until the controller has unfenced it: before, its metadata would name no leaders, and not this
    broker. `stop` shuts down cleanly.

    Nothing outside this package sees a broker as a whole: handlers state the parts that they use, by the
    names that these have here and in `Coordination`. A part is not replaced after `open`.

    Attributes:
        configs: The configs in force.
        authorizer: Decides who may do what.
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
        server: This node's controller with its listeners; None without that role.
        lifecycle: The registration and the heartbeats.
        replication: The replicas of this broker.
        follower: Carries out what the image says.
        time_slices: Shares the control thread among long requests.
        disk_reads: Threads that read from the disk for requests.
        coordination: The coordinators, and what share groups need.
        dispatcher: Answers requests; holds their counters.
        client_quotas: Publishes client quotas to the data plane.
        connection_limits: Publishes limits of connections to the data plane.
        housekeeping: Runs retention, flushing and checkpoints on timers.
        cleaner: Compacts logs.
        scrubber: Looks for damage in the logs; holds its counters.
        descriptors: Keeps file descriptors for the logs.
        healer: Returns logs to service after errors that pass.
        lost: Set when the node cannot continue with its log directories: its process ends, as Kafka's does.
        local: Gives segment files to readers on this machine; None when it is switched off.
        tls: The keys of TLS listeners; None without such listeners.
    """

    configs: BrokerConfigs
    authorizer: Authorizer
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
    quorum: QuorumService
    server: ControllerServer | None
    lifecycle: BrokerLifecycle
    replication: Replication
    follower: ImageFollower
    time_slices: TimeSlices
    disk_reads: DiskReads
    coordination: Coordination
    dispatcher: Dispatcher
    client_quotas: QuotaPublisher
    connection_limits: ConnectionLimits
    housekeeping: Housekeeping
    cleaner: LogCleaner
    scrubber: Scrubber
    healer: LogHealer
    local: "LocalSocket | None"
    tls: "TlsListeners | None"

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.configs = BrokerConfigs(settings)
        self.authentication: Authentication | None = None
        self.tls = None
        self.authorizer = Authorizer(self.configs)
        self.node_id = node_id_of(self.configs)
        self.directories = new_log_directories(self.configs)
        self._make_replica()
        self.handlers, self.offered, _ = BY_BROKER
        self.time_slices = TimeSlices()
        self.disk_reads = DiskReads()
        self.housekeeping = Housekeeping(self)
        self.listeners = []
        self.advertised = []
        self.local = None
        self.descriptors = DescriptorReserve()
        self._audit_writer: AuditTopicWriter | None = None
        self._metrics: MetricsServer | None = None
        self._not_ready: str | None = "the broker is starting"
        self.lost = asyncio.Event()
        self._are_logs_touched = False
        self._is_serving = False
        self._opening: asyncio.Future[Mapping[tuple[str, int], bytes]] | None = None

    def _make_replica(self) -> None:
        """Creates this node's replica of the quorum, and its controller."""
        settings = quorum_settings(self.configs, self.node_id)
        self._may_format = needs_no_format(settings, self.configs, self.node_id)
        self._is_own_cluster = is_own_cluster(settings, self.configs, self.node_id, self.directory.path)
        if self._is_own_cluster:
            settings = with_itself(settings, self.node_id)
        self.metadata = self.quorum = QuorumService(
            self.directory,
            self.configs,
            settings,
            node_id=self.node_id,
            is_own_cluster=self._is_own_cluster,
        )
        self.server = None
        if CONTROLLER in settings.roles:
            self.server = ControllerServer(
                self.configs,
                self.node_id,
                self.directories,
                self.quorum,
                self.authorizer,
                may_lack_listeners=self._may_format,
            )

    # ------------------------------------------------------------ start

    def open(self, *, only_to_recover: bool = False) -> None:
        """Locks the log directories, opens the metadata log, binds the listeners.

        Args:
            only_to_recover: No client will be served: listeners are not bound, and configs that request
                missing protections are accepted.

        Raises:
            ConfigError, DataDirectoryError, OSError: The message says what is wrong and what to do.
        """
        if not self._may_format:
            check_formatted(self.directories)
        else:
            check_metadata_log_is_here(self.directory.path, [each.path for each in self.directories.all])
        if not only_to_recover:
            self._refuse_unenforced()
            check_listener_configs(self.configs)
            check_connection_limits(self.configs)
        wanted = client_listeners(self.configs)
        if "broker" not in self.configs.value("process.roles"):
            raise ConfigError(
                "process.roles must include broker: a node without that role has no logs to open"
            )
        if not (only_to_recover or self._is_own_cluster):
            check_peer_security(self.configs, self.quorum.listener, is_broker=True)
        raise_file_limit()
        check_metadata_log(self.directory.path, stored_synced_end(self.directory.path))
        self.directories.open(self.node_id)
        with self._undone_on_failure():
            self.descriptors.keep()
            self.quorum.open()
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
            self.authorizer.follow(self.quorum, caught_up(self.quorum), self.plane)
            if not only_to_recover:
                self._make_audit_writer()
            if not self._is_own_cluster:
                warn_of_anonymous_nodes(self.configs, self.authorizer)
            if self.authorizer.rules is not None:
                self.dispatcher.when_access_decided = self.authorizer.rules.take_reports
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
            self._unlisten()
            self.quorum.close()
            if self._are_logs_touched:
                self.logs.durability.close(is_clean=lambda _: False)
            else:
                self.directories.leave_as_found()
            self.directories.close()
            self.descriptors.give_back()
            if isinstance(error, LogError):
                raise explained(error, self.directory.path) from error
            raise

    def _unlisten(self) -> None:
        """Gives back what listening has taken, before anything is served."""
        if self.authentication is not None:
            self.authentication.close()
        if self.local is not None:
            self.local.close()
        if self.server is not None:
            self.server.close()
        if "plane" in vars(self):
            self.plane.stop()
        self.authorizer.stop()

    def _make_changes(self) -> None:
        """Creates `changes`, `producer_ids`, and what follows the image."""
        self._assignments = DirectoryAssignments(
            self.quorum,
            self.directories,
            self.logs,
            node_id=self.node_id,
            broker_epoch=lambda: self.lifecycle.epoch,
        )
        self.replication = Replication(
            self.quorum,
            self.configs,
            self.plane,
            self.logs,
            node_id=self.node_id,
            broker_epoch=lambda: self.lifecycle.epoch,
            peers=self.peers,
            security=self.peer_security,
        )
        self.replication.when_truncated = self.housekeeping.logs_truncated
        self.logs.set_min_in_sync = self.replication.plane_replicas.set_min_in_sync
        self.follower = ImageFollower(
            self.quorum, self._committed_configs, self.logs, self.replication, self._assignments
        )
        self.follower.when_changed = self._cluster_changed
        self.follower.when_topic_deleted = self._topic_deleted
        self.follower.when_roles_changed = lambda topic, index: self.coordination.role_changed(
            topic.name, index
        )
        self.changes = ClusterChanges(
            self.quorum,
            self.logs,
            self.configs,
            settled=self.follower.settled,
            is_own_cluster=self._is_own_cluster,
        )
        self.producer_ids = ProducerIds(self.quorum, self.node_id, lambda: self.lifecycle.epoch)

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
            self.plane,
            BY_BROKER,
            self.part,
            authorizer=self.authorizer,
            advertised=self.advertised,
            time_slices=self.time_slices,
            authentication=self.authentication,
        )
        self.client_quotas = QuotaPublisher(self.quorum, self.plane, self.dispatcher)
        self.connection_limits = ConnectionLimits(
            self.configs,
            self.quorum,
            self.plane,
            self.listeners,
            between_brokers=inter_broker_listener(self.configs),
        )
        self.dispatcher.when_ended = self.coordination.connections_ended
        self.dispatcher.when_advanced = self.coordination.coordinators.high_watermark_advanced
        self.dispatcher.when_replicas_change = self.replication.take_events

    def _make_audit_writer(self) -> None:
        rules = self.authorizer.rules
        if rules is None or rules.audit_topic is None:
            return
        from bowstring.engine.broker.audit_topic_writer import AuditTopicWriter

        self._audit_writer = writer = AuditTopicWriter(
            rules.audit_topic.name,
            self.quorum,
            self.configs,
            plane=self.plane,
            logs=self.logs,
            is_own_cluster=self._is_own_cluster,
        )
        for_coordinators = self.dispatcher.when_advanced

        def advanced(topic: str, partition: int) -> None:
            writer.advanced(topic, partition)
            for_coordinators(topic, partition)

        self.dispatcher.when_advanced = advanced

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

        return BrokerPeers(self.metadata, inter_broker_listener(self.configs), self.peer_security)

    @cached_property
    def peer_security(self) -> "PeerSecurity | None":
        """How this broker connects to brokers; None for plain text."""
        return inter_broker_security(self.configs)

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
            assign=self._assignments.assign,
            when_retired=self.housekeeping.cluster_changed,
        )

    def _refuse_unenforced(self) -> None:
        if reasons := self.configs.unenforced():
            raise ConfigError("\n".join(reasons))

    def _listen(self, wanted: list[Listener]) -> None:
        self.listeners, self.tls = listen(self.plane, self.configs, wanted)
        self.authentication = new_authentication(self.configs, self.listeners, self.plane, self.metadata)
        self.advertised = advertised_listeners(self.configs, self.listeners)
        if self.server is not None:
            self.server.bind()

    def _bind_local(self) -> None:
        """Binds the socket for local reads."""
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
                access=self.authorizer if self.authorizer.is_on else None,
            )
            self.local.bind()

    async def start(self) -> None:
        """Joins the cluster, opens the logs and serves. Call on the control loop, after `open`.

        Raises:
            RegistrationError: The controller does not take this broker in, or does not unfence it in time.
            DataDirectoryError, LogError, OSError: A log could not be opened, or another process listens at
                this broker's address; or the node cannot go on, because its replica of the metadata log or
                its directories have failed meanwhile.
        """
        self.lifecycle = BrokerLifecycle(
            self.quorum,
            self.configs,
            self.directories,
            node_id=self.node_id,
            listeners=lambda: self.advertised,
        )
        self.quorum.on_applied.append(self.peers.look)
        self.quorum.on_snapshot.append(self.peers.look)
        self.quorum.on_applied.append(self.coordination.image_changed)
        self.quorum.on_snapshot.append(self.coordination.image_changed)
        self.quorum.works_inline = self._is_own_cluster
        self.quorum.start(self.server.voter_endpoints if self.server is not None else ())
        if self.server is not None:
            self.server.start()
        if not await background.run_unless(self._join(), self.lost.wait(), self.quorum.failed):
            raise NodeLostError(self.directories)

    async def _join(self) -> None:
        """Waits in `start` for the cluster: its image, its consent, its trust that the replicas are there."""
        deadline_s = (
            asyncio.get_running_loop().time() + self.configs.value("server.max.startup.time.ms") / 1000
        )
        await self._start_metrics()
        self._not_ready = "the broker waits for a controller that registers it"
        await self.lifecycle.register()
        self.quorum.on_applied.append(self.lifecycle.note_applied)
        self.quorum.on_snapshot.append(self.lifecycle.note_applied)
        self._not_ready = "the broker opens its logs"
        await self._open_logs_of_image()
        warn_at_start(self.configs, self.quorum.image, listeners=self.listeners, advertised=self.advertised)
        self._is_serving = True
        self._assignments.is_moving = lambda topic, index: self.moves.get(topic, index) is not None
        self.healer.when_stuck = self._assignments.lose_stuck
        self.directories.when_failed = self._assignments.note_failed
        await self._serve()
        self.replication.start()
        self._assignments.start()
        self.follower.start()
        self.plane.start(accepts=False)
        self._not_ready = "the broker gives its replicas their roles"
        await self.follower.begun()
        self._not_ready = "the broker waits until the controller unfences it"
        await self.lifecycle.unfence(deadline_s)
        self.quorum.works_inline = False
        self.authorizer.loaded()
        self.authorizer.start_audit(self._audit_writer)
        self.plane.accept()
        if self.tls is not None:
            self.tls.start(self.plane)
        self._not_ready = None

    async def _open_logs_of_image(self) -> None:
        """Opens the logs of a copy of the image, on a thread; what is committed meanwhile is carried out
        afterwards. A cluster of its own without topics needs no thread.
        """
        image = self.quorum.image.copy()
        self.follower.listen()
        self._committed_configs.load(image)
        self._are_logs_touched = True
        loop = asyncio.get_running_loop()
        try:
            if self._is_own_cluster and not image.topics:
                elsewhere = self._open_logs(image)
                self._opening = loop.create_future()
                self._opening.set_result(elsewhere)
            else:
                self._opening = loop.run_in_executor(None, self._open_logs, image)
                elsewhere = await asyncio.shield(self._opening)  # a stop waits for the thread
        except LogError as error:
            raise explained(error, self.directory.path) from error
        if elsewhere and names_directories(image.features):
            event_log.warning(
                "partitions were found in other log directories than the controller knows; they are served "
                "from there",
                partitions=len(elsewhere),
                example="-".join(map(str, next(iter(elsewhere)))),
            )
        await self._assignments.disown(self.logs.lost)
        if self.logs.lost:
            self.logs.lost = []
            await loop.run_in_executor(None, self.logs.checkpoint(RECOVERY_POINTS))
            await loop.run_in_executor(None, lost_logs.forget, self.directories)

    def _open_logs(self, image: ClusterImage) -> Mapping[tuple[str, int], bytes]:
        """Opens the logs; returns the directory ids of those in other directories than the image says. Slow:
        not for the control thread.
        """
        elsewhere = self.logs.open_all(image, self._recovery_threads())
        if not self.logs.lost:
            lost_logs.forget(self.directories)  # nothing is left to report
        return elsewhere

    async def _serve(self) -> None:
        """Starts the parts that work beside requests."""
        self.coordination.begin_held()
        self.descriptors.start()
        self.directories.when_told = self._look_at_directories
        self.descriptors.when_over = self.logs.durability.when_stuck = self.healer.look
        self.healer.when_healed = self._logs_healed
        asyncio.get_running_loop().add_reader(self.directories.event_fd, self.directories.look)
        self.directories.look()
        self.client_quotas.start()
        self.connection_limits.start()
        self.dispatcher.start()
        self.housekeeping.start()
        self.cleaner.start()
        self.scrubber.start()
        self.logs.durability.start(asyncio.get_running_loop())
        self.moves.resume(self.logs.unfinished)
        if self.local is not None:
            self.local.start()

    def recover(self) -> None:
        """Recovers and closes the logs of a cluster of its own, instead of `open` and `start`. Serves nobody,
        runs no timers, and accepts configs that request missing protections. Adds nothing to the metadata
        log.

        Raises:
            ConfigError, DataDirectoryError, LogError, OSError: The message says what is wrong and what to do.
        """
        self.open(only_to_recover=True)
        with self._undone_on_failure():
            self._are_logs_touched = True
            self.logs.open_all(self.quorum.image, self._recovery_threads())
        registered = self.quorum.image.brokers.get(self.node_id)
        self._close(NO_EPOCH if registered is None else registered.epoch)

    async def _start_metrics(self) -> None:
        port = self.configs.value("bowstring.metrics.port")
        if port >= 0:
            from bowstring.engine.broker.metrics_server import MetricsServer

            self._metrics = MetricsServer(self._metrics_registry, self.why_not_ready)
            await self._metrics.start(self.listeners[0].host or None, port)
            warn_of_open_metrics(self.listeners[0])

    def _metrics_registry(self) -> Any:
        from bowstring.engine.broker import metrics

        return metrics.registry(self)

    def why_not_ready(self) -> str | None:
        """Returns why this broker cannot serve clients now; None when it can.

        Without a controller it can: data traffic continues.
        """
        if (why := self._not_ready or self.directories.why_lost) is not None:
            return why
        if self.lifecycle.is_fenced:
            return "the controller has fenced the broker"
        return behind(self.quorum)

    @property
    def metrics_port(self) -> int:
        """Port on which metrics are served; -1 when they are not."""
        return self._metrics.port if self._metrics is not None else -1

    # ------------------------------------------------------------ changes

    def _cluster_changed(self) -> None:
        self.plane.verify_transactions(self.configs.value("transaction.partition.verification.enable"))
        self.connection_limits.look()
        if self.server is not None:
            self.server.look_at_limits()
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
        """Coordinators that gave up a partition take it again, and the controller may elect this broker."""
        topics = self.quorum.image.topics
        for topic, index in partitions:
            if topic in topics:
                self.coordination.role_changed(topic, index)
        for name in {topic for topic, _ in partitions}:
            if name in topics:
                self._assignments.note(topics[name])

    def _log_replaced(self, topic: str, index: int, log: PartitionLog) -> None:
        self.cleaner.log_replaced(topic, index, log)
        self.coordination.log_replaced(topic, index, log)

    # ------------------------------------------------------------ stop

    async def stop(self) -> None:
        """Has the controller move the leaders away, finishes requests in progress, and shuts down cleanly."""
        self._not_ready = "the broker is stopping"
        await self.authorizer.drain_audit()
        await self.lifecycle.stop()
        await self.follower.stop()
        await self.replication.stop()
        await self._assignments.stop()
        if self._is_serving:
            await self._stop_serving()
        else:
            if self._opening is not None:
                await asyncio.wait({self._opening})
            self.peers.close()
            await self.dispatcher.stop()
            if self.local is not None:
                await self.local.stop()
            await self._stop_metrics()
            self.plane.stop()
            self.authorizer.stop()
        await self.quorum.stop()
        if self.server is not None:
            await self.server.stop()
        if self._opening is not None and self._opening.exception() is None:
            self._close_and_tell()
            return
        if self._are_logs_touched:
            self.logs.durability.close(is_clean=lambda _: False)
        else:
            self.directories.leave_as_found(self.lifecycle.epoch)
        self.directories.close()
        self.descriptors.give_back()

    async def _stop_serving(self) -> None:
        await self.housekeeping.stop()
        await self.cleaner.stop()
        self.scrubber.stop()
        await self.healer.stop()
        await self.moves.stop()
        await self.coordination.stop()
        self.connection_limits.stop()
        self.peers.close()
        await self.dispatcher.stop()
        await self.authorizer.stop_audit()
        if self.local is not None:
            await self.local.stop()
        await self._stop_metrics()
        self.descriptors.stop()
        if self.tls is not None:
            self.tls.stop()
        asyncio.get_running_loop().remove_reader(self.directories.event_fd)
        self.plane.stop()
        self.authorizer.stop()
        self.disk_reads.stop()

    async def _stop_metrics(self) -> None:
        if self._metrics is not None:
            await self._metrics.stop()
            self._metrics = None

    def _close_and_tell(self) -> None:
        started = time.monotonic()
        self._close(self.lifecycle.epoch)  # runs on the loop itself: no other task is left
        event_log.info("broker stopped cleanly", seconds=round(time.monotonic() - started, 3))

    def _close(self, epoch: int) -> None:
        """Closes logs and directories. Writes no marker if a file could not be written; releases the locks in
        any case.
        """
        try:
            with ExitStack() as stack:  # callbacks run in reverse order; the first error is raised at the end
                stack.callback(self.directories.mark_clean, epoch)
                stack.callback(self._close_metadata)
                stack.callback(self.logs.close, self.configs.value("num.recovery.threads.per.data.dir"))
        finally:
            self.directories.close()
            self.descriptors.give_back()

    def _close_metadata(self) -> None:
        try:
            self.quorum.close()
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
