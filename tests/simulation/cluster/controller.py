"""The active controller: takes turns at decisions, appends their records, answers when they are committed.

It is what engine/controller/service.py does, without waiting inside a turn.
"""

from random import Random

from bowstring.engine.controller import (
    alter_partition,
    brokers,
    directories,
    leader_elections,
    reassignments,
    topics,
)
from bowstring.engine.controller.activation import activation_records
from bowstring.engine.controller.batches import split
from bowstring.engine.controller.decision import Decision
from bowstring.engine.controller.state import ControllerState
from bowstring.engine.metadata.topic_changes import create_partitions
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.records.cluster_metadata.settings import FeatureLevelRecord

LOOKS_PER_SESSION = 8
NOT_CONTROLLER = Errors.NOT_CONTROLLER.code
ALTER_PARTITION_VERSION = 3
REGISTRATION_VERSION = 3


class SimulatedController:
    """The controller of one life of a node."""

    def __init__(self, node):
        self.node = node
        self.world = node.world
        self.state: ControllerState | None = None
        self.epoch = -1
        self.levels_wait = False
        self.waiting: list[tuple] = []
        self.random = Random(f"{node.world.plan.seed} controller {node.id} {node.life}")

    # ---- leadership

    def leader_changed(self, leader, epoch):
        if self.state is not None and (leader != self.node.id or epoch != self.epoch):
            self.end()
        if leader == self.node.id and self.state is None:
            self.node.after(0, self.begin, epoch)

    def begin(self, epoch):
        node = self.node
        if self.state is not None or node.told != (node.id, epoch):
            return
        records = activation_records(node.image, self.world.bootstrap_records(), self.world.configs)
        self.state = ControllerState(
            node.image,
            node_id=node.id,
            cluster_id="simulated",
            configs=self.world.configs,
            random=self.random,
            new_uuid=lambda: self.random.randbytes(16),
            end_offset=node.next_offset,
            now_ms=node.now_ms(),
            voters=lambda: node.replica.voters.ids,
        )
        self.epoch = epoch
        self.levels_wait = False
        self.world.say(node, "is the controller in epoch", epoch)
        if records:
            self.append(Decision(records, None, atomic=False), lambda is_committed: None)
        node.after(self.world.plan.session_ms / LOOKS_PER_SESSION, self.fence_stale, epoch)
        node.after(self.world.plan.balance_ms, self.balance, epoch)
        node.after(100, self.create_topics, epoch)

    def end(self):
        self.state = None
        waiting, self.waiting = self.waiting, []
        for _, answer in waiting:
            answer(KafkaError(Errors.NOT_CONTROLLER))

    # ---- decisions

    def run(self, decide, answer):
        """Decides, and answers with the decision's answer, or an error, once its records are committed."""
        if self.state is None:
            answer(KafkaError(Errors.NOT_CONTROLLER))
        elif self.levels_wait:
            self.waiting.append((decide, answer))
        else:
            self.decide(decide, answer)

    def decide(self, decide, answer):
        try:
            decision = decide(self.state, self.node.now_ms())
        except KafkaError as error:
            answer(error)
            return
        if decision is None:
            answer(None)
            return

        def done(is_committed):
            answer(decision.answer if is_committed else KafkaError(Errors.NOT_CONTROLLER))

        self.append(decision, done)

    def append(self, decision, done):
        """Appends the records and applies them to the state."""
        node, state = self.node, self.state
        if not decision.records:
            last = node.waiting[-1] if node.waiting else None
            if last is None:
                done(True)
            else:
                node.waiting.append((last[0], last[1], done))
            return
        batches = split(decision.records, atomic=decision.atomic, metadata_version=state.metadata_version)
        changes_levels = any(isinstance(each, FeatureLevelRecord) for each in decision.records)
        if changes_levels:
            self.levels_wait = True
            inner = done

            def done(is_committed):
                inner(is_committed)
                if is_committed:
                    self.levels_committed(state)

        for at, batch in enumerate(batches):
            offset = node.next_offset if node.told[0] == node.id else 0
            state.apply_all(batch, offset)
            for each in batch:
                self.world.say(node, "decides", each)
                self.world.tell("decides", node, each)
            node.append_records(batch, done if at == len(batches) - 1 else _nothing)
            if self.state is not state:
                return
        if decision.appended is not None:
            decision.appended(node.next_offset - 1)

    def levels_committed(self, state):
        if self.state is state:
            self.levels_wait = False
            waiting, self.waiting = self.waiting, []
            for decide, answer in waiting:
                self.run(decide, answer)

    # ---- requests

    def handle(self, kind, request, answer):
        self.run(self.REQUESTS[kind](self, request), answer)

    def register(self, request):
        node = self.node
        return lambda state, now_ms: brokers.register(
            state, request, REGISTRATION_VERSION, node.next_offset, now_ms
        )

    def heartbeat(self, request):
        return lambda state, now_ms: brokers.heartbeat(state, request, now_ms)

    def alter_partition(self, request):
        return lambda state, now_ms: alter_partition.alter_partition(state, request, ALTER_PARTITION_VERSION)

    def reassign(self, request):
        return lambda state, now_ms: reassignments.alter_reassignments(state, request)

    def assign(self, request):
        return lambda state, now_ms: directories.assign_replicas(state, request)

    REQUESTS = {  # noqa: RUF012
        "register": register,
        "heartbeat": heartbeat,
        "alter_partition": alter_partition,
        "reassign": reassign,
        "assign": assign,
    }

    # ---- timed work

    def fence_stale(self, epoch):
        if self.state is None or self.epoch != epoch:
            return
        fenced = []

        def decide(state, now_ms):
            decision = brokers.fence_stale(state, now_ms)
            if decision is not None:
                fenced.append(decision.answer)
            return decision

        self.run(decide, lambda answer: None)
        # Several may be due.
        self.node.after(
            0 if fenced else self.world.plan.session_ms / LOOKS_PER_SESSION, self.fence_stale, epoch
        )

    def balance(self, epoch):
        if self.state is not None and self.epoch == epoch:
            self.run(lambda state, now_ms: leader_elections.balance(state), lambda answer: None)
            self.node.after(self.world.plan.balance_ms, self.balance, epoch)

    def create_topics(self, epoch):
        """Creates the topics of the run once all brokers are there."""
        if self.state is None or self.epoch != epoch:
            return
        active = [each for each in self.state.image.brokers.values() if each.is_active]
        wanted = [each for each in self.world.topics if each.name not in self.state.image.topics]
        if len(active) == len(self.world.nodes):
            due = [each for each in wanted if self.world.is_due(each)]
            for topic in due:
                self.run(lambda state, now_ms, topic=topic: topics.create(state, topic), lambda answer: None)
        if len(active) == len(self.world.nodes):
            self.grow_topics()
        if wanted or self.world.ungrown(self.state.image):
            self.node.after(100, self.create_topics, epoch)

    def grow_topics(self):
        """Adds the partitions that come later, as CreatePartitions does."""
        for name, count in self.world.ungrown(self.state.image):
            if self.world.now >= self.world.GROWS_MS:
                self.run(
                    lambda state, now_ms, name=name, count=count: Decision(
                        create_partitions(state.image, name, count, None, state.random), None
                    ),
                    lambda answer: None,
                )


def _nothing(is_committed):
    pass
