"""Runs controllers: a replica of the metadata quorum, and the listeners through which others reach it."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from bowstring._native.server.data_plane import DataPlane
from bowstring.engine.api.table import BY_CONTROLLER
from bowstring.engine.broker.connection_limits import ConnectionLimits, check_connection_limits
from bowstring.engine.broker.dispatcher import Dispatcher
from bowstring.engine.broker.listening import listen
from bowstring.engine.broker.node import (
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
from bowstring.engine.broker.request_handlers import RequestHandlers
from bowstring.engine.configs import BrokerConfigs, ConfigError
from bowstring.engine.controller.mutation_quotas import MutationQuotas
from bowstring.engine.controller.service import QuorumController
from bowstring.engine.metadata.image import ImageSource, Metadata
from bowstring.engine.metadata.store.start_checks import check_metadata_log
from bowstring.engine.network.broker_addresses import check_peer_security
from bowstring.engine.quorum.service import HANDOVER_MS, QuorumService
from bowstring.engine.quorum.settings import quorum_settings
from bowstring.engine.quorum.synced_end import stored_synced_end
from bowstring.engine.raft.keys import NO_LEADER
from bowstring.engine.raft.voters import Endpoint, Endpoints
from bowstring.engine.requests.listeners import Listener, advertised_listeners, controller_listeners
from bowstring.engine.requests.time_slices import TimeSlices
from bowstring.engine.security.authorizer import Authorizer
from bowstring.engine.storage.descriptor_reserve import DescriptorReserve, raise_file_limit
from bowstring.engine.storage.log_directories import LogDirectories

if TYPE_CHECKING:
    from bowstring.engine.broker.audit_topic_writer import AuditTopicWriter
    from bowstring.engine.broker.controller_registration import ControllerRegistration
    from bowstring.engine.broker.metrics_server import MetricsServer
    from bowstring.engine.requests.binding import HandlerOf
    from bowstring.engine.security.authentication import Authentication
    from bowstring.engine.security.tls_listeners import TlsListeners

_NO_BROKER_EPOCH: Final = -1


class ControllerServer:
    """The listeners of a node's controller, with its own reactor and dispatcher: clients of a broker in the
    same process do not delay the quorum. Handlers state the parts that they use by its attributes'
    names; a part is not replaced after `start`.

    Attributes:
        configs: The configs in force.
        authorizer: Decides who may do what.
        node_id: This node.
        directories: The directories of the node.
        quorum: This node's replica of the metadata quorum.
        metadata: The same.
        controller: Decides for the cluster while this node leads the quorum.
        mutation_quotas: Limits the partitions that clients create and delete.
        plane: A data plane of its own; unset without listeners.
        listeners: The listeners, with the ports really bound.
        advertised: The advertised listeners, in the same order.
        handlers: The module that answers, by API key.
        offered: The keys of all APIs that are offered here.
        time_slices: Shares the control thread among long requests.
        requests: Answers requests; holds their counters.
        dispatcher: The same, for requests that come by the listeners; None without any.
    """

    configs: BrokerConfigs
    authorizer: Authorizer
    node_id: int
    directories: LogDirectories
    quorum: QuorumService
    metadata: Metadata
    controller: QuorumController
    mutation_quotas: MutationQuotas
    plane: DataPlane
    listeners: list[Listener]
    advertised: list[Listener]
    handlers: Mapping[int, str]
    offered: tuple[int, ...]
    time_slices: TimeSlices
    requests: RequestHandlers
    dispatcher: Dispatcher | None = None
    local: None = None
    """Controllers have no partitions that could be read."""

    def __init__(
        self,
        configs: BrokerConfigs,
        node_id: int,
        directories: LogDirectories,
        quorum: QuorumService,
        authorizer: Authorizer,
        *,
        may_lack_listeners: bool = False,
    ) -> None:
        """`may_lack_listeners`: No setting names another node that would have to reach this one."""
        self.configs = configs
        self.authorizer = authorizer
        self.node_id = node_id
        self.directories = directories
        self.quorum = quorum
        self.metadata = quorum
        self.time_slices = TimeSlices()
        self.listeners = []
        self.advertised = []
        self.handlers, self.offered, _ = BY_CONTROLLER
        self.mutation_quotas = MutationQuotas(
            quorum,
            configs.value("controller.quota.window.num")
            * configs.value("controller.quota.window.size.seconds"),
            time.monotonic,
        )
        self.tls: TlsListeners | None = None
        self.authentication: Authentication | None = None
        self._registration: ControllerRegistration | None = None
        self._connection_limits: ConnectionLimits | None = None
        self._is_started = False
        self._may_lack_listeners = may_lack_listeners

    def bind(self) -> None:
        """Binds the listeners. Without any, only this node's broker has this controller.

        Raises:
            ConfigError, OSError: The message says what is wrong and what to do.
        """
        wanted = controller_listeners(self.configs, may_lack=self._may_lack_listeners)
        if not wanted:
            self.requests = RequestHandlers(
                BY_CONTROLLER,
                partial(getattr, self),
                authorizer=self.authorizer,
                time_slices=self.time_slices,
            )
            return
        self.plane = make_plane(self.configs, self.offered, is_controller=True)
        self.listeners, self.tls = listen(self.plane, self.configs, wanted)
        self.authentication = new_authentication(
            self.configs, self.listeners, self.plane, self._credentials()
        )
        self.advertised = advertised_listeners(self.configs, self.listeners)
        self.requests = self.dispatcher = Dispatcher(
            self.plane,
            BY_CONTROLLER,
            partial(getattr, self),
            authorizer=self.authorizer,
            advertised=self.advertised,
            time_slices=self.time_slices,
            authentication=self.authentication,
        )

    def close(self) -> None:
        """Gives back what `bind` has taken, if the node's start fails before `start`."""
        if self.authentication is not None:
            self.authentication.close()
        if "plane" in vars(self):
            self.plane.stop()

    def _credentials(self) -> ImageSource:
        """Returns what has the credentials of users."""
        if not any(each.has_sasl for each in self.listeners):
            return self.metadata
        # Imported late: a node without security starts without it.
        from bowstring.engine.broker.early_credentials import EarlyCredentials

        return EarlyCredentials(self.quorum)

    @property
    def cluster_id(self) -> str:
        """The cluster's id, in text form."""
        return self.directories.cluster_id

    @property
    def handler_of(self) -> "HandlerOf":
        """Returns the handler of an API, for requests inside Envelope."""
        return self.requests.handler

    @property
    def voter_endpoints(self) -> Endpoints:
        """The listeners as the quorum names them."""
        return tuple(Endpoint(each.name, each.host, each.port) for each in self.advertised)

    def start(self) -> None:
        """Begins to answer and to decide. Call on the control loop, once the quorum is open."""
        self.controller = QuorumController(
            self.quorum,
            self.configs,
            node_id=self.node_id,
            cluster_id=self.cluster_id,
            bootstrap=self.quorum.bootstrap_records(),
            voters=lambda: (each.key.id for each in self.quorum.voters),
        )
        self._is_started = True
        self.controller.when_active = self.quorum.to_leader.note_active
        self.controller.start()
        self.quorum.to_leader.own_controller = self.requests.answer_within
        if self.dispatcher is not None:
            from bowstring.engine.broker.controller_registration import ControllerRegistration

            self._registration = ControllerRegistration(self.quorum, self.node_id, lambda: self.advertised)
            self._registration.start()
            self._client_quotas = QuotaPublisher(self.quorum, self.plane, self.dispatcher)
            self._client_quotas.start()
            self._connection_limits = ConnectionLimits(self.configs, self.quorum, self.plane, self.listeners)
            self._connection_limits.start()
            self.dispatcher.start()
            self.plane.start()
            if self.tls is not None:
                self.tls.start(self.plane)

    def look_at_limits(self) -> None:
        """Applies changed limits of connections. Call it after a change of configs."""
        if self._connection_limits is not None:
            self._connection_limits.look()

    async def stop(self) -> None:
        """Closes the listeners and the connections, also where the node's start has failed before that of
        this server.
        """
        if self._is_started:
            self.controller.stop()
        if self.dispatcher is None:
            return
        if self._registration is not None:
            self._registration.stop()
        if self._connection_limits is not None:
            self._connection_limits.stop()
        if self.tls is not None:
            self.tls.stop()
        await self.dispatcher.stop()
        self.plane.stop()


class ControllerNode:
    """A node that is only a controller.

    `open` does everything that needs no event loop. `start` takes part in the quorum, on the control loop.
    `stop` hands a leadership over and shuts down cleanly.

    Attributes:
        quorum: This node's replica.
        server: The listeners.
        lost: Set when the node cannot continue with its directories: its process ends.
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.configs = BrokerConfigs(settings)
        self.node_id = node_id_of(self.configs)
        self.directories = new_log_directories(self.configs)
        self.quorum = QuorumService(
            self.directories.metadata,
            self.configs,
            quorum_settings(self.configs, self.node_id),
            node_id=self.node_id,
        )
        self.metadata = self.quorum
        self.authorizer = Authorizer(self.configs)
        self.server = ControllerServer(
            self.configs, self.node_id, self.directories, self.quorum, self.authorizer
        )
        self.descriptors = DescriptorReserve()
        self._audit_writer: AuditTopicWriter | None = None
        self._metrics: MetricsServer | None = None
        self._not_ready: str | None = "the controller is starting"
        self.lost = asyncio.Event()

    def open(self) -> None:
        """Locks the directories, binds the listeners, opens the metadata log.

        Raises:
            ConfigError, DataDirectoryError, LogError, OSError: The message says what is wrong and what to do.
        """
        if reasons := self.configs.unenforced():
            raise ConfigError("\n".join(reasons))
        check_listener_configs(self.configs)
        check_connection_limits(self.configs)
        check_peer_security(self.configs, self.quorum.listener, is_broker=False)
        raise_file_limit()
        check_formatted(self.directories)
        home = self.directories.metadata.path
        check_metadata_log(home, stored_synced_end(home))
        self.directories.open(self.node_id)
        with ExitStack() as undo:
            undo.callback(self.directories.close)
            undo.callback(self.descriptors.give_back)
            self.descriptors.keep()
            undo.callback(self.server.close)
            self.server.bind()
            undo.callback(self.authorizer.stop)
            undo.callback(self.quorum.close)
            self.quorum.open()
            self.authorizer.follow(self.quorum, caught_up(self.quorum))
            self._make_audit_writer()
            undo.pop_all()

    def _make_audit_writer(self) -> None:
        rules = self.authorizer.rules
        if rules is not None and rules.audit_topic is not None:
            from bowstring.engine.broker.audit_topic_writer import AuditTopicWriter

            self._audit_writer = AuditTopicWriter(rules.audit_topic.name, self.quorum, self.configs)

    async def start(self) -> None:
        """Takes part in the quorum. Call on the control loop, after `open`."""
        self.descriptors.start()
        self.directories.when_told = self._look_at_directories
        asyncio.get_running_loop().add_reader(self.directories.event_fd, self.directories.look)
        self.directories.look()
        self.quorum.start(self.server.voter_endpoints)
        self.server.start()
        self.authorizer.start_audit(self._audit_writer)
        await self._start_metrics()
        self._not_ready = None

    async def _start_metrics(self) -> None:
        port = self.configs.value("bowstring.metrics.port")
        if port >= 0:
            from bowstring.engine.broker.metrics_server import MetricsServer
            from bowstring.engine.broker.start_warnings import warn_of_open_metrics

            self._metrics = MetricsServer(self._metrics_registry, self.why_not_ready)
            await self._metrics.start(self.listeners[0].host or None, port)
            warn_of_open_metrics(self.listeners[0])

    def _look_at_directories(self) -> None:
        if self.directories.why_lost is not None:
            self.lost.set()

    def _metrics_registry(self) -> Any:
        from bowstring.engine.broker import metrics

        return metrics.controller_registry(self)

    def why_not_ready(self) -> str | None:
        """Returns why this controller cannot take part in decisions now; None when it can."""
        if self._not_ready is not None:
            return self._not_ready
        if self.directories.why_lost is not None:
            return self.directories.why_lost
        if self.quorum.leader_id == NO_LEADER:
            return "no controller is active"
        return behind(self.quorum)

    async def stop(self, timeout_ms: int = HANDOVER_MS) -> None:
        """Hands a leadership over, for at most `timeout_ms`, syncs and closes the log, writes the
        clean-shutdown marker.
        """
        self._not_ready = "the controller is stopping"
        try:
            await self.quorum.stop(timeout_ms)
            await self.server.stop()
            await self.authorizer.stop_audit()
            if self._metrics is not None:
                await self._metrics.stop()
            self.authorizer.stop()
            self.descriptors.stop()
            asyncio.get_running_loop().remove_reader(self.directories.event_fd)
            if not self.quorum.has_failed:
                self.directories.mark_clean(_NO_BROKER_EPOCH)
        finally:
            self.directories.close()
            self.descriptors.give_back()

    # ------------------------------------------------------------ facts for its process

    @property
    def listeners(self) -> list[Listener]:
        """The listeners, with the ports really bound."""
        return self.server.listeners

    @property
    def advertised(self) -> list[Listener]:
        """The listeners as others reach them."""
        return self.server.advertised

    @property
    def cluster_id(self) -> str:
        """The cluster's id, in text form."""
        return self.directories.cluster_id

    @property
    def metrics_port(self) -> int:
        """Port on which metrics are served; -1 when they are not."""
        return self._metrics.port if self._metrics is not None else -1
