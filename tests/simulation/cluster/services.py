"""The services that the shipped coordinators use, on a simulated loop and the simulated data plane.

`Shells` replaces `coordinator.Coordinator`, which is a simulated shell.
"""

import asyncio
import logging
import sys
import time
from contextlib import ExitStack, contextmanager
from functools import cached_property
from importlib import import_module
from types import SimpleNamespace
from unittest.mock import patch

from bowstring._native.protocol.message_codec import decode, encode
from bowstring.engine.api.table import BY_BROKER
from bowstring.engine.broker import coordination
from bowstring.engine.broker.coordination import Coordination
from bowstring.engine.broker.transaction_checks import TransactionChecks
from bowstring.engine.coordinators import runtime
from bowstring.engine.groups.state import RequestContext
from bowstring.engine.network import peers
from bowstring.engine.network.broker_peers import BrokerPeers
from bowstring.engine.network.connection import NoAnswerError
from bowstring.engine.requests.binding import bound
from bowstring.engine.requests.led_logs import LedLogs
from bowstring.engine.requests.time_slices import TimeSlices
from bowstring.engine.security.authorizer import Authorizer
from bowstring.engine.share.leader import share_partition, share_partitions
from bowstring.engine.storage.disk_reads import DiskReads
from bowstring.engine.transactions import marker_writer, service
from bowstring.protocol import API_VERSIONS
from bowstring.protocol.errors import Errors, KafkaError
from tests.simulation.cluster.loop import SimulatedLoop
from tests.simulation.cluster.share_services import LogWaiters, ToldPartition, ToldWindow
from tests.simulation.quorum.invariants import Violation

OFFSETS = "__consumer_offsets"
TRANSACTIONS = "__transaction_state"
SHARE_STATE = "__share_group_state"
COORDINATED = (OFFSETS, TRANSACTIONS, SHARE_STATE)
LISTENER = SimpleNamespace(name="PLAINTEXT")
FOR_EVER_NS = 1 << 62


def wall_ms():
    """The wall clock of the node whose loop runs."""
    return asyncio.get_running_loop().node.now_ms()


def _time_ns():
    return wall_ms() * 1_000_000


@contextmanager
def simulated_clocks():
    """Gives the shells the time of the node whose loop runs, and silences their logs."""
    clock = SimpleNamespace(time_ns=_time_ns, monotonic=lambda: 0.0, monotonic_ns=time.monotonic_ns)
    still = SimpleNamespace(isenabled=lambda: False, disable=_nothing, enable=_nothing, freeze=_nothing)
    logger = logging.getLogger("bowstring")
    before, logger.disabled = logger.disabled, True
    try:
        with ExitStack() as stack:
            for module in _with_a_clock():
                stack.enter_context(patch.object(module, "wall_ms", wall_ms))
            for module in (runtime, marker_writer, coordination):
                stack.enter_context(patch.object(module, "time", clock))
            # Timeouts of transactions follow the steady clock.
            stack.enter_context(patch.object(service, "time", SimpleNamespace(monotonic_ns=_time_ns)))
            stack.enter_context(patch.object(runtime, "gc", still))
            stack.enter_context(patch.object(peers, "PeerConnection", _Peer))
            stack.enter_context(patch.object(share_partitions, "LogWaiters", LogWaiters))
            stack.enter_context(patch.object(share_partitions, "LedSharePartition", ToldPartition))
            stack.enter_context(patch.object(share_partition, "SharePartition", ToldWindow))
            yield
    finally:
        logger.disabled = before


def _with_a_clock():
    """The product's modules that read the wall clock through `wall_ms`."""
    return [
        module
        for name, module in sys.modules.items()
        if name.startswith("bowstring.engine.") and hasattr(module, "wall_ms")
    ]


def _nothing():
    pass


class _Logs:
    """The logs of the current life."""

    def __init__(self, node):
        self._node = node
        self.control_writes = 0

    def get(self, topic, partition):
        stored = self._node.logs.logs.get((topic, partition))
        return None if stored is None else stored.log

    def is_missing(self, topic, partition):
        return False

    def of_topic(self, topic):
        found = self._node.image.topics.get(topic)
        return [self.get(topic, number) for number in range(len(found.partitions))] if found else []


class _Replicas:
    """The partitions that a broker leads."""

    def __init__(self, manager):
        self._manager = manager

    def leads(self, topic_id, partition):
        return (topic_id, partition) in self._manager.isr_changes.partitions


class _ProducerIds:
    """Ids that are unique over all lives of all brokers."""

    def __init__(self, world):
        self._world = world

    async def allocate(self):
        loop = asyncio.get_running_loop()
        there = loop.create_future()
        loop.call_later(self._world.control_ms() / 1000, _set, there, None)
        await there
        return self._world.new_producer_id()


class _Changes:
    """The controller creates a run's topics itself."""

    async def create_internal_topic(self, name, partitions, replicas, configs):
        raise KafkaError(Errors.COORDINATOR_NOT_AVAILABLE)


class _Peer:
    """A connection of the broker whose loop runs to another one; the port is its id."""

    def __init__(self, host, port, client_id, security=None):
        self.host, self.port = host, port
        self._shells = asyncio.get_running_loop().node.broker.coordinator

    async def exchange(self, request, versions, timeout_s):
        number, answer = self._shells.ask_peer(self.port, request, versions[1])
        try:
            async with asyncio.timeout(timeout_s):
                return await answer, versions[1]
        except TimeoutError as error:
            raise NoAnswerError("no answer") from error
        finally:
            self._shells.asked.pop(number, None)

    def close(self):
        pass


class _Peers(BrokerPeers):
    """The connections to brokers, which have no addresses here."""

    def address(self, id):
        return ("node", id) if id in self._metadata.image.brokers else None


class _Batch:
    """A batch that waits for the verification of its transaction."""

    def __init__(self, part, transaction, finish):
        self.topic, self.partition = part.key
        self.transaction = transaction
        self.finish = finish


class Shells:
    """The coordinators of one life of a broker, and the requests to them."""

    def __init__(self, broker):
        self.broker = broker
        self.node = broker.node
        self.world = broker.world
        self.loop = SimulatedLoop(self.node, self.world.control_ms, self._broken)
        self.configs = self.world.configs
        self.node_id = self.node.id
        self.metadata = self.node
        self.peers = _Peers(self.node, LISTENER.name)
        self.logs = _Logs(self.node)
        self.plane = broker.plane
        self.led_logs = LedLogs(self.node, self.logs, self.node.id, _Replicas(broker.manager))
        self.disk_reads = DiskReads()
        self.log_waiters: list[LogWaiters] = []
        self.changes = _Changes()
        self.producer_ids = _ProducerIds(self.world)
        self.authorizer = Authorizer(self.configs)
        self.time_slices = TimeSlices()
        self.time_slices.until_ns = FOR_EVER_NS
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
        self.watched: dict[tuple[str, int], int] = {}
        self.asked: dict[int, asyncio.Future] = {}
        self._numbers = 0

    @cached_property
    def checks(self):
        return TransactionChecks(
            self.coordination.transactions.verifier, self.plane, lambda batch: batch.finish(0)
        )

    def _part(self, name):
        return getattr(self.coordination if name in coordination.PARTS else self, name)

    def _broken(self, error):
        if not isinstance(error, Violation):
            error = Violation("NoShellFails", f"node {self.node.id}: {error!r}")
        self.world.violated(error)

    def image_changed(self):
        self.loop.call_soon(self.peers.look)

    # ---- events of the data plane

    def role_changed(self, part):
        if part.key[0] in COORDINATED or self.world.plan.shares:
            self.loop.call_soon(self.coordination.role_changed, *part.key)
        self._wake(part.key)

    def advanced(self, part):
        offset = self.watched.get(part.key)
        if offset is not None and part.log.high_watermark >= offset:
            self._wake(part.key)

    def _wake(self, key):
        if self.watched.pop(key, None) is not None:
            advanced = self.coordination.coordinators.high_watermark_advanced
            self.node.after(self.world.control_ms(), self.loop.call_soon, advanced, *key)

    def log_moved(self, part):
        """A partition has more to read, or another broker leads it."""
        for waiters in self.log_waiters:
            waiters.wake(part.key)

    def watch(self, part, offset):
        if part.log.high_watermark >= offset:
            return False
        self.watched[part.key] = min(offset, self.watched.get(part.key, offset))
        return True

    # ---- requests

    def run(self, work, then):
        """Runs `work()` in the broker's loop; `then(result)` unless the broker ends first."""

        async def call():
            then(await work())

        self.node.after(self.world.control_ms(), self.loop.call_soon, lambda: self.loop.create_task(call()))

    async def handle(self, request, version, connection_id=0):
        """Answers a request as the shipped handler does."""
        module = import_module(f"bowstring.engine.api.{BY_BROKER.handlers[request.api_key]}")
        copy = decode(type(request), version, encode(request, version))
        received = SimpleNamespace(body=copy, version=version, client_id="c", peer="h:1")
        received.connection_id, received.listener = connection_id, LISTENER
        received.api_key = request.api_key
        return await bound(module.handle, self._part)(received)

    def ask(self, request, answer):
        """A client's request: its message and version."""
        self.run(lambda: self.handle(*request), lambda body: answer(0, body))

    def share(self, asked, answer):
        """A share member's request, on a connection of this life."""
        if asked.life != self.node.life:
            return

        async def work():
            self.world.tell("share_asked", self.node, asked)
            body = await self.handle(asked.request, asked.version, asked.connection)
            self.world.tell("share_answered", self.node, asked, body)
            return body

        self.run(work, lambda body: answer(0, body))

    def connection_ended(self, asked):
        """A share member's connection ended."""

        def end():
            self.world.tell("share_connection_ended", self.node, asked)
            self.coordination.connections_ended([asked.connection])

        self.node.after(self.world.control_ms(), self.loop.call_soon, end)

    def commit(self, request, answer):
        self._of_group(
            lambda shard, token, now_ms: shard.commit_offsets(
                request, RequestContext("c", "h", 8), token, now_ms
            ),
            answer,
        )

    def fetch(self, request, answer, *, require_stable=False):
        self._of_group(
            lambda shard, token, _: shard.fetch_offsets(request, token, require_stable=require_stable), answer
        )

    def _of_group(self, event, answer):
        async def work():
            try:
                return 0, await self.coordination.groups.ask("group", event)
            except KafkaError as error:
                return error.error.code, None

        self.run(work, lambda found: answer(*found))

    def verify(self, part, transaction, finish):
        """Requests the coordinator's verification of a batch; `finish(error)` follows."""
        batch = _Batch(part, transaction, finish)
        self.node.after(self.world.control_ms(), self.loop.call_soon, lambda: self.checks.take(batch))

    # ---- other brokers

    def ask_peer(self, destination, request, version):
        self._numbers += 1
        self.asked[self._numbers] = answer = self.loop.create_future()
        data = encode(request, version)
        args = (self.node.id, self.node.life, self._numbers, type(request), version, data)
        self.world.send(self.node, destination, "on_peer", args)
        return self._numbers, answer

    def on_peer(self, source, life, number, cls, version, data):
        def answered(body):
            sent = (number, cls.api_key, version, encode(body, version))
            self.world.send_to_life(self.node, source, life, "on_peer_answer", sent)

        if not self._has_ended(source, life):
            self.run(lambda: self.handle(decode(cls, version, data), version), answered)

    def _has_ended(self, source, life):
        """Whether the requester has ended, and its connection with it."""
        asking = self.world.nodes[source]
        return not asking.is_up or asking.life != life

    def on_peer_answer(self, number, key, version, data):
        answer = self.asked.pop(number, None)
        if answer is not None and not answer.done():
            body = decode(API_VERSIONS[key].response, version, data)
            self.loop.call_soon(_set, answer, body)


def _set(answer, body):
    if not answer.done():
        answer.set_result(body)
