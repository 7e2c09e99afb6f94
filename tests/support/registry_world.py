"""Registries in simulated time: their own decisions, the broker's own group coordinator, and a model of a partition.

Everything follows a seed. Messages are slow, lost or late; registries crash between any two steps; networks are cut.
"""

from __future__ import annotations

import asyncio
import functools
import json
import random
import selectors
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.heartbeat import HeartbeatRequest
from bowstring.protocol.messages.join_group import JoinGroupRequest
from bowstring.protocol.messages.sync_group import SyncGroupRequest
from bowstring.registry.decision import Decision
from bowstring.registry.registry_node import NodeSettings, RegistryNode
from bowstring.registry.store.command_runner import CommandRunner
from bowstring.registry.store.connections import Connections
from bowstring.registry.store.elector import Ask, Elector
from bowstring.registry.store.leadership import Append, Claim, Refusal
from bowstring.registry.store.store_target import StoreTarget
from bowstring.registry.store.topic_reader import AHEAD_MAX, ReadRecords
from tests.support.group_harness import Shell

TARGET = StoreTarget("simulated:9092")
GROUP, LOG, READING = "group", "log", "reading"
REQUEST_TIMEOUT_S = 3.0
TICK_S = 0.1
RECORDS_OF_A_WRITE_MAX = 3


class _Selector(selectors.DefaultSelector):
    loop: SimulatedLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout:
            self.loop.now_s += timeout
        assert ready or timeout is not None, "no timer and no task ends this wait"
        return ready


class SimulatedLoop(asyncio.SelectorEventLoop):
    """A loop whose clock advances only while it waits."""

    def __init__(self) -> None:
        selector = _Selector()
        super().__init__(selector)
        self.now_s = 1000.0
        selector.loop = self

    def time(self) -> float:
        return getattr(self, "now_s", 0.0)


class Added:
    """A new schema."""

    metadata = rule_set = None

    def __init__(self, text: str, id: int):
        self.text, self.id = text, id


class Image:
    """Schemas by text; fails when an id or a version has two.

    Attributes:
        batches: how many decisions, at least, saw the schema of another that was not committed.
    """

    batches = 0

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}
        self.texts: dict[int, str] = {}
        self.offset = -1
        self.supposed: list[Added] = []
        self.parsed = SimpleNamespace(allowance=None)

    def max_ids(self) -> dict[str, int]:
        return {".": max(self.texts)} if self.texts else {}

    def apply(self, key: bytes, value: bytes | None, offset: int, timestamp_ms: int = 0) -> None:
        assert offset > self.offset, f"offset {offset} comes after {self.offset}"
        assert not self.supposed, "a record is applied beside what is not committed"
        self.offset = offset
        if value is None or b"NOOP" in key:
            return
        told = json.loads(value)
        self._add(told["id"], told["schema"])

    def apply_added(self, record: Added, offset: int, timestamp_ms: int = 0) -> None:
        value = json.dumps({"id": record.id, "schema": record.text}).encode()
        self.apply(b"", value, offset, timestamp_ms)

    def suppose(self, record: Added) -> Added:
        self._add(record.id, record.text)
        self.supposed.append(record)
        Image.batches += len(self.supposed) > 1
        return record

    def retract(self, supposed: Added) -> None:
        assert self.supposed.pop() is supposed
        del self.texts[supposed.id], self.ids[supposed.text]

    def _add(self, id: int, text: str) -> None:
        assert self.texts.setdefault(id, text) == text, f"id {id} has two schemas"
        assert self.ids.setdefault(text, id) == id, f"schema {text} has two ids"


def register(*texts: str) -> Callable[[Image], Decision]:
    """A decision that gives each new schema the next id."""

    def decide(image: Image) -> Decision:
        records: list[tuple[bytes, bytes]] = []
        ids: dict[str, int] = {}
        for text in texts:
            known = image.ids.get(text)
            ids[text] = known or len(image.ids) + len(records) + 1
            if known is None:
                told = {"schema": text, "id": ids[text]}
                records.append(
                    (json.dumps({"keytype": "SCHEMA", **told}).encode(), json.dumps(told).encode())
                )
        added: Any = Added(texts[0], ids[texts[0]]) if len(records) == len(texts) == 1 else None
        return Decision(tuple(records), ids, added)

    return decide


def note(token: str) -> Callable[[Image], Decision]:
    """A decision that writes each time it is taken."""
    key = json.dumps({"keytype": "NOOP", "token": token}).encode()
    return lambda image: Decision(((key, None),), token)


class PartitionLog:
    """One partition: it stores a batch of an idempotent producer once, and refuses earlier epochs (KIP-98)."""

    def __init__(self, records_max: int) -> None:
        self.records_max = records_max
        self.records: list[tuple[bytes, bytes | None]] = []
        self.schemas: dict[int, str] = {}
        self.producers: dict[int, tuple[int, int, int, int]] = {}  # epoch, first and next sequence, offset

    def append(self, append: Append) -> tuple[int, int]:
        """Returns an error code and the offset."""
        if len(append.records) > self.records_max:
            return Errors.MESSAGE_TOO_LARGE.code, -1
        known = self.producers.get(append.producer_id)
        if known is not None:
            epoch, first, after, offset = known
            if append.epoch < epoch:
                return Errors.INVALID_PRODUCER_EPOCH.code, -1
            if append.epoch == epoch and append.sequence == first:
                return 0, offset
            if append.sequence != (after if append.epoch == epoch else 0):
                return Errors.OUT_OF_ORDER_SEQUENCE_NUMBER.code, -1
        offset, after = len(self.records), append.sequence + len(append.records)
        self.producers[append.producer_id] = append.epoch, append.sequence, after, offset
        self.records += append.records
        for told in [json.loads(value) for _, value in append.records if value]:
            if "schema" in told:
                self.schemas[told["id"]] = told["schema"]
        return 0, offset

    def image(self) -> Image:
        """What a new reader would have."""
        image = Image()
        for offset, (key, value) in enumerate(self.records):
            image.apply(key, value, offset)
        return image


class Record:
    def __init__(self, offset: int, key: bytes, value: bytes | None):
        self.offset, self.key, self.value, self.timestamp = offset, key, value, 0


class World:
    """The cluster, and the registries that are alive."""

    def __init__(self, seed: int, loop: SimulatedLoop):
        self.rng = random.Random(seed)
        self.loop = loop
        self.coordinator = Shell(group_initial_rebalance_delay_ms=0)
        self.log = PartitionLog(100 if seed % 3 else RECORDS_OF_A_WRITE_MAX)
        self.producer_id, self.epoch = 7, -1
        self.down: set[str] = set()
        self.lost_answers = 0.01
        self.lives: dict[str, Life] = {}
        self._answers: dict[int, Callable[[Any], None]] = {}
        self._tick()

    async def passed(self, duration_s: float) -> None:
        """Lets simulated time pass."""
        over = self.loop.create_future()
        self.loop.call_later(duration_s, over.set_result, None)
        await over

    # ---- the network

    def delay(self) -> float:
        return self.rng.uniform(0.0002, 0.004) if self.rng.random() < 0.97 else self.rng.uniform(0.05, 2.0)

    def request(
        self,
        life: Life,
        where: str,
        serve: Callable[[Callable[[Any], None]], None],
        done: Callable[[Any], None],
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> None:
        """Sends a request; `done` gets the answer, or None when none came."""
        ended = False

        def end(answer: Any) -> None:
            nonlocal ended
            if not ended:
                ended = True
                if not life.dead:
                    done(answer)

        def back(answer: Any) -> None:
            if where not in life.cut and self.rng.random() >= self.lost_answers:
                end(answer)

        def reply(answer: Any) -> None:
            self.loop.call_later(self.delay(), back, answer)

        # A frozen registry sends what it had checked before only when it goes on.
        frozen_s = max(0.0, life.frozen_until - self.loop.time())

        def arrive() -> None:
            if where not in life.cut and where not in self.down:
                serve(reply)

        self.loop.call_later(frozen_s + self.delay(), arrive)
        self.loop.call_later(frozen_s + timeout_s, end, None)

    def _tick(self) -> None:
        self.coordinator.advance(int(TICK_S * 1000))
        self.deliver()
        self.loop.call_later(TICK_S, self._tick)

    def deliver(self) -> None:
        """Passes on the coordinator's answers."""
        for token in [each for each in self._answers if each in self.coordinator.answers]:
            self._answers.pop(token)(self.coordinator.answers[token])

    # ---- the brokers

    def ask_group(self, ask: Ask, reply: Callable[[Any], None]) -> None:
        request: Any = ask.body(9) if ask.api is JoinGroupRequest else ask.body(5)
        shell, group = self.coordinator, TARGET.group_id
        if isinstance(request, JoinGroupRequest):
            token = shell.join(
                request.member_id,
                group=group,
                protocols=[(each.name, each.metadata) for each in request.protocols],
                protocol_type=request.protocol_type,
                instance=request.group_instance_id,
                session_ms=request.session_timeout_ms,
                rebalance_ms=request.rebalance_timeout_ms,
            )
        elif isinstance(request, SyncGroupRequest):
            token = shell.sync(
                request.member_id,
                request.generation_id,
                {each.member_id: each.assignment for each in request.assignments},
                group=group,
                instance=request.group_instance_id,
                protocol_type=request.protocol_type,
                protocol=request.protocol_name,
            )
        else:
            assert isinstance(request, HeartbeatRequest)
            token = shell.send_heartbeat(
                request.member_id, request.generation_id, group=group, instance=request.group_instance_id
            )
        self._answers[token] = reply
        self.deliver()

    def move_coordinator(self) -> None:
        """Another broker coordinates: requests that wait are lost."""
        self.coordinator.restart()
        self._answers.clear()

    def claim(self, reply: Callable[[Any], None]) -> None:
        self.epoch += 1
        reply((0, self.producer_id, self.epoch))

    def forget_producer(self) -> None:
        """The transactional id has expired."""
        self.producer_id, self.epoch = self.producer_id + 1, -1

    def restart(self, url: str) -> Life:
        """Starts a registry, in place of one that crashed."""
        life = self.lives[url] = Life(self, url)
        return life


class Life:
    """One registry from its start to its crash.

    Attributes:
        dead: it has crashed; what it sent still arrives.
        cut: brokers that it cannot reach.
        frozen_until: what it sends before leaves it only then.
    """

    def __init__(self, world: World, url: str):
        self.world = world
        self.url = url
        self.dead = False
        self.cut: set[str] = set()
        self.frozen_until = 0.0
        new_image: Any = Image
        self.node = RegistryNode(NodeSettings(TARGET, url), new_image, SimulatedConnections(self))

    def crash(self) -> None:
        self.dead = True


class SimulatedConnections(Connections):
    def __init__(self, life: Life):
        super().__init__(TARGET)
        self._life = life

    def now(self) -> float:
        return self._life.world.loop.time()

    def timestamp_ms(self) -> int:
        return 0

    async def prepare(self, replication_factor: int, timeout_s: float) -> None:
        await self._life.world.passed(self._life.world.delay())

    def open_store(self, elector: Elector, events: Any, post: Any) -> Any:
        return SimulatedStore(self._life, elector, events)

    def open_reader(self, deliver: Any, post: Any) -> Any:
        return SimulatedReader(self._life, deliver)

    async def close(self, *threads: Any) -> None:
        for each in threads:
            each.stop()


class Mailbox:
    """Calls that one thread posts to another, late but in order."""

    def __init__(self, life: Life):
        self._life = life
        self._queue: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()

    def post(self, function: Callable[..., None], *arguments: Any) -> None:
        self._queue.append((function, arguments))
        self._life.world.loop.call_later(self._life.world.rng.uniform(0, 0.002), self._take)

    def _take(self) -> None:
        function, arguments = self._queue.popleft()
        if not self._life.dead:
            function(*arguments)


class SimulatedStore:
    """Does what StoreThread does, without a thread."""

    def __init__(self, life: Life, elector: Elector, events: Any):
        self._life, self._elector, self._events = life, elector, events
        self._world = life.world
        self._runner = CommandRunner()
        self._to_loop, self._to_thread = Mailbox(life), Mailbox(life)
        self._told = -1
        self._stopped = False
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._round()

    def run_command(self, command: Claim | Append) -> None:
        self._to_thread.post(self._take, command)

    def abandon(self) -> None:
        self._to_thread.post(self._take, None)

    def _take(self, command: Claim | Append | None) -> None:
        self._runner.take(command, self._world.loop.time())
        self._round()

    def rejoin(self) -> None:
        self._elector.rejoin(self._world.loop.time())
        self._round()

    def lease_until(self) -> float:
        return self._elector.lease_until

    def find_end(self, found: Callable[[int], None]) -> None:
        def done(end: int | None) -> None:
            if end is None:
                self.find_end(found)
            else:
                self._to_loop.post(found, end)

        self._world.request(self._life, LOG, lambda reply: reply(len(self._world.log.records)), done)

    def stop(self) -> None:
        self._stopped = True
        request = self._elector.leave()
        if request is not None:
            members = [(each.member_id, each.group_instance_id) for each in request(5).members]

            def leave(reply: Callable[[Any], None]) -> None:
                self._world.coordinator.leave(*members, group=TARGET.group_id)

            self._world.request(self._life, GROUP, leave, lambda answer: None)

    def _round(self) -> None:
        if self._stopped or self._life.dead:
            return
        now = self._world.loop.time()
        self._elector.coordinator_lost = False
        for ask in self._elector.asks(now):
            self._send_ask(ask)
        command = self._runner.to_send(now, self._elector.lease_until)
        if isinstance(command, Claim):
            self._send_claim(command)
        elif command is not None:
            self._send_append(command)
        elected = self._elector.elected
        if elected.number != self._told:
            self._told = elected.number
            self._to_loop.post(self._events.elected, elected)
        due_at = min(self._elector.due_at(), self._runner.due_at())
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._world.loop.call_later(min(1.0, max(0.001, due_at - now)), self._round)

    def _send_ask(self, ask: Ask) -> None:
        def serve(reply: Callable[[Any], None]) -> None:
            self._world.ask_group(ask, reply)

        done = functools.partial(self._group_answered, ask)
        self._world.request(self._life, GROUP, serve, done, ask.timeout_s)

    def _send_claim(self, claim: Claim) -> None:
        done = functools.partial(self._claim_answered, claim)
        self._world.request(self._life, GROUP, self._world.claim, done)

    def _send_append(self, append: Append) -> None:
        def serve(reply: Callable[[Any], None]) -> None:
            reply(self._world.log.append(append))

        self._world.request(self._life, LOG, serve, functools.partial(self._append_answered, append))

    def _group_answered(self, ask: Ask, answer: Any) -> None:
        now = self._world.loop.time()
        if answer is None:
            self._elector.failed(ask, now)
        else:
            self._elector.answered(ask, answer, now)
        self._round()

    def _claim_answered(self, claim: Claim, answer: Any) -> None:
        now = self._world.loop.time()
        if answer is None:
            self._runner.unanswered(claim, now)
        else:
            code, producer_id, epoch = answer
            self._runner.claim_answered(claim, code, producer_id, epoch, now)
            self._to_loop.post(self._events.claimed, claim.term, producer_id, epoch)
        self._round()

    def _append_answered(self, append: Append, answer: Any) -> None:
        now = self._world.loop.time()
        if answer is None:
            self._runner.unanswered(append, now)
            outcome = None
        else:
            code, base_offset = answer
            outcome = self._runner.append_answered(append, code, base_offset, now)
        if outcome is not None:
            if outcome.refusal is None:
                self._to_loop.post(self._events.appended, append.term, outcome.base_offset)
            else:
                if outcome.refusal in (Refusal.FENCED, Refusal.FENCED_LATE):
                    self._elector.rejoin(now)
                self._to_loop.post(self._events.refused, append.term, outcome.refusal, outcome.error)
        self._round()


class SimulatedReader:
    """Does what TopicReader does, without a thread, and sometimes slowly."""

    def __init__(self, life: Life, deliver: Callable[[ReadRecords], None]):
        self._life, self._deliver = life, deliver
        self.trouble = None
        self._world = life.world
        self._to_loop = Mailbox(life)
        self._ahead = AHEAD_MAX
        self._reading = 0
        self._position = self._end = 0
        self._stopped = False

    def start(self) -> None:
        self._reading += 1
        self._position, self._end = 0, len(self._world.log.records)
        self._pass_on([])
        self._later()

    def done(self, *, known: bool = False) -> None:
        self._ahead += 1

    def begin_again(self) -> None:
        self._reading += 1
        self._position, self._end = 0, len(self._world.log.records)
        self._pass_on([])

    def stop(self) -> None:
        self._stopped = True

    def _later(self) -> None:
        slow = self._world.rng.random() < 0.02
        self._world.loop.call_later(self._world.rng.uniform(0.5, 5.0) if slow else 0.002, self._read)

    def _read(self) -> None:
        if self._stopped or self._life.dead:
            return
        if self._ahead > 0 and READING not in self._life.cut and LOG not in self._world.down:
            after = min(len(self._world.log.records), self._position + self._world.rng.randint(1, 20))
            found = self._world.log.records[self._position : after]
            if found:
                records = [Record(self._position + i, *each) for i, each in enumerate(found)]
                self._position = after
                self._pass_on(records)
        self._later()

    def _pass_on(self, records: list[Any]) -> None:
        self._ahead -= 1
        self._to_loop.post(self._deliver, ReadRecords(self._reading, records, self._position, self._end))
