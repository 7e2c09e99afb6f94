"""What must hold after every step, whatever happens; each class is one rule.

A rule judges by the logs and by the answers to clients, not by the state of the cores. Records count as
committed when a leader's high watermark has passed them (`CommittedLog`).
"""

from bowstring._native.record.decode import batch_headers
from bowstring.protocol.records.cluster_metadata.nodes import RegisterBrokerRecord
from tests.simulation.cluster.logs import ALL
from tests.simulation.quorum import invariants as of_quorum
from tests.simulation.quorum.invariants import Invariant

NOBODY = -1


class Losses(Invariant):
    """A recorder, not a rule: brokers that lost a batch in a power failure (`lost`), and those that had it

    when they stopped uncleanly (`unsafe`): the controller trusts neither.
    """

    # Includes a broker that dies before its logs are open: the mark of a clean stop is good for one start.
    COUNTS_CLOSED = True

    def __init__(self, world):
        super().__init__(world)
        self.lost: dict[tuple, set[int]] = {}
        self.unsafe: dict[tuple, set[int]] = {}
        self.stopped: dict[int, list[tuple]] = {}
        self.replaced = False

    def stops_uncleanly(self, node, key, stored):
        if stored.log is None and not self.COUNTS_CLOSED:
            return
        had = [(key, base, epoch) for base, epoch in stored.batches()]
        self.stopped.setdefault(node.id, []).extend(had)

    def decides(self, node, record):
        """The controller admits a broker that stopped uncleanly."""
        if isinstance(record, RegisterBrokerRecord):
            for batch in self.stopped.pop(record.broker_id, ()):
                self.unsafe.setdefault(batch, set()).add(record.broker_id)

    def loses(self, node, key, batches):
        for base, _, epoch in batches:
            self.lost.setdefault((key, base, epoch), set()).add(node.id)

    def excuse_any(self, key):
        """Whether some batch of a partition may be lost in a documented way."""
        return any(each[0] == key and self.is_enough(key, unsafe) for each, unsafe in self.unsafe.items())

    def excuse(self, key, batch):
        """Whether enough brokers have lost a batch for a documented loss."""
        return self.is_enough(key, self.unsafe.get((key, batch.base, batch.epoch), ()))

    def is_enough(self, key, brokers):
        plan = self.world.plan
        # Without eligible leaders, the last one in sync may return without its records (before KIP-966).
        least = self.world.min_in_sync(key[0]) if plan.eligible_leaders else 1
        if plan.commit_mode and not self.replaced:
            return False
        return len(brokers) >= least


def data_of(part):
    log = part.log
    return (
        log.read(log.log_start_offset, ALL, "log_end") if log.log_end_offset > log.log_start_offset else b""
    )


class OneLeaderOfAPartition(Invariant):
    """Two brokers never lead a partition in one epoch, and none leads it in an epoch again after a crash."""

    def __init__(self, world):
        super().__init__(world)
        self.leaders: dict[tuple, tuple[int, int]] = {}

    def leads(self, node, part):
        here = (node.id, node.life)
        there = self.leaders.setdefault((part.key, part.leader_epoch), here)
        if there != here:
            self.fail(f"{here} and {there} (node, life) lead {part} in epoch {part.leader_epoch}")


class OneWriterOfAnEpoch(Invariant):
    """Only one broker accepts records in an epoch."""

    def __init__(self, world):
        super().__init__(world)
        self.writers: dict[tuple, int] = {}

    def writes(self, node, part, before):
        log = part.log
        for each in batch_headers(log.read(before, ALL, "log_end")):
            if self.writers.setdefault((part.key, each.leader_epoch), node.id) != node.id:
                self.fail(f"node {node.id} writes to {part} in the epoch {each.leader_epoch} of another one")


class CommittedIsKept(Invariant):
    """Each new leader has all committed records, unless at least min.insync.replicas brokers lost them."""

    def leads(self, node, part):
        committed = self.world.log_of(part.key)
        missing = committed.first_missing(data_of(part))
        while missing is not None:
            if not self.world.rule(Losses).excuse(part.key, missing):
                self.fail(f"node {node.id} leads {part} in epoch {part.leader_epoch} without {missing[:3]}")
            self.world.say(node, "leads, and lost is", missing.base)
            committed.forget_from(missing.base)
            missing = committed.first_missing(data_of(part))

    def commits(self, node, part):
        committed, high = self.world.log_of(part.key), part.log.high_watermark
        if high <= committed.end:
            return
        data = part.log.read(committed.end, ALL, "high_watermark")
        if not data or batch_headers(data)[0].base_offset != committed.end:
            self.fail(f"node {node.id} commits up to {high} of {part} and lacks {committed.end}")
        for batch in committed.extend(data):
            self.world.tell("batch_committed", node, part, batch)


class CommittedIsNotCut(Invariant):
    """A replica in the ISR never truncates committed records."""

    def truncates(self, node, part, offset):
        committed = self.world.log_of(part.key)
        if offset >= min(committed.end, part.log.log_end_offset):
            return
        image = self.world.newest_image()
        partition = image.topics[part.key[0]].partitions[part.key[1]]
        data = data_of(part)
        own = {each.base_offset: each.leader_epoch for each in batch_headers(data)}
        for batch in committed.batches:
            cut = batch.base >= offset and own.get(batch.base) == batch.epoch
            if cut and node.id in partition.in_sync and not self.world.rule(Losses).excuse(part.key, batch):
                self.fail(f"node {node.id}, in sync, cuts {part} to {offset}: {batch[:3]} is committed")


class CommittedIsInAllInSyncReplicas(Invariant):
    """Committed records are in each log of the ISR, and in at least min.insync.replicas.

    In commit mode, they are on the media.
    """

    def batch_committed(self, node, part, batch):
        image = self.world.newest_image()
        partition = image.topics[part.key[0]].partitions[part.key[1]]
        if partition.leader_epoch != part.leader_epoch:
            return  # deposed already
        holders = [each for each in partition.replicas if self.holds(each, part.key, batch)]
        missing = [each for each in partition.in_sync if each not in holders]
        lost = self.world.rule(Losses).lost.get((part.key, batch.base, batch.epoch), set())
        if set(missing) - lost:
            self.fail(f"{part} commits {batch[:3]}, which {missing} of {partition.in_sync} lack")
        if len(set(holders) | lost) < self.world.min_in_sync(part.key[0]):
            self.fail(f"{part} commits {batch[:3]}, which only {holders} have")

    def holds(self, id, key, batch):
        """Whether a replica has a batch, also while it is down."""
        stored = self.world.nodes[id].logs.logs.get(key)
        if stored is None:
            return False
        if self.world.plan.commit_mode and stored.durable < batch.end:
            return False
        if stored.log is None:
            # Closed or killed: its files are unchanged; nothing is read from them here.
            return stored.end_when_down >= batch.end
        if stored.log.log_end_offset < batch.end:
            return False
        return stored.log.epoch_for_offset(batch.base) == batch.epoch


class InSyncIsAboveTheHighWatermark(Invariant):
    """A replica that joins the ISR has all committed records: its current log reaches the high watermark."""

    def __init__(self, world):
        super().__init__(world)
        self.known: dict[tuple, tuple] = {}

    def applies(self, node, offset, records):
        if node.applied <= self.known.get("applied", 0):
            return
        self.known["applied"] = node.applied
        for topic in node.image.topics.values():
            for number, partition in enumerate(topic.partitions):
                key = (topic.name, number)
                before = self.known.get(key)
                if before == partition:
                    continue
                self.known[key] = partition
                joined = set(partition.in_sync) - set(before.in_sync if before else partition.in_sync)
                for id in joined:
                    self.joins(key, partition, id)

    def joins(self, key, partition, id):
        committed = self.world.log_of(key)
        stored = self.world.nodes[id].logs.logs.get(key)
        if id == partition.leader or not committed.batches or stored is None or stored.log is None:
            return
        data = stored.log.read(0, ALL, "log_end") if stored.log.log_end_offset else b""
        missing = committed.first_missing(data)
        lost = self.world.rule(Losses)
        if missing is not None and id not in lost.lost.get((key, missing.base, missing.epoch), ()):
            self.fail(f"node {id} joins the ISR of {key} without {missing[:3]}, which is committed")
        if missing is not None and self.is_of_present_life(key, id):
            self.fail(
                f"node {id} joins the ISR of {key} without {missing[:3]}, which it lost before it registered"
            )

    def is_of_present_life(self, key, id):
        """Whether the newest image has the registration of the broker's current life."""
        node = self.world.nodes[id]
        broker = self.world.newest_image().brokers.get(id)
        return node.is_up and broker is not None and broker.epoch == node.broker.epoch


class ElectedWasInSync(Invariant):
    """An elected leader was in sync, or an eligible leader while none was, or the last leader (KIP-966).

    The last one leads only if no other replica may have all records.
    """

    def __init__(self, world):
        super().__init__(world)
        self.reached = 0
        self.known: dict[tuple, object] = {}

    def applies(self, node, offset, records):
        if node.applied <= self.reached:
            return
        self.reached = node.applied
        for topic in node.image.topics.values():
            for number, partition in enumerate(topic.partitions):
                before = self.known.get((topic.name, number))
                if before != partition:
                    self.known[topic.name, number] = partition
                    if before is not None:
                        self.look(topic.name, number, before, partition, records)

    def look(self, name, number, before, after, records):
        where = f"{name}-{number}"
        if not set(after.in_sync) <= set(after.replicas):
            self.fail(f"{where} has an ISR beyond its replicas: {after}")
        if after.leader_epoch < before.leader_epoch or after.partition_epoch <= before.partition_epoch:
            self.fail(f"the epochs of {where} go back: {before}, then {after}")
        if after.leader == before.leader or after.leader == NOBODY:
            return
        if after.leader_epoch == before.leader_epoch:
            self.fail(f"{where} has another leader in the same epoch: {before}, then {after}")
        if after.leader not in after.in_sync:
            self.fail(f"the leader of {where} is not in sync: {after}")
        # Several changes may be in one batch; the one before counts only if it was the only one.
        if after.partition_epoch != before.partition_epoch + 1:
            return
        # The last known leader was in the ISR; without ISR and eligible leaders, only it may lead.
        is_clean = after.leader in before.in_sync or after.leader in before.eligible_leaders
        back = {each.broker_id for each in records if isinstance(each, RegisterBrokerRecord)}
        nobody = not before.in_sync and set(before.eligible_leaders) <= back
        is_last = nobody and after.leader in before.last_known_leaders
        # The change that brings the last replica into the ISR may also end a reassignment and remove the old
        # leader.
        completes = (before.adding or before.removing) and after.leader in after.in_sync
        if not is_clean and not is_last and not completes:
            self.fail(f"{where} elects {after.leader}: {before}, then {after}")


class InSyncIsActive(Invariant):
    """A broker that is fenced or shutting down does not join an ISR (KIP-841)."""

    def __init__(self, world):
        super().__init__(world)
        self.reached = 0
        self.known: dict[tuple, object] = {}

    def applies(self, node, offset, records):
        if node.applied <= self.reached:
            return
        self.reached = node.applied
        for topic in node.image.topics.values():
            for number, partition in enumerate(topic.partitions):
                before = self.known.get((topic.name, number), partition)
                self.known[topic.name, number] = partition
                for id in set(partition.in_sync) - set(before.in_sync):
                    broker = node.image.brokers.get(id)
                    if id != partition.leader and (broker is None or not broker.is_active):
                        self.fail(f"broker {id} joins the ISR of {topic.name}-{number}, and is {broker}")


class HighWatermarkOfALaterLeaderIsHigher(Invariant):
    """A leader's high watermark, derived from its followers, is not below one of an earlier epoch.

    It never goes back in its epoch.
    """

    def __init__(self, world):
        super().__init__(world)
        self.highest: dict[tuple, dict[int, int]] = {}

    def commits(self, node, part):
        version = self.world.log_of(part.key).version
        highest = self.highest.setdefault((part.key, version), {})
        high, epoch = part.log.high_watermark, part.leader_epoch
        before = max((value for at, value in highest.items() if at <= epoch), default=0)
        if high < before:
            self.fail(f"node {node.id} finds {high} for {part} in epoch {epoch}; it was {before} before")
        highest[epoch] = max(high, highest.get(epoch, 0))


class AcknowledgedIsCommitted(Invariant):
    """An acks=all record is committed when its acknowledgement reaches the producer."""

    def acknowledges(self, node, part, waiting):
        committed = self.world.log_of(part.key)
        if committed.end < waiting.required:
            self.fail(
                f"node {node.id} acknowledges {waiting.required} of {part}; {committed.end} is committed"
            )
        at = next((each for each in committed.batches if each.base == waiting.base), None)
        if at is not None and at.epoch != waiting.epoch and at.producer < 0:
            self.fail(f"node {node.id} acknowledges {waiting[:3]} of {part}, where {at[:3]} is committed")


class ClaimsAreDurable(Invariant):
    """In commit mode, a follower's fetch offset is on its medium."""

    def fetches(self, node, part, fetch):
        if self.world.plan.commit_mode and part.stored.durable < fetch.offset:
            self.fail(f"node {node.id} fetches {part} from {fetch.offset}; {part.stored.durable} is durable")


class ReadersSeeOneOrder(Invariant):
    """Readers of a partition see prefixes of one order, at leaders and at followers."""

    def reads(self, reader, found):
        committed = self.world.log_of(reader.key)
        if committed.version != reader.version:
            reader.version = committed.version
            reader.position = 0
            found_at = batch_headers(found.data)[0].base_offset
            if found_at >= committed.end:
                return
        by_base = {each.base: each for each in committed.batches}
        for each in batch_headers(found.data):
            known = by_base.get(each.base_offset)
            data = found.data[each.position : each.position + each.size_bytes]
            if known is None or known.data != data:
                if self.world.rule(Losses).excuse_any(reader.key):
                    return
                self.fail(f"{reader} sees another batch at {each.base_offset} than the one that is committed")


class NoDuplicatesNoGaps(Invariant):
    """The batches of an idempotent producer are committed once, in order, without a gap."""

    def __init__(self, world):
        super().__init__(world)
        self.next: dict[tuple, dict] = {}

    def batch_committed(self, node, part, batch):
        if batch.producer < 0 or batch.sequence < 0:
            return
        log = self.world.log_of(part.key)
        expected = self.next.setdefault((part.key, log.version), {})
        count = batch.end - batch.base
        epoch = batch_headers(batch.data)[0].producer_epoch
        at = expected.get((batch.producer, epoch))
        first = self.first(log, batch, epoch) if at is None else at
        # A coordinator whose records are lost may assign an epoch again.
        is_excused = batch.data[22] & 0x10 and self.world.may_lose_some()
        if first is not None and batch.sequence != first and not is_excused:
            self.fail(f"{part} has sequence {batch.sequence} of producer {batch.producer}, not {first}")
        expected[batch.producer, epoch] = batch.sequence + count

    def first(self, log, batch, epoch):
        """The first batch of this epoch: it continues after the batches that were kept."""
        kept = [
            each
            for each in log.batches
            if each.base < batch.base
            and each.producer == batch.producer
            and batch_headers(each.data)[0].producer_epoch == epoch
        ]
        if kept:
            return kept[-1].sequence + kept[-1].end - kept[-1].base
        return 0 if log.version == 0 else None

    def out_of_order(self, producer, node):
        """A leader that is deposed without having noticed may answer this."""
        partition = self.world.newest_image().topics[producer.key[0]].partitions[producer.key[1]]
        part = node.broker.plane.parts.get(producer.key) if node.is_up else None
        is_current = part is not None and part.is_leader and part.leader_epoch == partition.leader_epoch
        if is_current and not self.world.may_be_lost(producer.key):
            self.fail(f"{producer} is told by node {node.id} that {producer.sequence} is out of order")


class OneAcknowledgedIsLostOnlyWithItsLeader(Invariant):
    """An acks=1 record may be lost, but only if another broker, or another life, leads after its leader."""

    def __init__(self, world):
        super().__init__(world)
        self.acknowledged: list[tuple] = []
        self.newest: dict[tuple, int] = {}

    def leads(self, node, part):
        self.newest[part.key] = max(part.leader_epoch, self.newest.get(part.key, 0))

    def acknowledges_one(self, node, part, waiting):
        self.acknowledged.append((part.key, waiting))

    def passes(self):
        image = self.world.newest_image()
        for key, waiting in self.acknowledged:
            if image.topics[key[0]].partitions[key[1]].leader < 0:
                continue  # its last leader lost its disk, and no other has taken over
            at = {each.base: each for each in self.world.log_of(key).batches}.get(waiting.base)
            if (at is None or at.epoch != waiting.epoch) and self.newest[key] == waiting.epoch:
                self.fail(f"{waiting[:3]} of {key} is lost, and its leader still leads")


class GroupOffsetsNeverGoBack(Invariant):
    """A group's offset is not below one whose commit was answered before the request for it.

    But a commit that its member gave up may arrive late, at a paused broker, and then take effect: as
    in Kafka, nothing in it shows that a later one was answered.
    """

    def __init__(self, world):
        super().__init__(world)
        self.known = -1
        self.at_least = -1
        self.version = 0

    def offset_committed(self, member):
        self.known = max(self.known, member.offset)

    def offset_asked(self, member):
        self.at_least = self.known
        self.version = self.world.log_of(member.key).version

    def offset_found(self, member, offset):
        log = self.world.log_of(member.key)
        if log.version != self.version:
            self.known = offset
        elif (
            offset < self.at_least
            and offset not in member.given_up
            and not self.world.rule(Losses).excuse_any(member.key)
        ):
            self.fail(f"{member} is told {offset}, and had committed {self.at_least}")
        elif offset > member.offset:
            self.fail(f"{member} is told {offset}, and asked for at most {member.offset}")
        # An offset in one answer must also be in later ones.
        self.known = max(self.known, offset)


class WhoIsNotHeardIsFenced(Invariant):
    """A broker that is down for long is fenced, while the same controller is active."""

    def __init__(self, world):
        super().__init__(world)
        self.down_since: dict[int, float] = {}
        self.controller: tuple | None = None
        self.active_since = 0.0
        self.looks_at = 0.0

    def applies(self, node, offset, records):
        self.look()

    def fetches(self, node, part, fetch):
        # Fetches are too frequent for a check of sessions at each.
        if self.world.now >= self.looks_at:
            self.looks_at = self.world.now + 20
            self.look()

    def look(self):
        world = self.world
        active = [node for node in world.nodes if node.is_up and node.controller.state is not None]
        here = (active[0].id, active[0].life, active[0].controller.epoch) if len(active) == 1 else None
        if here != self.controller:
            self.controller, self.active_since = here, world.now
        for node in world.nodes:
            if node.is_up:
                self.down_since.pop(node.id, None)
                continue
            since = max(self.down_since.setdefault(node.id, world.now), self.active_since)
            if here is None or world.now - since < 2 * world.plan.session_ms:
                continue
            leader = active[0]
            broker = leader.controller.state.image.brokers.get(node.id)
            if leader.paused_until <= world.now - 1000 and broker is not None and not broker.fenced:
                self.fail(f"node {node.id} is down since {since}, and not fenced at {world.now}")


INVARIANTS = (
    Losses,
    of_quorum.OneLeaderPerEpoch,
    of_quorum.CommittedIsNeverLost,
    OneLeaderOfAPartition,
    OneWriterOfAnEpoch,
    CommittedIsKept,
    CommittedIsNotCut,
    CommittedIsInAllInSyncReplicas,
    InSyncIsAboveTheHighWatermark,
    ElectedWasInSync,
    InSyncIsActive,
    HighWatermarkOfALaterLeaderIsHigher,
    AcknowledgedIsCommitted,
    ClaimsAreDurable,
    ReadersSeeOneOrder,
    NoDuplicatesNoGaps,
    OneAcknowledgedIsLostOnlyWithItsLeader,
    GroupOffsetsNeverGoBack,
    WhoIsNotHeardIsFenced,
)
