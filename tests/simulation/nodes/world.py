"""A run of a whole cluster of shipped nodes, determined by the seed."""

import errno
import gc
import os
import shutil
import sys
import tempfile
import traceback
import warnings

from tests.simulation.nodes.acknowledged_changes import CredentialsAreKept, QuotasAreKept
from tests.simulation.nodes.clients import Clients
from tests.simulation.nodes.disk_rules import (
    EndsWithItsDisks,
    LeadersLeaveFailedDirectories,
    led_in_failed_directory,
)
from tests.simulation.nodes.disks import Disks
from tests.simulation.nodes.invariants import RULES
from tests.simulation.nodes.kernel import MS, Kernel
from tests.simulation.nodes.leftovers import NothingIsLeft
from tests.simulation.nodes.logs import Files
from tests.simulation.nodes.network import Network
from tests.simulation.nodes.node import Node
from tests.simulation.nodes.pace import Pace
from tests.simulation.nodes.plan import DISK_TROUBLES
from tests.simulation.nodes.power import CommittedMetadataIsKept
from tests.simulation.nodes.process import simulated_process
from tests.simulation.nodes.watchdog import EndlessError, watchdog
from tests.simulation.quorum.invariants import Violation

OF_CHANGES = (CredentialsAreKept, QuotasAreKept)
START_MS = 10_000
CALM_MS = 30_000
LOOK_MS = 20
CLOCKS_OFF_MS = (-3_600_000, -1500, 0, 700, 3_600_000)
REPORTED = ("bug:", "report the traceback", "as a bug")


class World:
    """Runs a plan.

    Attributes:
        buried: Objects of ended lives, kept until the run ends: the end of a process runs none of their code.
        asked: The requests to nodes: whether on a controller's listener, and the key of the API.
    """

    def __init__(self, plan):
        self.plan = plan
        self.kernel = Kernel(plan.seed)
        self.network = Network(self.kernel, plan.delay_ms)
        self.pace = Pace(plan.stall, plan.thread_ms)
        self.disks = Disks(self.kernel, is_on=any(each.kind in DISK_TROUBLES for each in plan.actions))
        self.files = Files(self.kernel, self.disks)
        self.path = tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        self.nodes: dict[int, Node] = {}
        for id in range(1, plan.nodes + 1):
            self.nodes[id] = Node(self, id, self.path, is_voter=id <= plan.voters)
            self.disks.add(self.nodes[id])
        self.buried: list = []
        self.asked: set[tuple[bool, int]] = set()
        self.is_calm = False
        self.begun_at: int | None = None
        self.troubled_at = 0
        self._paces = self.kernel.random("control threads")
        self._syncs = self.kernel.random("syncs")
        self._power_cuts = self.kernel.random("power")
        of_disks = (EndsWithItsDisks, LeadersLeaveFailedDirectories) if self.disks.is_on else ()
        self.rules = [
            rule(self) for rule in (*of_disks, *RULES, *OF_CHANGES, CommittedMetadataIsKept, NothingIsLeft)
        ]
        self._calls: dict[str, list] = {}
        self.clients = Clients(self)

    @property
    def steps(self):
        return self.kernel.steps

    @property
    def story(self):
        return self.kernel.story

    def node_of(self, quorum):
        """The node whose current life has this replica of the quorum."""
        return next(
            (
                each
                for each in self.nodes.values()
                if each.broker is not None and each.broker.quorum is quorum
            ),
            None,
        )

    # ---- services for nodes

    def control_ms(self):
        """How long another native thread takes."""
        return 0.05 if self.is_calm else self._paces.choice((0.05, 0.2, 1.0, 5.0))

    def sync_ms(self):
        """How long a sync takes."""
        return 0.1 if self.is_calm else self._syncs.uniform(*self.plan.sync_ms)

    def tell(self, hook, *args):
        calls = self._calls.get(hook)
        if calls is None:
            found = (getattr(rule, hook, None) for rule in self.rules)
            calls = self._calls[hook] = [each for each in found if each is not None]
        for call in calls:
            try:
                call(*args)
            except Violation as violation:
                self.kernel.violation = self.kernel.violation or violation
                raise

    def logged(self, who, level, message, facts, error):
        """A node has logged a line."""
        brief = {key: str(value).replace(self.path, "")[:200] for key, value in facts.items()}
        self.kernel.say(who, f"{level}: {message} {brief}")
        if any(each in message for each in REPORTED):
            told = "".join(traceback.format_exception(error[1])) if error and error[1] is not None else ""
            self.kernel.violated("NoBugIsLogged", f"{who}: {message} {brief}\n{told}")

    def start_failed(self, node, error):
        text = "".join(traceback.format_exception(error))
        self.kernel.violated("StartsAgain", f"{node.name}: {error}\n{text}")

    # ---- a run

    def run(self):
        """Runs the plan.

        Raises:
            Violation: A rule is broken.
        """
        kernel = self.kernel
        with simulated_process(self), watchdog(kernel):
            try:
                for node in self.nodes.values():
                    node.format()
                    kernel.after(kernel.number() * MS, node.start)
                self._run_until(START_MS, self._all_serve, "StartsAgain", "the cluster does not start")
                self.begun_at = self.troubled_at = kernel.now
                if not self.plan.actions:
                    self.troubled_at -= 10_000 * MS
                for action in self.plan.actions:
                    kernel.at(self.begun_at + action.at_ms * MS, self._act, action)
                self.clients.start()
                kernel.run(self.begun_at + self.plan.trouble_ms * MS)
                self._calm()
                self._run_until(CALM_MS, self._is_healthy, "BecomesHealthy", None)
                for rule in self.rules:
                    rule.at_end()
            finally:
                kernel.is_over = True
                self._bury()

    def _run_until(self, most_ms, reached, rule, text):
        kernel = self.kernel
        deadline = kernel.now + most_ms * MS
        while not reached():
            if kernel.now >= deadline:
                raise Violation(rule, text or self._why_not_healthy())
            # Expensive checks run less often: one takes as long as many simulated events.
            waited_ms = (kernel.now - deadline) // MS + most_ms
            kernel.run(kernel.now + max(LOOK_MS, waited_ms // 10) * MS)

    def _all_serve(self):
        return all(
            node.broker is not None and not node.is_starting and not node.broker.lifecycle.is_fenced
            for node in self.nodes.values()
        )

    def _calm(self):
        """Ends the trouble: everything runs, and every message arrives soon."""
        self.kernel.say("world", "the trouble ends")
        self.is_calm = self.pace.is_calm = True
        self.troubled_at = self.kernel.now
        self.network.delay_ms = (0.02, 0.3)
        self.network.set_cut(())
        self.files.refuses.clear()
        for node in self.nodes.values():
            node.go_on()
            if node.clock_off_ns:
                node.move_clock(0)
        self.clients.calm()
        self.kernel.after(LOOK_MS * MS, self._start_all)

    def _start_all(self):
        for node in self.nodes.values():
            if self.disks.is_on:
                self._repair(node)
            if node.broker is None:
                node.start()
                self.troubled_at = self.kernel.now
        self.kernel.after(LOOK_MS * MS, self._start_all)

    def _is_healthy(self):
        return self._why_not_healthy() is None

    def _why_not_healthy(self):
        """Returns what is not yet in order after the trouble; None if all is."""
        for node in self.nodes.values():
            if node.broker is None or node.is_starting or node.stopping is not None:
                return f"{node.name} does not serve"
        if not self.clients.are_done():
            return f"requests without an answer: {self.clients.unanswered()}"
        self.clients.leave()
        for rule in self.rules:
            if (why := rule.why_not_healthy()) is not None:
                return f"{type(rule).__name__}: {why}"
        return None

    def _bury(self):
        for node in self.nodes.values():
            if node.broker is not None:
                node._end()
        self.clients.end()

    def close(self):
        """Frees what the run took."""
        before, sys.unraisablehook = sys.unraisablehook, _ignore
        try:
            self.buried.clear()
            for node in self.nodes.values():
                node.loop = None
                node.planes = []
            self.network.ends.clear()
            self.network.listeners.clear()
            self.kernel._queue.clear()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # work that a killed process had not begun
                gc.collect()
        finally:
            sys.unraisablehook = before
        shutil.rmtree(self.path, ignore_errors=True)

    # ---- trouble

    def _act(self, action):
        node = list(self.nodes.values())[action.number % len(self.nodes)]
        self.kernel.say("world", f"{action.kind} {node.name}")
        self.troubled_at = self.kernel.now
        getattr(self, f"_{action.kind}")(node, action.numbers)

    def _kill(self, node, numbers):
        node.kill()
        self.kernel.after((20 + numbers[0] % 600) * MS, self.start_again, node)

    def _power(self, node, numbers):
        node.lose_power(self._power_cuts)
        self.kernel.after((20 + numbers[0] % 600) * MS, self.start_again, node)

    def _blackout(self, node, numbers):
        for each in self.nodes.values():
            self._power(each, numbers)

    def _clock(self, node, numbers):
        node.move_clock(CLOCKS_OFF_MS[numbers[0] % len(CLOCKS_OFF_MS)] * MS)

    def start_again(self, node):
        """Starts a node whose process has ended."""
        self.troubled_at = max(self.troubled_at, self.kernel.now)
        if node.broker is None and not self.kernel.is_over:
            node.start()

    def _stop(self, node, numbers):
        node.stop()
        self.kernel.after((400 + numbers[0] % 600) * MS, self.start_again, node)

    def _pause(self, node, numbers):
        node.pause()
        self.kernel.after((20 + numbers[0] % 1500) * MS, self._go_on, node)

    def _go_on(self, node):
        self.troubled_at = self.kernel.now
        node.go_on()

    def _isolate(self, node, numbers):
        others = [each.name for each in self.nodes.values() if each is not node]
        cut = {(node.name, each) for each in others} | {(each, node.name) for each in others}
        self.network.set_cut(self.network.cut | cut)
        self._heal_later(numbers)

    def _one_way(self, node, numbers):
        others = [each.name for each in self.nodes.values() if each is not node]
        self.network.set_cut(self.network.cut | {(node.name, others[numbers[1] % len(others)])})
        self._heal_later(numbers)

    def _heal_later(self, numbers):
        self.kernel.after((50 + numbers[0] % 1200) * MS, self._heal, None, numbers)

    def _heal(self, node, numbers):
        self.troubled_at = self.kernel.now
        self.network.set_cut(())

    def _resign(self, node, numbers):
        for each in self.nodes.values():
            quorum = each.broker.quorum if each.broker is not None else None
            if quorum is not None and not each.is_starting and quorum.is_leader:
                each.loop.call_soon(quorum.resign)

    def _no_descriptors(self, node, numbers):
        error = errno.EMFILE if numbers[1] % 2 else errno.ENFILE
        self.files.refuses[node.name] = (self.kernel.now + (20 + numbers[0] % 400) * MS, error)

    def _full(self, node, numbers):
        """Some or all of a node's disks are full for a while."""
        disks = self.disks
        which = node.disks if numbers[1] % 2 else [node.disks[numbers[1] // 2 % len(node.disks)]]
        until = self.kernel.now + (20 + numbers[0] % 1000) * MS
        for each in which:
            if self.plan.commit_mode and numbers[2] % 2:
                disks.without_segment.add(each)
            else:
                disks.full[each] = errno.EDQUOT if numbers[3] % 4 == 0 else errno.ENOSPC
        self.kernel.at(until, self._has_room, node)

    def _has_room(self, node):
        self.kernel.say(node.name, "has room again")
        self.troubled_at = self.kernel.now
        for each in node.disks:
            self.disks.full.pop(each, None)
            self.disks.without_segment.discard(each)

    def _broken(self, node, numbers):
        """One disk of a node fails for good: until a repair, later or at the end."""
        broken = node.disks[numbers[1] % len(node.disks)]
        self.disks.broken.add(broken)
        if numbers[2] % 2:
            self.kernel.after((100 + numbers[0] % 1000) * MS, self._repaired, node, broken)

    def _no_memory(self, node, numbers):
        """For a moment, some operations on a node's files lack memory, or opening them lacks descriptors."""
        which = node.disks if numbers[1] % 2 else [node.disks[numbers[1] // 2 % len(node.disks)]]
        for each in which:
            self.disks.scarce[each] = (errno.ENOMEM, errno.ENOMEM, errno.EMFILE)[numbers[2] % 3]
        self.kernel.after((5 + numbers[0] % 300) * MS, self._has_memory, node)

    def _has_memory(self, node):
        self.kernel.say(node.name, "has memory again")
        for each in node.disks:
            self.disks.scarce.pop(each, None)

    def _repaired(self, node, disk):
        self.kernel.say(node.name, "has its disk repaired")
        self.troubled_at = self.kernel.now
        self.disks.broken.discard(disk)

    def _repair(self, node):
        """Repairs a node's disks, and restarts it if it continues without a failed directory.

        Restarts only once others lead the partitions in that directory.
        """
        if not node.broker_is_open or node.is_starting or node.stopping is not None:
            self.disks.repair(node)
            return
        directories = node.broker.directories
        if directories.all_online:
            self.disks.repair(node)
        elif directories.why_lost is None and led_in_failed_directory(node) is None:
            self.disks.repair(node)
            node.stop()

    def _break_connections(self, node, numbers):
        for end in list(self.network.ends.get(node.name, {}).values()):
            if (end.number + numbers[0]) % 3 == 0:
                error = ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
                owner = end.owner
                end.close(error)
                if owner is not None:
                    owner.ended(error)


def _ignore(unraisable):
    """The remains of killed processes run no code that counts."""


def outcome(plan):
    """Runs a plan; returns the world and the violation, or None."""
    was_enabled = gc.isenabled()
    gc.disable()
    world = World(plan)
    try:
        world.run()
    except Violation as violation:
        return world, violation
    except EndlessError:
        return world, world.kernel.violation
    finally:
        world.close()
        if was_enabled:
            gc.enable()
    return world, None
