"""What must hold of consumer groups after every step; each class is one rule.

`GroupLedger` replays the records committed to `__consumer_offsets`, without the product's state; the other
rules compare it with the answers to members.
"""

from collections import defaultdict

from bowstring._native.protocol.message_codec import decode
from bowstring._native.record.decode import batch_headers, decode_batches
from bowstring.engine.groups.consumer import records
from bowstring.engine.groups.modern.group import LEAVE_STATIC_EPOCH
from bowstring.protocol.errors import Errors
from bowstring.protocol.records import consumer_group as logged
from bowstring.protocol.records.offsets import OffsetCommitKey, OffsetCommitValue
from tests.simulation.cluster.group_clients import CONSUMERS, REFUSED
from tests.simulation.cluster.services import OFFSETS
from tests.simulation.cluster.transaction_rules import OFFSET_COMMIT, TransactionRule

NEVER = -1


class Has:
    """A member's state in the log."""

    def __init__(self):
        self.epoch = NEVER
        self.partitions: set[tuple[bytes, int]] = set()


def partitions_of(topics):
    return {(topic.topic_id, index) for topic in topics for index in topic.partitions}


class GroupLedger(TransactionRule):
    """A partition has one owner and one target member; epochs and offsets only grow; only owners commit.

    Attributes:
        members: By member id.
        removed: By member id, how often it was removed.
        targets: By member id, its target assignment.
        offsets: By partition: offset, and the member that committed it.
    """

    def __init__(self, world):
        super().__init__(world)
        self.members: dict[str, Has] = {}
        self.removed: dict[str, int] = defaultdict(int)
        self.targets: dict[str, set] = {}
        self.epoch = self.target_epoch = 0
        self.offsets: dict[tuple[str, int], tuple[int, str]] = {}
        # Partitions of members that the current batch removes.
        self.pushed_out: set[tuple[bytes, int]] = set()
        self.apply = {
            records.GROUP_EPOCH: self.group_epoch,
            records.TARGET_EPOCH: self.assigned_epoch,
            records.TARGET: self.target,
            records.ASSIGNMENT: self.assignment,
        }

    def batch_committed(self, node, part, batch):
        if part.key[0] != OFFSETS:
            return
        header = batch_headers(batch.data)[0]
        if header.control or header.transactional:
            return
        kinds = set()
        self.pushed_out = set()
        for record in decode_batches(batch.data):
            kind = int.from_bytes(record.key[:2], "big")
            kinds.add(kind)
            if kind in self.apply:
                self.apply[kind](record)
            elif kind == OFFSET_COMMIT:
                self.offset(record)
        if kinds & self.apply.keys():
            self.look()

    def look(self):
        for what, of in (
            ("has", {id: each.partitions for id, each in self.members.items()}),
            ("is to have", self.targets),
        ):
            owners: dict[tuple[bytes, int], str] = {}
            for id, partitions in of.items():
                for partition in partitions:
                    if owners.setdefault(partition, id) != id:
                        self.fail(f"{id} {what} {partition}, as {owners[partition]} does")
        for id, each in self.members.items():
            if each.epoch > self.epoch:
                self.fail(f"{id} is in epoch {each.epoch}, the group in {self.epoch}")

    # ---- records

    def group_epoch(self, record):
        if record.value is None:
            self.fail("the group is deleted")
            self.epoch = 0
            return
        epoch = decode(logged.ConsumerGroupMetadataValue, 0, record.value, 2).epoch
        if epoch <= self.epoch:
            self.fail(f"the group's epoch {epoch} follows {self.epoch}")
        self.epoch = epoch

    def assigned_epoch(self, record):
        if record.value is None:
            return
        epoch = decode(logged.ConsumerGroupTargetAssignmentMetadataValue, 0, record.value, 2).assignment_epoch
        if not self.target_epoch < epoch <= self.epoch:
            self.fail(
                f"the assignment's epoch {epoch} follows {self.target_epoch}; the group's is {self.epoch}"
            )
        self.target_epoch = epoch

    def target(self, record):
        id = decode(logged.ConsumerGroupTargetAssignmentMemberKey, 0, record.key, 2).member_id
        self.targets.pop(id, None)
        if record.value is not None:
            body = decode(logged.ConsumerGroupTargetAssignmentMemberValue, 0, record.value, 2)
            self.targets[id] = partitions_of(body.topic_partitions)

    def assignment(self, record):
        id = decode(logged.ConsumerGroupCurrentMemberAssignmentKey, 0, record.key, 2).member_id
        before = self.members.pop(id, None)
        if record.value is None:
            self.removed[id] += before is not None
            if before is not None and before.epoch != LEAVE_STATIC_EPOCH:
                self.pushed_out |= before.partitions
            return
        body = decode(logged.ConsumerGroupCurrentMemberAssignmentValue, 0, record.value, 2)
        is_away = body.member_epoch == LEAVE_STATIC_EPOCH
        if before is not None and not is_away and body.member_epoch < before.epoch:
            self.fail(f"{id} is in epoch {body.member_epoch} after {before.epoch}")
        new = self.members[id] = Has()
        new.epoch = body.member_epoch
        new.partitions = partitions_of(body.assigned_partitions) | partitions_of(
            body.partitions_pending_revocation
        )
        if new.partitions & self.pushed_out:
            self.fail(f"{id} takes the place of a member that has not left")

    def offset(self, record):
        name = decode(OffsetCommitKey, 0, record.key, 2)
        if name.group != CONSUMERS:
            return
        if record.value is None:
            self.fail(f"the offset of {name.topic}-{name.partition} is deleted")
            return
        body = decode(OffsetCommitValue, int.from_bytes(record.value[:2], "big"), record.value, 2)
        key, id = (name.topic, name.partition), body.metadata
        partition = (self.world.newest_image().topics[name.topic].id, name.partition)
        if id not in self.members or partition not in self.members[id].partitions:
            self.fail(f"{id} commits {body.offset} of {key}, which it does not have")
        offset, last = self.offsets.get(key, (NEVER, id))
        if body.offset < offset and (last != id or body.offset not in self.world.member(id).late[key]):
            self.fail(f"{id} commits {body.offset} of {key} after {offset}, which {last} had committed")
        self.offsets[key] = (body.offset, id)


class OneOwner(TransactionRule):
    """A member is assigned a partition only after its previous owner gave it up or was removed.

    Attributes:
        asked, given: By member id, how often it was removed before its last heartbeat, and before the one
            whose answer assigned its first partition.
    """

    def __init__(self, world):
        super().__init__(world)
        self.asked: dict[str, int] = {}
        self.given: dict[str, int] = {}

    def member_beats(self, member):
        self.asked[member.id] = self.world.rule(GroupLedger).removed[member.id]

    def member_answered(self, member):
        if not member.owned:
            self.given[member.id] = self.asked[member.id]

    def member_given(self, member, keys):
        removed = self.world.rule(GroupLedger).removed
        if removed[member.id] != self.given.get(member.id):
            return  # the answer is older than its removal
        for other in self.world.members:
            both = other.owned & keys
            if other is not member and both and removed[other.id] == self.given.get(other.id):
                self.fail(f"{member} is given {sorted(both)}, and {other} has not given it up")


class EpochsOfAnswersGrow(TransactionRule):
    """A member's answers contain committed state only, and never an older epoch."""

    def __init__(self, world):
        super().__init__(world)
        self.told: dict[str, tuple[int, int]] = {}

    def member_answered(self, member):
        ledger = self.world.rule(GroupLedger)
        here = ledger.removed[member.id], member.epoch
        if here < self.told.get(member.id, (0, 0)):
            self.fail(f"{member} is told epoch {member.epoch} after {self.told[member.id]}")
        self.told[member.id] = here
        has = ledger.members.get(member.id)
        known = has.epoch if has is not None else NEVER
        if member.epoch > known and (has is not None or not ledger.removed[member.id]):
            self.fail(f"{member} is told epoch {member.epoch}; {known} is committed")

    def member_refused(self, member, error):
        if error not in REFUSED:
            self.fail(f"{member} is refused: {Errors.of(error)}")


class AnsweredOffsetsAreFound(TransactionRule):
    """A partition's new owner finds at least the offset whose commit was answered before its request."""

    def __init__(self, world):
        super().__init__(world)
        self.known: dict[tuple[str, int], int] = {}
        self.asked: dict[tuple[str, tuple[str, int]], int] = {}

    def member_committed(self, member, key, offset):
        self.known[key] = max(offset, self.known.get(key, NEVER))

    def member_asks(self, member, keys):
        for key in keys:
            self.asked[member.id, key] = self.known.get(key, NEVER)

    def member_found(self, member, key, offset):
        least = self.asked[member.id, key]
        if offset < least and not any(offset in each.late.get(key, ()) for each in self.world.members):
            self.fail(f"{member} is told {offset} for {key}; {least} was answered as committed")


GROUP_RULES = (GroupLedger, OneOwner, EpochsOfAnswersGrow, AnsweredOffsetsAreFound)
