"""A node of the simulated cluster through its lives: each is a `Broker` as it ships, on a loop of its own."""

import asyncio
import os
from dataclasses import replace

from bowstring._native.log.partition_log import LogError
from bowstring.engine.broker.broker import Broker
from bowstring.engine.broker.node_format import format_plan
from bowstring.engine.quorum.formatting import FormatOptions, carry_out
from bowstring.engine.storage.directory_lock import DataDirectoryError
from bowstring.engine.storage.log_directory import META_PROPERTIES
from bowstring.protocol.ids import format_uuid
from tests.simulation.nodes.kernel import MS
from tests.simulation.nodes.logs import RefusedError
from tests.simulation.nodes.loop import NodeLoop
from tests.simulation.nodes.power import Medium
from tests.support.access import STANDARD

CLUSTER_ID = format_uuid(b"cluster-of-seeds")
LISTENER_PORT, CONTROLLER_PORT = 9092, 9093
DISK_ERRORS = (OSError, LogError, DataDirectoryError)


def directory_id(node_id):
    """The id of a node's metadata directory."""
    return bytes([node_id]) * 16


class Node:
    """A node.

    Attributes:
        name: Of its links and in the story.
        life: Counts its processes.
        broker: The broker of the present life; None while the node is down.
        loop: Its control thread's loop.
        reactors: Its data plane's replicas.
        is_starting: Its start has not ended.
        stopping: Its clean stop is under way.
    """

    def __init__(self, world, id, path, *, is_voter):
        self.world = world
        self.kernel = world.kernel
        self.network = world.network
        self.id = id
        self.name = f"node{id}"
        self.path = f"{path}/{self.name}"
        self.is_voter = is_voter
        self.life = 0
        self.broker: Broker | None = None
        self.loop: NodeLoop | None = None
        self.planes: list = []
        self.reactors = None
        self.is_starting = False
        self.stopping = None
        self.troubled_until = 0
        self.clock_off_ns = 0
        for each in self.disks:
            os.makedirs(each)

    @property
    def host(self):
        return f"127.0.0.{self.id}"

    @property
    def directories(self):
        """Its log directories."""
        second = self.world.plan.directories == "two"
        return [self.path, f"{self.world.path}/second/{self.name}"] if second else [self.path]

    @property
    def metadata_path(self):
        """The directory of its metadata log."""
        apart = self.world.plan.directories == "apart"
        return f"{self.world.path}/metadata/{self.name}" if apart else self.path

    @property
    def disks(self):
        """All its directories; each is on a disk of its own."""
        return list(dict.fromkeys([self.metadata_path, *self.directories]))

    @property
    def broker_is_open(self):
        """Whether it has a broker whose directories are open."""
        return self.broker not in (None, _Starting)

    @property
    def is_up(self):
        """Whether its process runs and serves, or starts to."""
        return self.broker is not None

    def say(self, text):
        self.kernel.say(self.name, text)

    def after(self, delay_ns, call, *args):
        """Calls on another thread of this life, which stands still while the process does."""
        self.kernel.after(delay_ns, self._in_life, self.life, call, args)

    def _in_life(self, life, call, args):
        if life != self.life or self.broker is None:
            return
        if self.loop.is_paused:
            self.kernel.after(10 * MS, self._in_life, life, call, args)
            return
        call(*args)

    # ---- lives

    def format(self):
        """Writes what a node has before its first life."""
        if self.world.plan.voters_in_log:
            voters = [each for each in self.world.nodes.values() if each.is_voter]
            told = [
                f"{each.id}@{each.host}:{CONTROLLER_PORT}:{format_uuid(directory_id(each.id))}"
                for each in voters
            ]
            options = FormatOptions(
                CLUSTER_ID,
                initial_controllers=told if self.is_voter else (),
                no_initial_controllers=not self.is_voter,
            )
            plan = format_plan(self.settings(), options)
            carry_out(replace(plan, metadata_directory_id=directory_id(self.id)))
            return
        with open(f"{self.metadata_path}/{META_PROPERTIES}", "w") as file:
            file.write(
                f"cluster.id={CLUSTER_ID}\ndirectory.id={format_uuid(directory_id(self.id))}\n"
                f"node.id={self.id}\nversion=1\n"
            )

    def _quorum(self):
        world = self.world
        if world.plan.voters_in_log:
            servers = ",".join(f"{each.host}:{CONTROLLER_PORT}" for each in world.nodes.values())
            return {"controller.quorum.bootstrap.servers": servers}
        voters = ",".join(
            f"{each.id}@{each.host}:{CONTROLLER_PORT}" for each in world.nodes.values() if each.is_voter
        )
        return {"controller.quorum.voters": voters}

    def _disks(self):
        if not self.world.disks.is_on:
            return {}
        return {"metadata.log.dir": self.metadata_path, "bowstring.log.dir.slow.ms": "0"}

    def settings(self):
        world = self.world
        listeners = f"PLAINTEXT://{self.host}:{LISTENER_PORT}"
        is_controller = self.is_voter or world.plan.voters_in_log
        if is_controller:
            listeners += f",CONTROLLER://{self.host}:{CONTROLLER_PORT}"
        return {
            "node.id": str(self.id),
            "process.roles": "broker,controller" if is_controller else "broker",
            "log.dirs": ",".join(self.directories),
            **self._disks(),
            "listeners": listeners,
            **self._quorum(),
            "bowstring.local.socket": "off",
            "bowstring.metrics.port": "-1",
            "authorizer.class.name": STANDARD,
            "super.users": "User:ANONYMOUS",
            **world.plan.configs,
        }

    def start(self):
        """Begins a life."""
        self.life += 1
        self.say(f"starts, life {self.life}")
        loop = NodeLoop(self.kernel, self.name, self.life, self.network, self.world.pace)
        loop.owner, loop.clock_off_ns = self, self.clock_off_ns
        self.loop, self.planes, self.reactors = loop, [], None
        self.is_starting, self.stopping = True, None
        self.broker = _Starting
        loop.call_soon(self._open)

    def _open(self):
        self.broker = broker = Broker(self.settings())
        for directory in broker.directories.all:
            directory.tails.in_background = False
        try:
            broker.open()
        except Exception as error:
            self._failed(error)
            return
        broker.quorum.on_applied.append(self._applied)
        self.reactors = next(each.reactors for each in self.planes if not each.is_controller)
        self.loop.create_task(self._start(broker))

    def _applied(self, records, end_offset, epoch):
        self.world.tell("applied", self, records)
        self.world.tell("applied_to", self, end_offset, epoch)

    async def _start(self, broker):
        try:
            await broker.start()
        except Exception as error:
            if self.broker is not broker:  # its life is over
                return
            if self.world.disks.may_end(self):
                self.say(f"cannot start: {type(error).__name__}")
                await self._ended_by_its_disks(broker)
            else:
                self._failed(error)
            return
        self.say("serves")
        self.is_starting = False
        self.world.tell("serves", self)
        if self.world.disks.is_on:
            await asyncio.wait(
                {asyncio.ensure_future(broker.lost.wait()), broker.quorum.failed},
                return_when=asyncio.FIRST_COMPLETED,
            )
            if self.stopping is None:
                await self._ended_by_its_disks(broker)

    async def _ended_by_its_disks(self, broker):
        """Ends the process as `serve` does, for a service manager that starts it again."""
        self.say("ends")
        self.stopping = self.kernel.now
        await self._stop_broker()
        self.kernel.after(200 * MS, self.world.start_again, self)

    def _failed(self, error):
        self.say(f"cannot start: {type(error).__name__}")
        is_lost = self.world.disks.may_end(self) and isinstance(error, DISK_ERRORS)
        # A thread may report it when there are descriptors again.
        is_refused = isinstance(error, RefusedError) or (
            isinstance(error, OSError) and self.world.files.is_refusing(self.name)
        )
        if is_lost or is_refused:
            self.kernel.after(0, self.kill)  # as a service manager sees it: it ends, and is started again
            self.kernel.after(200 * MS, self.world.start_again, self)
        else:
            self.world.start_failed(self, error)

    def kill(self):
        """Ends the process; what it wrote is in the page cache."""
        if self.broker is None:
            return
        self.say("is killed")
        self._end()

    def lose_power(self, random):
        """Ends the process; unsynced data is gone."""
        if self.broker is None:
            return
        medium = None if self.broker is _Starting else Medium(self.broker)
        self._end()
        if medium is not None:
            self.say(f"loses its power and {medium.cut(random)} bytes")

    def move_clock(self, off_ns):
        """Shifts the time of day by this much from now on; steady time continues."""
        self.say(f"has a clock that is off by {off_ns // MS} ms")
        self.clock_off_ns = off_ns
        if self.loop is not None:
            self.loop.clock_off_ns = off_ns

    def _end(self):
        broker, self.broker = self.broker, None
        self.loop.end()
        for plane in self.planes:
            plane.reactors.is_stopped = True
        self.network.stop_listening(self.name)
        self.network.end_all(self.name)
        self.world.buried.append((broker, self.loop, self.planes))
        self.reactors = None
        if broker is not _Starting:
            release(broker)

    def stop(self):
        """Begins a clean stop."""
        if self.broker in (None, _Starting) or self.is_starting or self.stopping is not None:
            return
        self.say("is to stop")
        self.stopping = self.kernel.now
        self.loop.call_soon(self._stop)

    def _stop(self):
        self.loop.create_task(self._stop_broker())

    async def _stop_broker(self):
        try:
            await self.broker.stop()
        except Exception as error:
            if not (isinstance(error, DISK_ERRORS) and self.world.disks.may_end(self)):
                self.kernel.violated("StopsCleanly", f"{self.name}: {error!r}")
        self.say("has stopped")
        self.kernel.after(0, self._end)

    def pause(self):
        if self.broker is not None and not self.loop.is_paused:
            self.say("stands still")
            self.loop.pause()

    def go_on(self):
        if self.broker is not None and self.loop.is_paused:
            self.say("goes on")
            self.loop.go_on()


class _Starting:
    """In the place of a broker whose process has just begun."""

    quorum = None


def release(broker):
    """Releases the locks and descriptors that the kernel takes from a process that ends."""
    for directory in broker.directories._with_metadata():
        directory.tails.abandon()
    broker.directories.close()
    if hasattr(broker, "logs"):
        for wal in broker.logs.durability.wals.values():
            os.close(wal._control_fd)
            os.close(wal._supply_fd)
    quorum = broker.quorum
    if quorum._is_open:
        quorum._is_open = False
        quorum._log.synced_end.close()
