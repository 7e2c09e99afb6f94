"""Members of a consumer group (KIP-848): they join, follow assignments, commit, leave, crash, or pause.

Some users have an instance id: their members are static, and leave so that the next one replaces them.

A user keeps one member at work, and sometimes an older one beside it. A member is a script, like
transactional instances. It reads nothing: a position is a number that grows while the member owns the
partition.
"""

from bowstring.engine.groups.modern.group import LEAVE_EPOCH, LEAVE_STATIC_EPOCH
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from bowstring.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from bowstring.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from tests.simulation.cluster.clients import RETRY_MS
from tests.simulation.cluster.transactional_clients import GROUP_KEY, RETRIED, Ask, Fenced, Instance, User

CONSUMERS = "consumers"
FENCED = {
    each.code for each in (Errors.FENCED_MEMBER_EPOCH, Errors.UNKNOWN_MEMBER_ID, Errors.STALE_MEMBER_EPOCH)
}
REPLACED = Errors.FENCED_INSTANCE_ID.code
# Also of members whose instance id belongs to another member by now.
REFUSED = FENCED | {REPLACED, Errors.UNRELEASED_INSTANCE_ID.code}
SILENT_MS = 5000
HEARTBEAT_VERSION, COMMIT_VERSION = 1, 9


def grouped(keys):
    """Partitions by topic."""
    by_topic: dict[str, list[int]] = {}
    for topic, index in sorted(keys):
        by_topic.setdefault(topic, []).append(index)
    return by_topic


class Member(Instance):
    """A member from its first heartbeat to its end.

    Attributes:
        owned: The partitions that it may use.
        told: The owned partitions in its last heartbeat with them; None if the next one must be full.
        positions: The next offset to read in each owned partition.
        late: By partition, offsets whose commits may arrive late, or twice.
    """

    def __init__(self, user, number):
        super().__init__(user, number)
        self.id = f"m{user.id}.{number}"
        self.epoch = 0
        self.topics = user.choose_topics()
        self.owned: set[tuple[str, int]] = set()
        self.told: set[tuple[str, int]] | None = None
        self.positions: dict[tuple[str, int], int] = {}
        self.late: dict[tuple[str, int], set[int]] = {}

    def __str__(self):
        return f"member {self.id}"

    def run(self):
        while self.user.wants_more(self):
            yield from self.beat()
            if self.epoch > 0:
                yield from self.work()
            yield self.user.heartbeat_pause_ms()
        if self.random.random() < 0.7:
            yield from self.leave()
        self.drop()

    def crash(self):
        super().crash()
        self.drop()

    def drop(self):
        """It is fenced or ending: it uses no partitions any more."""
        self.owned = set()
        self.positions = {}
        self.epoch, self.told = 0, None

    def request(self, request, version, *, may_repeat):
        """Sends one request; returns its answer, or None. The request may arrive a second time, and late."""
        ask = Ask(GROUP_KEY, "ask", (request, version))
        if may_repeat and self.random.random() < self.world.plan.repeat and not self.user.is_calm:
            self.world.after(self.random.choice((5, 100, 1000)), self.repeat, (ask,))
        (found,) = yield [ask]
        if found is None or found[0]:
            self.leaders.pop(GROUP_KEY, None)
            return None
        return found[1]

    def repeat(self, ask):
        node = self.leader(GROUP_KEY)
        if node is not None:
            node.receive(None, "on_client", (ask.kind, ask.request, lambda *result: None))

    # ---- heartbeats

    def beat(self):
        self.choose_again()
        is_full = self.told is None
        request = ConsumerGroupHeartbeatRequest(
            group_id=CONSUMERS,
            member_id=self.id,
            member_epoch=self.epoch,
            instance_id=self.user.instance_id,
        )
        if is_full:
            request.rebalance_timeout_ms = self.user.rebalance_timeout_ms
            request.subscribed_topic_names = sorted(self.topics)
        if is_full or self.told != self.owned:
            request.topic_partitions = self.topic_partitions()
        tells = set(self.owned)
        self.world.tell("member_beats", self)
        # A late heartbeat with a member's partitions, even an empty list, is indistinguishable from a new
        # one: Kafka relies on the order of a connection.
        answer = yield from self.request(
            request, HEARTBEAT_VERSION, may_repeat=request.topic_partitions is None
        )
        error = None if answer is None else answer.error_code
        if error == 0:
            self.user.done += 1
            self.told = tells
            yield from self.follow(answer)
        elif error is None or error in RETRIED:
            self.told = None
            self.leaders.pop(GROUP_KEY, None)
            yield RETRY_MS
        else:
            self.world.say(None, f"{self} is refused", Errors.of(error))
            self.world.tell("member_refused", self, error)
            self.drop()
            if error == REPLACED:
                raise Fenced

    def choose_again(self):
        """Changes the subscription now and then."""
        if self.user.is_calm:
            wanted = self.user.all_topics
        elif self.random.random() < 0.03:
            wanted = self.user.choose_topics()
        else:
            return
        if wanted != self.topics:
            self.topics = wanted
            self.told = None

    def topic_partitions(self):
        topics = self.world.newest_image().topics
        return [
            TopicPartitions(topic_id=topics[topic].id, partitions=indexes)
            for topic, indexes in grouped(self.owned).items()
        ]

    def follow(self, answer):
        """Gives up partitions outside the assignment, after a last commit, and uses the others."""
        self.epoch = answer.member_epoch
        self.world.tell("member_answered", self)
        if answer.assignment is None:
            return
        names = self.world.newest_image().topics_by_id
        assigned = {
            (names[topic.topic_id].name, index)
            for topic in answer.assignment.topic_partitions
            for index in topic.partitions
        }
        given, revoked = assigned - self.owned, self.owned - assigned
        self.world.say(None, f"{self} has in epoch {self.epoch}", sorted(assigned))
        self.owned |= given
        if given:
            self.world.tell("member_given", self, given)
        if revoked:
            yield self.user.pause_ms()
            yield from self.commit(revoked)
            self.owned -= revoked
            for key in revoked:
                self.positions.pop(key, None)

    # ---- work

    def work(self):
        missing = self.owned - self.positions.keys()
        if missing:
            yield from self.find(missing)
        for key in sorted(self.positions):
            self.positions[key] += self.random.choice((0, 1, 3))
        if self.random.random() < 0.6:
            yield from self.commit(self.owned)

    def find(self, keys):
        """Fetches the offsets to begin at."""
        topics = [
            OffsetFetchRequestTopics(name=topic, partition_indexes=indexes)
            for topic, indexes in grouped(keys).items()
        ]
        group = OffsetFetchRequestGroup(
            group_id=CONSUMERS, member_id=self.id, member_epoch=self.epoch, topics=topics
        )
        self.world.tell("member_asks", self, keys)
        (found,) = yield [Ask(GROUP_KEY, "stable_offset", group)]
        if found is None or found[0] or found[1].error_code:
            self.leaders.pop(GROUP_KEY, None)
            return
        for topic in found[1].topics:
            for part in topic.partitions:
                if not part.error_code:
                    key = topic.name, part.partition_index
                    self.positions[key] = max(0, part.committed_offset)
                    self.world.tell("member_found", self, key, part.committed_offset)

    def commit(self, keys):
        """Commits its positions; a refusal does not matter, as the next heartbeat shows the reason."""
        offsets = {key: self.positions[key] for key in keys if key in self.positions}
        if not offsets:
            return
        request = OffsetCommitRequest(
            group_id=CONSUMERS,
            generation_id_or_member_epoch=self.epoch,
            member_id=self.id,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic, partitions=[self.commit_part((topic, index)) for index in indexes]
                )
                for topic, indexes in grouped(offsets).items()
            ],
        )
        for key, offset in offsets.items():
            self.late.setdefault(key, set()).add(offset)
        answer = yield from self.request(request, COMMIT_VERSION, may_repeat=True)
        if answer is None:
            return
        for topic in answer.topics:
            for part in topic.partitions:
                key = topic.name, part.partition_index
                if not part.error_code:
                    self.world.tell("member_committed", self, key, offsets[key])
                elif part.error_code in RETRIED:
                    self.leaders.pop(GROUP_KEY, None)
                elif part.error_code not in FENCED:
                    self.world.tell("member_refused", self, part.error_code)

    def commit_part(self, key):
        return OffsetCommitRequestPartition(
            partition_index=key[1], committed_offset=self.positions[key], committed_metadata=self.id
        )

    def leave(self):
        if self.epoch <= 0:
            return
        self.owned = set()
        comes_back = self.user.instance_id is not None and self.random.random() < 0.7
        request = ConsumerGroupHeartbeatRequest(
            group_id=CONSUMERS,
            member_id=self.id,
            member_epoch=LEAVE_STATIC_EPOCH if comes_back else LEAVE_EPOCH,
            instance_id=self.user.instance_id,
        )
        yield from self.request(request, HEARTBEAT_VERSION, may_repeat=True)


class Consumer(User):
    """A consumer: one member at a time, and the members that it has replaced."""

    INSTANCE = Member

    def __init__(self, world, id, topics):
        super().__init__(world, id, [])
        self.key = GROUP_KEY
        self.all_topics = frozenset(topics)
        self.rebalance_timeout_ms = self.random.choice((300, 1500))
        self.instance_id = self.random.choice((None, f"i{id}"))

    def __str__(self):
        return f"Consumer {self.id}"

    def choose_topics(self):
        if self.is_calm or self.random.random() < 0.7:
            return self.all_topics
        return frozenset(self.random.sample(sorted(self.all_topics), 1))

    def heartbeat_pause_ms(self):
        if self.is_calm:
            return 200
        # Now and then, one is silent beyond its session, and continues as if nothing had happened.
        return SILENT_MS if self.random.random() < 0.01 else self.random.uniform(10, 200)

    def is_content(self):
        """Whether the group is settled; once the consumer rests, its members leave."""
        return self.rests or (super().is_content() and self.world.unsettled() is None)
