"""Runs the replicas of a broker: leaders and followers, changes of in-sync replicas, lag.

engine/replication decides, the data plane moves the records. This module gives both what they need: the
image, addresses, time, and the controller's answers.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from bowstring._native.server.data_plane import DataPlane
from bowstring._native.server.replicas import Replicas
from bowstring.engine import background, event_log
from bowstring.engine.broker.corrupt_repair import CorruptRepair
from bowstring.engine.broker.role_changes import SLICE_NS, RoleChanges
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.metadata.image import ClusterImage, TopicImage
from bowstring.engine.network.broker_addresses import BrokerAddresses, inter_broker_listener
from bowstring.engine.network.broker_peers import BrokerPeers
from bowstring.engine.quorum.service import QuorumService
from bowstring.engine.replication.isr_changes import PartitionKey
from bowstring.engine.replication.replica_manager import ReplicaManager
from bowstring.engine.replication.throttles import is_throttled, rate_limit
from bowstring.engine.requests.led_logs import LedReplicas
from bowstring.engine.storage.log_directory import partition_directory
from bowstring.engine.storage.log_manager import LogManager
from bowstring.protocol.errors import Error, Errors, KafkaError

if TYPE_CHECKING:
    from bowstring.engine.broker.follower_links import FollowerLinks
    from bowstring.engine.network.peer_security import PeerSecurity
    from bowstring.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse

_BATCHING_S: Final = 0.002
"""Changes of in-sync replicas that come within this time go into one request."""

_EVENTS_AT_ONCE: Final = 64


def _now_ms() -> float:
    return time.monotonic() * 1000


class _ServedLogs:
    """The logs as the replica manager sees them. They are opened before it gets their partitions."""

    def __init__(self, logs: LogManager, configs: BrokerConfigs) -> None:
        self._logs = logs
        self._configs = configs
        self._new: dict[str, list[int]] = {}

    def take_new(self) -> dict[str, list[int]]:
        """Returns the partitions since the last call."""
        taken, self._new = self._new, {}
        return taken

    def create(self, image: ClusterImage, topic: TopicImage, partition: int) -> bool:
        """Notes a new partition. `LogManager.open_new` has opened its log, on another thread; not one that
        was assigned to this broker since.
        """
        if self._logs.get(topic.name, partition) is None and not self._logs.is_missing(topic.name, partition):
            return False
        self._new.setdefault(topic.name, []).append(partition)
        return True

    def remove(self, topic: str, partition: int) -> None:
        """Renames the log's directory; it is unlinked later."""
        self._logs.remove_partition(
            topic, partition, int(self._configs.topic_value("file.delete.delay.ms", {}))
        )


class Replication(LedReplicas):
    """The replicas of one broker. Used on the control loop.

    Attributes:
        plane_replicas: What the data plane does for replicas.
        manager: The roles of this broker, and the in-sync replicas that it proposes.
        repair: Fetches corrupt batches again.
        failed_isr_updates: Requests to change in-sync replicas that failed.
        when_truncated: Called with the followers whose logs were cut: topic, index and new end offset of
            each.
    """

    def __init__(
        self,
        quorum: QuorumService,
        configs: BrokerConfigs,
        plane: DataPlane,
        logs: LogManager,
        *,
        node_id: int,
        broker_epoch: Callable[[], int],
        peers: BrokerPeers,
        security: "PeerSecurity | None" = None,
    ) -> None:
        value = configs.value
        self._quorum = quorum
        self._configs = configs
        self._logs = logs
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._lag_check_s = value("replica.lag.time.max.ms") / 2000
        self.plane_replicas = Replicas(
            plane,
            broker_id=node_id,
            fetchers=value("num.replica.fetchers"),
            wait_max_ms=value("replica.fetch.wait.max.ms"),
            min_bytes=value("replica.fetch.min.bytes"),
            part_max_bytes=value("replica.fetch.max.bytes"),
            response_max_bytes=value("replica.fetch.response.max.bytes"),
            backoff_ms=value("replica.fetch.backoff.ms"),
            socket_timeout_ms=value("replica.socket.timeout.ms"),
            lag_max_ms=value("replica.lag.time.max.ms"),
            is_secured=security is not None,
        )
        selector = value("replica.selector.class") or ""
        self.plane_replicas.set_rack_aware(selector.endswith(".RackAwareReplicaSelector"))
        self._links: FollowerLinks | None = None
        if security is not None:
            from bowstring.engine.broker import follower_links

            timeout_s = value("replica.socket.timeout.ms") / 1000
            self._links = follower_links.FollowerLinks(self.plane_replicas, quorum, security, timeout_s)
        self._addresses = BrokerAddresses(inter_broker_listener(configs), self._brokers_moved)
        self._served = _ServedLogs(logs, configs)
        self._roles = RoleChanges(self.plane_replicas, self._min_in_sync)
        self.manager = ReplicaManager(node_id, self._roles, self._served, self._addresses)
        self.manager.when_failed = self._tell_bug
        self.repair = CorruptRepair(lambda: quorum.image, logs, peers, node_id=node_id)
        self._is_due = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._is_told = False
        self._events: list[tuple[str, str, int, int, int, int]] = []
        self._applying = asyncio.Lock()
        self._moves: set[asyncio.Task[None]] = set()
        self.failed_isr_updates = 0
        self.when_truncated: Callable[[list[tuple[str, int, int]]], None] = lambda cut: None

    # ------------------------------------------------------------ life

    def start(self) -> None:
        """Begins to send changes to the controller and to look for followers that lag."""
        self.plane_replicas.set_broker_epoch(self._broker_epoch())
        self.configure(())
        self._tasks = [
            background.keep_running(self._send_changes, "changes of in-sync replicas"),
            background.keep_running(self._check_lag, "followers that lag"),
            background.keep_running(self.repair.run, "repair of corrupt batches"),
        ]

    async def stop(self) -> None:
        """Stops sending. The data plane keeps its roles."""
        self._addresses.close()
        if self._links is not None:
            await self._links.stop()
        tasks = [*self._tasks, *self._moves]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._events.clear()
        self._roles.close()

    def configure(self, topics: Iterable[str]) -> None:
        """Applies dynamic configs of this broker, and those of topics."""
        value = self._configs.value
        self.plane_replicas.set_fetchers(value("num.replica.fetchers"))
        self.plane_replicas.set_quota(
            leader_rate=rate_limit(value("leader.replication.throttled.rate")),
            follower_rate=rate_limit(value("follower.replication.throttled.rate")),
        )
        image = self._quorum.image
        for name in topics:
            if name in image.topics:
                keys = self.manager.keys_of(image.topics[name].id)
                self._throttle(name, [index for _, index in keys])

    def _throttle(self, name: str, indexes: Iterable[int], *, is_new: bool = False) -> None:
        """Sets the partitions of a topic that quotas cover (KIP-73); none at first."""
        overrides = self._quorum.image.topic_configs(name)
        leaders, followers = (
            self._configs.topic_value(f"{role}.replication.throttled.replicas", overrides)
            for role in ("leader", "follower")
        )
        for index in indexes:
            is_leader = is_throttled(leaders, index, self._node_id)
            is_follower = is_throttled(followers, index, self._node_id)
            if not (is_new and not is_leader and not is_follower):
                self.plane_replicas.set_throttled(name, index, leader=is_leader, follower=is_follower)

    # ------------------------------------------------------------ roles

    async def apply(
        self, image: ClusterImage, changed: Iterable[PartitionKey], *, brokers_changed: bool = False
    ) -> None:
        """Gives partitions the roles of an image. Their logs are open.

        Others have their turn meanwhile: heartbeats and votes have deadlines. A partition that fails does not
        keep the others from their roles.

        Raises:
            Exception: The first failure of a partition, once all others have their roles.
        """
        async with self._applying:
            await self._apply(image, changed, brokers_changed=brokers_changed)

    async def _apply(
        self, image: ClusterImage, changed: Iterable[PartitionKey], *, brokers_changed: bool
    ) -> None:
        if brokers_changed:
            self._set_endpoints(image)
        try:
            await self._in_slices(self.manager.steps(image, changed, brokers_changed=brokers_changed))
        finally:
            self._throttle_new(image)
            self._wake()

    async def _in_slices(self, steps: Iterator[None]) -> None:
        """Takes steps that change roles. Others have their turn after some milliseconds of them."""
        until_ns = time.monotonic_ns() + SLICE_NS
        try:
            for _ in steps:
                if time.monotonic_ns() >= until_ns:
                    await asyncio.sleep(0)
                    await self._roles.flush()
                    await asyncio.sleep(0)
                    until_ns = time.monotonic_ns() + SLICE_NS
        finally:
            await self._roles.flush()

    def _throttle_new(self, image: ClusterImage) -> None:
        for name, indexes in self._served.take_new().items():
            if name in image.topics:
                served = {index for _, index in self.manager.keys_of(image.topics[name].id)}
                self._throttle(name, served.intersection(indexes), is_new=True)

    def _min_in_sync(self, topic: str) -> int:
        overrides = self._quorum.image.topic_configs(topic)
        return int(self._configs.topic_value("min.insync.replicas", overrides))

    def drop(self, topic: str, partition: int) -> None:
        """Removes a partition that is served and never had a role."""
        self._roles.stop(topic, partition)
        self._served.remove(topic, partition)

    def leads(self, topic_id: bytes, partition: int) -> bool:
        """Whether this broker leads a partition, and the data plane has it."""
        led = self.manager.isr_changes.partitions.get((topic_id, partition))
        topic = self._quorum.image.topics_by_id.get(topic_id)
        if led is None or topic is None:
            return False
        return self._roles.epoch_led(topic.name, partition) == led.leader_epoch

    def low_watermark(self, topic: str, partition: int) -> int | None:
        """The smallest log start offset of the replicas that are alive; None if this broker does not lead."""
        try:
            return int(self.plane_replicas.low_watermark(topic, partition))
        except KeyError:
            return None

    def _brokers_moved(self) -> None:
        """An address was found: followers of that broker connect to it."""
        background.spawn(self._move(), "addresses of brokers", among=self._moves)

    async def _move(self) -> None:
        async with self._applying:  # first: the image of then may be another one
            await self._apply(self._quorum.image, (), brokers_changed=True)

    def _set_endpoints(self, image: ClusterImage) -> None:
        """Sets the data plane's answer to clients that reached another broker than the leader (KIP-951).

        Of brokers with several listeners it gets the rack alone: it cannot see which one a client can reach.
        """
        self.plane_replicas.set_endpoints(
            [
                (broker.id, broker.endpoints[0].host, broker.endpoints[0].port, broker.rack)
                if len(broker.endpoints) == 1
                else (broker.id, None, 0, broker.rack)
                for broker in image.brokers.values()
                if not broker.fenced
            ]
        )

    # ------------------------------------------------------------ events of the data plane

    def take_events(self) -> None:
        """Acts on what happened to replicas. Call when the data plane's control_fd is readable.

        When a broker returns, all its replicas have something to report: others have their turn in between.
        """
        if self._links is not None:
            self._links.look()
        self.repair.look()  # a read that marks a batch as corrupt comes without an event
        waited = bool(self._events)
        self._events += self.plane_replicas.take_events()
        if self._events and not waited:
            self._act()

    def _act(self) -> None:
        until_ns = time.monotonic_ns() + SLICE_NS
        try:
            while self._events:
                some, self._events = self._events[:_EVENTS_AT_ONCE], self._events[_EVENTS_AT_ONCE:]
                self._act_on(some)
                if time.monotonic_ns() >= until_ns:
                    break
        finally:
            if self._events:
                asyncio.get_running_loop().call_soon(self._act)
            self._roles.flush_soon()
            self._wake()

    def _act_on(self, some: list[tuple[str, str, int, int, int, int]]) -> None:
        cut: list[tuple[str, int, int]] = []
        for kind, topic, partition, a, b in self.manager.on_events(some):
            if kind == "truncated" and not a:
                cut.append((topic, partition, b))
                event_log.info(
                    "a follower cut its log where the leader's differs",
                    partition=partition_directory(topic, partition),
                    end_offset=b,
                )
            elif kind == "fetch-failed":
                self._tell_failure(topic, partition, Errors.of(a), b)
        if cut:
            self.when_truncated(cut)

    def _tell_failure(self, topic: str, partition: int, error: Error, leader: int) -> None:
        if error not in _PASSING:
            event_log.warning(
                "a follower gets an error from its leader and tries again",
                partition=partition_directory(topic, partition),
                leader=leader,
                error=error.name,
            )

    def _tell_bug(self, key: PartitionKey, failure: Exception) -> None:
        event_log.error(
            "bug: a change of in-sync replicas could not be proposed; report the traceback",
            traceback=failure,
            partition=f"{key[0].hex()}-{key[1]}",
        )

    async def _check_lag(self) -> None:
        while True:
            await asyncio.sleep(self._lag_check_s)
            self.plane_replicas.check_lag()
            self.take_events()

    # ------------------------------------------------------------ decisions of the controller

    def _wake(self) -> None:
        if self.manager.isr_changes.due_ms() is not None:
            self._is_due.set()

    async def _send_changes(self) -> None:
        """Sends AlterPartition requests, one at a time (KIP-497)."""
        self._wake()  # it may begin anew
        while True:
            await self._is_due.wait()
            self._is_due.clear()
            await asyncio.sleep(_BATCHING_S)
            while (due_ms := self.manager.isr_changes.due_ms()) is not None:
                if due_ms > _now_ms():
                    await asyncio.sleep((due_ms - _now_ms()) / 1000)
                await self._roles.flush()  # the data plane applies a change before the controller may agree
                request = self.manager.next_request(_now_ms(), self._broker_epoch())
                if request is not None:
                    await self._send(request)

    async def _send(self, request: "AlterPartitionRequest") -> None:
        try:
            answer: AlterPartitionResponse = await self._quorum.ask_leader(request)
        except KafkaError as error:
            self._failed(str(error))
            self.manager.failed(_now_ms())
            return
        except BaseException:  # the changes are sent again, by the next run
            self.manager.failed(_now_ms())
            raise
        if answer.error_code:
            self._failed(Errors.of(answer.error_code).name)
        else:
            self._is_told = False
        await self._in_slices(self.manager.answer_steps(answer, _now_ms()))

    def _failed(self, detail: str) -> None:
        self.failed_isr_updates += 1
        if not self._is_told:
            self._is_told = True
            event_log.warning(
                "in-sync replicas could not be changed; this is tried again until the controller accepts it",
                detail=detail,
            )


_PASSING: Final = frozenset(
    {
        Errors.NOT_LEADER_OR_FOLLOWER,
        Errors.UNKNOWN_LEADER_EPOCH,
        Errors.FENCED_LEADER_EPOCH,
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        Errors.UNKNOWN_TOPIC_ID,
    }
)
"""Errors while a change of the cluster has reached one of two brokers."""
