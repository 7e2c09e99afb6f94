"""Transactional clients: writers and copiers of the current protocol (KIP-890) and of the previous one.

A user keeps one instance of a client at work. An instance is a script: a generator that yields pauses and
rounds of requests, and receives the answers. Instances crash, or are replaced while they continue (zombies).
"""

from typing import NamedTuple

from bowstring._native.record.encode import encode_batch
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from bowstring.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from bowstring.protocol.messages.end_txn import EndTxnRequest
from bowstring.protocol.messages.init_producer_id import InitProducerIdRequest
from bowstring.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from bowstring.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.simulation.cluster.clients import CONTENT_MS, RETRY_MS, TIMEOUT_MS, Client, Read
from tests.simulation.cluster.readers import committed_records
from tests.simulation.cluster.services import OFFSETS, TRANSACTIONS

COORDINATOR_KEY = (TRANSACTIONS, 0)
GROUP_KEY = (OFFSETS, 0)
RETRIED = {
    each.code
    for each in (
        Errors.NOT_LEADER_OR_FOLLOWER,
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        Errors.REQUEST_TIMED_OUT,
        Errors.NOT_ENOUGH_REPLICAS,
        Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Errors.COORDINATOR_NOT_AVAILABLE,
        Errors.COORDINATOR_LOAD_IN_PROGRESS,
        Errors.NOT_COORDINATOR,
        Errors.CONCURRENT_TRANSACTIONS,
        Errors.KAFKA_STORAGE_ERROR,
        Errors.UNSTABLE_OFFSET_COMMIT,
    )
}
FATAL = {
    each.code
    for each in (
        Errors.PRODUCER_FENCED,
        Errors.INVALID_PRODUCER_ID_MAPPING,
        Errors.TRANSACTIONAL_ID_NOT_FOUND,
        Errors.INVALID_PRODUCER_EPOCH,
    )
}
OUT_OF_ORDER = Errors.OUT_OF_ORDER_SEQUENCE_NUMBER.code
NEW, OLD = 2, 1


class Ask(NamedTuple):
    """A request to the leader of a partition."""

    key: tuple[str, int]
    kind: str
    request: object


class TransactionalProduce(NamedTuple):
    key: tuple[str, int]
    batch: bytes
    transactional_id: str
    producer: tuple[int, int]
    sequence: int
    version: int


class Transaction:
    """A client's view of one of its transactions.

    Attributes:
        told: The outcome that EndTxn answered: "commit" or "abort"; None while it is unknown.
        sent: By partition: sequence and values of each acknowledged batch.
        place: Of a copier: its source, where it began to read and where it ended.
    """

    def __init__(self, name, user):
        self.name = name
        self.user = user
        self.told: str | None = None
        self.sent: dict[tuple[str, int], list[tuple[int, list[bytes]]]] = {}
        self.place: tuple[tuple[str, int], int, int] | None = None


class Fenced(Exception):
    """The instance must end: another one has its transactional id, or its state is unusable."""


class Aborted(Exception):
    """The transaction cannot be committed."""


class Instance:
    """A process of a transactional client, with its producer id and epoch."""

    def __init__(self, user, number):
        self.user = user
        self.world = user.world
        self.number = number
        self.random = user.random
        self.version = user.version
        self.producer = (-1, -1)
        self.sequences: dict[tuple[str, int], int] = {}
        self.ends = False
        self.script = self.run()
        self.round = 0
        self.open: set[int] = set()
        self.answers: list = []
        self.until = float("inf")
        self.leaders: dict[tuple[str, int], object] = {}

    def __str__(self):
        return f"{self.user.transactional_id}.{self.number}"

    # ---- requests

    def go(self, value=None):
        """Continues the script until it waits again."""
        if self.ends:
            return
        try:
            wanted = self.script.send(value)
        except (StopIteration, Fenced):
            self.user.ended(self)
            return
        if isinstance(wanted, list):
            self.ask(wanted)
        else:
            self.world.after(wanted, self.go)

    def crash(self):
        """Requests that are in flight arrive nevertheless."""
        self.ends = True
        self.world.say(None, f"{self} crashes", None)

    def ask(self, asks):
        self.round += 1
        self.open = set(range(len(asks)))
        self.answers = [None] * len(asks)
        self.until = self.world.now + TIMEOUT_MS
        # One connection keeps the order.
        ways: dict[tuple[str, int], tuple] = {}
        for at, each in enumerate(asks):
            if each.key not in ways:
                ways[each.key] = (self.leader(each.key), self.world.client_delay_ms(self.random))
            node, delay_ms = ways[each.key]
            if node is None:
                self.world.after(RETRY_MS, self.answered, (self.round, at, None))
            else:
                self.send(node, delay_ms, at, each)

    def send(self, node, delay_ms, at, ask):
        back_ms, number = self.world.client_delay_ms(self.random), self.round

        def answer(*result):
            if back_ms is not None:
                self.world.after(back_ms, self.answered, (number, at, result))

        if delay_ms is not None:
            self.world.after(delay_ms, node.receive, (None, "on_client", (ask.kind, ask.request, answer)))

    def leader(self, key):
        known = self.leaders.get(key)
        if known is None:
            up = [node for node in self.world.nodes if node.is_up]
            node = self.random.choice(up) if up else None
            topic = node.image.topics.get(key[0]) if node is not None else None
            is_there = topic is not None and key[1] < len(topic.partitions)
            if is_there and topic.partitions[key[1]].leader >= 0:
                known = self.leaders[key] = self.world.nodes[topic.partitions[key[1]].leader]
        return known

    def answered(self, number, at, result):
        if number == self.round and at in self.open and not self.ends:
            self.open.discard(at)
            self.answers[at] = result
            if not self.open:
                self.round += 1
                self.until = float("inf")
                self.go(self.answers)

    def watch(self):
        if self.until <= self.world.now and not self.ends:
            self.round += 1
            self.open = set()
            self.until = float("inf")
            self.go(self.answers)

    def api(self, key, request, version, code):
        """Repeats a request until the answer is not retriable; returns it. `code(answer)` is its error."""
        while True:
            (found,) = yield [Ask(key, "ask", (request, version))]
            if found is not None and found[0] == 0:
                error = code(found[1])
                if error not in RETRIED:
                    return found[1]
            self.leaders.pop(key, None)
            yield RETRY_MS

    # ---- the life of an instance

    def run(self):
        yield from self.init((-1, -1))
        yield from self.begin()
        while self.user.wants_more(self):
            yield self.user.pause_ms()
            if not self.user.wants_more(self):
                break
            yield from self.transact()

    def begin(self):
        """The steps before the first transaction."""
        yield from ()

    def init(self, expected):
        request = InitProducerIdRequest(
            transactional_id=self.user.transactional_id,
            transaction_timeout_ms=self.user.timeout_ms,
            producer_id=expected[0],
            producer_epoch=expected[1],
        )
        answer = yield from self.api(COORDINATOR_KEY, request, 5, lambda answer: answer.error_code)
        if answer.error_code:
            raise Fenced
        self.producer = (answer.producer_id, answer.producer_epoch)
        self.sequences = {}
        self.world.say(None, f"{self} has", self.producer)

    def transact(self):
        transaction = self.world.begin_transaction(self.user)
        self.began = False
        try:
            yield from self.work(transaction)
            commit = self.random.random() < 0.75
        except Aborted:
            commit = False
        if commit:
            try:
                yield from self.end(transaction, True)
            except Aborted:
                commit = False
        if not commit:
            yield from self.abort(transaction)
        self.user.done += 1

    def abort(self, transaction):
        # Before KIP-890, the coordinator may have no record of it.
        if self.version == NEW or self.began:
            yield from self.end(transaction, False)
        if self.version == OLD:
            yield from self.init(self.producer)

    def end(self, transaction, commit):
        request = EndTxnRequest(
            transactional_id=self.user.transactional_id,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            committed=commit,
        )
        answer = yield from self.api(
            COORDINATOR_KEY, request, 5 if self.version == NEW else 4, lambda answer: answer.error_code
        )
        if answer.error_code == Errors.TRANSACTION_ABORTABLE.code and commit:
            raise Aborted
        if answer.error_code:
            self.world.say(None, f"{self} cannot end", Errors.of(answer.error_code))
            raise Fenced
        transaction.told = "commit" if commit else "abort"
        self.world.tell("transaction_ended", self, transaction, commit)
        if self.version == NEW:
            self.producer = (answer.producer_id, answer.producer_epoch)
            self.sequences = {}

    # ---- the work

    def work(self, transaction):
        keys = self.user.choose_keys()
        for _ in range(self.random.choice((1, 1, 2))):
            yield from self.produce(transaction, keys)
            yield self.user.pause_ms()

    def add(self, transaction, keys):
        """Before KIP-890, partitions are added first."""
        self.began = True
        if self.version == NEW:
            return
        by_topic: dict[str, list[int]] = {}
        for topic, index in keys:
            by_topic.setdefault(topic, []).append(index)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.user.transactional_id,
            v3_and_below_producer_id=self.producer[0],
            v3_and_below_producer_epoch=self.producer[1],
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=topic, partitions=parts) for topic, parts in by_topic.items()
            ],
        )

        def code(answer):
            return next(
                (
                    part.partition_error_code
                    for topic in answer.results_by_topic_v3_and_below
                    for part in topic.results_by_partition
                ),
                0,
            )

        answer = yield from self.api(COORDINATOR_KEY, request, 3, code)
        self.check(code(answer))

    def check(self, error):
        if error in FATAL:
            raise Fenced
        if error:
            raise Aborted

    def produce(self, transaction, keys, values=None):
        """Sends one or two batches to each partition, all at once, until each is stored."""
        yield from self.add(transaction, keys)
        waiting: dict[tuple[str, int], list] = {}
        for key in keys:
            for _ in range(1 if values else self.random.choice((1, 1, 2))):
                rows = values or [b"%s %d" % (transaction.name, self.world.new_value())]
                waiting.setdefault(key, []).append(self.batch(key, rows))
        while waiting:
            asks = [
                Ask(key, "produce_transactional", each[0]) for key, pairs in waiting.items() for each in pairs
            ]
            answers = iter((yield asks))
            waiting = {
                key: left
                for key, pairs in waiting.items()
                if (left := self.left(transaction, key, pairs, [next(answers) for _ in pairs]))
            }
            if waiting:
                yield RETRY_MS

    def left(self, transaction, key, pairs, answers):
        """The batches that must be sent again."""
        again = []
        for pair, found in zip(pairs, answers, strict=True):
            error = None if found is None else found[0]
            if error == 0:
                transaction.sent.setdefault(key, []).append((pair[0].sequence, pair[1]))
                continue
            if error is None or error in RETRIED or (error == OUT_OF_ORDER and again):
                self.leaders.pop(key, None)
                again.append(pair)
            else:
                self.world.say(None, f"{self} is refused {key[0]}-{key[1]}", Errors.of(error))
                # As in Java's client: only the coordinator decides that a producer is fenced.
                raise Aborted
        return again

    def batch(self, key, values):
        sequence = self.sequences.get(key, 0)
        self.sequences[key] = sequence + len(values)
        data = encode_batch(
            [(None, value, 0, None) for value in values],
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            base_sequence=sequence,
            transactional=True,
        )
        version = 12 if self.version == NEW else 11
        request = TransactionalProduce(
            key, data, self.user.transactional_id, self.producer, sequence, version
        )
        return request, values


class CopierInstance(Instance):
    """Reads one partition, writes the records to another, and commits the offset with them."""

    position = -1

    def begin(self):
        yield from self.find_position()

    def find_position(self):
        key, topics = (
            self.user.source,
            OffsetFetchRequestTopics(name=self.user.source[0], partition_indexes=[self.user.source[1]]),
        )
        while True:
            request = OffsetFetchRequestGroup(group_id="group", topics=[topics])
            (found,) = yield [Ask(GROUP_KEY, "stable_offset", request)]
            if found is not None and found[0] == 0:
                part = None if found[1].error_code else found[1].topics[0].partitions[0]
                missing = found[1].error_code == Errors.GROUP_ID_NOT_FOUND.code
                if missing or (part is not None and not part.error_code):
                    self.position = max(0, part.committed_offset if part is not None else 0)
                    self.world.say(None, f"{self} goes on at", (key, self.position))
                    return
            self.leaders.pop(GROUP_KEY, None)
            yield RETRY_MS

    def transact(self):
        records, position = yield from self.read()
        if not records:
            if self.user.is_calm:
                self.user.done += 1
            return
        before = self.position
        self.records, self.next = records, position
        yield from super().transact()
        if self.position == before:
            yield from self.find_position()

    def read(self):
        (found,) = yield [Ask(self.user.source, "fetch", Read(self.user.source, self.position, True))]
        if found is None or found[0].error:
            self.leaders.pop(self.user.source, None)
            if found is not None and found[0].error == Errors.OFFSET_OUT_OF_RANGE.code:
                self.position = 0 if self.world.may_be_lost(self.user.source) else self.position
            return [], self.position
        return committed_records(self.user.source, found[0], self.position)

    def work(self, transaction):
        transaction.place = (self.user.source, self.position, self.next)
        values = [b"%s %d %s" % (transaction.name, each.offset, each.value) for each in self.records]
        yield from self.produce(transaction, [self.user.target], values)
        yield from self.send_offsets(transaction)

    def send_offsets(self, transaction):
        if self.version == OLD:
            request = AddOffsetsToTxnRequest(
                transactional_id=self.user.transactional_id,
                producer_id=self.producer[0],
                producer_epoch=self.producer[1],
                group_id="group",
            )
            answer = yield from self.api(COORDINATOR_KEY, request, 3, lambda answer: answer.error_code)
            self.check(answer.error_code)
        part = TxnOffsetCommitRequestPartition(
            partition_index=self.user.source[1],
            committed_offset=self.next,
            committed_metadata=transaction.name.decode(),
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self.user.transactional_id,
            group_id="group",
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            topics=[TxnOffsetCommitRequestTopic(name=self.user.source[0], partitions=[part])],
        )

        def code(answer):
            return answer.topics[0].partitions[0].error_code

        answer = yield from self.api(GROUP_KEY, request, 5 if self.version == NEW else 4, code)
        self.check(code(answer))

    def end(self, transaction, commit):
        yield from super().end(transaction, commit)
        if commit:
            self.position = self.next


class User(Client):
    """A transactional id, with the instance that uses it now, and those that it has replaced."""

    INSTANCE: type[Instance] = Instance
    needs_all = True

    def __init__(self, world, id, keys):
        super().__init__(world, id, COORDINATOR_KEY)
        self.keys = keys
        self.transactional_id = f"t{id}"
        self.version = self.random.choice((NEW, NEW, OLD))
        self.timeout_ms = self.random.choice((1500, 3000))
        self.instances: list[Instance] = []
        self.count = 0
        self.is_calm = False

    def start(self):
        if self.rests:
            return
        self.count += 1
        instance = self.INSTANCE(self, self.count)
        self.instances.append(instance)
        instance.go()
        if not self.is_calm:
            self.world.after(self.random.expovariate(1 / 4000), self.replace, (instance,))

    def replace(self, instance):
        """The instance crashes, or continues as a zombie beside the next one."""
        if instance is self.instances[-1] and not self.rests and not self.is_calm:
            if self.random.random() < 0.5:
                instance.crash()
                self.world.after(self.random.choice((10, 300, 4000)), self.start)
            else:
                self.start()

    def ended(self, instance):
        instance.ends = True
        if instance is self.instances[-1] and not self.rests:
            self.world.after(self.pause_ms(), self.start)

    def wants_more(self, instance):
        return not self.rests and (instance is self.instances[-1] or not self.is_calm)

    def choose_keys(self):
        return self.random.sample(self.keys, self.random.randint(1, len(self.keys)))

    def watch(self):
        for each in self.instances:
            each.watch()

    def calm(self):
        super().calm()
        self.is_calm = True

    def is_idle(self):
        """Whether all its instances have ended, once it rests."""
        return all(each.ends for each in self.instances)

    def __str__(self):
        return f"{type(self).__name__} {self.transactional_id} (version {self.version})"

    def pause_ms(self):
        return CONTENT_MS / 2 if self.is_content() else self.random.uniform(0, 2 * self.world.plan.think_ms)


class Writer(User):
    """Writes to several partitions."""

    def __init__(self, world, id, keys, *, leaves=False):
        super().__init__(world, id, keys)
        # It crashes at the end, and its id is not used again: the coordinator must end its transaction.
        self.leaves = leaves

    def rest(self):
        if self.leaves and not self.rests:
            for each in self.instances:
                each.crash()
        super().rest()


class Copier(User):
    """Copies a partition to another, exactly once."""

    INSTANCE = CopierInstance

    def __init__(self, world, id, source, target):
        super().__init__(world, id, [target])
        self.source = source
        self.target = target
