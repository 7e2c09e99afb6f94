"""Clients: producers, readers and a group member. Each uses one broker at a time and repeats requests."""

from typing import NamedTuple

from bowstring._native.record.decode import batch_headers
from bowstring._native.record.encode import encode_batch
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from bowstring.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from tests.simulation.cluster.coordinator import KEY as COORDINATOR_KEY

TIMEOUT_MS = 2000
RETRY_MS = 80
CONTENT_MS = 400
GROUP = "group"


class Produce(NamedTuple):
    key: tuple[str, int]
    batch: bytes
    acks: int


class Read(NamedTuple):
    key: tuple[str, int]
    offset: int
    committed: bool = False


class Client:
    """Finds the leader of a partition in the image of a reachable node, and sends it requests.

    Attributes:
        done: The number of answered requests.
        needs_all: Whether it is blocked while any partition has no leader.
    """

    needs_all = False

    def __init__(self, world, id, key):
        self.world = world
        self.id = id
        self.key = key
        self.random = world.pace_of(id)
        self.begins_ms = 800 + 50 * (id % 7)
        self.number = 0
        self.leader = self.asked = None
        self.pending = (float("inf"), 0, None)
        self.done = 0
        self.content_at = None
        self.rests = False

    def calm(self):
        self.content_at = self.done + 3

    def is_content(self):
        return self.content_at is not None and self.done >= self.content_at

    def pause_ms(self):
        """The pause before the next request; after the trouble, a content client leaves time to others."""
        if self.is_content():
            return CONTENT_MS
        return self.random.uniform(0, 2 * self.world.plan.think_ms)

    def is_idle(self):
        """Whether a resting client has nothing left to do."""
        return True

    def rest(self):
        """Starts nothing new."""
        self.rests = True

    def __str__(self):
        return f"{type(self).__name__} {self.id} of {self.key[0]}-{self.key[1]}"

    # ---- requests

    def ask(self, kind, request, then):
        """Sends a request; `then(*answer)`, or `then(None)` if none comes in time."""
        node = self.asked = self.find()
        self.number += 1
        number = self.number
        if node is None:
            self.world.after(RETRY_MS, self.answered, (number, then, (None,)))
            return
        delay_ms, back_ms = self.world.client_delay_ms(self.random), self.world.client_delay_ms(self.random)

        def answer(*result):
            if back_ms is not None:
                self.world.after(back_ms, self.answered, (number, then, result))

        if delay_ms is not None:
            self.world.after(delay_ms, node.receive, (None, "on_client", (kind, request, answer)))
        self.pending = (self.world.now + TIMEOUT_MS, number, then)

    def watch(self):
        """Gives up requests that have been without an answer for too long."""
        until, number, then = self.pending
        if until <= self.world.now:
            self.answered(number, then, (None,))

    def answered(self, number, then, result):
        if number == self.number:
            self.number += 1
            self.pending = (float("inf"), 0, None)
            if result[0] != 0:
                self.leader = None
            then(*result)

    def find(self):
        """The node that leads, according to some node's image."""
        if self.leader is None:
            up = [node for node in self.world.nodes if node.is_up]
            node = self.random.choice(up) if up else None
            topic = node.image.topics.get(self.key[0]) if node is not None else None
            is_there = topic is not None and self.key[1] < len(topic.partitions)
            if is_there and topic.partitions[self.key[1]].leader >= 0:
                self.leader = self.world.nodes[topic.partitions[self.key[1]].leader]
        return self.leader


class Producer(Client):
    """Sends batch after batch: the first idempotent, the second with acks=all, the third with acks=1."""

    def __init__(self, world, id, key):
        super().__init__(world, id, key)
        self.is_idempotent = id % 3 == 0
        self.acks = 1 if id % 3 == 2 else -1
        self.sequence = 0
        self.epoch = 0
        self.value = 0
        self.version = 0

    def start(self):
        if self.rests:
            return
        count = self.random.choice((1, 1, 2, 3))
        values = [b"%d.%d" % (self.id, self.value + at) for at in range(count)]
        self.value += count
        self.count = count
        self.values = values
        self.send()

    def send(self):
        fields = {}
        if self.is_idempotent:
            fields = {
                "producer_id": 1000 + self.id,
                "producer_epoch": self.epoch,
                "base_sequence": self.sequence,
            }
        rows = [(None, value, 0, None) for value in self.values]
        self.ask("produce", Produce(self.key, encode_batch(rows, **fields), self.acks), self.answer)

    def answer(self, error, base=-1):
        if error == 0:
            self.done += 1
            self.sequence += self.count
            self.world.say(None, f"{self} has an answer for", (base, self.values))
            self.world.after(self.pause_ms(), self.start)
            return
        if error == Errors.OUT_OF_ORDER_SEQUENCE_NUMBER.code:
            self.world.tell("out_of_order", self, self.asked)
            # Kafka's producer begins another epoch when its records are lost.
            if self.world.may_be_lost(self.key):
                self.epoch += 1
                self.sequence = 0
        self.world.after(RETRY_MS, self.send)


class Reader(Client):
    """Reads a partition from its beginning, from leaders and followers."""

    def __init__(self, world, id, key):
        super().__init__(world, id, key)
        self.position = 0
        self.version = 0

    def find(self):
        if self.random.random() < 0.3:
            self.leader = None
            return self.random.choice(self.world.nodes)
        return super().find()

    def start(self):
        if not self.rests:
            self.ask("fetch", Read(self.key, self.position), self.answer)

    def answer(self, found):
        if found is not None and found.error == 0:
            self.done += 1
            if found.data:
                self.world.tell("reads", self, found)
                self.position = batch_headers(found.data)[-1].last_offset + 1
        elif found is not None:
            self.leader = None
            if found.error == Errors.OFFSET_OUT_OF_RANGE.code and self.world.may_be_lost(self.key):
                self.begin_again()
        self.world.after(self.pause_ms(), self.start)

    def answered(self, number, then, result):
        if number == self.number:
            self.number += 1
            self.pending = (float("inf"), 0, None)
            if result[0] is None or result[0].error:
                self.leader = None
            then(*result)

    def begin_again(self):
        """The records read are lost in a documented way."""
        self.position = 0


class GroupMember(Client):
    """Commits rising offsets for a group, and fetches them.

    Attributes:
        given_up: Offsets whose commits had no answer in time.
    """

    def __init__(self, world, id):
        super().__init__(world, id, COORDINATOR_KEY)
        self.offset = 0
        self.committed = 0
        self.given_up: set[int] = set()

    def start(self):
        if self.rests:
            return
        if self.random.random() < 0.5:
            self.offset += 1
            self.commit()
        else:
            topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
            self.world.tell("offset_asked", self)
            self.ask("offset", OffsetFetchRequestGroup(group_id=GROUP, topics=topics), self.found)

    def commit(self):
        part = OffsetCommitRequestPartition(partition_index=0, committed_offset=self.offset)
        topic = OffsetCommitRequestTopic(name="t", partitions=[part])
        request = OffsetCommitRequest(
            group_id=GROUP, generation_id_or_member_epoch=-1, member_id="", topics=[topic]
        )
        self.ask("commit", request, self.answer)

    def answer(self, error, body=None):
        if error == 0 and body is not None:
            error = body.topics[0].partitions[0].error_code
        if error == 0:
            self.done += 1
            self.world.tell("offset_committed", self)
            self.committed = self.offset
        elif error is None:
            self.given_up.add(self.offset)
        self.again()

    def found(self, error, body=None):
        if error == 0 and body is not None and not body.error_code:
            self.done += 1
            self.world.tell("offset_found", self, body.topics[0].partitions[0].committed_offset)
        self.again()

    def again(self):
        self.world.after(self.pause_ms(), self.start)
