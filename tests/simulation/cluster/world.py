"""A run of a whole cluster, all of a seed. The same plan leads to the same run, step by step."""

from contextlib import nullcontext
from random import Random

from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.metadata.image import GROUP_RESOURCE, ClusterImage
from bowstring.engine.metadata.topic_changes import NewTopic
from bowstring.engine.raft.leader import LeaderState
from bowstring.engine.share.persister.interface import SharePartitionKey
from bowstring.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from bowstring.protocol.records.cluster_metadata.settings import ConfigRecord, FeatureLevelRecord
from tests.simulation.cluster.clients import GroupMember, Producer, Reader
from tests.simulation.cluster.committed import CommittedLog
from tests.simulation.cluster.coordinator import TOPIC as OFFSETS_TOPIC
from tests.simulation.cluster.group_clients import Consumer
from tests.simulation.cluster.group_rules import GROUP_RULES
from tests.simulation.cluster.invariants import INVARIANTS, Losses
from tests.simulation.cluster.logs import Medium
from tests.simulation.cluster.node import ClusterNode
from tests.simulation.cluster.plan import CALM_MS
from tests.simulation.cluster.readers import CommittedReader
from tests.simulation.cluster.services import SHARE_STATE, TRANSACTIONS, simulated_clocks
from tests.simulation.cluster.share_clients import SHARERS, ShareConsumer
from tests.simulation.cluster.share_rules import SHARE_RULES, ShareLedger
from tests.simulation.cluster.transaction_rules import TRANSACTION_RULES, Ledger
from tests.simulation.cluster.transactional_clients import OLD, Copier, Transaction, Writer
from tests.simulation.quorum.invariants import Violation
from tests.simulation.quorum.shrink import run_to_end
from tests.simulation.quorum.world import HOOKS, World

TOPIC = "records"
COPIES = "copies"
# What a group consumes; nothing is written to these, and each partition has one replica.
WORK = "work"
LATE_WORK = "late"
TRANSACTION_CONFIGS = {
    "request.timeout.ms": "1000",
    "offsets.commit.timeout.ms": "1500",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}
LATE_MS = 3500
WATCH_MS = 200
LOOK_MS = 50
OWN_HOOKS = (
    *("leads", "commits", "acknowledges", "acknowledges_one", "writes", "fetches", "hears_high_watermark"),
    *(
        "batch_committed",
        "truncates",
        "stops_uncleanly",
        "decides",
        "loses",
        "applies",
        "reads",
        "offset_asked",
        "offset_committed",
        "offset_found",
    ),
    *("out_of_order", "passes", "transaction_ended", "reads_committed"),
    *("member_beats", "member_answered", "member_given", "member_refused"),
    *("member_asks", "member_found", "member_committed"),
    *("share_asked", "share_answered", "share_acquired", "share_connection_ended"),
    *("share_member_answered", "share_refused"),
)


class ClusterWorld(World):
    """Runs a plan.

    Attributes:
        committed_logs: By partition, what leaders' high watermarks have passed.
        topics: What the controller creates.
    """

    INVARIANTS = (*INVARIANTS, *TRANSACTION_RULES, *GROUP_RULES, *SHARE_RULES)
    HOOKS = (*HOOKS, *OWN_HOOKS)
    NODE = ClusterNode
    # When topics get more partitions.
    GROWS_MS = 3000

    def __init__(self, plan):
        self.medium = Medium()
        self.committed_logs: dict[tuple[str, int], CommittedLog] = {}
        self.is_calm = False
        self.newest = (0, ClusterImage())
        self.violation: Violation | None = None
        self.producer_ids = 5000
        self.transactional_values = 0
        self.connections = 0
        super().__init__(plan)
        self.pace = Random(f"{plan.seed} control threads")
        self.configs = BrokerConfigs(
            {
                "broker.session.timeout.ms": str(plan.session_ms),
                "min.insync.replicas": str(plan.min_in_sync),
                "default.replication.factor": str(plan.replicas),
                **(TRANSACTION_CONFIGS if plan.shells else {}),
                **(self.group_configs(plan) if plan.groups else {}),
                **(self.share_configs(plan) if plan.shares else {}),
            }
        )
        names = [(TOPIC, plan.partitions), (OFFSETS_TOPIC, 1)]
        if plan.transactions:
            names += [(TRANSACTIONS, 1), (COPIES, 1)]
        self.topics = [NewTopic(name, count, plan.replicas) for name, count in names]
        if plan.groups:
            self.topics += [NewTopic(WORK, 2, 1), NewTopic(LATE_WORK, 2, 1)]
        if plan.shares:
            self.topics.append(NewTopic(SHARE_STATE, 1, plan.replicas))
        # By topic, how many partitions it has in the end.
        self.grown: dict[str, int] = {}
        keys = [(TOPIC, number) for number in range(plan.partitions)]
        self.clients = [Producer(self, id, keys[id % len(keys)]) for id in range(plan.producers)]
        self.clients += [Reader(self, 100 + id, key) for id, key in enumerate(keys)]
        self.clients.append(GroupMember(self, 200))
        self.transactions: list[Transaction] = []
        self.copiers: list[Copier] = []
        if plan.transactions:
            self.add_transactional_clients(keys)
        self.consumers: list[Consumer] = []
        if plan.groups:
            self.grown[WORK] = 3
            self.consumers = [Consumer(self, 400 + number, (WORK, LATE_WORK)) for number in range(3)]
            self.clients += self.consumers
        self.sharers: list[ShareConsumer] = []
        if plan.shares:
            self.grown[TOPIC] = plan.partitions + 1
            self.sharers = [ShareConsumer(self, 500 + number, TOPIC) for number in range(3)]
            self.clients += [Producer(self, 6, (TOPIC, plan.partitions)), *self.sharers]
        self.slowed: dict[int, float] = {}

    def add_transactional_clients(self, keys):
        self.copiers = [Copier(self, 320, keys[0], (COPIES, 0))]
        self.clients += [Writer(self, 300 + number, keys, leaves=number == 0) for number in range(2)]
        self.clients += [
            *self.copiers,
            CommittedReader(self, 330, keys[0]),
            CommittedReader(self, 331, (COPIES, 0)),
        ]

    @staticmethod
    def group_configs(plan):
        session_ms, interval_ms = str(plan.group_session_ms), str(plan.assignment_interval_ms)
        return {
            "group.consumer.session.timeout.ms": session_ms,
            "group.consumer.min.session.timeout.ms": session_ms,
            "group.consumer.heartbeat.interval.ms": "200",
            "group.consumer.min.heartbeat.interval.ms": "200",
            "group.consumer.assignment.interval.ms": interval_ms,
        }

    @staticmethod
    def share_configs(plan):
        return {
            "group.share.session.timeout.ms": str(plan.group_session_ms),
            "group.share.heartbeat.interval.ms": "200",
            "group.share.assignment.interval.ms": str(plan.assignment_interval_ms),
            "group.share.record.lock.duration.ms": str(plan.lock_ms),
            "group.share.delivery.count.limit": str(plan.delivery_limit),
            "group.share.initialize.retry.interval.ms": "2000",
            "share.coordinator.snapshot.update.records.per.snapshot": str(plan.updates_per_snapshot),
            "share.coordinator.write.timeout.ms": "1500",
            "share.coordinator.cold.partition.snapshot.interval.ms": "2000",
        }

    def close(self):
        """Removes the logs, too."""
        for node in self.nodes:
            for _, stored in node.logs.opened():
                stored.log = None
        self.medium.close()
        self.clients = []
        super().close()

    # ---- facts

    def bootstrap_records(self):
        level = 1 if self.plan.eligible_leaders else 0
        return [
            FeatureLevelRecord(name="metadata.version", feature_level=33),
            *([FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1)] * level),
            *(
                [FeatureLevelRecord(name="transaction.version", feature_level=self.plan.transaction_version)]
                * self.plan.transactions
            ),
            *([FeatureLevelRecord(name="group.version", feature_level=1)] * self.plan.groups),
            *(self.share_records() if self.plan.shares else ()),
        ]

    @staticmethod
    def share_records():
        """Share groups are on, and this one begins where logs do."""
        return [
            FeatureLevelRecord(name="share.version", feature_level=1),
            ConfigRecord(
                resource_type=GROUP_RESOURCE,
                resource_name=SHARERS,
                name="share.auto.offset.reset",
                value="earliest",
            ),
        ]

    def ungrown(self, image):
        """Topics that are to have more partitions: name and count."""
        return [
            (name, count)
            for name, count in self.grown.items()
            if name in image.topics and len(image.topics[name].partitions) < count
        ]

    def count_of(self, topic):
        """How many partitions a topic has in the end."""
        return self.grown.get(topic.name, topic.partitions)

    def is_due(self, topic):
        """Whether it is time to create a topic."""
        return topic.name != LATE_WORK or self.now >= LATE_MS

    @property
    def members(self):
        """All members of the group, of the present and of the past."""
        return [each for consumer in self.consumers for each in consumer.instances]

    def member(self, id):
        return next(each for each in self.members if each.id == id)

    def unsettled(self):
        """Says which partitions of the group have no owner; None when each has one."""
        owned = sorted(key for each in self.members for key in each.owned)
        topics = [each for each in self.topics if each.name in (WORK, LATE_WORK)]
        wanted = sorted((each.name, at) for each in topics for at in range(self.count_of(each)))
        return None if owned == wanted else f"{owned} have owners"

    def is_written_to(self):
        """Whether writes may still come once all rest: from a client, or from a transaction's end."""
        writers = [each for each in self.clients if each not in self.sharers]
        return not all(each.is_idle() for each in writers) or bool(self.rule(Ledger).still_open())

    def undelivered(self):
        """Says which records the share group has not done with; None when there are none."""
        for topic in self.topics:
            if topic.name != TOPIC:
                continue
            topic_id = self.newest_image().topics[TOPIC].id
            for number in range(self.count_of(topic)):
                kept = self.rule(ShareLedger).kept[SharePartitionKey(SHARERS, topic_id, number)]
                end = self.log_of((TOPIC, number)).end
                left = [offset for offset in range(max(0, kept.start), end) if not kept.is_done(offset)]
                if left:
                    return f"the share group has not done with {TOPIC}-{number}: {left}"
        return None

    def min_in_sync(self, topic, partition=0):
        """What acks=all needs; the same for all partitions."""
        return min(self.plan.min_in_sync, self.plan.replicas)

    def control_ms(self):
        """How long the control thread, or a storage thread, takes to get to something."""
        return 0.1 if self.is_calm else self.pace.choice((0.1, 0.5, 3.0, 15.0))

    def log_of(self, key):
        return self.committed_logs.setdefault(key, CommittedLog())

    def may_be_lost(self, key):
        """Whether committed records of a partition may be lost in the documented way."""
        return self.log_of(key).version > 0 or self.rule(Losses).excuse_any(key)

    def may_lose_some(self):
        """Whether committed records of any partition may be lost in the documented way."""
        keys = [(topic.name, number) for topic in self.topics for number in range(self.count_of(topic))]
        return any(self.may_be_lost(key) for key in keys)

    def begin_transaction(self, user):
        """A client begins a transaction."""
        name = b"%s.%d" % (user.transactional_id.encode(), len(self.transactions))
        self.transactions.append(Transaction(name, user))
        return self.transactions[-1]

    def is_old(self, names):
        """Whether all these transactions are of clients before KIP-890."""
        of = {each.name: each.user.version for each in self.transactions}
        return all(of[name] == OLD for name in names)

    def new_producer_id(self):
        self.producer_ids += 1
        return self.producer_ids

    def new_connection(self):
        self.connections += 1
        return self.connections

    def new_value(self):
        self.transactional_values += 1
        return self.transactional_values

    def violated(self, violation):
        """Notes a violation where an exception might be caught; the step ends with it."""
        self.violation = self.violation or violation

    def raise_violation(self):
        if self.violation is not None:
            raise self.violation

    def newest_image(self):
        """The image after all records that any node has applied, also one that is down by now."""
        return self.newest[1]

    def applied_by(self, node):
        if node.applied > self.newest[0]:
            self.newest = (node.applied, node.image)

    def tell(self, hook, *args):
        for call in self._calls[hook]:
            try:
                call(*args)
            except Violation as violation:
                self.violated(violation)  # a handler of the product may catch it
                raise

    def pace_of(self, client):
        return Random(f"{self.plan.seed} client {client}")

    def client_delay_ms(self, random):
        """How long a message of a client, or to one, takes; None: it is lost."""
        if self.is_calm:
            return 1.0
        if random.random() < self.plan.drop:
            return None
        return random.uniform(*self.plan.delay_ms)

    # ---- messages

    def send(self, source, destination, what, args):
        """Sends something to whatever life a node has when it arrives."""
        self.send_to_life(source, destination, None, what, args)

    def send_to_life(self, source, destination, life, what, args):
        """Sends an answer, on a connection of a life."""
        delay = 0.0
        if self.slowed:
            delay = self.slowed.get(source.id, 0.0) + self.slowed.get(destination, 0.0)
        self.network.carry(
            source.id, destination, self.arrives, (source.id, destination, life, what, args, delay)
        )

    def arrives(self, source, destination, life, what, args, delay=0.0):
        if delay:
            self.after(delay, self.arrives, (source, destination, life, what, args))
        elif (source, destination) not in self.network.cut:
            self.nodes[destination].receive(life, what, args)

    # ---- trouble

    def act_append(self, node, numbers):
        raise AssertionError("producers append")

    def act_kill(self, node, numbers):
        node.kill()
        self.after(self.plan.restart_ms, self.start_node, (node, node.life))

    def act_power_off(self, node, numbers):
        node.power_off(numbers)
        self.after(self.plan.restart_ms, self.start_node, (node, node.life))

    def act_power_off_all(self, node, numbers):
        for each in self.nodes:
            self.act_power_off(each, numbers)

    def act_stop(self, node, numbers):
        if node.is_up and node.broker.is_serving:
            node.broker.wants_stop = True

    def act_replace_disk(self, node, numbers):
        """As `stop`, and the logs are gone before the node starts again."""
        if node.is_up and node.broker.is_serving:
            node.broker.wants_stop = node.broker.loses_disk = True

    def act_slow_one(self, node, numbers):
        self.slowed = {node.id: float(numbers[0] % 600)}

    def act_heal(self, node, numbers):
        self.network.cut.clear()
        self.slowed = {}

    def act_flush(self, node, numbers):
        """The system writes the page cache."""
        for _, log in node.logs.opened():
            log.flush()

    def act_reassign(self, node, numbers):
        image = self.newest_image()
        ids = [each.id for each in self.nodes]
        Random(numbers[0]).shuffle(ids)
        if TOPIC not in image.topics:
            return
        request = AlterPartitionReassignmentsRequest(
            topics=[
                ReassignableTopic(
                    name=TOPIC,
                    partitions=[
                        ReassignablePartition(
                            partition_index=numbers[1] % self.plan.partitions,
                            replicas=ids[: self.plan.replicas],
                        )
                    ],
                )
            ]
        )
        for each in self.nodes:
            if each.is_up and isinstance(each.state, LeaderState):
                each.controller.handle("reassign", request, lambda answer: None)

    # ---- the run

    def run(self):
        for client in self.clients:
            self.after(client.begins_ms, client.start)
        self.watch_clients()
        super().run()

    def watch_clients(self):
        for client in self.clients:
            client.watch()
        self.after(WATCH_MS, self.watch_clients)

    def start_node(self, node, life):
        if not node.is_up and node.life == life:
            node.start()

    def calm_down(self):
        """Ends all trouble: every node runs, and every message arrives soon."""
        self.say(None, "action", "calm")
        self.is_calm = self.network.calm = True
        self.network.cut.clear()
        self.slowed = {}
        for node in self.nodes:
            node.paused_until = 0.0
            self.start_node(node, node.life)
        for client in self.clients:
            client.calm()

    def recover(self):
        """Waits until all replicas are in sync and equal, and each client has done something new.

        Raises:
            Violation: It does not come to that.
        """
        begin = self.now
        sick = "nothing was looked at"
        while self.now < begin + CALM_MS:
            self.run_until(self.now + LOOK_MS)
            sick = self.sickness()
            if sick is None:
                self.tell("passes")
                return
        raise Violation("BecomesHealthy", f"{CALM_MS} ms after all trouble: {sick}")

    def sickness(self):
        """What keeps the cluster from being healthy; None when nothing does."""
        image = self.newest_image()
        lost = set()  # their clients wait for ever
        for topic in self.topics:
            if topic.name not in image.topics:
                return f"{topic.name} is not created"
            if len(image.topics[topic.name].partitions) < self.count_of(topic):
                return f"{topic.name} has not got its partitions"
            for number, partition in enumerate(image.topics[topic.name].partitions):
                key = (topic.name, number)
                if self.waits_for_an_operator(partition):
                    lost.add(key)
                    continue
                sick = self.sickness_of(key, partition)
                if sick is not None:
                    return sick
        # A coordinator that has lost its records may leave a transaction open.
        is_whole = not lost and not self.may_lose_some()
        asked = [each for each in self.clients if each.key not in lost and (is_whole or not each.needs_all)]
        waiting = [str(each) for each in asked if not each.is_content()]
        if waiting:
            return f"{waiting[0]} gets nothing done"
        for client in self.clients:
            client.rest()
        busy = [str(each) for each in asked if not each.is_idle()]
        if busy:
            return f"{busy[0]} does not come to its end"
        return self.unequal(image, lost) or (self.unended() if is_whole else None)

    def unended(self):
        """Says which transaction has no end."""
        left = self.rule(Ledger).still_open()
        if left:
            return f"transactions are open for ever: {left}"
        return self.undelivered() if self.plan.shares else None

    def waits_for_an_operator(self, partition):
        """Whether nobody may lead without losing records that others may have: the disk of the last leader was
        replaced.
        """
        nobody = not (partition.in_sync or partition.eligible_leaders or partition.last_known_leaders)
        return partition.leader < 0 and nobody and self.rule(Losses).replaced

    def sickness_of(self, key, partition):
        if partition.leader < 0:
            return f"{key} has no leader: {partition}"
        if sorted(partition.in_sync) != sorted(partition.replicas) or partition.adding or partition.removing:
            return f"{key} has replicas that are not in sync: {partition}"
        return None

    def unequal(self, image, lost):
        for topic in self.topics:
            for number, partition in enumerate(image.topics[topic.name].partitions):
                key = (topic.name, number)
                if key in lost:
                    continue
                logs = [(id, self.nodes[id].logs.logs.get(key)) for id in partition.replicas]
                if any(log is None or log.log is None for _, log in logs):
                    return f"{key} is not open everywhere"
                known = {(log.log.log_end_offset, log.log.high_watermark) for _, log in logs}
                if len(known) != 1 or known.pop()[0] != self.log_of(key).end:
                    return f"{key} differs: {[(id, log.log.log_end_offset) for id, log in logs]}"
        return None


def outcome(plan):
    """Runs a plan; returns the world and the violation, None when all is well."""
    with simulated_clocks() if plan.shells else nullcontext():
        return run_to_end(ClusterWorld(plan))
