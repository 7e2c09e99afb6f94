"""Runs a broker of a cluster: it follows the metadata quorum, and may be one of its controllers."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bowstring._native.log.partition_log import LogError
from bowstring.engine import background, event_log
from bowstring.engine.api.table import BY_BROKER
from bowstring.engine.broker.broker import Broker
from bowstring.engine.broker.controller_node import ControllerServer
from bowstring.engine.broker.directory_assignments import DirectoryAssignments
from bowstring.engine.broker.image_follower import ImageFollower
from bowstring.engine.broker.lifecycle import BrokerLifecycle
from bowstring.engine.broker.node import NodeLostError, behind, check_formatted
from bowstring.engine.broker.replication import Replication
from bowstring.engine.coordinators.cluster_changes import ClusterChanges
from bowstring.engine.coordinators.producer_ids import ProducerIds
from bowstring.engine.metadata.features import names_directories
from bowstring.engine.metadata.image import ClusterImage, PartitionImage, TopicImage
from bowstring.engine.metadata.store.start_checks import explained
from bowstring.engine.quorum.own_cluster import is_own_cluster, needs_no_format, with_itself
from bowstring.engine.quorum.service import QuorumService
from bowstring.engine.quorum.settings import CONTROLLER, quorum_settings
from bowstring.engine.requests.listeners import Listener
from bowstring.engine.storage import lost_logs
from bowstring.engine.storage.checkpoints import RECOVERY_POINTS
from bowstring.engine.storage.log_directory import NO_EPOCH


class ClusterBroker(Broker):
    """A broker whose metadata comes from the quorum.

    `open` opens the metadata log and binds the listeners. `start` registers with the controller, opens the
    logs that the cluster has assigned to this broker, and serves. Clients are refused until the controller
    has unfenced it: before, its metadata would name no leaders, and not this broker.

    Attributes:
        server: The listeners of this node's controller; None without that role.
        lifecycle: The registration and the heartbeats.
        replication: The replicas of this broker.
        follower: Carries out what the image says.
    """

    quorum: QuorumService
    replication: Replication
    follower: ImageFollower

    def __init__(self, settings: Mapping[str, str]) -> None:
        super().__init__(settings)
        self._settings = quorum_settings(self.configs, self.node_id)
        self._may_format = needs_no_format(self._settings, self.configs, self.node_id)
        self._is_own_cluster = is_own_cluster(self._settings, self.configs, self.node_id)
        if self._is_own_cluster:
            self._settings = with_itself(self._settings, self.node_id)
        self.quorum = QuorumService(
            self.directory,
            self.configs,
            self._settings,
            node_id=self.node_id,
            is_own_cluster=self._is_own_cluster,
        )
        self.metadata = self.quorum
        self.handlers, self.offered = BY_BROKER
        self.server: ControllerServer | None = None
        if CONTROLLER in self._settings.roles:
            self.server = ControllerServer(self.configs, self.node_id, self.directories, self.quorum)
        self.lifecycle: BrokerLifecycle
        self._is_serving = False
        self._opening: asyncio.Future[Mapping[tuple[str, int], bytes]] | None = None

    # ------------------------------------------------------------ start

    def open(self, *, only_to_recover: bool = False) -> None:
        """Locks the log directories, opens the metadata log, binds the listeners.

        Raises:
            ConfigError, DataDirectoryError, OSError: The message says what is wrong and what to do.
        """
        if not self._may_format:
            check_formatted(self.directories)
        super().open(only_to_recover=only_to_recover)

    def _open_metadata(self) -> None:
        self.quorum.open()

    def _close_metadata_log(self) -> None:
        self.quorum.close()

    def _listen(self, wanted: list[Listener]) -> None:
        super()._listen(wanted)
        if self.server is not None:
            self.server.bind()

    def _make_changes(self) -> None:
        self._assignments = DirectoryAssignments(
            self.quorum,
            self.directories,
            self.logs,
            node_id=self.node_id,
            broker_epoch=self._broker_epoch,
        )
        self.changes = ClusterChanges(
            self.quorum,
            self.logs,
            self.configs,
            settled=self._settled,
            is_own_cluster=self._is_own_cluster,
        )
        self.producer_ids = ProducerIds(self.quorum, self.node_id, lambda: self.lifecycle.epoch)
        self.replication = Replication(
            self.quorum,
            self.configs,
            self.plane,
            self.logs,
            node_id=self.node_id,
            broker_epoch=self._broker_epoch,
            peers=self.peers,
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

    async def _assign_directory(self, topic: TopicImage, index: int, directory_id: bytes) -> None:
        await self._assignments.assign(topic, index, directory_id)

    async def _settled(self) -> None:
        await self.follower.settled()

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
        self._warn()
        self._is_serving = True
        self._assignments.is_moving = lambda topic, index: self.moves.get(topic, index) is not None
        self.healer.when_stuck = self._give_up
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
        self.plane.accept()
        self._not_ready = None

    def why_not_ready(self) -> str | None:
        """Returns why this broker cannot serve clients now; None when it can.

        Without a controller it can: data traffic continues.
        """
        if (why := super().why_not_ready()) is not None:
            return why
        if self.lifecycle.is_fenced:
            return "the controller has fenced the broker"
        return behind(self.quorum)

    async def _open_logs_of_image(self) -> None:
        # A thread opens the logs of a copy; what is committed meanwhile is carried out afterwards. A cluster
        # of its own without topics needs no thread.
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
        await self._disown_lost_logs()
        if self.logs.lost:
            self.logs.lost = []
            write = self.logs.checkpoint(RECOVERY_POINTS)
            await asyncio.get_running_loop().run_in_executor(None, write)
            await asyncio.get_running_loop().run_in_executor(None, lost_logs.forget, self.directories)

    def _open_logs(self, image: ClusterImage) -> Mapping[tuple[str, int], bytes]:
        """Opens the logs; returns the directory ids of those in other directories than the image says. Slow:
        not for the control thread.
        """
        elsewhere = self.logs.open_all(image, self._recovery_threads())
        if not self.logs.lost:
            lost_logs.forget(self.directories)  # nothing is left to report
        return elsewhere

    async def _disown_lost_logs(self) -> None:
        """Has the controller not elect this broker as the last known leader of partitions whose logs are gone
        here: others may have their records.
        """
        topics = self.quorum.image.topics
        disowned = [
            (name, index)
            for name, index in self.logs.lost
            if (topic := topics.get(name)) is not None
            and index < len(topic.partitions)
            and self.node_id in topic.partitions[index].last_known_leaders
        ]
        if disowned:
            event_log.error(
                "partitions that this broker led last have lost their logs here, so it does not lead them by "
                "itself; if no other broker does, elect one that has records "
                "(docs/how-to/operate-a-cluster.md: Elect leaders)",
                partitions=len(disowned),
                example="-".join(map(str, disowned[0])),
            )
        await self._assignments.lose_now((topics[name].id, index) for name, index in disowned)

    def _give_up(self, partitions: Sequence[tuple[str, int]]) -> None:
        """Has the controller choose other leaders of partitions that accept no records.

        A leader without another replica in sync stays, so that at least its records can be read.
        """
        topics = self.quorum.image.topics
        for name, index in partitions:
            if (topic := topics.get(name)) is None or index >= len(topic.partitions):
                continue
            partition = topic.partitions[index]
            if partition.leader != self.node_id or any(each != self.node_id for each in partition.in_sync):
                self._assignments.lose([(topic.id, index)])

    def _logs_healed(self, partitions: Sequence[tuple[str, int]]) -> None:
        super()._logs_healed(partitions)
        for name in {topic for topic, _ in partitions}:
            if name in self.quorum.image.topics:
                self._assignments.note(self.quorum.image.topics[name])

    def own_partitions(self) -> Iterator[tuple[str, int, PartitionImage]]:
        """Yields topic, index and state of each partition that this broker has."""
        return self.replication.manager.partitions()

    def _metrics_registry(self) -> Any:
        from bowstring.engine.broker import metrics

        return metrics.cluster_registry(self)

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

    # ------------------------------------------------------------ stop

    async def stop(self) -> None:
        """Has the controller move the leaders away, finishes requests in progress, and shuts down cleanly."""
        self._not_ready = "the broker is stopping"
        await self.lifecycle.stop()
        await self.follower.stop()
        await self.replication.stop()
        await self._assignments.stop()
        if self._is_serving:
            await self._stop_serving()
        else:
            if self._opening is not None:
                await asyncio.wait({self._opening})
            self.plane.stop()
            await self._stop_metrics()
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

    def _broker_epoch(self) -> int:
        return self.lifecycle.epoch
