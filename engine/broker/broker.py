"""The broker: its parts, started in order and stopped in the reverse of it."""

import asyncio
import os
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from bowstring._native.dataplane import DataPlane
from bowstring._native.log import LogError, PartitionLog
from bowstring.engine.api import ADVERTISED
from bowstring.engine.broker import log_lines
from bowstring.engine.broker.cleaner import LogCleaner
from bowstring.engine.broker.cluster_changes import ClusterChanges
from bowstring.engine.broker.data_directory import DataDirectory
from bowstring.engine.broker.dispatch import Dispatcher
from bowstring.engine.broker.file_limit import raise_file_limit
from bowstring.engine.broker.housekeeping import Housekeeping
from bowstring.engine.broker.listeners import Listener, advertised_listeners, client_listeners
from bowstring.engine.broker.log_directories import LogDirectories
from bowstring.engine.broker.log_moves import LogMoves, change_of_directory
from bowstring.engine.broker.metadata_log import MetadataLog
from bowstring.engine.broker.producer_ids import ProducerIds
from bowstring.engine.broker.registration import start_records, stop_records
from bowstring.engine.broker.scrubber import Scrubber
from bowstring.engine.broker.start_checks import check_metadata_log, explained
from bowstring.engine.broker.topic_logs import TopicLogs
from bowstring.engine.configs import BrokerConfigs, ConfigError
from bowstring.engine.errors import Errors, KafkaError
from bowstring.engine.metadata.names import GROUPS_TOPIC
from bowstring.engine.protocol import API_VERSIONS
from bowstring.engine.protocol.schema import MetadataRecord

if TYPE_CHECKING:
    from bowstring.engine.broker.group_shell import GroupShell
    from bowstring.engine.broker.local_socket import LocalSocket
    from bowstring.engine.broker.metrics_server import MetricsServer

_MOST_REACTORS_BY_DEFAULT: Final = 4


class Broker:
    """A single-node broker on its log directories.

    `open` does everything that needs no event loop; `start` begins to serve, on the control loop; `stop`
    ends it cleanly. What handlers use:

    Attributes:
        configs: The configs in force.
        directories: The log directories.
        moves: Partitions on their way from one to another.
        metadata: The metadata log and its image.
        logs: The partition logs.
        cleaner: Compacts them.
        plane: The native data plane.
        changes: Commits changes to the cluster and carries them out.
        producer_ids: Gives out producer ids.
        listeners: What is listened on, with the ports really bound.
        advertised: What clients are told, in the same order.
        node_id: This node.
        dispatcher: Answers requests; has their counters.
        scrubber: Looks for damage in the logs; has its counters.
        local: Gives segment files to readers on this machine; None when it is switched off.
        control_writes: Appends that the control thread made itself, for housekeeping to see.
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.configs = BrokerConfigs(settings)
        self.node_id = self._node_id()
        self.directories = self._log_directories()
        self.metadata = MetadataLog()
        self.dispatcher = Dispatcher(self)
        self.housekeeping = Housekeeping(self)
        self.cleaner = LogCleaner(self)
        self.scrubber = Scrubber(self)
        self.listeners: list[Listener] = []
        self.advertised: list[Listener] = []
        self.control_writes = 0
        self._metrics: MetricsServer | None = None
        self.local: LocalSocket | None = None
        self.plane: DataPlane
        self.logs: TopicLogs
        self.moves = LogMoves(self)
        self.changes: ClusterChanges
        self.producer_ids: ProducerIds
        self._groups: GroupShell | None = None

    @property
    def cluster_id(self) -> str:
        """The cluster's id, in text form."""
        return self.directories.cluster_id

    @property
    def directory(self) -> DataDirectory:
        """The log directory with the metadata log: the only one, mostly."""
        return self.directories.metadata

    def _node_id(self) -> int:
        old, new = self.configs.value("broker.id"), self.configs.value("node.id")
        if "broker.id" in self.configs.static and old >= 0:
            if "node.id" in self.configs.static and new != old:
                raise ConfigError(
                    f"node.id is {new} and broker.id is {old}; they are one thing, set only node.id"
                )
            new = old
            self.configs.static["node.id"] = str(old)
        # Clients that look for the older name find it, as in Kafka.
        self.configs.static["broker.id"] = str(new)
        return int(new)

    def _log_directories(self) -> LogDirectories:
        value = self.configs.value
        paths = value("log.dirs") or value("log.dir")
        return LogDirectories(paths, value("metadata.log.dir"), slow_ms=value("bowstring.log.dir.slow.ms"))

    # ------------------------------------------------------------ start

    def open(self) -> None:
        """Locks and recovers the log directories, binds the listeners, opens every log.

        Raises:
            ConfigError, DataDirectoryError, OSError: What is wrong and what to do.
        """
        wanted = client_listeners(self.configs)
        if "broker" not in self.configs.value("process.roles"):
            raise ConfigError("process.roles must name broker: a controller of its own is not there yet")
        raise_file_limit()
        check_metadata_log(self.directory.path)
        self.directories.open(self.node_id)
        try:
            self.metadata.open(self.directory, self.configs)
            self.plane = self._make_plane()
            self._listen(wanted)
            self._bind_local()
            self.logs = TopicLogs(self.directories, self.configs, self.plane, self.node_id)
            self.changes = ClusterChanges(self.metadata, self.logs, self.configs, self.node_id)
            self.producer_ids = ProducerIds(self.metadata, self.node_id)
            self.changes.when_changed = self._cluster_changed
            self.changes.when_topic_deleted = self._topic_deleted
            self.metadata.commit_alone(start_records(self))
            self.changes.load_dynamic_configs(self.metadata.image)
            self.logs.when_replaced = self._log_replaced
            threads = self.configs.value("num.recovery.threads.per.data.dir") * len(self.directories.opened)
            elsewhere = self.logs.open_all(self.metadata.image, threads)
            self.metadata.commit_alone(self._found_elsewhere(elsewhere))
        except BaseException as error:
            self.metadata.close()
            self.directories.close()
            if isinstance(error, LogError):
                raise explained(error, self.directory.path) from error
            raise

    def _found_elsewhere(self, elsewhere: Mapping[tuple[str, int], bytes]) -> list[MetadataRecord]:
        """Partitions are where they are: the metadata log is told (Kafka's AssignReplicasToDirs)."""
        topics = self.metadata.image.topics
        return [
            change_of_directory(topics[topic], index, self.node_id, directory_id)
            for (topic, index), directory_id in elsewhere.items()
        ]

    def _make_plane(self) -> DataPlane:
        value = self.configs.value
        reactors = value("bowstring.reactor.threads") or max(
            1, min(_MOST_REACTORS_BY_DEFAULT, (os.cpu_count() or 1) // 2)
        )
        return DataPlane(
            apis={
                key: (api.lowest, api.highest_declared, api.flexible_from)
                for key in ADVERTISED
                for api in (API_VERSIONS[key],)
            },
            reactors=reactors,
            request_max_bytes=value("socket.request.max.bytes"),
            fetch_max_bytes=value("fetch.max.bytes"),
            session_slots=value("max.incremental.fetch.session.cache.slots"),
            connections_max_idle_ms=value("connections.max.idle.ms"),
        )

    def _listen(self, wanted: list[Listener]) -> None:
        self.listeners = [
            listener._replace(port=self.plane.listen(listener.host, listener.port)) for listener in wanted
        ]
        self.advertised = advertised_listeners(self.configs, self.listeners)

    def _bind_local(self) -> None:
        if self.configs.value("bowstring.local.socket") != "off":
            from bowstring.engine.broker.local_socket import LocalSocket

            self.local = LocalSocket(self)
            self.local.bind()

    async def start(self) -> None:
        """Begins to serve. On the control loop, after `open`."""
        for name in self.configs.without_effect():
            log_lines.warning("this config is accepted and reported, but has no effect yet", config=name)
        if GROUPS_TOPIC in self.metadata.image.topics:
            self.groups  # noqa: B018 - whose offsets are read before the first member asks
        asyncio.get_running_loop().add_reader(self.directories.event_fd, self.directories.look)
        self.directories.look()
        self.dispatcher.start()
        self.housekeeping.start()
        self.cleaner.start()
        self.scrubber.start()
        self.logs.durability.start(asyncio.get_running_loop())
        self.metadata.watch_snapshots()
        self.moves.resume(self.logs.unfinished)
        if (port := self.configs.value("bowstring.metrics.port")) >= 0:
            await self._start_metrics(port)
        if self.local is not None:
            self.local.start()
        self.plane.start()

    async def _start_metrics(self, port: int) -> None:
        from bowstring.engine.broker.metrics_server import MetricsServer

        self._metrics = MetricsServer(self)
        await self._metrics.start(self.listeners[0].host or None, port)

    @property
    def metrics_port(self) -> int:
        """Port on which metrics are served; -1 when they are not."""
        return self._metrics.port if self._metrics is not None else -1

    # ------------------------------------------------------------ for handlers

    @property
    def groups(self) -> "GroupShell":
        """The group coordinator; loaded and started when it is first needed, on the control loop."""
        if self._groups is None:
            from bowstring.engine.broker.group_shell import GroupShell

            self._groups = GroupShell(self)
            self._groups.start()
        return self._groups

    def _cluster_changed(self) -> None:
        self.housekeeping.cluster_changed()
        self.cleaner.cluster_changed()

    def _topic_deleted(self, name: str, topic_id: bytes) -> None:
        self.cleaner.topic_deleted(name)
        if self._groups is not None:
            self._groups.topic_deleted(name, topic_id)

    def _log_replaced(self, topic: str, index: int, log: PartitionLog) -> None:
        self.cleaner.log_replaced(topic, index, log)
        if self._groups is not None and topic == GROUPS_TOPIC:
            self._groups.log_replaced(index, log)

    def leader_log(self, topic: str, partition: int, current_leader_epoch: int = -1) -> PartitionLog:
        """The log of a partition that this broker leads, in the epoch the client believes in (-1: any).

        Raises:
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH,
                UNKNOWN_LEADER_EPOCH, KAFKA_STORAGE_ERROR.
        """
        found = self.metadata.image.topics.get(topic)
        if found is None or not 0 <= partition < len(found.partitions):
            raise KafkaError(Errors.UNKNOWN_TOPIC_OR_PARTITION)
        image = found.partitions[partition]
        log = self.logs.get(topic, partition)
        if self.logs.is_missing(topic, partition):
            raise KafkaError(Errors.KAFKA_STORAGE_ERROR)
        if image.leader != self.node_id or log is None:
            raise KafkaError(Errors.NOT_LEADER_OR_FOLLOWER)
        if current_leader_epoch not in (-1, image.leader_epoch):
            older = current_leader_epoch < image.leader_epoch
            raise KafkaError(Errors.FENCED_LEADER_EPOCH if older else Errors.UNKNOWN_LEADER_EPOCH)
        return log

    # ------------------------------------------------------------ stop

    async def stop(self) -> None:
        """Stops accepting, ends what is being handled, syncs and closes the logs, marks the end clean."""
        self.housekeeping.stop()
        await self.cleaner.stop()
        self.scrubber.stop()
        await self.moves.stop()
        if self._groups is not None:
            await self._groups.stop()
        await self.dispatcher.stop()
        if self.local is not None:
            await self.local.stop()
        if self._metrics is not None:
            await self._metrics.stop()
        asyncio.get_running_loop().remove_reader(self.directories.event_fd)
        self.plane.stop()
        await self.metadata.stop_snapshots()
        started = time.monotonic()
        self._close()  # nothing is left that the loop could serve meanwhile
        log_lines.info("stopped cleanly", seconds=round(time.monotonic() - started, 3))

    def _close(self) -> None:
        """Without a marker where something cannot be written, and with the locks given up in any case."""
        epoch = self.metadata.image.brokers[self.node_id].epoch
        try:
            with ExitStack() as stack:  # in reverse; the first error goes on in the end
                stack.callback(self.directories.mark_clean, epoch)
                stack.callback(self._close_metadata)
                stack.callback(self.logs.close, self.configs.value("num.recovery.threads.per.data.dir"))
                stack.callback(self._say_goodbye)
        finally:
            self.directories.close()

    def _close_metadata(self) -> None:
        try:
            self.metadata.close()
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

    def _say_goodbye(self) -> None:
        if not self.directory.health.failed:
            self.metadata.commit_alone(stop_records(self))
