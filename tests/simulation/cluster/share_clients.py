"""Members of a share group (KIP-932): they fetch records and accept, release, reject or renew them.

Some leave, crash, or are so slow that their locks end.

A user keeps one member at work, and sometimes an older one beside it. A member is a script, like those of
consumer groups. It has one connection, with a share session, to each broker that leads assigned partitions.
"""

from typing import NamedTuple

from bowstring.engine.groups.modern.group import LEAVE_EPOCH
from bowstring.engine.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, next_epoch
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages import share_acknowledge, share_fetch
from bowstring.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.simulation.cluster.clients import RETRY_MS
from tests.simulation.cluster.group_clients import grouped
from tests.simulation.cluster.transactional_clients import GROUP_KEY, RETRIED, Ask, Instance, User

SHARERS = "sharers"
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
HEARTBEAT_VERSION, SHARE_VERSION = 1, 2
MAX_BYTES = 1 << 20
QUIET_MS = 300
LOST_SESSION = {
    each.code
    for each in (
        Errors.SHARE_SESSION_NOT_FOUND,
        Errors.INVALID_SHARE_SESSION_EPOCH,
        Errors.SHARE_SESSION_LIMIT_REACHED,
    )
}


class Asked(NamedTuple):
    """A share member's request to the leader of partitions.

    Attributes:
        life: Of the broker at the other end of the connection.
        acknowledged: By topic id and partition: first and last offset, and types, of its acknowledgements.
    """

    member: str
    connection: int
    life: int
    request: object
    version: int
    acknowledged: dict


class Connection:
    """A connection to one life of a broker, with the share session on it.

    Attributes:
        epoch: Of the session's next request.
        known: The partitions in the session.
    """

    def __init__(self, node, number):
        self.node = node
        self.life = node.life
        self.number = number
        self.reset()

    def reset(self):
        self.epoch = INITIAL_EPOCH
        self.known: set[tuple[str, int]] = set()


class ShareMember(Instance):
    """A member from its first heartbeat to its end.

    Attributes:
        assigned: Its partitions.
        held: By partition: the ranges that it has acquired and not acknowledged.
        decided: By partition: the acknowledgements of its next request, (first, last, types).
    """

    def __init__(self, user, number):
        super().__init__(user, number)
        self.id = f"s{user.id}.{number}"
        self.epoch = 0
        self.is_told = False
        self.beats_at = 0.0
        self.assigned: set[tuple[str, int]] = set()
        self.held: dict[tuple[str, int], list[tuple[int, int]]] = {}
        self.decided: dict[tuple[str, int], list[tuple[int, int, list[int]]]] = {}
        self.connections: dict[int, Connection] = {}

    def __str__(self):
        return f"share member {self.id}"

    def run(self):
        while self.user.wants_more(self):
            if self.world.now >= self.beats_at:
                yield from self.beat()
            if self.assigned:
                yield from self.fetch()
                yield from self.work()
            yield self.user.pause_ms()
        if self.random.random() < 0.7:
            yield from self.leave()
        self.disconnect()

    def crash(self):
        super().crash()
        self.disconnect()

    def disconnect(self):
        for connection in list(self.connections.values()):
            self.close(connection)

    # ---- heartbeats

    def beat(self):
        request = ShareGroupHeartbeatRequest(group_id=SHARERS, member_id=self.id, member_epoch=self.epoch)
        if not self.is_told:
            request.subscribed_topic_names = [self.user.topic]
        self.beats_at = self.world.now + self.user.heartbeat_pause_ms()
        answer = yield from self.heartbeat(request)
        error = None if answer is None else answer.error_code
        if error == 0:
            self.is_told = True
            self.follow(answer)
        elif error is None or error in RETRIED:
            self.is_told, self.beats_at = False, 0.0
            yield RETRY_MS
        else:
            self.world.say(None, f"{self} is refused", Errors.of(error))
            self.world.tell("share_refused", self, error)
            self.epoch, self.is_told, self.beats_at = 0, False, 0.0
            self.assigned = set()
            if error == Errors.GROUP_ID_NOT_FOUND.code:
                yield RETRY_MS

    def heartbeat(self, request):
        # No heartbeat is duplicated: it may move the member to another assignment, which only its own answer
        # shows.
        (found,) = yield [Ask(GROUP_KEY, "ask", (request, HEARTBEAT_VERSION))]
        if found is None or found[0]:
            self.leaders.pop(GROUP_KEY, None)
            return None
        if found[1].error_code in RETRIED:
            self.leaders.pop(GROUP_KEY, None)
        return found[1]

    def follow(self, answer):
        self.world.tell("share_member_answered", self, answer.member_epoch)
        self.epoch = answer.member_epoch
        if answer.assignment is None:
            return
        names = self.world.newest_image().topics_by_id
        self.assigned = {
            (names[topic.topic_id].name, index)
            for topic in answer.assignment.topic_partitions
            for index in topic.partitions
        }
        self.world.say(None, f"{self} has in epoch {self.epoch}", sorted(self.assigned))

    # ---- connections

    def connection(self, node):
        """The connection to a node; a new one if its process has ended."""
        found = self.connections.get(node.id)
        if found is not None and found.life != node.life:
            self.close(found)
            found = None
        if found is None:
            found = self.connections[node.id] = Connection(node, self.world.new_connection())
        return found

    def close(self, connection):
        """Closes a connection; the broker notices later, or never."""
        del self.connections[connection.node.id]
        delay_ms = self.world.client_delay_ms(self.random)
        if not self.user.is_calm and self.random.random() < 0.2:
            delay_ms = None
        if delay_ms is not None:
            if not self.user.is_calm:
                delay_ms += self.random.choice((0, 0, 50, 3000))
            asked = Asked(self.id, connection.number, connection.life, None, 0, {})
            self.world.after(
                delay_ms, connection.node.receive, (connection.life, "on_connection_ended", (asked,))
            )

    def by_node(self, keys):
        """Partitions by the node that leads them, in the member's view."""
        found: dict[object, list[tuple[str, int]]] = {}
        for key in sorted(keys):
            node = self.leader(key)
            if node is not None:
                found.setdefault(node, []).append(key)
        return found

    # ---- fetches

    def fetch(self):
        """Fetches from all leaders at once, with the decided acknowledgements."""
        sent = []
        for node, keys in self.by_node(self.assigned).items():
            connection = self.connection(node)
            sent.append((connection, self.fetch_request(connection, set(keys))))
        if not sent:
            return
        answers = yield [self.share_ask(*each) for each in sent]
        for (connection, asked), found in zip(sent, answers, strict=True):
            self.fetched(connection, asked, None if found is None or found[0] else found[1])

    def fetch_request(self, connection, keys):
        begins = connection.epoch == INITIAL_EPOCH
        added, forgotten = keys - connection.known, connection.known - keys
        decided = {} if begins else self.take_decided(connection.known & keys)
        topics = self.world.newest_image().topics
        most = 50 if self.user.is_calm else self.random.choice((1, 5, 50))
        request = share_fetch.ShareFetchRequest(
            group_id=SHARERS,
            member_id=self.id,
            share_session_epoch=connection.epoch,
            max_wait_ms=self.random.choice((0, 100, 400)),
            min_bytes=1,
            max_bytes=MAX_BYTES,
            max_records=most,
            batch_size=most,
            share_acquire_mode=self.random.choice((0, 1)),
            topics=[
                share_fetch.FetchTopic(
                    topic_id=topics[topic].id,
                    partitions=[
                        share_fetch.FetchPartition(
                            partition_index=index,
                            acknowledgement_batches=_batches(
                                share_fetch.AcknowledgementBatch, decided.get((topic, index), ())
                            ),
                        )
                        for index in indexes
                    ],
                )
                for topic, indexes in grouped(added | decided.keys()).items()
            ],
            forgotten_topics_data=[
                share_fetch.ForgottenTopic(topic_id=topics[topic].id, partitions=indexes)
                for topic, indexes in grouped(forgotten).items()
            ],
        )
        connection.known = set(keys)
        return self.asked(connection, request, decided)

    def asked(self, connection, request, decided):
        topics = self.world.newest_image().topics
        acknowledged = {(topics[topic].id, index): batches for (topic, index), batches in decided.items()}
        return Asked(self.id, connection.number, connection.life, request, SHARE_VERSION, acknowledged)

    def share_ask(self, connection, asked):
        # Any partition leads to its node.
        way = (connection.node.id, 0)
        self.leaders[way] = connection.node
        return Ask(way, "share", asked)

    def take_decided(self, keys):
        return {key: self.decided.pop(key) for key in sorted(keys) if self.decided.get(key)}

    def fetched(self, connection, asked, answer):
        if not self.is_answered(connection, answer):
            return
        self.user.done += 1
        connection.epoch = next_epoch(asked.request.share_session_epoch)
        names = self.world.newest_image().topics_by_id
        for topic in answer.responses:
            for part in topic.partitions:
                key = (names[topic.topic_id].name, part.partition_index)
                if part.error_code:
                    self.leaders.pop(key, None)
                got = [(each.first_offset, each.last_offset) for each in part.acquired_records]
                if got:
                    self.take(key, got)
                    self.world.say(None, f"{self} gets of {key[0]}-{key[1]}", got)

    def take(self, key, got):
        """Holds records; a record that it held before had been taken from it meanwhile."""

        def is_other(first, last):
            return all(last < each[0] or first > each[1] for each in got)

        self.held[key] = [each for each in self.held.get(key, ()) if is_other(*each)] + got
        self.decided[key] = [each for each in self.decided.get(key, ()) if is_other(*each[:2])]

    def is_answered(self, connection, answer):
        """Whether there is an answer; if not, begins another session, on a new connection if nothing came."""
        if answer is None:
            if self.connections.get(connection.node.id) is connection:
                self.close(connection)
            for key in connection.known:
                self.leaders.pop(key, None)
            return False
        if answer.error_code:
            if answer.error_code not in LOST_SESSION:
                self.world.tell("share_refused", self, answer.error_code)
            connection.reset()
            return False
        return True

    # ---- acknowledgements

    def work(self):
        """Processes its records; sometimes for longer than the lock lasts."""
        if not self.held:
            return
        plan = self.world.plan
        if not self.user.is_calm:
            yield 1.5 * plan.lock_ms if self.random.random() < 0.05 else self.user.pause_ms()
            if self.random.random() < 0.1:
                yield from self.acknowledge(self.renewals(), renews=True)
        for key in sorted(self.held):
            left = []
            for first, last in self.held[key]:
                if not self.user.is_calm and self.random.random() < 0.15:
                    left.append((first, last))
                else:
                    self.decided.setdefault(key, []).append((first, last, self.decide(last - first + 1)))
            self.held[key] = left
        self.held = {key: left for key, left in self.held.items() if left}
        for batches in self.decided.values():
            batches.sort()
        if self.user.is_calm or self.random.random() < 0.5:
            yield from self.acknowledge(self.take_decided(self.decided.keys()))

    def decide(self, count):
        if self.user.is_calm:
            return [ACCEPT]
        kinds = self.random.choices(
            (GAP, ACCEPT, RELEASE, REJECT), (1, 12, 3, 2), k=count if self.random.random() < 0.4 else 1
        )
        return kinds

    def renewals(self):
        return {key: [(*each, [RENEW]) for each in sorted(ranges)] for key, ranges in self.held.items()}

    def acknowledge(self, decided, *, renews=False):
        """Sends acknowledgements alone; those that cannot be sent are dropped, and their locks end."""
        sent = []
        for node, keys in self.by_node(decided).items():
            connection = self.connection(node)
            keys = [key for key in keys if key in connection.known]
            if connection.epoch != INITIAL_EPOCH and keys:
                sent.append((connection, {key: decided[key] for key in keys}))
        if not sent:
            return
        asked = []
        for connection, some in sent:
            request = self.acknowledge_request(connection.epoch, some, renews)
            asked.append((connection, self.asked(connection, request, some)))
        answers = yield [self.share_ask(*each) for each in asked]
        for (connection, each), found in zip(asked, answers, strict=True):
            if self.is_answered(connection, None if found is None or found[0] else found[1]):
                connection.epoch = next_epoch(each.request.share_session_epoch)

    def acknowledge_request(self, epoch, decided, renews):
        topics = self.world.newest_image().topics
        return share_acknowledge.ShareAcknowledgeRequest(
            group_id=SHARERS,
            member_id=self.id,
            share_session_epoch=epoch,
            is_renew_ack=renews,
            topics=[
                share_acknowledge.AcknowledgeTopic(
                    topic_id=topics[topic].id,
                    partitions=[
                        share_acknowledge.AcknowledgePartition(
                            partition_index=index,
                            acknowledgement_batches=_batches(
                                share_acknowledge.AcknowledgementBatch, decided[topic, index]
                            ),
                        )
                        for index in indexes
                    ],
                )
                for topic, indexes in grouped(decided).items()
            ],
        )

    # ---- the end

    def leave(self):
        """Closes its sessions, mostly with a last acknowledgement, and leaves the group."""
        decided = self.take_decided(self.decided.keys())
        asked = []
        for connection in list(self.connections.values()):
            some = {key: each for key, each in decided.items() if key in connection.known}
            if connection.epoch != INITIAL_EPOCH and self.random.random() < 0.7:
                request = self.acknowledge_request(FINAL_EPOCH, some, False)
                asked.append((connection, self.asked(connection, request, some)))
        if asked:
            yield [self.share_ask(*each) for each in asked]
        if self.epoch > 0:
            request = ShareGroupHeartbeatRequest(
                group_id=SHARERS, member_id=self.id, member_epoch=LEAVE_EPOCH
            )
            yield from self.heartbeat(request)


class ShareConsumer(User):
    """A share consumer: one member at a time, and the members that it has replaced."""

    INSTANCE = ShareMember

    def __init__(self, world, id, topic):
        super().__init__(world, id, [])
        self.key = GROUP_KEY
        self.topic = topic
        self.quiet_since = 0.0

    def __str__(self):
        return f"ShareConsumer {self.id}"

    def heartbeat_pause_ms(self):
        if self.is_calm:
            return 200
        # Now and then, one is silent beyond its session, and continues as if nothing had happened.
        return 5000 if self.random.random() < 0.01 else self.random.uniform(50, 400)

    def pause_ms(self):
        return 20 if self.is_calm else super().pause_ms()

    def wants_more(self, instance):
        """Once it rests, it continues until the group is done with all records and no more come."""
        is_last = instance is self.instances[-1]
        if not self.rests:
            return is_last or not self.is_calm
        if self.world.is_written_to() or self.world.undelivered() is not None:
            self.quiet_since = self.world.now
        return is_last and self.world.now < self.quiet_since + QUIET_MS


def _batches(cls, batches):
    return [
        cls(first_offset=first, last_offset=last, acknowledge_types=types) for first, last, types in batches
    ]
