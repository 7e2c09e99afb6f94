"""A run: nodes, network, time and trouble from a seed. A plan leads to the same run, step by step."""

import heapq
from collections import Counter
from random import Random

from bowstring.engine.raft.keys import BOOTSTRAP_SNAPSHOT
from bowstring.engine.raft.leader import LeaderState
from bowstring.engine.raft.messages import (
    AddVoterRequest,
    DescribeQuorumRequest,
    RemoveVoterRequest,
)
from bowstring.engine.raft.voters import VoterSet, configured_voters
from tests.simulation.quorum.batches import bootstrap_snapshot
from tests.simulation.quorum.invariants import INVARIANTS, Invariant, Violation
from tests.simulation.quorum.network import LISTENER, Network
from tests.simulation.quorum.node import SimulatedNode
from tests.simulation.quorum.plan import CALM_MS

HOOKS = (
    *("check", "answers", "sends", "handled", "heard", "appended", "committed", "acknowledged"),
    *("applied", "loaded", "snapshotted"),
)
TOOL = -1


class World:
    """Runs a plan.

    Attributes:
        now: The time in ms.
        story: The events: time, node, words, object.
        keeps_votes, waits_for_persist: The shell's behaviour; faults of a shell change it.
    """

    keeps_votes = True
    waits_for_persist = True
    # State of larger simulations.
    INVARIANTS: tuple[type[Invariant], ...] = INVARIANTS
    HOOKS: tuple[str, ...] = HOOKS
    NODE = SimulatedNode

    def __init__(self, plan):
        self.plan = plan
        self.now = 0.0
        self.steps = 0
        self.story: list[tuple] = []
        self.random = Random(f"{plan.seed} disks")
        self.network = Network(self, Random(f"{plan.seed} network"))
        self.slow_syncs = plan.sync_ms[1] > 100
        self.all_know_pre_votes = 1 not in plan.vote_versions
        self.answers_to_tool: list = []
        self._heap: list[tuple] = []
        self._number = 0
        self._values = 0
        self._tool_requests = 0
        rules = [rule(self) for rule in self.INVARIANTS]
        self._rules = {type(rule): rule for rule in rules}
        self._calls = {
            hook: [getattr(rule, hook) for rule in rules if hasattr(rule, hook)] for hook in self.HOOKS
        }
        drifts = Random(f"{plan.seed} clocks")
        self.first_voters = VoterSet()
        count = plan.voters + plan.observers
        self.nodes = [self.NODE(self, id, 1 + drifts.uniform(-plan.drift, plan.drift)) for id in range(count)]
        self._format()

    def _format(self):
        voters = [node.voter for node in self.nodes[: self.plan.voters]]
        if self.plan.dynamic:
            self.first_voters = VoterSet(voters)
            for node in self.nodes[: self.plan.voters]:
                node.disk.snapshots[BOOTSTRAP_SNAPSHOT] = bootstrap_snapshot(self.first_voters)
        else:
            addresses = [node.address for node in self.nodes[: self.plan.voters]]
            self.first_voters = configured_voters(addresses, LISTENER)
        for node in self.nodes:
            node.last_voters = self.first_voters

    # ---- the nodes' settings

    def facts_for(self, node):
        """Returns the configured voters and the bootstrap servers."""
        addresses = [each.address for each in self.nodes[: self.plan.voters]]
        if self.plan.dynamic:
            addresses = [each.address for each in self.nodes]
            return VoterSet(), [each._replace(id=-2 - at) for at, each in enumerate(addresses)]
        return self.first_voters, addresses

    def node_at(self, destination):
        """The node that listens at an address."""
        for node in self.nodes:
            if node.address[1:] == destination[1:]:
                return node
        return None

    def rule(self, cls):
        return self._rules[cls]

    # ---- time

    def at(self, time, call, args=()):
        self._number += 1
        heapq.heappush(self._heap, (time, self._number, call, args))

    def after(self, delay, call, args=()):
        self._number += 1
        heapq.heappush(self._heap, (self.now + delay, self._number, call, args))

    def run_until(self, end):
        heap, pop = self._heap, heapq.heappop
        while heap and heap[0][0] <= end:
            self.now, _, call, args = pop(heap)
            self.steps += 1
            call(*args)
        self.now = end

    def run(self):
        """Runs the plan.

        Raises:
            Violation: A rule is broken. An assertion of the core is one, too.
        """
        try:
            for node in self.nodes:
                node.start()
            for action in self.plan.actions:
                self.at(action.at_ms, self.act, (action,))
            self.run_until(self.plan.trouble_ms)
            self.calm_down()
            self.recover()
        except Violation:
            raise
        except AssertionError as error:
            raise Violation("CoreAssertion", str(error)) from error

    def close(self):
        """Cuts the cycles between world, nodes and rules, which frees memory at once. The story stays."""
        self._heap.clear()
        self._rules.clear()
        self._calls.clear()
        for node in self.nodes:
            node.__dict__.clear()
        self.nodes = []
        del self.network

    # ---- actions of nodes

    def say(self, node, words, what):
        self.story.append((self.now, None if node is None else node.id, words, what))

    def check(self, node):
        if node.replica is not None:
            state = node.replica.state
            if state is not node.state:
                node.state = state
                self.say(node, "is", state)
            for call in self._calls["check"]:
                call(node)

    def answers(self, node, request, response):
        for call in self._calls["answers"]:
            call(node, request, response)

    def sends(self, node, request):
        for call in self._calls["sends"]:
            call(node, request)

    def handled(self, node, request, before):
        for call in self._calls["handled"]:
            call(node, request, before)

    def heard(self, node, asked, response, before):
        for call in self._calls["heard"]:
            call(node, asked, response, before)

    def appended(self, node, batch):
        for call in self._calls["appended"]:
            call(node, batch)

    def committed(self, node, high_watermark):
        for call in self._calls["committed"]:
            call(node, high_watermark)

    def acknowledged(self, node, offset, value):
        for call in self._calls["acknowledged"]:
            call(node, offset, value)

    def applied(self, node):
        for call in self._calls["applied"]:
            call(node)

    def loaded(self, node):
        for call in self._calls["loaded"]:
            call(node)

    def snapshotted(self, node, id):
        for call in self._calls["snapshotted"]:
            call(node, id)

    def has_durable(self, key, batch):
        """Whether a replica's disk has a batch, or had it before a loss, after which it does not vote."""
        node = self.nodes[key.id]
        disk = node.disk if node.key.is_meant_by(key) else node.lost_disks[key]
        return disk.holds(batch.base, batch.epoch)

    def tool_answered(self, response):
        self.answers_to_tool.append(response)

    # ---- trouble

    def act(self, action):
        node = self.nodes[action.node % len(self.nodes)]
        if action.kind != "append":
            self.say(None, "action", action)
        getattr(self, f"act_{action.kind}")(node, action.numbers)

    def act_append(self, node, numbers):
        leaders = [each for each in self.nodes if each.is_up and isinstance(each.state, LeaderState)]
        # Including a leader that is deposed without having noticed.
        for leader in leaders:
            self._values += 1
            values = [b"%d.%d" % (self._values, number) for number in range(numbers[0])]
            leader.append(values)

    def act_crash(self, node, numbers):
        node.crash(numbers)
        self.after(numbers[3] % 3000, self.start_node, (node, node.life))

    def act_crash_all(self, node, numbers):
        for each in self.nodes:
            each.crash(numbers)
            self.after(numbers[3] % 1000, self.start_node, (each, each.life))

    def act_stop(self, node, numbers):
        if node.is_up:
            node.carry_out(node.replica.shutdown(1000, node.now_ms()))
            self.after(1000, self.end_stop, (node, node.life, numbers))

    def end_stop(self, node, life, numbers):
        if node.is_up and node.life == life:
            node.disk.sync(node.disk.written)
            node.crash((0, 1, 1))
            self.after(numbers[3] % 1000, self.start_node, (node, node.life))

    def start_node(self, node, life):
        if not node.is_up and node.life == life and not node.disk.damaged:
            node.start()

    def act_pause(self, node, numbers):
        node.paused_until = self.now + numbers[0] % 4000

    def act_isolate(self, node, numbers):
        for other in self.nodes:
            if other is not node:
                self.network.cut |= {(node.id, other.id), (other.id, node.id)}

    def act_split(self, node, numbers):
        side = {each.id for each in self.nodes if numbers[0] >> each.id & 1}
        for one in self.nodes:
            for other in self.nodes:
                if (one.id in side) != (other.id in side):
                    self.network.cut.add((one.id, other.id))

    def act_one_way(self, node, numbers):
        self.network.cut.add((node.id, numbers[0] % len(self.nodes)))

    def act_heal(self, node, numbers):
        self.network.cut.clear()

    def act_resign(self, node, numbers):
        if node.is_up and isinstance(node.state, LeaderState):
            node.carry_out(node.replica.resign(node.state.epoch, node.now_ms()))

    def act_no_room(self, node, numbers):
        """Lets the leader, or any node, append only a few batches for a while."""
        leaders = [each for each in self.nodes if each.is_up and isinstance(each.state, LeaderState)]
        chosen = leaders[0] if leaders and numbers[0] % 3 else node
        chosen.disk.room = numbers[1] % 3
        self.after(numbers[2] % 3000, self.make_room, (chosen.disk,))

    def make_room(self, disk):
        disk.room = None

    def act_snapshot(self, node, numbers):
        if node.is_up and node.replica is not None and node.disk.part is None:
            node.take_snapshot(numbers)

    def act_corrupt(self, node, numbers):
        """Crashes a node and damages its disk, unless that would lose a majority of some voters."""
        if not node.is_up or not self._can_lose(node):
            return
        node.crash(numbers)
        if node.disk.corrupt(numbers[0], numbers[1]):
            self.say(node, "is damaged", numbers)
        self.start_node(node, node.life)
        if not node.is_up and self.plan.dynamic:
            self.after(numbers[3] % 2000, self.renew, (node, node.life))

    def renew(self, node, life):
        """Gives a node a new disk. It returns as an observer."""
        if not node.is_up and node.life == life and node.disk.damaged:
            node.replace_disk()
            node.start()

    def _voters_of(self, node):
        return node.replica.voters if node.is_up else node.last_voters

    def _is_whole(self, key, without=None):
        node = self.nodes[key.id]
        return node is not without and node.key.is_meant_by(key) and not node.disk.damaged

    def _can_lose(self, node):
        for each in self.nodes:
            voters = self._voters_of(each)
            whole = [key for key in voters.keys if self._is_whole(key, without=node)]
            if voters.is_voter(node.key) and len(whole) <= len(voters) // 2:
                return False
        return True

    def act_add_voter(self, node, numbers):
        request = AddVoterRequest("simulated", node.key, node.voter.endpoints, 1000, numbers[1] % 2 == 0)
        self.ask_leader(request)

    def act_remove_voter(self, node, numbers):
        voters = self._voters_of(node)
        gone = [key for key in voters.keys if not self._is_whole(key)]
        key = gone[0] if gone else node.key
        self.ask_leader(RemoveVoterRequest("simulated", key))

    def act_move(self, node, numbers):
        """Starts a node at another port."""
        if self.plan.dynamic and node.is_up:
            node.crash(numbers)
            node.port += 1
            node.start()

    def act_describe(self, node, numbers):
        self.ask_leader(DescribeQuorumRequest())

    def ask_leader(self, request):
        """Sends a tool's request to a node that considers itself the leader."""
        from bowstring.engine.raft import wire

        for node in self.nodes:
            if node.is_up and isinstance(node.state, LeaderState):
                self._tool_requests += 1
                cls = wire.request_class(request)
                version = self.network.version(cls, node.id, node.id)
                node.receive_request((TOOL, 0, TOOL, self._tool_requests, cls, version, node.id), request)

    # ---- the end

    def calm_down(self):
        """Ends all trouble: every node that can run does, and every message arrives."""
        self.say(None, "action", "calm")
        self.network.calm = True
        self.network.cut.clear()
        for node in self.nodes:
            self.move_back(node)
        for node in self.nodes:
            node.disk.room = None
            node.paused_until = 0.0
            if node.is_up and node.bootstrap != self.facts_for(node):
                node.crash((0, 1, 1))  # others have moved since; its settings are corrected
            if not node.is_up:
                if node.disk.damaged and self.plan.dynamic:
                    node.replace_disk()
                self.start_node(node, node.life)

    def move_back(self, node):
        """Gives a voter the address that most nodes have for it, so that they reach it without a leader."""
        known = Counter(
            voter.endpoints[0].port
            for each in self.nodes
            for voter in self._voters_of(each)
            if node.key.is_meant_by(voter.key)
        )
        if known and known.most_common(1)[0][0] != node.port:
            node.crash((0, 1, 1))
            node.port = known.most_common(1)[0][0]

    def recover(self):
        """Waits until a leader commits a new record and every node applies it.

        Raises:
            Violation: That fails, although a majority of the voters runs.
        """
        begin, marker = self.now, None
        while self.now < begin + CALM_MS:
            self.run_until(self.now + 250)
            if self.now > begin + CALM_MS / 5 and not self.can_recover():
                return
            leaders = [each for each in self.nodes if each.is_up and isinstance(each.state, LeaderState)]
            if marker is None and len(leaders) == 1:
                offset = leaders[0].append([b"the end"])
                marker = None if offset is None else (leaders[0].id, leaders[0].state.epoch, offset)
            if marker is not None:
                up = [node for node in self.nodes if node.is_up]
                if all(node.applied > marker[2] for node in up):
                    return
                leader = self.nodes[marker[0]]
                if not isinstance(leader.state, LeaderState) or leader.state.epoch != marker[1]:
                    marker = None
        states = [(node.id, node.state, node.applied) for node in self.nodes]
        raise Violation("Recovers", f"{CALM_MS} ms after all trouble there is no progress: {states}")

    def can_recover(self):
        """Whether in each node's set of voters, a majority runs at the addresses of that set.

        A voter that moves while no leader can note it is lost for the others.
        """
        for node in self.nodes:
            voters = self._voters_of(node)
            there = [
                voter.key
                for voter in voters
                if self._is_whole(voter.key)
                and self.nodes[voter.key.id].is_up
                and voter.endpoints == self.nodes[voter.key.id].voter.endpoints
            ]
            if len(there) <= len(voters) // 2 and voters.is_voter(node.key):
                return False
            # As in Kafka, a voter with an uncommitted record that removes it does not stand, and its log may
            # be longer than those of the others, which then do not get its vote.
            if not voters.is_voter(node.key) and any(
                self._voters_of(each).is_voter(node.key) for each in self.nodes
            ):
                return False
        return True
