"""Replaces a process's own resources by simulated ones: clocks, randomness, descriptors, native threads."""

import asyncio
import errno
import logging
import os
import sys
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from unittest.mock import patch

from bowstring._native.log import many_logs
from bowstring._native.server import plane_quotas, replica_swap
from bowstring.engine.broker import dispatcher, image_follower, replication
from bowstring.engine.broker import node as node_module
from bowstring.engine.groups import service as group_service
from bowstring.engine.quorum import service as quorum_service
from bowstring.engine.share.leader import share_partitions
from bowstring.engine.storage import directory_wal, durability, log_healer, log_opener, replica_moves
from bowstring.protocol import ids
from tests.simulation.engine_modules import simulated_sources
from tests.simulation.nodes.kernel import MONOTONIC_NS, WALL_NS
from tests.simulation.nodes.logs import DURABILITY, SimulatedLog, SimulatedWal, SimulatedWriteAheadLog
from tests.simulation.nodes.plane import LogWaiters, NodePlane, NodeReplicas, VerifiedBatch
from tests.simulation.nodes.settings import SimulatedQuotas

LOGGER = logging.getLogger("bowstring")
# A life is short.
GIVE_UP_S = 0.5


@contextmanager
def simulated_process(world):
    """Runs the engine's code in a world."""
    kernel, chance = world.kernel, world.kernel.random("nodes")
    uuids = SimpleNamespace(uuid4=lambda: ids.format_uuid(chance.randbytes(16)))
    with ExitStack() as stack:

        def put(module, name, value):
            stack.enter_context(patch.object(module, name, value))

        stack.enter_context(simulated_sources(kernel, chance))
        put(group_service, "uuid", uuids)
        put(quorum_service, "_CLOCK_MS", (WALL_NS - MONOTONIC_NS) // 1_000_000)
        put(node_module, "DataPlane", _plane_of_running_node)
        put(plane_quotas, "PlaneQuotas", SimulatedQuotas)
        put(replication, "Replicas", NodeReplicas)
        put(share_partitions, "LogWaiters", LogWaiters)
        put(dispatcher, "SlowBatch", VerifiedBatch)
        put(dispatcher, "LEASED_KEYS", frozenset())  # leases are those of real reactors
        put(many_logs, "open_logs", world.files.open_logs)
        put(many_logs, "create_logs", world.files.create_logs)
        put(log_opener, "PartitionLog", SimulatedLog)
        put(replica_moves, "PartitionLog", SimulatedLog)
        put(durability, "DirectoryWal", SimulatedWal)
        put(durability, "durability", DURABILITY)
        put(directory_wal, "durability", DURABILITY)
        put(directory_wal, "WriteAheadLog", SimulatedWriteAheadLog)
        append, fail = quorum_service.QuorumService.append_all, quorum_service.QuorumService._fail
        put(quorum_service.QuorumService, "append_all", _told_append(world, append))
        put(quorum_service.QuorumService, "_fail", _told_failure(world, fail))
        if world.disks.is_on:
            simulated_os = world.disks.module()
            for name, module in list(sys.modules.items()):
                if name.startswith("bowstring.engine.") and getattr(module, "os", None) is os:
                    put(module, "os", simulated_os)
            put(log_healer, "GIVE_UP_S", GIVE_UP_S)
            put(image_follower, "GIVE_UP_S", GIVE_UP_S)
            put(replica_swap, "replace_log", lambda *swap: -errno.ENOMEM)
            stack.enter_context(world.disks.failing())
        stack.enter_context(_logged_to(world))
        yield


def _told_append(world, append):
    """The shipped `QuorumService.append_all`; the rules see what a leader appends."""

    def told(self, batches):
        node = world.node_of(self)
        if node is not None and self.is_leader:
            for records in batches:
                world.tell("appends", node, self, records)
        return append(self, batches)

    return told


def _told_failure(world, fail):
    """The shipped end of a replica; the rules see it."""

    def told(self, error):
        fail(self, error)
        node = world.node_of(self)
        if node is not None and self.has_failed:
            world.tell("quorum_failed", node, error)

    return told


def _plane_of_running_node(**options):
    return NodePlane(asyncio.get_running_loop().owner, **options)


class _Listener(logging.Handler):
    """Adds what nodes log to the story."""

    def __init__(self, world):
        super().__init__()
        self._world = world

    def emit(self, record):
        facts = dict(getattr(record, "facts", None) or {})
        if record.exc_info and record.exc_info[1] is not None:
            facts["error"] = repr(record.exc_info[1])
        running = self._world.kernel.running
        who = running.name if running is not None else "thread"
        self._world.logged(who, record.levelname.lower(), record.getMessage(), facts, record.exc_info)


@contextmanager
def _logged_to(world):
    handler = _Listener(world)
    before = LOGGER.handlers[:], LOGGER.level, LOGGER.propagate
    LOGGER.handlers[:], LOGGER.propagate = [handler], False
    LOGGER.setLevel(logging.INFO)
    try:
        yield
    finally:
        LOGGER.handlers[:], LOGGER.propagate = before[0], before[2]
        LOGGER.setLevel(before[1])
