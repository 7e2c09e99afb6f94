"""Carries out the effects of a quorum replica: timers, disk, network, and the image of committed records.

    quorum = QuorumService(directory, configs, settings, node_id=1, endpoints=())
    quorum.open()              # no event loop is needed
    quorum.start()             # on the control loop
    await quorum.append(records)
    await quorum.stop()

Everything runs on the control loop but syncs and snapshots, which are for threads. An error of the disk and
an impossible state end the replica: `failed` then has the error, and the node is to stop.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from bowstring._native.log.partition_log import LogError
from bowstring.engine import background, event_log
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.dice import Dice
from bowstring.engine.metadata.image import ClusterImage
from bowstring.engine.metadata.quorum import QuorumFacts
from bowstring.engine.metadata.records import encode_record
from bowstring.engine.metadata.snapshot import SnapshotError
from bowstring.engine.metadata.store.bootstrap import read_bootstrap
from bowstring.engine.metadata.store.log_config import metadata_log_config
from bowstring.engine.quorum.applier import ImageApplier
from bowstring.engine.quorum.commits import Commits
from bowstring.engine.quorum.disk_thread import DiskThread
from bowstring.engine.quorum.leader_requests import LeaderRequests
from bowstring.engine.quorum.log import MetadataRaftLog
from bowstring.engine.quorum.own_cluster import as_in_log, load_log
from bowstring.engine.quorum.own_snapshots import OwnSnapshots
from bowstring.engine.quorum.settings import CONTROLLER, QuorumSettings
from bowstring.engine.quorum.state_file import QuorumStateFile
from bowstring.engine.raft import effects
from bowstring.engine.raft.accumulator import Entry, check_size
from bowstring.engine.raft.keys import NO_LEADER, OffsetAndEpoch, ReplicaKey
from bowstring.engine.raft.leader import LeaderState
from bowstring.engine.raft.replica import RaftReplica
from bowstring.engine.raft.states import NEVER, Resigned
from bowstring.engine.raft.voters import Endpoints, Node, Voter, VoterSet, node_at
from bowstring.engine.storage.directory_lock import DataDirectoryError
from bowstring.engine.storage.log_directory import LogDirectory
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.features import HIGHEST_METADATA_VERSION, METADATA_VERSION
from bowstring.protocol.schema import Message, MetadataRecord

if TYPE_CHECKING:
    from bowstring.engine.quorum.connections import Connections
    from bowstring.engine.raft import messages

LeaderListener = Callable[[int, int], None]
"""Called with the id of the leader (-1: none is known) and its epoch."""
HANDOVER_MS: Final = 5000
"""How long a leader that stops waits until the other voters have noticed."""
_NO_LEADER_S: Final = 10.0
"""After how long without a leader, and how often then, the broker logs that."""
_SLICE_NS: Final = 5_000_000
# From the steady clock, which is never set, to the time of day, which the batches of the log carry.
_CLOCK_MS: Final = (time.time_ns() - time.monotonic_ns()) // 1_000_000
_CLIENT_ID: Final = "raft-client-{}"


class QuorumService:
    """This node's replica of the metadata log, and the image of the cluster.

    Attributes:
        node_id: This node.
        listener: The name of the listener of controllers.
        on_leader_change: Called when the leader changes; when this node becomes it, only once it has applied
            all that earlier leaders committed.
        failed: Ends with the error that ended the replica.
        commits: Futures of records that are not committed and applied here yet.
        to_leader: Sends requests to the active controller.
        works_inline: Whether the control loop itself does the work of the disk: while it serves nobody, turns
            of threads would only delay the start.
    """

    def __init__(
        self,
        directory: LogDirectory,
        configs: BrokerConfigs,
        settings: QuorumSettings,
        *,
        node_id: int,
        endpoints: Endpoints = (),
        is_own_cluster: bool = False,
    ) -> None:
        """`is_own_cluster`: This node is the only voter, and no other node may be one."""
        self.node_id = node_id
        self._is_own_cluster = is_own_cluster
        self.listener = settings.listener
        self.on_leader_change: list[LeaderListener] = []
        self.works_inline = False
        self.commits = Commits()
        self.failed: asyncio.Future[None]
        self._directory = directory
        self._configs = configs
        self._settings = settings
        self._endpoints = endpoints
        self._log: MetadataRaftLog
        self._replica: RaftReplica
        self._applier: ImageApplier
        self._own_snapshots: OwnSnapshots
        self._state_file: QuorumStateFile
        self._loop: asyncio.AbstractEventLoop
        self._disk = DiskThread()
        self._made_connections: Connections | None = None
        self._effects: deque[effects.Effect] = deque()
        self._is_blocked = False
        self._is_carrying_out = False
        self._is_open = False
        self._is_started = False
        self._is_stopped = False
        self._timer: asyncio.TimerHandle | None = None
        self._high_watermark = 0
        self._is_applying = False
        self._flush_id: int | None = None
        self._is_flushing = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._asked: set[asyncio.Future[messages.Response]] = set()
        self._told: tuple[int, int] = (NO_LEADER, -1)
        self._leader_known = asyncio.Event()
        self.to_leader = LeaderRequests(
            node_id,
            settings.config.request_timeout_ms,
            lambda: self.leader_node,
            self._leader_known,
            lambda: self._connections,
        )
        self._no_leader_timer: asyncio.TimerHandle | None = None

    # ------------------------------------------------------------ state

    @property
    def image(self) -> ClusterImage:
        """The cluster after all applied records. It is changed in place by later ones, and replaced by a
        snapshot.
        """
        return self._applier.image

    @property
    def quorum(self) -> QuorumFacts:
        """kraft.version and voters after all applied records."""
        return self._applier.quorum

    @property
    def on_applied(self) -> list[Callable[[Sequence[MetadataRecord], int, int], None]]:
        """Called with the records of each committed batch, the offset after it, and its epoch."""
        return self._applier.on_applied

    @property
    def on_snapshot(self) -> list[Callable[[ClusterImage, int, int], None]]:
        """Called with the whole image when a snapshot replaces it, its end offset and epoch."""
        return self._applier.on_snapshot

    @property
    def end_offset(self) -> int:
        """Offset of the next record to apply: the image has all records below."""
        return self._applier.applied

    @property
    def leader_epoch(self) -> int:
        """The highest epoch that this node has seen."""
        return self._replica.state.epoch

    @property
    def epoch(self) -> int:
        """The epoch of `leader_id`."""
        return self._told[1]

    @property
    def leader_id(self) -> int:
        """The active controller; -1 when none is known."""
        return self._told[0]

    @property
    def is_leader(self) -> bool:
        """Whether this node is the active controller, and has applied all that earlier ones committed."""
        return self._told[0] == self.node_id and isinstance(self._replica.state, LeaderState)

    @property
    def has_failed(self) -> bool:
        """Whether an error has ended the replica."""
        return self.failed.done() and not self.failed.cancelled()

    @property
    def leader_node(self) -> Node | None:
        """The address of the active controller; None while it is unknown."""
        state = self._replica.state
        if state.leader_id == NO_LEADER:
            return None
        node = node_at(state.leader_id, state.leader_endpoints, self.listener)
        if node is None and state.leader_id == self.node_id:
            return Node(self.node_id, "", 0)  # without a listener only this process reaches it
        return node

    @property
    def next_offset(self) -> int:
        """Offset of the first record of the next append. Only on the leader."""
        leader = self._replica.state
        assert isinstance(leader, LeaderState), "only a leader appends"
        return leader.accumulator.next_offset

    @property
    def log_end_offset(self) -> int:
        """Offset after the last record of this node's log, committed or not."""
        return self._log.end_offset

    @property
    def state_name(self) -> str:
        """Kafka's name of what this node is in the quorum: leader, candidate, follower, observer, ..."""
        name = type(self._replica.state).__name__.removesuffix("State").lower()
        is_voter = self.node_id in self._replica.voters.ids
        return name if is_voter or name not in ("follower", "unattached") else "observer"

    @property
    def high_watermark(self) -> int:
        """Records below are committed, and applied soon."""
        return self._high_watermark

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None:
        """The newest snapshot on disk."""
        return self._log.latest_snapshot_id()

    @property
    def voters(self) -> VoterSet:
        """The latest voters, committed or not."""
        return self._replica.voters

    @property
    def kraft_version(self) -> int:
        """The latest kraft.version: 1 when the voters are in the log."""
        return self._replica.kraft_version

    @property
    def _connections(self) -> "Connections":
        """The connections to other nodes, whose code is loaded only if there are others."""
        if self._made_connections is None:
            from bowstring.engine.quorum.connections import Connections

            client_id = _CLIENT_ID.format(self.node_id)
            self._made_connections = Connections(client_id, self.listener, self._configs, self._directory)
        return self._made_connections

    @property
    def _unreachable(self) -> set[int]:
        """Ids of nodes that did not answer the last time."""
        return set() if self._made_connections is None else self._made_connections.exchanges.unreachable

    # ------------------------------------------------------------ opening and closing

    def open(self) -> None:
        """Opens the log and loads the newest snapshot; in a cluster of its own, also the log after it. Sends
        nothing.

        Raises:
            DataDirectoryError: This node must not start with its disk; the message says what to do.
            LogError, OSError: The disk fails.
        """
        self._log = MetadataRaftLog(
            self._directory, metadata_log_config(self._configs), is_only_copy=self._is_own_cluster
        )
        try:
            self._state_file = QuorumStateFile(self._log.path, is_only_voter=self._is_own_cluster)
            self._stored = self._state_file.read()
            self._applier = ImageApplier(self._log)
            self._applier.load()
            if self._is_own_cluster:
                load_log(self._log, self._applier, self.node_id)
        except BaseException:
            self._log.leave()
            raise
        self._is_open = True
        self._own_snapshots = OwnSnapshots(self._log, self._applier, self._configs)
        self._high_watermark = self._applier.applied

    def start(self, endpoints: Endpoints | None = None) -> None:
        """Takes part in the quorum. Call on the control loop, after `open`."""
        self._loop = asyncio.get_running_loop()
        self.failed = self._loop.create_future()
        settings = self._settings
        if endpoints is not None:
            self._endpoints = endpoints
        local = Voter(ReplicaKey(self.node_id, self._directory.directory_id), self._endpoints)
        self._replica = RaftReplica(
            as_in_log(local, self.quorum) if self._is_own_cluster else local,
            self._log,
            settings.config,
            Dice().randrange,
            configured=settings.voter_set,
            bootstrap=settings.bootstrap,
            cluster_id=self._directory.cluster_id,
            listener=self.listener,
            can_become_voter=CONTROLLER in settings.roles,
        )
        self._is_started = True
        self._wait_for_leader()
        self._event(lambda: self._replica.start(self._stored, self._now_ms()))

    async def stop(self, timeout_ms: int = HANDOVER_MS) -> None:
        """Hands a leadership over, ends the replica and closes the log."""
        if self._is_stopped:
            return
        if self._is_started:
            await self._hand_over(timeout_ms)
        await self._end()

    async def _hand_over(self, timeout_ms: int) -> None:
        self._event(lambda: self._replica.shutdown(timeout_ms, self._now_ms()))
        deadline = self._loop.time() + timeout_ms / 1000
        while not self._is_handed_over() and self._loop.time() < deadline:
            await asyncio.sleep(0.005)  # few leaders stop, and no message shows that all is done

    def _is_handed_over(self) -> bool:
        """Whether all reachable voters have noticed that this node no longer leads."""
        state = self._replica.state
        waits_in_vain = isinstance(state, Resigned) and state.unacknowledged <= self._unreachable
        return self._replica.is_stopped or self.failed.done() or waits_in_vain

    async def _end(self) -> None:
        self._is_stopped = True
        for timer in (self._timer, self._no_leader_timer):
            if timer is not None:
                timer.cancel()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._own_snapshots.stop()
        if self._made_connections is not None:
            self._made_connections.close()
        self._refuse_asked()
        self.commits.fail(self._not_controller)
        self.commits.end()
        await self.to_leader.stop()
        await self._loop.run_in_executor(self._disk, lambda: None)  # behind work whose task was cancelled
        self._disk.shutdown()
        try:
            self.close()
        except (OSError, LogError):
            if not self.has_failed:  # else it is known
                raise

    def _refuse_asked(self) -> None:
        """Answers requests that wait for the replica: their senders would wait for their timeout."""
        for token in list(self._asked):
            if not token.done():
                token.set_result(_ended())

    def close(self) -> None:
        """Syncs and closes the log; does nothing if it is not open.

        Raises:
            LogError, OSError: The disk fails.
        """
        if self._is_open:
            self._is_open = False
            self._log.close()

    # ------------------------------------------------------------ changes of the cluster

    def append(self, records: Sequence[MetadataRecord]) -> "asyncio.Future[int]":
        """Appends records as one batch; see `append_all`."""
        return self.append_all([records])

    def append_all(self, batches: Sequence[Sequence[MetadataRecord]]) -> "asyncio.Future[int]":
        """Appends batches one after the other, each all or none; nothing if one cannot be encoded.

        Returns:
            A future of the offset after the last one. It ends when they are committed and applied here, or
            with NOT_CONTROLLER when this node no longer leads; then it is open whether they will be
            committed before the log shows it.

        Raises:
            ValueError: One is too large for a batch; nothing is appended.
        """
        done: asyncio.Future[int] = self._loop.create_future()
        state = self._replica.state
        if not self.is_leader or self._has_ended or not isinstance(state, LeaderState):
            done.set_exception(self._not_controller())
            return done
        level = self.image.features.get(METADATA_VERSION, HIGHEST_METADATA_VERSION)
        encoded: list[list[Entry]] = [
            [(None, encode_record(each, level)) for each in batch] for batch in batches
        ]
        for entries in encoded:
            check_size(entries)
        out: list[effects.Effect] = []
        try:
            for entries in encoded:
                end, more = self._replica.append(state.epoch, entries, self._now_ms())
                out += more
        except KafkaError:
            done.set_exception(self._not_controller())
        except (OSError, LogError) as error:
            self._fail(error)
            done.set_exception(self._not_controller())
        else:
            self.commits.appended(end + 1, state.epoch, done)
        self._event(lambda: out)
        return done

    @property
    def _has_ended(self) -> bool:
        return self._is_stopped or self.failed.done()

    def kraft_version_refusal(self, version: int) -> str | None:
        """Returns why this node cannot raise kraft.version to this one now; None when it can."""
        return self._replica.kraft_version_refusal(version)

    def upgrade_kraft_version(self, version: int) -> "asyncio.Future[int]":
        """Raises kraft.version, which puts the configured voters into the log (KIP-853).

        The future is that of `append`. If the level stays, it ends with earlier appends.
        """
        done: asyncio.Future[int] = self._loop.create_future()
        state = self._replica.state
        if not isinstance(state, LeaderState):
            done.set_exception(self._not_controller())
            return done
        end = state.accumulator.next_offset  # the leadership may end in the step below
        try:
            offset, out = self._replica.upgrade_kraft_version(state.epoch, version, self._now_ms())
        except (KafkaError, OSError, LogError) as error:
            if not isinstance(error, KafkaError):
                self._fail(error)
            done.set_exception(self._not_controller())
            return done
        if offset is not None:
            end = offset + 1
        if end <= self._applier.applied:
            done.set_result(end)
        else:
            self.commits.appended(end, state.epoch, done)
        self._event(lambda: out)  # due work has been done meanwhile, also if the level does not change
        return done

    def _not_controller(self) -> KafkaError:
        return KafkaError(Errors.NOT_CONTROLLER, f"the active controller is {self.leader_id}")

    def resign(self) -> None:
        """Gives the leadership up, as after an error of the controller."""
        self._event(lambda: self._replica.resign(self._replica.state.epoch, self._now_ms()))

    async def catch_up(self) -> None:
        """Waits until there is a leader and all that it has reported as committed is applied."""
        while True:
            await self._leader_known.wait()
            reached = self._replica.state.high_watermark
            if reached is not None and self._applier.applied >= reached:
                return
            await asyncio.sleep(self._settings.config.retry_backoff_ms / 1000)  # for the next Fetch

    def bootstrap_records(self) -> list[MetadataRecord]:
        """Returns what formatting has left for the first leader. Raises a DataDirectoryError if it cannot."""
        return read_bootstrap(self._directory.path)

    def records_ahead(self, *kinds: type[MetadataRecord]) -> list[MetadataRecord]:
        """Returns the records of these kinds that the log has and the image has not, committed or not."""
        return self._applier.records_ahead(self._log.end_offset, kinds)

    async def reach(self, offset: int) -> None:
        """Waits until all records below `offset` are applied."""
        if self._applier.applied < offset:
            reached: asyncio.Future[None] = self._loop.create_future()
            self.commits.watch(offset, reached)
            await reached

    # ------------------------------------------------------------ requests of other nodes

    async def request(self, body: Message, version: int) -> Any:
        """Answers a request of another node or a tool; returns the response's body."""
        from bowstring.engine.raft import messages, wire

        kind = type(body)
        message = wire.parse_request(body, version)
        response: messages.Response
        if message is None:
            response = messages.ErrorResponse(Errors.INVALID_REQUEST)
        else:
            response = await self.ask(message)
        clock_ms = time.time_ns() // 1_000_000 - self._now_ms()
        return wire.response_body(kind, response, version, self.listener, clock_ms)

    async def ask_leader(
        self, body: Any, timeout_ms: int | None = None, version: int | None = None, client: str = ""
    ) -> Any:
        """Sends a request to the active controller; returns the response's body.

        Without a version, it is sent in the newest one that both nodes have. It is sent again to another one
        after NOT_CONTROLLER, but not when an answer is missing.

        Args:
            client: Whose request it is. Those of clients wait for each other (`Forwards`), this node's own do
                not.

        Raises:
            KafkaError: NOT_CONTROLLER: none is known in time, or it does not answer. REQUEST_TIMED_OUT,
                THROTTLING_QUOTA_EXCEEDED: requests of clients are before it.
        """
        return await self.to_leader.ask(body, timeout_ms, version, client)

    async def has_lost_majority(self) -> bool:
        """Whether so many voters' processes have ended that no controller can be active."""
        voters = list(self._replica.voters)
        others = [
            node
            for each in voters
            if each.key.id != self.node_id
            and (node := node_at(each.key.id, each.endpoints, self.listener)) is not None
        ]
        ended = await self._connections.count_ended(others) if others else 0
        return len(voters) - ended <= len(voters) // 2

    async def ask(self, message: "messages.Request") -> "messages.Response":
        """Has the replica answer a message; BROKER_NOT_AVAILABLE once it has ended."""
        if self._has_ended:
            return _ended()
        token: asyncio.Future[messages.Response] = self._loop.create_future()
        self._asked.add(token)
        token.add_done_callback(self._asked.discard)
        self._event(lambda: self._replica.receive_request(token, message, self._now_ms()))
        return await token

    # ------------------------------------------------------------ events

    @staticmethod
    def _now_ms() -> int:
        return time.monotonic_ns() // 1_000_000 + _CLOCK_MS

    def _event(self, handle: Callable[[], list[effects.Effect]]) -> None:
        """Lets the replica handle an event, and carries out what it requests."""
        if self._has_ended:
            return
        try:
            self._effects += handle()
            self._carry_out()
            self._look_at_leader()
            self._set_timer()
        except Exception as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if self._has_ended:
            return
        if isinstance(error, OSError | LogError):
            event_log.error(
                "the metadata log cannot be written, so this node ends; free space in its directory, or "
                "repair the disk, then start the node again",
                directory=str(self._directory.path),
                detail=str(error),
            )
        else:
            event_log.error(
                "the replica of the metadata quorum ends, and this node with it; check detail, then restart "
                "the node",
                detail=f"{type(error).__name__}: {error}",
                traceback=not isinstance(error, DataDirectoryError),
            )
        self.commits.fail(self._not_controller)
        self._refuse_asked()
        self.failed.set_exception(error)
        self.failed.exception()  # no check is needed
        self._tell(NO_LEADER, self._told[1])

    def _wait_for_leader(self) -> None:
        if self._no_leader_timer is None:
            self._no_leader_timer = self._loop.call_later(_NO_LEADER_S, self._tell_of_no_leader)

    def _tell_of_no_leader(self) -> None:
        """Logs that there is no leader, until there is one."""
        self._no_leader_timer = None
        if self._leader_known.is_set() or self._has_ended:
            return
        silent = sorted(id for id in self._unreachable if id >= 0)
        event_log.warning(
            "no controller is active: a majority of the voters must run and reach each other; start the "
            "missing ones, or check the network and their addresses",
            voters=",".join(map(str, self._replica.voters.ids)) or "unknown",
            not_answering=",".join(map(str, silent)) or "none",
            epoch=self._replica.state.epoch,
        )
        self._wait_for_leader()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due_ms = self._replica.deadline_ms
        if due_ms < NEVER:
            delay_s = max(0.0, (due_ms - self._now_ms()) / 1000)
            self._timer = self._loop.call_later(delay_s, self._poll)

    def _poll(self) -> None:
        self._event(lambda: self._replica.poll(self._now_ms()))

    def _carry_out(self) -> None:
        """Carries effects out in order; those behind a `PersistElection` wait for it."""
        if self._is_carrying_out:
            return
        self._is_carrying_out = True
        try:
            while self._effects and not self._is_blocked:
                effect = self._effects.popleft()
                _CARRY_OUT[type(effect)](self, effect)
        finally:
            self._is_carrying_out = False

    def _on_disk(self, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        """Runs work on the disk thread, in order, and then `then` with its result on the loop."""

        async def run() -> None:
            try:
                if self.works_inline:
                    result = work()
                else:
                    result = await self._loop.run_in_executor(self._disk, work)
            except Exception as error:
                self._fail(error)
            else:
                then(result)

        self._spawn(run())

    def _spawn(self, work: Any) -> None:
        background.spawn(work, "metadata quorum", among=self._tasks)

    # ------------------------------------------------------------ effects: the disk

    def _persist(self, effect: effects.PersistElection) -> None:
        content = effect.state.to_json(effect.kraft_version, effect.voter_ids)
        self._is_blocked = True

        def persisted(_: object) -> None:
            self._is_blocked = False
            self._event(lambda: self._replica.election_persisted(self._now_ms()))

        self._on_disk(lambda: self._state_file.write(content), persisted)

    def _flush(self, effect: effects.FlushLog) -> None:
        self._flush_id = effect.flush_id
        if not self._is_flushing:
            self._begin_flush()

    def _begin_flush(self) -> None:
        """Syncs for all requests so far; later ones share the next sync."""
        flush_id, self._flush_id = self._flush_id, None
        assert flush_id is not None
        end, cuts = self._log.end_offset, self._log.synced_end.cuts
        self._is_flushing = True

        def flushed(_: object) -> None:
            self._is_flushing = False
            if self._flush_id is not None:
                self._begin_flush()
            self._event(lambda: self._replica.log_flushed(flush_id, self._now_ms()))

        self._on_disk(lambda: self._log.sync(end, cuts), flushed)

    def _install(self, effect: effects.InstallSnapshot) -> None:
        id = effect.id

        def install() -> tuple[ClusterImage, QuorumFacts] | None:
            try:
                return self._log.install_snapshot(id)
            except SnapshotError as error:
                event_log.error(
                    "a snapshot of the metadata log arrived damaged and is fetched again; no action needed",
                    snapshot=f"{id.offset}-{id.epoch}",
                    detail=str(error),
                )
                return None

        def installed(content: tuple[ClusterImage, QuorumFacts] | None) -> None:
            if content is None:
                self._log.snapshot_failed()
                self._event(lambda: self._replica.snapshot_failed(id, self._now_ms()))
                return
            self._log.snapshot_installed(id)
            event_log.info("snapshot of the metadata log installed", end_offset=id.offset, epoch=id.epoch)
            self._event(lambda: self._take_snapshot(id, content))

        self._on_disk(install, installed)

    def _take_snapshot(
        self, id: OffsetAndEpoch, content: tuple[ClusterImage, QuorumFacts]
    ) -> list[effects.Effect]:
        self._applier.take(id, *content)
        self._high_watermark = max(self._high_watermark, id.offset)
        self.commits.applied(self._applier.applied)
        return self._replica.snapshot_installed(id, self._now_ms())

    # ------------------------------------------------------------ effects: the network

    def _send(self, effect: effects.Send) -> None:
        self._spawn(self._exchange(effect))

    async def _exchange(self, effect: effects.Send) -> None:
        response = await self._connections.exchanges.answer(effect.destination, effect.request)
        self._event(
            lambda: self._replica.receive_response(
                effect.destination.id, effect.correlation_id, response, self._now_ms()
            )
        )

    def _respond(self, effect: effects.Respond) -> None:
        token = effect.token
        assert isinstance(token, asyncio.Future)
        if not token.done():
            token.set_result(effect.response)

    def _note(self, effect: effects.Note) -> None:
        event_log.warning("the metadata quorum: " + effect.text)

    # ------------------------------------------------------------ effects: committed records

    def _advance(self, effect: effects.HighWatermarkAdvanced) -> None:
        self._high_watermark = max(self._high_watermark, effect.offset)
        self._log.advance_high_watermark(self._high_watermark)
        if not self._is_applying:
            self._apply()

    def _apply(self) -> None:
        """Applies committed records, a slice at a time."""
        if self._has_ended:
            return
        try:
            until_ns = time.monotonic_ns() + _SLICE_NS
            self._is_applying = not self._applier.advance(self._high_watermark, until_ns)
            if self._is_applying:
                self._loop.call_soon(self._apply)
            self.commits.applied(self._applier.applied)
            self._look_at_leader()
            self._own_snapshots.watch(self._replica)
        except Exception as error:
            self._fail(error)

    def _leader_changed(self, effect: effects.LeaderChanged) -> None:
        is_own = effect.leader_id == self.node_id
        self.commits.fail(self._not_controller, lambda each: not is_own or each.epoch != effect.epoch)

    def _look_at_leader(self) -> None:
        """Reports another leader. This node counts as leader when it has applied its epoch's first
        record, and until it resigns.
        """
        state = self._replica.state
        leader_id = state.leader_id
        if isinstance(state, LeaderState):
            if self._applier.applied <= state.epoch_start_offset:
                leader_id = NO_LEADER
        elif leader_id == self.node_id:
            leader_id = NO_LEADER  # resigned
        told = (leader_id, state.epoch)
        if told == self._told:
            return
        was_leader, self._told = self._told[0] == self.node_id, told
        if was_leader:
            self.commits.fail(self._not_controller)
        if leader_id != NO_LEADER:
            self._leader_known.set()
        else:
            self._leader_known.clear()
            self._wait_for_leader()
        self._tell(leader_id, state.epoch)

    def _tell(self, leader_id: int, epoch: int) -> None:
        self._told = (leader_id, epoch)
        if self._made_connections is not None:
            self._made_connections.look()
        failures = background.call_all(self.on_leader_change, leader_id, epoch, doing="another leader")
        if failures and leader_id == self.node_id:
            self._loop.call_soon(self._resign_from, epoch)  # without a listener it may decide nothing

    def _resign_from(self, epoch: int) -> None:
        if self.is_leader and self.epoch == epoch:
            self.resign()


def _ended() -> "messages.ErrorResponse":
    """The answer of a replica that has ended."""
    from bowstring.engine.raft.messages import ErrorResponse

    return ErrorResponse(Errors.BROKER_NOT_AVAILABLE)


_CARRY_OUT: Final[dict[type, Callable[[QuorumService, Any], None]]] = {
    effects.PersistElection: QuorumService._persist,
    effects.FlushLog: QuorumService._flush,
    effects.InstallSnapshot: QuorumService._install,
    effects.Send: QuorumService._send,
    effects.Respond: QuorumService._respond,
    effects.HighWatermarkAdvanced: QuorumService._advance,
    effects.LeaderChanged: QuorumService._leader_changed,
    effects.Note: QuorumService._note,
}
