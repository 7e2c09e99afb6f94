"""Groups against a broker: sharing, rebalancing, committing, taking over."""

import threading
import time

import pytest

from bowstring.clients.consumer.consumer import Consumer
from bowstring.clients.errors import CommitFailedError, ConfigError, GroupError
from bowstring.clients.producer.producer import Producer
from bowstring.clients.records import OffsetAndMetadata, TopicPartition
from tests.support.waiting import HANG_S, wait_until

FAST = {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 100}


def fill(bootstrap, topic, count, partitions=1):
    with Producer(bootstrap) as producer:
        for i in range(count):
            producer.send(topic, b"%d" % i, partition=i % partitions)


class Members:
    """Consumers that poll in threads of their own until the test ends."""

    def __init__(self, bootstrap, group):
        self.bootstrap, self.group = bootstrap, group
        self.members = {}
        self.stopping = {}

    def add(self, name, topics, **options):
        consumer = Consumer(self.bootstrap, group_id=self.group, client_id=name, **{**FAST, **options})
        events, values, stop = [], [], threading.Event()
        consumer.subscribe(
            topics,
            on_assigned=lambda p: events.append(("+", sorted(p))),
            on_revoked=lambda p: events.append(("-", sorted(p))),
        )

        def work():
            while not stop.is_set():
                values.extend(int(r.value) for r in consumer.poll(timeout=0.1))
            consumer.close()

        thread = threading.Thread(target=work)
        thread.start()
        self.members[name] = (consumer, events, values)
        self.stopping[name] = (stop, thread)
        return consumer, events, values

    def remove(self, name):
        stop, thread = self.stopping.pop(name)
        stop.set()
        thread.join(HANG_S)
        assert not thread.is_alive()
        return self.members.pop(name)

    def await_(self, condition, what):
        wait_until(condition, lambda: f"{what}; {[m[1] for m in self.members.values()]}")

    def shares(self):
        return sorted(len(consumer.assignment()) for consumer, _, _ in self.members.values())


@pytest.fixture
def members(bootstrap, new_group):
    made = Members(bootstrap, new_group)
    yield made
    for name in list(made.stopping):
        made.remove(name)


@pytest.mark.parametrize("assignors", [("range",), ("cooperative-sticky",), ("range", "cooperative-sticky")])
def test_members_share_and_take_over(bootstrap, new_topic, members, assignors):
    topic = new_topic(partitions=4)
    members.add("one", [topic], assignors=assignors)
    members.await_(lambda: members.shares() == [4], "one has all")
    members.add("two", [topic], assignors=assignors)
    members.await_(lambda: members.shares() == [2, 2], "two share")
    first, second = (consumer.assignment() for consumer, _, _ in members.members.values())
    assert not first & second
    fill(bootstrap, topic, 100, 4)
    members.await_(lambda: sum(len(v) for _, _, v in members.members.values()) >= 100, "100 records")
    assert sorted(v for _, _, values in members.members.values() for v in values) == list(range(100))
    members.remove("one")
    members.await_(lambda: members.shares() == [4], "the other takes over")


def test_cooperative_keeps_what_it_keeps(new_topic, members):
    topic = new_topic(partitions=4)
    _, events, _ = members.add("one", [topic], assignors=("cooperative-sticky",))
    members.await_(lambda: members.shares() == [4], "one has all")
    members.add("two", [topic], assignors=("cooperative-sticky",))
    members.await_(lambda: members.shares() == [2, 2], "two share")
    revoked = [p for sign, partitions in events if sign == "-" for p in partitions]
    assert len(revoked) == 2, "only what moved was revoked"


def test_committed_offsets_are_where_the_next_begins(bootstrap, new_topic, new_group):
    topic = new_topic()
    fill(bootstrap, topic, 10)
    p = TopicPartition(topic, 0)
    with Consumer(bootstrap, group_id=new_group, enable_auto_commit=False, **FAST) as consumer:
        consumer.subscribe([topic])
        records = []
        while len(records) < 4:
            records += consumer.poll(5, max_records=4 - len(records))
        consumer.commit()
        assert consumer.committed([p])[p].offset == 4
        consumer.commit({p: OffsetAndMetadata(6, metadata="mine")})
        assert consumer.committed([p])[p][::2] == (6, "mine")
        consumer.commit({p: 5}, asynchronous=True)
        consumer.poll(timeout=0.2)
    with Consumer(bootstrap, group_id=new_group, **FAST) as consumer:
        consumer.subscribe([topic])
        assert consumer.poll(timeout=HANG_S)[0].offset == 5


def test_auto_commit_on_close(bootstrap, admin, new_topic, new_group):
    topic = new_topic()
    fill(bootstrap, topic, 7)
    with Consumer(bootstrap, group_id=new_group, **FAST) as consumer:
        consumer.subscribe([topic])
        assert len(consumer.poll(timeout=HANG_S)) == 7
    assert admin.committed_offsets(new_group)[TopicPartition(topic, 0)].offset == 7
    assert [row.lag for row in admin.group_lag(new_group)] == [0]


def test_auto_commit_as_time_goes_by(bootstrap, admin, new_topic, new_group):
    topic = new_topic()
    fill(bootstrap, topic, 7)
    with Consumer(bootstrap, group_id=new_group, auto_commit_interval_ms=100, **FAST) as consumer:
        consumer.subscribe([topic])
        assert len(consumer.poll(timeout=HANG_S)) == 7
        deadline = time.monotonic() + HANG_S
        while (
            admin.committed_offsets(new_group).get(TopicPartition(topic, 0), OffsetAndMetadata(0)).offset != 7
        ):
            assert time.monotonic() < deadline
            consumer.poll(timeout=0.1)


def test_assigned_partitions_may_commit_too(bootstrap, new_topic, new_group):
    topic = new_topic()
    fill(bootstrap, topic, 3)
    p = TopicPartition(topic, 0)
    for expected in (0, 3):
        with Consumer(bootstrap, group_id=new_group, **FAST) as consumer:
            consumer.assign([p])
            assert consumer.position(p) == expected
            if expected == 0:
                assert len(consumer.poll(timeout=HANG_S)) == 3


def test_patterns(bootstrap, new_topic, members):
    topic = new_topic()
    other = new_topic()
    with Consumer(bootstrap, group_id=members.group, metadata_max_age_ms=200, **FAST) as consumer:
        consumer.subscribe(pattern=f"{topic}|{topic}-later")
        deadline = time.monotonic() + HANG_S
        while {p.topic for p in consumer.assignment()} != {topic}:
            consumer.poll(timeout=0.2)
            assert time.monotonic() < deadline
        assert other not in consumer.subscription()


def test_a_static_member_keeps_its_share(bootstrap, new_topic, new_group):
    topic = new_topic(partitions=2)
    options = {"group_id": new_group, "group_instance_id": "i1", **FAST}
    with Consumer(bootstrap, **options) as consumer:
        consumer.subscribe([topic])
        while len(consumer.assignment()) < 2:
            consumer.poll(timeout=0.2)
    with Consumer(bootstrap, **options) as consumer:
        consumer.subscribe([topic])
        deadline = time.monotonic() + HANG_S
        while len(consumer.assignment()) < 2:
            consumer.poll(timeout=0.2)
            assert time.monotonic() < deadline


def test_a_member_that_was_put_out_rejoins(bootstrap, admin, new_topic, new_group):
    topic = new_topic()
    lost = []
    with Consumer(bootstrap, group_id=new_group, **FAST) as consumer:
        consumer.subscribe([topic], on_lost=lost.append)
        while not consumer.assignment():
            consumer.poll(timeout=0.2)
        # Only now: before and after this, a machine that stands still would put it out once more.
        polled_often_enough = consumer._group._threads.classic._max_poll_interval_s
        consumer._group._threads.classic._max_poll_interval_s = 0.4
        wait_until(lambda: not admin.describe_group(new_group).members, "the heartbeat thread does not leave")
        consumer._group._threads.classic._max_poll_interval_s = polled_often_enough
        deadline = time.monotonic() + HANG_S
        while not lost or not consumer.assignment():
            consumer.poll(timeout=0.2)
            assert time.monotonic() < deadline
    assert lost == [[TopicPartition(topic, 0)]]


def test_a_commit_of_a_stale_generation_fails(bootstrap, new_topic, new_group):
    topic = new_topic()
    with Consumer(bootstrap, group_id=new_group, enable_auto_commit=False, **FAST) as consumer:
        consumer.subscribe([topic])
        while not consumer.assignment():
            consumer.poll(timeout=0.2)
        consumer._group._member.generation += 5
        with pytest.raises(CommitFailedError, match=r"max_poll_interval_ms"):
            consumer.commit({TopicPartition(topic, 0): 1}, timeout=HANG_S)


def test_callbacks_may_use_the_consumer(bootstrap, new_topic, new_group):
    topic = new_topic()
    fill(bootstrap, topic, 5)
    with Consumer(bootstrap, group_id=new_group, **FAST) as consumer:
        consumer.subscribe([topic], on_assigned=lambda partitions: consumer.seek(partitions[0], 3))
        assert consumer.poll(timeout=HANG_S)[0].offset == 3


def test_assign_and_subscribe_exclude_each_other(bootstrap, new_topic, new_group):
    with Consumer(bootstrap, group_id=new_group, **FAST) as consumer:
        consumer.subscribe([new_topic()])
        with pytest.raises(ConfigError, match=r"unsubscribe"):
            consumer.assign([("x", 0)])
        consumer.unsubscribe()
        consumer.assign([])


def test_admin_sees_and_changes_groups(bootstrap, admin, new_topic, new_group):
    topic = new_topic(partitions=2)
    fill(bootstrap, topic, 10, 2)
    first = TopicPartition(topic, 0)
    with Consumer(bootstrap, group_id=new_group, client_id="seen", **FAST) as consumer:
        consumer.subscribe([topic])
        while len(consumer.assignment()) < 2:
            consumer.poll(timeout=0.2)
        found = admin.describe_group(new_group)
        assert (found.state, found.members[0].client_id) == ("Stable", "seen")
        assert found.members[0].assignment == [first, TopicPartition(topic, 1)]
        with pytest.raises(GroupError, match=r"NON_EMPTY_GROUP"):
            admin.delete_groups([new_group])
        with pytest.raises(GroupError, match=r"members"):
            admin.alter_offsets(new_group, {first: 0})
    assert new_group in [group.group_id for group in admin.list_groups(["empty"])]
    admin.alter_offsets(new_group, {first: 2})
    assert admin.committed_offsets(new_group, [first])[first].offset == 2
    admin.delete_offsets(new_group, [first])
    assert first not in admin.committed_offsets(new_group)
    admin.delete_groups([new_group])
    with pytest.raises(GroupError, match=r"GROUP_ID_NOT_FOUND"):
        admin.describe_group(new_group)


def test_a_topic_that_appears_later_is_read(bootstrap, admin, new_topic, new_group):
    later = new_topic() + "-later"
    with Consumer(bootstrap, group_id=new_group, allow_auto_create=False, **FAST) as consumer:
        consumer.subscribe([later])
        for _ in range(5):
            consumer.poll(timeout=0.2)
        assert consumer.assignment() == set()
        admin.create_topic(later, 1)
        deadline = time.monotonic() + HANG_S
        while not consumer.assignment():
            consumer.poll(timeout=0.2)
            assert time.monotonic() < deadline
    admin.delete_topics([later])
