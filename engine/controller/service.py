"""Runs the controller on the node that leads the metadata quorum: one decision after the other.

    controller = QuorumController(quorum, configs, node_id=1, cluster_id=cluster_id)
    controller.start()                     # on the control loop
    answer = await controller.run(lambda state, now_ms: brokers.heartbeat(state, request, now_ms))

A decision sees the records that were appended before it, committed or not; its answer is given once its own
are committed. Records are applied to the state before the first of them goes to the log, so that the log gets
none that does not apply. When the leadership is lost, the state is discarded and all that wait get
NOT_CONTROLLER.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from itertools import chain
from typing import Final, Protocol, TypeVar

from bowstring.engine import background, event_log
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.controller import brokers
from bowstring.engine.controller.activation import activation_records
from bowstring.engine.controller.batches import split
from bowstring.engine.controller.decision import Decision
from bowstring.engine.controller.partition_index import PartitionIndex
from bowstring.engine.controller.state import ControllerState, ElectionCounters
from bowstring.engine.dice import Dice
from bowstring.engine.metadata.image import ClusterImage
from bowstring.engine.turns import Turn, Turns
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.ids import random_uuid
from bowstring.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from bowstring.protocol.records.cluster_metadata.markers import NoOpRecord
from bowstring.protocol.records.cluster_metadata.nodes import RegisterControllerRecord
from bowstring.protocol.records.cluster_metadata.settings import FeatureLevelRecord
from bowstring.protocol.schema import MetadataRecord

A = TypeVar("A")

Decide = Callable[[ControllerState, int], Decision[A]]
"""A decision, given the state and the steady time in ms."""

_LOOKS_PER_SESSION: Final = 8
_NO_LEADER: Final = -1


class Quorum(Protocol):
    """What the controller needs of this node's replica of the metadata quorum.

    Attributes:
        leader_id: The active controller; -1 when none is known.
        epoch: Its epoch.
        is_leader: Whether it is this node, with all that earlier ones committed applied to `image`.
        next_offset: Offset of the first record of the next append, on the leader.
        image: The cluster after all committed records.
        kraft_version: The latest kraft.version, committed or not.
        on_leader_change: Called with another leader and its epoch.
    """

    on_leader_change: list[Callable[[int, int], None]]

    @property
    def leader_id(self) -> int: ...  # noqa: D102

    @property
    def epoch(self) -> int: ...  # noqa: D102

    @property
    def is_leader(self) -> bool: ...  # noqa: D102

    @property
    def next_offset(self) -> int: ...  # noqa: D102

    @property
    def image(self) -> ClusterImage: ...  # noqa: D102

    @property
    def kraft_version(self) -> int: ...  # noqa: D102

    def kraft_version_refusal(self, version: int) -> str | None:
        """Returns why kraft.version cannot change to this one now."""

    def upgrade_kraft_version(self, version: int) -> "asyncio.Future[int]":
        """Raises kraft.version; the future is that of `append`."""

    def append_all(self, batches: Sequence[Sequence[MetadataRecord]]) -> "asyncio.Future[int]":
        """Appends batches, none if one is malformed. The future ends when they are committed and applied, or
        with NOT_CONTROLLER.
        """

    def resign(self) -> None:
        """Gives the leadership up."""


class _Leadership:
    """One time as the active controller.

    Attributes:
        last: Ends when all records appended so far are committed.
        levels: The same of the last change of a feature's level. Until then the log takes records as of the
            old levels, so no decision may be made upon the new ones.
        idle_since_ms: When the last record was appended.
        looked_ms: When the sessions of brokers were last checked.
    """

    def __init__(self, epoch: int, state: ControllerState, last: "asyncio.Future[int]", now_ms: int) -> None:
        self.epoch = epoch
        self.state = state
        self.last = self.levels = last
        self.idle_since_ms = self.looked_ms = now_ms
        self.timers: dict[str, asyncio.TimerHandle] = {}


class QuorumController:
    """The controller of this node; it decides only while the node leads the quorum.

    Args:
        bootstrap: The first records of a new cluster, which formatting has left.
        voters: Returns the ids of the quorum's voters.
        now_ms: Steady time.

    Attributes:
        counters: Elections that it has decided.
        when_active: Called when it has become the active controller.
    """

    def __init__(
        self,
        quorum: Quorum,
        configs: BrokerConfigs,
        *,
        node_id: int,
        cluster_id: str,
        bootstrap: Sequence[MetadataRecord] = (),
        voters: Callable[[], Iterable[int]] = lambda: (),
        now_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
    ) -> None:
        self._quorum = quorum
        self._configs = configs
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._bootstrap = bootstrap
        self._voters = voters
        self._now_ms = now_ms
        self.random = Dice()
        self.counters = ElectionCounters()
        self.when_active: Callable[[], None] = lambda: None
        self._leadership: _Leadership | None = None
        # Decisions take turns. Most do not wait within their turn; handlers that decide in time slices do.
        self._turns = Turns()
        self._tasks: set[asyncio.Task[None]] = set()

    # ------------------------------------------------------------ leadership

    def start(self) -> None:
        """Follows the leadership of the quorum. Call on the control loop."""
        self._quorum.on_leader_change.append(self._leader_changed)
        self._leader_changed(self._quorum.leader_id, self._quorum.epoch)

    def stop(self) -> None:
        """Decides no more."""
        if self._leader_changed in self._quorum.on_leader_change:
            self._quorum.on_leader_change.remove(self._leader_changed)
        self._end()
        for task in self._tasks:
            task.cancel()

    @property
    def is_active(self) -> bool:
        """Whether this node is the active controller."""
        return self._leadership is not None

    @property
    def image(self) -> ClusterImage:
        """The cluster after all appended records on the active controller; elsewhere after all committed."""
        return self._quorum.image if self._leadership is None else self._leadership.state.image

    @property
    def index(self) -> PartitionIndex | None:
        """The index of the partitions, on the active controller."""
        return None if self._leadership is None else self._leadership.state.index

    def _leader_changed(self, leader_id: int, epoch: int) -> None:
        if self._leadership is not None and (leader_id != self._node_id or epoch != self._leadership.epoch):
            self._end()
            event_log.info("this controller is no longer active", epoch=epoch, leader=leader_id)
        if leader_id == self._node_id and self._leadership is None:
            # Not inside the quorum's own event, which continues after this.
            asyncio.get_running_loop().call_soon(self._begin, epoch)

    def _begin(self, epoch: int) -> None:
        quorum = self._quorum
        if self._leadership is not None or not quorum.is_leader or quorum.epoch != epoch:
            return
        try:
            self._activate(epoch)
        except Exception:
            if quorum.is_leader:  # else it has given up already
                self._give_up("bug: the controller could not begin and gives the leadership up")

    def _give_up(self, bug: str) -> None:
        """Discards the state, which may be half changed. The next controller begins with the log."""
        event_log.error(bug, traceback=True)
        self._end()
        self._quorum.resign()

    def _activate(self, epoch: int) -> None:
        quorum = self._quorum
        now_ms = self._now_ms()
        records = activation_records(quorum.image, self._bootstrap, self._configs)
        state = ControllerState(
            quorum.image,
            node_id=self._node_id,
            cluster_id=self._cluster_id,
            configs=self._configs,
            random=self.random,
            new_uuid=random_uuid,
            end_offset=quorum.next_offset,
            now_ms=now_ms,
            voters=self._voters,
            kraft_version=lambda: quorum.kraft_version,
            kraft_version_refusal=quorum.kraft_version_refusal,
            counters=self.counters,
        )
        last: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        last.set_result(quorum.next_offset)
        self._leadership = leadership = _Leadership(epoch, state, last, now_ms)
        if records:
            self._append(leadership, Decision(records, None, atomic=False))
        event_log.info("this controller is active", epoch=epoch, brokers=len(state.image.brokers))
        self._set_timers(leadership)
        self.when_active()

    def _end(self) -> None:
        leadership, self._leadership = self._leadership, None
        if leadership is not None:
            for timer in leadership.timers.values():
                timer.cancel()

    def _active(self) -> _Leadership:
        leadership = self._leadership
        if leadership is None:
            leader = self._quorum.leader_id
            known = "no active controller is known" if leader == _NO_LEADER else f"node {leader} is active"
            raise KafkaError(Errors.NOT_CONTROLLER, f"This node is not the active controller; {known}.")
        return leadership

    # ------------------------------------------------------------ decisions

    async def run(self, decide: Decide[A], *, urgent: bool = False) -> A:
        """Decides, appends the records, and returns the answer once they are committed.

        Args:
            urgent: The decision comes before others that wait: it keeps brokers or partitions in service.

        Raises:
            KafkaError: The decision's own; NOT_CONTROLLER, if the leadership is lost before the commit: then
                it is open whether the change takes effect. REQUEST_TIMED_OUT: its turn did not come within
                request.timeout.ms; it has no effect.
        """
        turn = await self._take_turn(urgent=urgent)
        try:
            leadership = await self._settled()
            decision = decide(leadership.state, self._now_ms())
            done = self._append(leadership, decision)
        finally:
            turn.end()
        await asyncio.shield(done)
        return decision.answer

    @property
    def next_offset(self) -> int:
        """The offset of the next record; for decisions, on the active controller."""
        return self._quorum.next_offset

    @asynccontextmanager
    async def changing(self) -> AsyncIterator["ControllerChange"]:
        """Blocks other decisions until the change has appended its records, or the block ends.

        Raises:
            KafkaError: NOT_CONTROLLER; REQUEST_TIMED_OUT as for `run`.
        """
        turn = await self._take_turn(urgent=False)
        try:
            leadership = await self._settled()
            yield ControllerChange(
                leadership.state.image, turn, lambda decision: self._append(leadership, decision)
            )
        finally:
            turn.end()

    async def heartbeat(
        self, request: BrokerHeartbeatRequest, arrived_ms: int | None = None
    ) -> BrokerHeartbeatResponse:
        """Answers a heartbeat. The broker counts as in contact at once, however long decisions take.

        Args:
            arrived_ms: When this node received it, steady time; default: now.

        Raises:
            KafkaError: STALE_BROKER_EPOCH, NOT_CONTROLLER.
        """
        leadership = self._active()
        heard_ms = self._now_ms() if arrived_ms is None else arrived_ms
        brokers.note_contact(leadership.state, request, heard_ms)
        answer = brokers.unchanging_answer(leadership.state, request)
        if answer is None:
            return await self.run(lambda state, _: brokers.heartbeat(state, request, heard_ms), urgent=True)
        await asyncio.shield(leadership.last)
        return answer

    async def _take_turn(self, *, urgent: bool) -> Turn:
        timeout_s = self._configs.value("request.timeout.ms") / 1000
        try:
            return await self._turns.take(urgent=urgent, timeout_s=timeout_s)
        except TimeoutError as error:
            raise KafkaError(
                Errors.REQUEST_TIMED_OUT, "The controller was busy with other changes for request.timeout.ms."
            ) from error

    async def _settled(self) -> _Leadership:
        """Waits in its turn until the features are committed; returns the leadership."""
        while not (leadership := self._active()).levels.done():
            await asyncio.shield(leadership.levels)
        return leadership

    def _append(self, leadership: _Leadership, decision: Decision[A]) -> "asyncio.Future[int]":
        """Applies the records to the state and appends them; returns what ends with their commit.

        Raises:
            KafkaError: NOT_CONTROLLER: the leadership that the decision was made in is over.
        """
        quorum, state = self._quorum, leadership.state
        if leadership is not self._active() or not quorum.is_leader or quorum.epoch != leadership.epoch:
            raise KafkaError(Errors.NOT_CONTROLLER, "This node is not the active controller any more.")
        if decision.records:
            batches = split(decision.records, atomic=decision.atomic, metadata_version=state.metadata_version)
            leadership.idle_since_ms = self._now_ms()
            try:
                offset = quorum.next_offset
                for batch in batches:
                    state.apply_all(batch, offset)
                    offset += len(batch)
                leadership.last = quorum.append_all(batches)
                leadership.last.add_done_callback(_look_at)
            except Exception:
                self._give_up(
                    "bug: a decision of the controller cannot be applied; nothing of it is in the metadata "
                    "log, and the leadership is given up"
                )
                raise
            if any(isinstance(record, FeatureLevelRecord) for record in decision.records):
                leadership.levels = leadership.last
        if decision.kraft_version is not None:
            leadership.last = quorum.upgrade_kraft_version(decision.kraft_version)
            leadership.last.add_done_callback(_look_at)
        if decision.appended is not None and self._leadership is leadership and quorum.is_leader:
            decision.appended(quorum.next_offset - 1)
        return leadership.last

    # ------------------------------------------------------------ timed work

    def _set_timers(self, leadership: _Leadership) -> None:
        value = self._configs.value
        session_ms = value("broker.session.timeout.ms")
        look_ms = max(1, session_ms // _LOOKS_PER_SESSION)
        leadership.looked_ms = self._now_ms()
        self._every(leadership, "fence", look_ms, lambda: self._fence_stale(leadership, look_ms))
        if value("auto.leader.rebalance.enable"):
            interval_ms = value("leader.imbalance.check.interval.seconds") * 1000
            self._every(leadership, "balance", interval_ms, self._balance)
        self._every(
            leadership,
            "unclean",
            value("unclean.leader.election.interval.ms"),
            self._elect_unclean,
        )
        if value("delegation.token.secret.key"):
            interval_ms = value("delegation.token.expiry.check.interval.ms")
            self._every(leadership, "tokens", interval_ms, self._remove_expired_tokens)
        idle_ms = value("metadata.max.idle.interval.ms")
        if idle_ms > 0:
            self._every(leadership, "idle", idle_ms, lambda: self._write_no_op(idle_ms))

    def _every(
        self, leadership: _Leadership, name: str, interval_ms: int, work: Callable[[], Awaitable[None]]
    ) -> None:
        loop = asyncio.get_running_loop()

        async def run() -> None:
            try:
                await work()
            except KafkaError as error:
                if error.error is not Errors.NOT_CONTROLLER:
                    event_log.error("the controller could not do its work", work=name, detail=str(error))
            except Exception:
                event_log.error("bug: the controller could not do its work", work=name, traceback=True)
            if self._leadership is leadership:
                leadership.timers[name] = loop.call_later(interval_ms / 1000, begin)

        def begin() -> None:
            background.spawn(run(), f"controller: {name}", among=self._tasks)

        leadership.timers[name] = loop.call_later(interval_ms / 1000, begin)

    async def _fence_stale(self, leadership: _Leadership, look_ms: int) -> None:
        now_ms = self._now_ms()
        late_ms, leadership.looked_ms = now_ms - leadership.looked_ms - look_ms, now_ms
        if late_ms > look_ms:
            # This node stood still. Heartbeats of that time are still in its queues.
            leadership.state.sessions.extend(late_ms)
        while (broker := await self.run(_or_nothing(brokers.fence_stale), urgent=True)) is not None:
            event_log.warning(
                "a broker sent no heartbeat for broker.session.timeout.ms and is fenced; check whether it "
                "runs and reaches the controller",
                broker=broker,
            )

    async def _balance(self) -> None:
        from bowstring.engine.controller.leader_elections import balance

        await self._elect(balance)

    async def _remove_expired_tokens(self) -> None:
        from bowstring.engine.controller.delegation_tokens import remove_expired

        wall_ms = time.time_ns() // 1_000_000
        await self.run(lambda state, now_ms: remove_expired(state.image.delegation_tokens, wall_ms))

    async def _elect_unclean(self) -> None:
        from bowstring.engine.controller.leader_elections import elect_unclean

        await self._elect(elect_unclean)

    async def _elect(self, elect: Callable[[ControllerState], Decision[bool] | None]) -> None:
        while await self.run(_or_nothing(lambda state, now_ms: elect(state)), urgent=True):
            pass

    async def _write_no_op(self, idle_ms: int) -> None:
        """Writes a record if nothing else was written, so that all nodes see the log advance. A node without
        others needs none.
        """

        def decide(state: ControllerState, now_ms: int) -> Decision[None]:
            idle = self._active().idle_since_ms + idle_ms <= now_ms
            return Decision([NoOpRecord()] if idle and self._has_others(state.image) else [], None)

        await self.run(decide, urgent=True)

    def _has_others(self, image: ClusterImage) -> bool:
        """Whether the cluster has another node than this one."""
        controllers = (
            each.controller_id
            for each in image.kept.of(RegisterControllerRecord)
            if isinstance(each, RegisterControllerRecord)
        )
        return any(id != self._node_id for id in chain(self._voters(), image.brokers, controllers))


class ControllerChange:
    """One change of the cluster, decided in its turn inside `QuorumController.changing`.

    Attributes:
        image: The cluster after all records appended so far; nothing changes it before this change ends.
    """

    def __init__(
        self, image: ClusterImage, turn: Turn, append: Callable[[Decision[None]], "asyncio.Future[int]"]
    ) -> None:
        self.image = image
        self._turn = turn
        self._append = append

    def append(self, records: Sequence[MetadataRecord]) -> None:
        """Appends records that do not depend on later ones of the change, and keeps the turn. A large change
        appends its parts one by one, so that others have the thread in between.

        Raises:
            KafkaError: NOT_CONTROLLER, as for `commit`. Earlier parts may be committed.
        """
        assert self._turn.is_held, "parts come before the commit"
        self._append(Decision(list(records), None))

    async def commit(self, records: Sequence[MetadataRecord]) -> None:
        """Appends the records, ends the turn, and waits for their commit, and for that of earlier parts.

        Raises:
            KafkaError: NOT_CONTROLLER, as for `QuorumController.run`; also when another leadership has begun
                since.
        """
        assert self._turn.is_held, "a change commits once, inside `async with changing()`"
        try:
            done = self._append(Decision(list(records), None))
        finally:
            self._turn.end()  # others need not wait for the commit
        await asyncio.shield(done)


def _or_nothing(decide: Callable[[ControllerState, int], Decision[A] | None]) -> Decide[A | None]:
    """Returns a decision whose answer is None when there is nothing to decide."""

    def run(state: ControllerState, now_ms: int) -> Decision[A | None]:
        found = decide(state, now_ms)
        return Decision([], None) if found is None else Decision(found.records, found.answer, found.atomic)

    return run


def _look_at(done: "asyncio.Future[int]") -> None:
    """Handles the end of an append that no other caller may await."""
    if not done.cancelled():
        done.exception()
