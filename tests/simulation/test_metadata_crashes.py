"""The metadata log of a node alone under power loss: committed changes are in the image afterwards, complete ones only."""

import asyncio
import errno
import random
from pathlib import Path
from unittest import mock

import pytest

from bowstring._native.log.partition_log import LogError
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.controller import batches
from bowstring.engine.controller.decision import Decision
from bowstring.engine.controller.service import QuorumController
from bowstring.engine.metadata.store.start_checks import check_metadata_log
from bowstring.engine.quorum.own_cluster import with_itself
from bowstring.engine.quorum.service import QuorumService
from bowstring.engine.quorum.settings import quorum_settings
from bowstring.engine.quorum.synced_end import stored_synced_end
from bowstring.engine.storage.directory_lock import DataDirectoryError
from bowstring.engine.storage.log_directory import METADATA_PARTITION_DIRECTORY
from bowstring.protocol.errors import KafkaError
from bowstring.protocol.records.cluster_metadata.settings import ConfigRecord
from tests.simulation.disk.crashes import scratch
from tests.simulation.disk.disk import Disk, Fault, put_tree
from tests.simulation.disk.medium import KILLED, NOTHING, SYSTEMATIC, Link, Note, random_outcome
from tests.simulation.disk.workload import directory_with_small_tails
from tests.simulation.engine_modules import simulated_sources
from tests.simulation.storage.inline_loop import Clock, InlineLoop
from tests.support.waiting import pause_async

CHANGES = 8
PARTS = 3  # records of a change
SIZES = (20, 300, 3000)  # of the values: a change takes one batch, or several in a transaction
BATCH_BYTES = 2500
NODE_ID = 1
CLOCK = Clock()
MOST_SYNCS = 200
SETTINGS = {
    "node.id": str(NODE_ID),
    "metadata.log.max.record.bytes.between.snapshots": "8000",
    "metadata.max.retention.bytes": "20000",
    "metadata.log.segment.ms": "10",
}
OUTCOMES = [*SYSTEMATIC, *(random_outcome(i, journal=True) for i in range(3))]


class Node:
    """One life of the only controller of a quorum, without its broker."""

    def __init__(self, root: Path) -> None:
        configs = BrokerConfigs(SETTINGS)
        settings = with_itself(quorum_settings(configs, NODE_ID), NODE_ID)
        self.loop = InlineLoop(CLOCK)
        self.directory = directory_with_small_tails(root)
        check_metadata_log(root, stored_synced_end(root))
        self.directory.open(NODE_ID)
        self.quorum = QuorumService(self.directory, configs, settings, node_id=NODE_ID)
        try:
            self.quorum.open()
            self.run(self._start(configs))
        except BaseException:
            self.end()
            raise

    async def _start(self, configs: BrokerConfigs) -> None:
        self.quorum.start(())
        self.controller = QuorumController(
            self.quorum,
            configs,
            node_id=NODE_ID,
            cluster_id=self.directory.cluster_id,
            bootstrap=self.quorum.bootstrap_records(),
            voters=lambda: (NODE_ID,),
        )
        self.controller.start()
        while not self.controller.is_active:
            assert not self.quorum.has_failed, self.quorum.failed.exception()
            await pause_async(0.001, "the disk of the simulation")
        await self.controller.run(lambda state, now_ms: Decision([], None))

    def run(self, work):
        return self.loop.run_until_complete(work)

    def found(self) -> list[set[int]]:
        """Returns which parts of each change the image has."""
        found: list[set[int]] = [set() for _ in range(2 * CHANGES)]
        for name in self.quorum.image.resource_configs(2, "t"):
            number, _, part = name.partition(".")
            found[int(number)].add(int(part))
        return found

    async def commit(self, change: int) -> None:
        """Commits one change.

        Raises:
            KafkaError: NOT_CONTROLLER: the log cannot be written.
        """
        value = "v" * SIZES[change % len(SIZES)]
        async with self.controller.changing() as changing:
            await changing.commit(
                [ConfigRecord(resource_type=2, resource_name="t", name=f"{change}.{part}", value=value) for part in range(PARTS)]
            )  # fmt: skip
        await pause_async(0.02, "the next one is in another segment")

    def stop(self) -> None:
        """Stops cleanly."""
        self.controller.stop()
        self.run(self.quorum.stop())
        self.directory.mark_clean(-1)
        self.end()

    def end(self) -> None:
        """Ends the process."""
        while tasks := asyncio.all_tasks(self.loop):
            for task in tasks:
                task.cancel()
            self.run(asyncio.sleep(0))
        if self.quorum._is_open:
            self.quorum._is_open = False
            self.quorum._log.synced_end.close()
        self.directory.close()
        self.loop.close()


def changes_after_start(root: Path, more: int, disk: Disk | None = None) -> list[set[int]]:
    """Starts, commits `more` changes, stops; returns the parts that the image had of each change when it started."""
    node = Node(root)
    found = node.found()
    first = number_of(found)
    for change in range(first, first + more):
        node.run(node.commit(change))
        if disk is not None:
            disk.note("committed", change + 1)
    node.stop()
    return found


def number_of(found: list[set[int]]) -> int:
    """Returns how many changes there are."""
    return sum(bool(parts) for parts in found)


def check(found: list[set[int]], committed: int) -> None:
    """Checks that all committed changes are there, and of the others complete ones."""
    there = number_of(found)
    assert there >= committed, f"{there} changes of {committed} committed ones are there"
    assert all(len(parts) in (0, PARTS) for parts in found), found
    assert all(found[:there]) and not any(found[there:]), found


@pytest.fixture(autouse=True, scope="module")
def sources():
    with simulated_sources(CLOCK, random.Random(1)), mock.patch.object(batches, "BATCH_BYTES", BATCH_BYTES):
        yield


@pytest.fixture(scope="module")
def worked(sources):
    with scratch() as root:
        disk = Disk(root)
        with disk.watched():
            changes_after_start(root, CHANGES // 2, disk)
            changes_after_start(root, CHANGES // 2, disk)
        return disk


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda o: f"{o.name} {o.seed}")
def test_every_moment(worked, outcome):
    trace, medium, committed = worked.trace, worked.medium(), 0
    for moment, event in enumerate(trace):
        if isinstance(event, Note):
            committed = event.value
            continue
        image = medium.image(outcome, moment, event)
        medium.apply(event)
        try:
            with scratch() as root:
                put_tree(root, image)
                found = changes_after_start(root, 1)
                check(found, committed)
                check(changes_after_start(root, 0), number_of(found) + 1)
        except Exception as problem:
            raise AssertionError(f"moment {moment} of {len(trace)}, before {event!r:.200}") from problem


def test_the_log_has_transactions_snapshots_and_segments(worked):
    names = {event.name for event in worked.trace if isinstance(event, Link)}
    assert sum(name.endswith(".checkpoint") for name in names) > 1
    assert sum(name.endswith(".log") for name in names) > 1


@pytest.mark.parametrize("outcome", [KILLED, NOTHING, random_outcome(1, journal=True)], ids=lambda o: o.name)
def test_a_failed_sync(outcome):
    """The process ends with it. What the page cache alone has may become committed in the next life: then it stays."""
    for number in range(1, MOST_SYNCS):
        with scratch() as root:
            disk, committed = Disk(root), 0
            syncs = iter(range(1, MOST_SYNCS))

            def watch(operation: str, path: str, syncs=syncs, number=number) -> Fault | None:
                fails = operation == "sync" and METADATA_PARTITION_DIRECTORY in path and next(syncs) == number
                return Fault(errno.EIO) if fails else None

            disk.watcher = watch
            with disk.watched():
                node = None
                try:
                    node = Node(root)
                    for change in range(CHANGES):
                        node.run(node.commit(change))
                        committed += 1
                except (AssertionError, DataDirectoryError, KafkaError, LogError, OSError):
                    assert disk.struck
                if node is not None:
                    node.end()
                disk.watcher = lambda operation, path: None
                node = Node(root)
                found = node.found()
                check(found, committed)
                node.run(node.commit(number_of(found)))
                node.end()
            if not disk.struck:
                assert number > 10
                return
            medium = disk.medium()
            for event in disk.trace:
                medium.apply(event)
            image = medium.image(outcome, number)
        with scratch() as root:
            put_tree(root, image)
            check(changes_after_start(root, 1), number_of(found) + 1)
    raise AssertionError("the workload has more syncs")
