"""What must hold of transactions after every step; each class is one rule.

`Ledger` replays the committed records of every partition: the open transactions, how others ended, and the
offsets of groups. It identifies transactions by the name in each record, so it needs none of the product's
state.
"""

from collections import Counter, defaultdict

from bowstring._native.protocol.message_codec import decode
from bowstring._native.record.decode import batch_headers, decode_batches
from bowstring.engine.transactions.transaction import Status
from bowstring.protocol.records.offsets import OffsetCommitKey, OffsetCommitValue
from bowstring.protocol.records.transaction_log import TransactionLogKey, TransactionLogValue
from tests.simulation.cluster.logs import ALL
from tests.simulation.cluster.services import OFFSETS, TRANSACTIONS
from tests.simulation.quorum.invariants import Invariant

COMMIT = 1
OFFSET_COMMIT = 1


class TransactionRule(Invariant):
    """Does not judge runs in which committed records were lost in a documented way."""

    def fail(self, text):
        if not self.world.may_lose_some():
            super().fail(text)


class Open:
    """A transaction that is open in a partition."""

    def __init__(self, first_offset, epoch):
        self.first_offset = first_offset
        self.epoch = epoch
        self.names: set[bytes] = set()
        self.values: list[tuple[int, bytes]] = []
        self.offsets: dict[tuple, int] = {}


class Ledger(TransactionRule):
    """A transaction ends the same way in all its partitions and for its offsets.

    A marker ends one transaction, and a group's offset never goes back.

    Attributes:
        open: By partition and producer id.
        outcomes: By name: whether it was committed.
        ended: By partition: offset and outcome of each record of a transaction that has ended.
        visible: By partition: offset and value of each record that consumers may see.
        groups: Offsets of groups.
        decided: By producer id and epoch: the outcomes in the coordinators' log.
    """

    def __init__(self, world):
        super().__init__(world)
        self.open: dict[tuple, dict[int, Open]] = defaultdict(dict)
        self.outcomes: dict[bytes, bool] = {}
        self.ended: dict[tuple, dict[int, bool]] = defaultdict(dict)
        self.visible: dict[tuple, dict[int, bytes]] = defaultdict(dict)
        self.groups: dict[tuple, int] = {}
        self.decided: dict[tuple[int, int], set[bool]] = defaultdict(set)
        self.producers: dict[str, tuple[int, int]] = {}

    def batch_committed(self, node, part, batch):
        header = batch_headers(batch.data)[0]
        if part.key[0] == TRANSACTIONS:
            for record in decode_batches(batch.data):
                self.coordinated(record)
        elif header.control:
            self.marked(part.key, header, decode_batches(batch.data)[0])
        elif header.transactional:
            self.added(part.key, header, decode_batches(batch.data))
        elif part.key[0] != OFFSETS:
            for record in decode_batches(batch.data):
                self.visible[part.key][record.offset] = record.value

    def added(self, key, header, records):
        held = self.open[key].get(header.producer_id)
        if held is None:
            held = self.open[key][header.producer_id] = Open(header.base_offset, header.producer_epoch)
        for record in records:
            if key[0] == OFFSETS:
                name = decode(OffsetCommitKey, 0, record.key, 2)
                version = int.from_bytes(record.value[:2], "big")
                value = decode(OffsetCommitValue, version, record.value, 2)
                held.offsets[name.group, name.topic, name.partition] = value.offset
                held.names.add(value.metadata.encode())
            else:
                held.names.add(record.value.split(b" ")[0])
                held.values.append((record.offset, record.value))

    def marked(self, key, header, record):
        commit = int.from_bytes(record.key[2:4], "big") == COMMIT
        held = self.open[key].pop(header.producer_id, None)
        if held is None:
            return
        if len(held.names) != 1:
            self.fail(f"a marker in {key} at {record.offset} ends {sorted(held.names)}")
        if held.epoch == header.producer_epoch and not self.world.is_old(held.names):
            self.fail(f"a marker in {key} at {record.offset} ends {held.names}, which began in its epoch")
        for name in held.names:
            if self.outcomes.setdefault(name, commit) != commit:
                self.fail(f"{name.decode()} is committed and aborted; the last marker is in {key}")
        for offset, value in held.values:
            self.ended[key][offset] = commit
            if commit:
                self.visible[key][offset] = value
        for group, offset in held.offsets.items() if commit else ():
            if offset < self.groups.get(group, -1):
                self.fail(f"the offset {offset} follows {self.groups[group]} for {group}")
            self.groups[group] = offset

    def coordinated(self, record):
        name = decode(TransactionLogKey, 0, record.key, 2).transactional_id
        if record.value is None:
            return
        body = decode(TransactionLogValue, int.from_bytes(record.value[:2], "big"), record.value, 2)
        last = self.producers.get(name)
        here = (body.producer_id, body.producer_epoch)
        if last is not None and here < last:
            self.fail(f"{name} has producer id and epoch {here} after {last}")
        if last is not None and here[0] != last[0] and last[1] < 32766:
            self.fail(f"{name} has another producer id before all epochs are used: {here} after {last}")
        self.producers[name] = here
        if body.transaction_status in (Status.PREPARE_COMMIT, Status.PREPARE_ABORT):
            self.decided[here].add(body.transaction_status == Status.PREPARE_COMMIT)

    def still_open(self):
        """Returns the open transactions."""
        return [(key, sorted(held.names)) for key, of in self.open.items() for held in of.values()]


class MarkersFollowDecisions(TransactionRule):
    """A marker is written only after its outcome is committed to the coordinators' log."""

    def writes(self, node, part, before):
        data = part.log.read(before, ALL, "log_end")
        for header in batch_headers(data):
            if not header.control or header.producer_id < 0:
                continue
            batch = data[header.position : header.position + header.size_bytes]
            commit = int.from_bytes(decode_batches(batch)[0].key[2:4], "big") == COMMIT
            who = (header.producer_id, header.producer_epoch)
            if commit not in self.world.rule(Ledger).decided[who]:
                what = "commits" if commit else "aborts"
                self.fail(f"a marker in {part} {what} the transaction of {who}, which nobody decided")


class AnsweredIsDecided(TransactionRule):
    """EndTxn is answered once the outcome is committed."""

    def transaction_ended(self, instance, transaction, commit):
        who = (instance.producer[0], instance.producer[1] + (instance.version == 2))
        needs = commit or transaction.sent
        if needs and commit not in self.world.rule(Ledger).decided[who]:
            self.fail(f"{instance} is told that {transaction.name.decode()} has ended; that is not committed")


class AnsweredIsKept(TransactionRule):
    """Acknowledged, committed records are visible once and in order; aborted ones never are."""

    def passes(self):
        ledger = self.world.rule(Ledger)
        seen = {key: [of[at] for at in sorted(of)] for key, of in ledger.visible.items()}
        for key in seen:
            whole = [value for at, value in sorted(ledger.visible[key].items()) if at in ledger.ended[key]]
            twice = [value for value, count in Counter(whole).items() if count > 1]
            if twice:
                self.fail(f"{key} has {twice[0]} twice")
        places = {key: {value: at for at, value in enumerate(values)} for key, values in seen.items()}
        for transaction in self.world.transactions:
            for key, batches in transaction.sent.items():
                values = [value for _, values in sorted(batches) for value in values]
                found = [places.get(key, {}).get(value) for value in values]
                if transaction.told == "commit" and (None in found or found != sorted(found)):
                    self.fail(f"{transaction.name.decode()} was committed; {key} has of {values} {found}")
                if transaction.told == "abort" and any(at is not None for at in found):
                    self.fail(f"{transaction.name.decode()} was aborted; {key} shows {values}")


class CopiesAreWhole(TransactionRule):
    """A copier has copied everything below its group's offset, each record once and in order."""

    def passes(self):
        ledger = self.world.rule(Ledger)
        for copier in self.world.copiers:
            reached = ledger.groups.get(("group", *copier.source), 0)
            wanted = [at for at in sorted(ledger.visible[copier.source]) if at < reached]
            prefix = copier.transactional_id.encode() + b"."
            of = ledger.visible[copier.target]
            copies = [int(of[at].split(b" ")[1]) for at in sorted(of) if of[at].startswith(prefix)]
            if copies != wanted:
                self.fail(f"{copier} has committed {reached} and copied {copies}, not {wanted}")


class CommittedReadersSeeWhatIsCommitted(TransactionRule):
    """A read_committed consumer sees exactly the committed records, up to the first open transaction."""

    def reads_committed(self, reader, position, end, records):
        if self.world.log_of(reader.key).version:
            return
        ledger = self.world.rule(Ledger)
        seen = {each.offset: each.value for each in records}
        for producer, held in ledger.open[reader.key].items():
            # As in Kafka, a replica that stopped cleanly treats a marker as committed that may still be
            # truncated; the outcome is decided then.
            is_decided = ledger.decided[producer, held.epoch] or ledger.decided[producer, held.epoch + 1]
            if held.first_offset < end and not is_decided:
                self.fail(
                    f"{reader} reads up to {end}; {sorted(held.names)} is open since {held.first_offset}"
                )
        ended, visible = ledger.ended[reader.key], ledger.visible[reader.key]
        for offset in range(position, end):
            if offset in seen and ended.get(offset) is False:
                self.fail(f"{reader} reads {seen[offset]}, which is aborted")
            if offset not in seen and offset in visible:
                self.fail(f"{reader} does not read {visible[offset]} at {offset}")


TRANSACTION_RULES = (
    Ledger,
    MarkersFollowDecisions,
    AnsweredIsDecided,
    AnsweredIsKept,
    CopiesAreWhole,
    CommittedReadersSeeWhatIsCommitted,
)
