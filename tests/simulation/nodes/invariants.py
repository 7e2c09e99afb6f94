"""What must hold in a run; each class is one rule. Its methods are hooks, called through `tell`."""

from bowstring._native.log.partition_log import LogError
from bowstring._native.record.decode import batch_headers
from bowstring.engine.metadata.image import MetadataError
from bowstring.engine.metadata.snapshot import image_records
from bowstring.protocol.records.cluster_metadata.markers import AbortTransactionRecord
from bowstring.protocol.records.cluster_metadata.nodes import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
)
from bowstring.protocol.records.cluster_metadata.topics import PartitionChangeRecord
from tests.simulation.nodes.kernel import MS
from tests.simulation.quorum.invariants import Violation

ALL = 1 << 30
RECOVERING = 1
# In a batch: the end of its length field, and the start of the bytes after base offset and leader epoch.
BEFORE_LENGTH, AFTER_EPOCH = 12, 16


class Rule:
    """A rule."""

    def __init__(self, world):
        self.world = world

    def fail(self, text):
        raise Violation(type(self).__name__, text)

    def why_not_healthy(self):
        """Returns what is not yet in order after the trouble; None if all is."""
        return None

    def at_end(self):
        """Checks the end of a run."""

    def brokers(self):
        """The nodes that serve, with their brokers."""
        for node in self.world.nodes.values():
            if node.broker is not None and not node.is_starting:
                yield node, node.broker

    def image(self):
        """The image of the active controller's node."""
        return next((broker.quorum.image for _, broker in self.brokers() if broker.quorum.is_leader), None)


class MetadataApplies(Rule):
    """Every committed metadata record applies on every node.

    No replica of the quorum ends by itself, except if the disk of its log fails.
    """

    def quorum_failed(self, node, error):
        if isinstance(error, (OSError, LogError)) and self.world.disks.has_met(node):
            return
        self.fail(f"{node.name}: {error!r}")


class AppendedRecordsApply(Rule):
    """A record that does not apply never reaches the log.

    A controller's state equals the replay of its log after each decision.
    """

    def __init__(self, world):
        super().__init__(world)
        # By node, its life and epoch of leadership: the replayed log.
        self.replays: dict[tuple[int, int, int], object] = {}

    def appends(self, node, quorum, records):
        """The controller of a node is about to append."""
        key = (node.id, node.life, quorum.epoch)
        replay = self.replays.get(key)
        if replay is None:
            replay = self.replays[key] = quorum.image.copy()
            if quorum.image.in_transaction:
                replay.apply(AbortTransactionRecord())
        for record in records:
            try:
                replay.apply(record)
            except (MetadataError, KeyError, IndexError) as error:
                self.fail(f"{node.name}: {error!r}")
        node.loop.call_soon(self._compare, node, key)

    def _compare(self, node, key):
        """The decision is over: nothing else runs between its append and this."""
        quorum = node.broker.quorum
        controller = node.broker.server.controller
        replay = self.replays[key]
        if not controller.is_active or key[2] != quorum.epoch or replay.in_transaction:
            return
        if quorum.is_leader and (differ := difference(controller.image, replay)) is not None:
            self.fail(f"{node.name}: the controller's state and its log differ: {differ}")


class KnowsTheSame(Rule):
    """After the trouble, each broker is unfenced, and all have the same image of the cluster."""

    def why_not_healthy(self):
        quorums = {node.name: broker.quorum for node, broker in self.brokers()}
        for node, broker in self.brokers():
            if broker.lifecycle.is_fenced:
                return f"{node.name} is fenced"
        active = [each for each in quorums.values() if each.is_leader]
        if len(active) != 1:
            return f"{len(active)} controllers are active"
        for name, quorum in quorums.items():
            if quorum.end_offset != active[0].end_offset:
                return f"{name} has applied {quorum.end_offset} of {active[0].end_offset}"
        return None

    def at_end(self):
        image = self.image()
        for node, broker in self.brokers():
            if (differ := difference(broker.quorum.image, image)) is not None:
                self.fail(f"{node.name}: {differ}")


class FollowsTheRules(Rule):
    """After the trouble, each broker's authorizer decides by the rules of its image, and reactors do."""

    def at_end(self):
        for node, broker in self.brokers():
            rules, acls = broker.authorizer.rules, broker.quorum.image.acls
            found = len(rules), len(rules.table), len(broker.plane.access)
            if found != (len(acls),) * 3:
                self.fail(f"{node.name} has {len(acls)} rules, and follows {found}")
            for acl in acls.entries.values():
                self._try(node, rules, acls, acl)

    def _try(self, node, rules, acls, acl):
        """Whoever a rule denies an operation is denied it, from where it says."""
        if acl.permission != 2 or acl.operation == 2 or acl.host == "10.0.0.0/8":
            return
        host = "10.0.0.1" if acl.host == "*" else acl.host
        principal = "User:c" if acl.principal == "User:*" else acl.principal
        if rules.decides(principal, host, acl.operation, acl.resource_type, acl.resource_name):
            self.fail(f"{node.name} allows what {acl} denies")


class ReplicasAreInSync(Rule):
    """After the trouble, each partition has a leader, and all its replicas are in sync with equal logs."""

    def why_not_healthy(self):
        image = self.image()
        if image is None:
            return "no controller is active"
        for topic in image.topics.values():
            for index, partition in enumerate(topic.partitions):
                name = f"{topic.name}-{index}"
                if partition.leader < 0 or sorted(partition.in_sync) != sorted(partition.replicas):
                    return f"{name} has leader {partition.leader}, in sync are {partition.in_sync} of {partition.replicas}"
                ends = set()
                for id in partition.replicas:
                    log = self.world.nodes[id].broker.logs.get(topic.name, index)
                    if log is None:
                        return f"node{id} has no log of {name}"
                    ends |= {log.log_end_offset, log.high_watermark}
                if len(ends) != 1:
                    return f"{name} ends at {sorted(ends)}"
                leader = self.world.nodes[partition.leader].broker
                if not leader.replication.leads(topic.id, index):
                    return f"node{partition.leader} does not lead {name}"
        return None

    def at_end(self):
        for topic in self.image().topics.values():
            for index, partition in enumerate(topic.partitions):
                logs = [self.world.nodes[id].broker.logs.get(topic.name, index) for id in partition.replicas]
                start = max(log.log_start_offset for log in logs)
                if logs[0].log_end_offset > start and (
                    len({log.read(start, ALL, "log_end") for log in logs}) > 1
                ):
                    self.fail(f"{topic.name}-{index}: the logs of {partition.replicas} differ")


class TransactionsEnd(Rule):
    """After the trouble, no transaction stays open."""

    def why_not_healthy(self):
        for node, broker in self.brokers():
            for topic, index, log in broker.logs:
                if log.last_stable_offset < log.high_watermark:
                    return (
                        f"{node.name}: a transaction is open in {topic}-{index} at {log.last_stable_offset}"
                    )
        return None


class CoordinatorsAreLoaded(Rule):
    """Every coordinator shard of a live leader finishes loading."""

    def why_not_healthy(self):
        image = self.image()
        for node, broker in self.brokers():
            for name in broker.coordination.coordinators.topics:
                runtime = broker.coordination.coordinators.get(name)
                topic = image.topics.get(name) if image is not None else None
                if topic is None:
                    continue
                led = {index for index, each in enumerate(topic.partitions) if each.leader == node.id}
                ready = set() if runtime is None else {each.partition for each in runtime.ready()}
                if led - ready:
                    return f"{node.name} does not coordinate {name} {sorted(led - ready)}"
        return None


class NothingIsFencedInPeace(Rule):
    """No broker is fenced while its node runs and the network works."""

    def applied(self, node, records):
        world = self.world
        quiet_ns = (2 * world.plan.session_ms + 1500) * MS
        for record in records:
            fences = isinstance(record, FenceBrokerRecord) or (
                isinstance(record, BrokerRegistrationChangeRecord)
                and record.fenced == 1
                and not record.in_controlled_shutdown
            )
            if fences and world.begun_at is not None and world.kernel.now - world.troubled_at > quiet_ns:
                self.fail(f"{node.name} applies {record}")


class ServesWhenUnfenced(Rule):
    """A broker accepts connections once its own image has it unfenced: before, clients would not find it."""

    def accepts(self, node):
        own = node.broker.quorum.image.brokers.get(node.id)
        if own is None or own.fenced or own.epoch != node.broker.lifecycle.epoch:
            self.fail(f"{node.name} takes connections, and its image has {own}")


class AcknowledgedIsKept(Rule):
    """Records answered with acks=all are there after the trouble, at their offsets.

    An administrator's unclean election is an exception.
    """

    def __init__(self, world):
        super().__init__(world)
        self.acknowledgements: dict[tuple[bytes, int], list[tuple[int, bytes]]] = {}
        self.unclean: set[tuple[bytes, int]] = set()

    def acknowledged(self, node, topic_id, index, offset, batch):
        self.acknowledgements.setdefault((topic_id, index), []).append((offset, batch))

    def applied(self, node, records):
        for record in records:
            if isinstance(record, PartitionChangeRecord) and record.leader_recovery_state == RECOVERING:
                self.unclean.add((record.topic_id, record.partition_id))

    def at_end(self):
        for key, name, log in led_logs(self):
            if key not in self.unclean:
                found = {batch_headers(each)[0].base_offset: which(each) for each in batches(log)}
                for offset, batch in self.acknowledgements.get(key, ()):
                    if offset >= log.log_start_offset and found.get(offset) != which(batch):
                        self.fail(f"{name}: what was acknowledged at {offset} is not there")


class NothingIsTwice(Rule):
    """After the trouble, no batch of an idempotent producer is in a partition twice."""

    def at_end(self):
        for _, name, log in led_logs(self):
            seen: dict[object, int] = {}
            for each in batches(log):
                one, offset = which(each), batch_headers(each)[0].base_offset
                if isinstance(one, tuple) and one in seen:
                    self.fail(f"{name}: {one} is at {seen[one]} and at {offset}")
                seen[one] = offset


def led_logs(rule):
    """Yields topic id and index, the name, and the leader's log of each partition."""
    for topic in rule.image().topics.values():
        for index, partition in enumerate(topic.partitions):
            log = rule.world.nodes[partition.leader].broker.logs.get(topic.name, index)
            yield (topic.id, index), f"{topic.name}-{index}", log


def which(batch):
    """A batch's name by its producer: id, epoch and sequence number; without them, its records."""
    header = batch_headers(batch)[0]
    if header.producer_id < 0 or header.base_sequence < 0:
        return batch[AFTER_EPOCH:]
    return (header.producer_id, header.producer_epoch, header.base_sequence)


def batches(log):
    """Yields the batches of a log as bytes."""
    data = (
        log.read(log.log_start_offset, ALL, "log_end") if log.log_end_offset > log.log_start_offset else b""
    )
    at = 0
    while at < len(data):
        end = at + BEFORE_LENGTH + int.from_bytes(data[at + 8 : at + BEFORE_LENGTH], "big")
        yield bytes(data[at:end])
        at = end


def difference(one, other):
    """Returns the difference of two images of the cluster; None if there is none."""
    if list(image_records(one)) == list(image_records(other)):
        return None
    ours, theirs = ([repr(each) for each in image_records(image)] for image in (one, other))
    only = (
        [each for each in ours if each not in theirs][:3],
        [each for each in theirs if each not in ours][:3],
    )
    return f"only one has {only[0]}, only the other has {only[1]}" if any(only) else None


RULES = [
    MetadataApplies,
    AppendedRecordsApply,
    KnowsTheSame,
    FollowsTheRules,
    ReplicasAreInSync,
    TransactionsEnd,
    CoordinatorsAreLoaded,
    NothingIsFencedInPeace,
    ServesWhenUnfenced,
    AcknowledgedIsKept,
    NothingIsTwice,
]
