"""What must hold of share groups after every step; each class is one rule.

`ShareLedger` replays the records committed to `__share_group_state`, one by one and without the product's
state; the other rules compare it with the records and answers that members get.
"""

from collections import defaultdict

from bowstring._native.protocol.message_codec import decode
from bowstring._native.record.decode import decode_batches
from bowstring.engine.share.leader.share_partitions import SharePartitions
from bowstring.engine.share.persister.interface import SharePartitionKey
from bowstring.engine.share.sessions import FINAL_EPOCH, SessionKey
from bowstring.protocol.errors import Errors
from bowstring.protocol.records import share_state as logged
from tests.simulation.cluster.services import SHARE_STATE
from tests.simulation.cluster.share_clients import ACCEPT, GAP, REJECT, RELEASE, RENEW, SHARERS
from tests.simulation.cluster.transaction_rules import TransactionRule

SNAPSHOT, UPDATE = 0, 1
AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4
DONE = (ACKNOWLEDGED, ARCHIVED)
NOWHERE = -1
FOR_EVER = 1 << 30
FENCED = {
    each.code for each in (Errors.UNKNOWN_MEMBER_ID, Errors.FENCED_MEMBER_EPOCH, Errors.GROUP_ID_NOT_FOUND)
}


def member_number(id):
    """The number that stands for a member in the product's windows."""
    return SharePartitions.member_number(SessionKey(SHARERS, id))


def offsets_of(batches):
    """Each offset of acknowledgements with its type."""
    for first, last, types in batches:
        for offset in range(first, last + 1):
            yield offset, types[0 if len(types) == 1 else offset - first]


def accepted(asked, body):
    """The topic ids and partitions whose acknowledgements are answered as stored."""
    if body.error_code:
        return
    for topic in body.responses:
        for part in topic.partitions:
            key = topic.topic_id, part.partition_index
            if key in asked.acknowledged and not getattr(part, "acknowledge_error_code", part.error_code):
                yield key


class Kept:
    """A share partition's state in the log.

    Attributes:
        states: By offset: delivery count and state; the greater pair wins.
    """

    def __init__(self):
        self.start = NOWHERE
        self.leader_epoch = self.state_epoch = self.snapshot_epoch = NOWHERE
        self.states: dict[int, tuple[int, int]] = {}

    def is_done(self, offset):
        return offset < self.start or self.states.get(offset, (0, AVAILABLE))[1] in DONE

    def count(self, offset):
        return self.states.get(offset, (0, AVAILABLE))[0]


class ShareLedger(TransactionRule):
    """Start offsets and epochs never go back, and done records stay done.

    A record is done for a reason: a member acknowledged it, or it was delivered as often as the group allows.

    Attributes:
        kept: By share partition.
        asked: By topic id, partition and offset: the types of received acknowledgements.
        delivered: By topic id, partition and offset: the greatest delivery count that a member got.
    """

    def __init__(self, world):
        super().__init__(world)
        self.kept: dict[SharePartitionKey, Kept] = defaultdict(Kept)
        self.asked: dict[tuple, set[int]] = defaultdict(set)
        self.delivered: dict[tuple, int] = defaultdict(int)

    def share_asked(self, node, asked):
        for key, batches in asked.acknowledged.items():
            for offset, kind in offsets_of(batches):
                self.asked[*key, offset].add(kind)

    def share_acquired(self, node, led, member, ranges, now_ms):
        for first, last, count in ranges:
            for offset in range(first, last + 1):
                at = led.key.topic_id, led.key.partition, offset
                self.delivered[at] = max(count, self.delivered[at])

    def batch_committed(self, node, part, batch):
        if part.key[0] != SHARE_STATE:
            return
        for record in decode_batches(batch.data):
            kind = int.from_bytes(record.key[:2], "big")
            name = decode(logged.ShareSnapshotKey, 0, record.key, 2)
            key = SharePartitionKey(name.group_id, name.topic_id, name.partition)
            if record.value is None:
                self.fail(f"the state of {key} is deleted")
            elif kind == SNAPSHOT:
                self.snapshot(key, decode(logged.ShareSnapshotValue, 0, record.value, 2))
            else:
                self.update(key, decode(logged.ShareUpdateValue, 0, record.value, 2))

    def snapshot(self, key, body):
        kept = self.kept[key]
        if body.snapshot_epoch <= kept.snapshot_epoch or body.state_epoch < kept.state_epoch:
            self.fail(f"the epochs of {key} go back: {body}")
        kept.snapshot_epoch, kept.state_epoch = body.snapshot_epoch, body.state_epoch
        before, kept.states = kept.states, {}
        self.change(key, body)
        for offset, (count, state) in before.items():
            if offset >= kept.start and kept.states.get(offset, (0, AVAILABLE)) < (count, state):
                self.fail(
                    f"a snapshot of {key} says {kept.states.get(offset)} of {offset}, not {count, state}"
                )

    def update(self, key, body):
        if body.snapshot_epoch != self.kept[key].snapshot_epoch:
            self.fail(f"an update of {key} follows snapshot {body.snapshot_epoch}")
        self.change(key, body)

    def change(self, key, body):
        kept = self.kept[key]
        if body.leader_epoch != NOWHERE:
            if body.leader_epoch < kept.leader_epoch:
                self.fail(f"the leader epoch of {key} goes from {kept.leader_epoch} to {body.leader_epoch}")
            kept.leader_epoch = body.leader_epoch
        for each in body.state_batches:
            for offset in range(each.first_offset, each.last_offset + 1):
                state = each.delivery_count, each.delivery_state
                kept.states[offset] = max(state, kept.states.get(offset, state))
                self.explain(key, offset, each.delivery_state)
        self.move_start(key, kept, body.start_offset)

    def move_start(self, key, kept, start):
        if start == NOWHERE and kept.start == NOWHERE:
            return
        if start < kept.start:
            self.fail(f"the start offset of {key} goes back from {kept.start} to {start}")
        for offset in range(max(0, kept.start), start):
            state = kept.states.pop(offset, None)
            self.explain(key, offset, ARCHIVED if state is None else state[1], is_passed=True)
        kept.start = max(start, kept.start)

    def explain(self, key, offset, state, *, is_passed=False):
        at = key.topic_id, key.partition, offset
        kinds = self.asked[at]
        if state == AVAILABLE and not is_passed:
            return
        if state == ACKNOWLEDGED and ACCEPT in kinds:
            return
        is_out = self.delivered[at] >= self.world.plan.delivery_limit
        if (is_passed or state == ARCHIVED) and (is_out or kinds & {GAP, ACCEPT, REJECT}):
            return
        self.fail(
            f"{offset} of {key} is done ({state}); members said {sorted(kinds)}, and got it {self.delivered[at]} times"
        )


class OneHolder(TransactionRule):
    """No record is acquired while another member holds it: until its lock ends or it is acknowledged.

    A member that leaves holds nothing.
    """

    def __init__(self, world):
        super().__init__(world)
        # By node, life and share partition: the leading object, and the holder of each offset with its
        # deadline.
        self.holders: dict[tuple, tuple[object, dict[int, tuple[int, int]]]] = {}

    def share_acquired(self, node, led, member, ranges, now_ms):
        here = node.id, node.life, led.key
        if here not in self.holders or self.holders[here][0] is not led:
            self.holders[here] = led, {}
        held = self.holders[here][1]
        for first, last, _ in ranges:
            for offset in range(first, last + 1):
                _, until = held.get(offset, (0, 0))
                if now_ms < until:
                    self.fail(
                        f"node {node.id} gives {offset} of {led.key}, which is locked for {until - now_ms} ms"
                    )
                held[offset] = member, now_ms + self.world.plan.lock_ms

    def share_asked(self, node, asked):
        member = member_number(asked.member)
        for key, batches in asked.acknowledged.items():
            _, held = self.holders.get((node.id, node.life, SharePartitionKey(SHARERS, *key)), (None, {}))
            for offset, kind in offsets_of(batches):
                if kind != RENEW and held.get(offset, (None, 0))[0] == member:
                    del held[offset]
        if asked.request.share_session_epoch == FINAL_EPOCH:
            self.share_connection_ended(node, asked)

    def share_connection_ended(self, node, asked):
        member = member_number(asked.member)
        for (id, life, _), (_, held) in self.holders.items():
            if (id, life) == (node.id, node.life):
                for offset in [offset for offset, each in held.items() if each[0] == member]:
                    del held[offset]


class AcknowledgedIsKept(TransactionRule):
    """An answered acknowledgement is committed, and its record is never delivered again."""

    def __init__(self, world):
        super().__init__(world)
        # By topic id, partition and offset: the highest leader epoch in which it may have been answered.
        self.done: dict[tuple, int] = {}

    def share_answered(self, node, asked, body):
        topics = self.world.newest_image().topics_by_id
        for key in accepted(asked, body):
            led = node.broker.plane.parts.get((topics[key[0]].name, key[1]))
            epoch = led.leader_epoch if led is not None else FOR_EVER
            self.acknowledged(key, asked.acknowledged[key], epoch)

    def acknowledged(self, key, batches, epoch):
        kept = self.world.rule(ShareLedger).kept[SharePartitionKey(SHARERS, *key)]
        for offset, kind in offsets_of(batches):
            if kind in (GAP, ACCEPT, REJECT):
                self.done.setdefault((*key, offset), epoch)
                if not kept.is_done(offset):
                    self.fail(f"{offset} of {key} is answered as acknowledged, and that is not committed")

    def share_acquired(self, node, led, member, ranges, now_ms):
        for first, last, _ in ranges:
            for offset in range(first, last + 1):
                epoch = self.done.get((led.key.topic_id, led.key.partition, offset))
                # A leader that is deposed without having noticed may deliver it again.
                if epoch is not None and led.leader_epoch >= epoch:
                    self.fail(
                        f"node {node.id} delivers {offset} of {led.key} in epoch {led.leader_epoch}; "
                        f"it was acknowledged in {epoch}"
                    )


class DeliveryCountsGrow(TransactionRule):
    """Each delivery count is one above this leader's last one, or the one committed by earlier leaders.

    The group's limit bounds it. A release is answered when its count is committed.
    """

    def __init__(self, world):
        super().__init__(world)
        self.counts: dict[object, dict[int, int]] = defaultdict(dict)
        # By node, life, share partition, member and offset.
        self.got: dict[tuple, int] = {}
        # By request: share partition, offset and count of the released records.
        self.given_back: dict[int, list[tuple]] = {}

    def share_acquired(self, node, led, member, ranges, now_ms):
        kept = self.world.rule(ShareLedger).kept[led.key]
        if led.leader_epoch < kept.leader_epoch:
            return  # deposed
        counts = self.counts[led]
        for first, last, count in ranges:
            for offset in range(first, last + 1):
                before = counts.get(offset, kept.count(offset))
                if count != before + 1 or count > self.world.plan.delivery_limit:
                    self.fail(
                        f"node {node.id} delivers {offset} of {led.key} as number {count}, after {before}"
                    )
                counts[offset] = count
                self.got[node.id, node.life, led.key, member, offset] = count

    def share_asked(self, node, asked):
        here = node.id, node.life
        member = member_number(asked.member)
        self.given_back[id(asked)] = [
            (each, offset, self.got.get((*here, SharePartitionKey(SHARERS, *each), member, offset), 0))
            for each, batches in asked.acknowledged.items()
            for offset, kind in offsets_of(batches)
            if kind == RELEASE
        ]

    def share_answered(self, node, asked, body):
        kept_by = self.world.rule(ShareLedger).kept
        known = set(accepted(asked, body))
        for each, offset, got in self.given_back.pop(id(asked)):
            kept = kept_by[SharePartitionKey(SHARERS, *each)]
            if each in known and offset >= kept.start and kept.count(offset) < got:
                self.fail(
                    f"{offset} of {each} is given back after {got} deliveries; {kept.count(offset)} are kept"
                )


class ShareMembersAreHeard(TransactionRule):
    """A member is refused only when it has left the group, and gets no older epoch."""

    def share_member_answered(self, member, epoch):
        if member.epoch and epoch < member.epoch:
            self.fail(f"{member} is told epoch {epoch} after {member.epoch}")

    def share_refused(self, member, error):
        if error not in FENCED:
            self.fail(f"{member} is refused: {Errors.of(error)}")


SHARE_RULES = (ShareLedger, OneHolder, AcknowledgedIsKept, DeliveryCountsGrow, ShareMembersAreHeard)
