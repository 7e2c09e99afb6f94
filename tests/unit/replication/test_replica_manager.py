"""Roles from images, and in-sync replicas proposed to a controller; without a data plane."""

import random

import pytest

from bowstring.engine.metadata.image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from bowstring.engine.replication.isr_changes import RETRY_MS
from bowstring.engine.replication.replica_manager import ReplicaManager
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages import alter_partition as messages

ID = b"t" * 16
KEY = (ID, 0)


class Recorder:
    """Notes the calls to the data plane and the logs."""

    def __init__(self) -> None:
        self.calls: list[tuple] = []
        self.may_join = True

    def try_join(self, *_args, **_named):
        return self.may_join

    def __getattr__(self, name):
        def call(*args, **named):
            self.calls.append((name, *args, named))
            return True

        return call

    def take(self):
        taken, self.calls = self.calls, []
        return taken


def image_of(leader=1, isr=(1, 2, 3), leader_epoch=5, partition_epoch=10, replicas=(1, 2, 3), fenced=()):
    image = ClusterImage()
    topic = TopicImage("topic", ID)
    topic.partitions.append(
        PartitionImage(
            replicas, tuple(isr), leader, leader_epoch, partition_epoch, (b"d" * 16,) * len(replicas)
        )
    )
    image.topics["topic"] = image.topics_by_id[ID] = topic
    for broker in (1, 2, 3):
        image.brokers[broker] = BrokerImage(broker, 100 + broker, b"", (), None, broker in fenced, ())
    return image


@pytest.fixture
def plane():
    return Recorder()


@pytest.fixture
def logs():
    return Recorder()


@pytest.fixture
def manager(plane, logs):
    return ReplicaManager(1, plane, logs, lambda broker: (f"10.0.0.{broker.id}", 9092))


def answer(error=0, isr=(), leader_epoch=5, partition_epoch=11):
    partition = messages.AlterPartitionResponsePartitionData(
        partition_index=0,
        error_code=error,
        leader_id=1,
        leader_epoch=leader_epoch,
        isr=list(isr),
        partition_epoch=partition_epoch,
    )
    topic = messages.AlterPartitionResponseTopicData(topic_id=ID, partitions=[partition])
    return messages.AlterPartitionResponse(topics=[topic])


def names(calls):
    return [call[0] for call in calls]


def test_a_new_partition_is_created_and_led(manager, plane, logs):
    manager.apply(image_of(fenced=[3]), [KEY])
    assert names(logs.take()) == ["create"]
    ((what, topic, index, named),) = plane.take()
    assert (what, topic, index) == ("lead", "topic", 0)
    assert (named["leader_epoch"], named["isr"], named["ineligible"]) == (5, (1, 2, 3), [3])


def test_a_partition_whose_log_is_not_open_yet_waits_for_the_change_that_opens_it(manager, plane, logs):
    logs.create = lambda *_: False  # it was assigned to this broker after the logs of a change were opened
    manager.apply(image_of(leader=2), [KEY], brokers_changed=True)
    assert plane.take() == [] and list(manager.partitions()) == []
    del logs.create
    manager.apply(image_of(leader=2), [KEY])
    assert names(plane.take()) == ["follow"]


def test_a_follower_learns_the_address_and_changes_of_it(manager, plane):
    manager.apply(image_of(leader=2), [KEY])
    ((what, _, _, named),) = plane.take()
    assert (what, named) == (
        "follow",
        {"leader_epoch": 5, "leader_id": 2, "host": "10.0.0.2", "port": 9092},
    )
    manager.apply(image_of(leader=2, partition_epoch=11), [KEY])
    assert plane.take() == []  # the same leader in the same epoch
    manager.apply(image_of(leader=-1, leader_epoch=6, partition_epoch=12), [KEY])
    ((_, _, _, named),) = plane.take()
    assert named["host"] is None


def test_a_broker_that_stops_follows_nobody_once_it_is_out_of_the_isr(manager, plane):
    image = image_of(leader=2, leader_epoch=6, isr=(1, 2, 3))
    image.brokers[1] = image.brokers[1]._replace(in_controlled_shutdown=True)
    manager.apply(image, [KEY])
    assert plane.take()[-1][-1]["host"] == "10.0.0.2", "it is in the ISR, and still counts"
    after = image_of(leader=2, leader_epoch=6, partition_epoch=11, isr=(2, 3))
    after.brokers[1] = image.brokers[1]
    manager.apply(after, [KEY], brokers_changed=True)
    assert plane.take()[-1][-1]["host"] is None


def test_a_replica_that_leaves_is_removed(manager, plane, logs):
    manager.apply(image_of(), [KEY])
    logs.take(), plane.take()
    manager.apply(image_of(replicas=(2, 3), leader=2, isr=(2, 3), partition_epoch=11), [KEY])
    assert names(plane.take()) == ["stop"] and names(logs.take()) == ["remove"]
    manager.apply(ClusterImage(), [KEY])
    assert plane.take() == []


def test_lagging_followers_leave_together(manager, plane):
    manager.apply(image_of(), [KEY])
    plane.take()
    others = manager.on_events(
        [("lags", "topic", 0, 5, 2, 7), ("lags", "topic", 0, 5, 3, 7), ("fetch-failed", "topic", 0, 5, 6, 2)]
    )
    assert others == [("fetch-failed", "topic", 0, 6, 2)]
    ((what, _, _, isr, named),) = plane.take()
    assert (what, isr, named["joining"], named["changing"]) == ("set_isr", (1, 2, 3), (), True)
    assert named["leaving"], "the controller may remove it before this broker hears of it"
    request = manager.next_request(0, 101)
    (partition,) = request.topics[0].partitions
    assert (partition.new_isr, partition.partition_epoch, partition.leader_epoch) == ([], 10, 5)
    assert [(each.broker_id, each.broker_epoch) for each in partition.new_isr_with_epochs] == [(1, 101)]
    assert manager.next_request(0, 101) is None
    manager.answered(answer(isr=[1]), 0)
    assert (manager.isr_changes.shrinks, manager.isr_changes.expands) == (1, 0)
    ((_, _, _, isr, named),) = plane.take()
    assert (isr, named["changing"]) == ((1,), False)


def test_a_joining_follower_counts_at_once(manager, plane):
    manager.apply(image_of(isr=(1, 2)), [KEY])
    plane.take()
    manager.on_events([("may-join", "topic", 0, 5, 3, 103), ("may-join", "topic", 0, 4, 3, 103)])
    ((_, _, _, isr, named),) = plane.take()
    assert (isr, named["joining"]) == ((1, 2), (3,))
    manager.next_request(0, 101)
    manager.answered(answer(Errors.INELIGIBLE_REPLICA.code), 0)
    ((_, _, _, isr, named),) = plane.take()
    assert (isr, named["joining"], named["changing"]) == ((1, 2), (), False)


def test_requests_without_an_answer_are_repeated(manager):
    manager.apply(image_of(), [KEY])
    manager.on_events([("lags", "topic", 0, 5, 2, 7)])
    first = manager.next_request(0, 101)
    manager.failed(0)
    assert manager.next_request(RETRY_MS - 1, 101) is None
    assert manager.next_request(RETRY_MS, 101) == first
    manager.answered(messages.AlterPartitionResponse(error_code=Errors.STALE_BROKER_EPOCH.code), 100)
    assert manager.next_request(100 + RETRY_MS, 102).broker_epoch == 102


def test_an_outdated_leader_waits_for_the_image(manager, plane):
    manager.apply(image_of(), [KEY])
    manager.on_events([("lags", "topic", 0, 5, 2, 7)])
    manager.next_request(0, 101)
    plane.take()
    manager.answered(answer(Errors.FENCED_LEADER_EPOCH.code), 0)
    assert plane.take() == [] and manager.next_request(1000, 101) is None
    manager.apply(image_of(leader=2, leader_epoch=6, partition_epoch=11), [KEY])
    assert names(plane.take()) == ["follow"]


def test_an_answer_that_is_newer_than_the_image_counts(manager, plane):
    manager.apply(image_of(), [KEY])
    manager.on_events([("lags", "topic", 0, 5, 2, 7)])
    manager.next_request(0, 101)
    manager.answered(answer(isr=[1, 3], partition_epoch=12), 0)
    plane.take()
    manager.apply(image_of(partition_epoch=11), [KEY])
    assert plane.take() == []
    manager.on_events([("may-join", "topic", 0, 5, 2, 102)])
    plane.take()
    manager.apply(image_of(isr=(1, 3), partition_epoch=12), [KEY])
    assert plane.take() == [], "the change under way goes on"
    assert manager.next_request(100, 101) is not None
    manager.apply(image_of(isr=(1, 3), replicas=(1, 3), partition_epoch=12), [KEY])
    assert names(plane.take()) == ["lead"], "a reassignment ended with the change"


def test_a_fenced_broker_may_not_join(manager, plane):
    manager.apply(image_of(isr=(1, 2)), [KEY])
    plane.take()
    manager.apply(image_of(isr=(1, 2), fenced=[3]), [], brokers_changed=True)
    ((what, _, _, named),) = plane.take()
    assert (what, named["ineligible"]) == ("lead", [3])


def test_a_change_of_brokers_renews_only_what_it_concerns(manager, plane):
    image = image_of()
    other = TopicImage("other", b"o" * 16)
    other.partitions.append(PartitionImage((1, 2), (1, 2), 1, 5, 10, (b"d" * 16,) * 2))
    image.topics["other"] = image.topics_by_id[other.id] = other
    manager.apply(image, [KEY, (other.id, 0)], brokers_changed=True)
    assert names(plane.take()) == ["lead", "lead"], "once each"
    manager.apply(image, [], brokers_changed=True)
    assert plane.take() == [], "no broker differs"
    image.brokers[3] = image.brokers[3]._replace(epoch=200)
    manager.apply(image, [], brokers_changed=True)
    ((what, topic, _, named),) = plane.take()
    assert (what, topic, named["broker_epochs"][3]) == ("lead", "topic", 200)


def test_brokers_change_while_a_change_of_replicas_is_under_way(manager, plane):
    """The data plane gets eligible replicas at once, and new broker epochs when the ISR change has ended."""
    image = image_of(isr=(1, 2, 3), fenced=[3])
    manager.apply(image, [KEY], brokers_changed=True)
    manager.on_events([("lags", "topic", 0, 5, 3, 7)])
    assert manager.next_request(0, 101) is not None
    plane.take()
    image.brokers[3] = image.brokers[3]._replace(epoch=200, fenced=False)
    manager.apply(image, [], brokers_changed=True)
    ((what, _, _, _, named),) = plane.take()
    assert (what, named["ineligible"], named["changing"]) == ("set_isr", [], True)
    manager.answered(answer(isr=[1, 2]), 0)
    ((what, _, _, named),) = plane.take()
    assert (what, named["isr"], named["ineligible"]) == ("lead", (1, 2), [])
    assert named["broker_epochs"][3] == 200
    manager.on_events([("may-join", "topic", 0, 5, 3, 200)])
    assert names(plane.take()) == ["set_isr"], "the data plane knows the brokers"


def test_a_replica_that_the_high_watermark_has_passed_does_not_join(manager, plane):
    manager.apply(image_of(isr=(1, 2)), [KEY])
    plane.may_join = False
    manager.on_events([("may-join", "topic", 0, 5, 3, 103)])
    assert manager.next_request(0, 101) is None
    plane.may_join = True
    manager.on_events([("may-join", "topic", 0, 5, 3, 103)])
    assert manager.next_request(0, 101) is not None


@pytest.mark.parametrize("seed", range(10))
def test_random_answers(manager, plane, seed):
    """The ISR is the last one that the controller committed, and at most one request is in flight."""
    rng = random.Random(seed)
    committed, epoch, now = (1, 2, 3), 10, 0.0
    manager.apply(image_of(), [KEY])
    pending = None
    for _ in range(300):
        now += rng.randint(0, 40)
        broker = rng.choice([2, 3])
        kind = rng.choice(["lags", "may-join"])
        manager.on_events([(kind, "topic", 0, 5, broker, 0)])
        request = manager.next_request(now, 101)
        assert request is None or pending is None
        pending = request or pending
        if pending is not None and rng.random() < 0.7:
            asked = pending.topics[0].partitions[0].new_isr_with_epochs
            proposed = tuple(each.broker_id for each in asked)
            fate = rng.choice(["commit", "refuse", "lose", "lose-answer"])
            if fate in ("commit", "lose-answer") and pending.topics[0].partitions[0].partition_epoch == epoch:
                committed, epoch = proposed, epoch + 1
                if fate == "commit":
                    manager.answered(answer(isr=committed, partition_epoch=epoch), now)
                else:
                    manager.failed(now)
                    manager.apply(image_of(isr=committed, partition_epoch=epoch), [KEY])
            elif fate == "refuse":
                manager.answered(answer(Errors.INELIGIBLE_REPLICA.code), now)
            else:
                manager.failed(now)
            pending = None
        led = manager.isr_changes.partitions[KEY]
        assert led.isr == committed and led.partition_epoch == epoch and 1 in led.isr


def test_a_leader_elected_uncleanly_says_that_it_has_recovered(manager):
    """The controller refuses followers to a RECOVERING leader; Kafka's leaders do nothing else to recover."""
    image = image_of(isr=(1,))
    topic = image.topics["topic"]
    topic.partitions[0] = topic.partitions[0]._replace(leader_recovery_state=1)
    manager.apply(image, [KEY])
    manager.on_events([("may-join", "topic", 0, 5, 2, 102)])
    (partition,) = manager.next_request(0, 101).topics[0].partitions
    assert partition.leader_recovery_state == 0


def test_a_later_incarnation_does_not_join_by_the_fetch_of_an_earlier_one(manager):
    """A late request has the broker epoch of the fetch (KIP-903), so the controller refuses it."""
    manager.apply(image_of(isr=(1, 2)), [KEY])
    manager.on_events([("may-join", "topic", 0, 5, 3, 103)])
    image = image_of(isr=(1, 2))
    image.brokers[3] = image.brokers[3]._replace(epoch=203)  # it stopped uncleanly and registered again
    manager.apply(image, (), brokers_changed=True)
    for _ in range(2):
        (partition,) = manager.next_request(RETRY_MS, 101).topics[0].partitions
        epochs = {each.broker_id: each.broker_epoch for each in partition.new_isr_with_epochs}
        assert epochs == {1: 101, 2: 102, 3: 103}
        manager.failed(0)


def of_many(count):
    image = image_of()
    (topic,) = image.topics.values()
    topic.partitions[:] = topic.partitions * count
    return image, [(ID, index) for index in range(count)]


@pytest.mark.parametrize("brokers_changed", [False, True])
def test_a_partition_that_fails_does_not_keep_the_others_from_their_roles(plane, logs, brokers_changed):
    class Failing(Recorder):
        def lead(self, topic, index, **role):
            if index == 3:
                raise ZeroDivisionError("on purpose")
            self.calls.append(("lead", topic, index, role))

    plane = Failing()
    manager = ReplicaManager(1, plane, logs, lambda broker: None)
    image, keys = of_many(10)
    if brokers_changed:
        with pytest.raises(ZeroDivisionError):
            manager.apply(image, keys)
        plane.take()
        image.brokers[2] = BrokerImage(2, 999, b"", (), None, False, ())
        keys = []
    with pytest.raises(ZeroDivisionError):
        manager.apply(image, keys, brokers_changed=True)
    assert [index for _, _, index, _ in plane.take()] == [0, 1, 2, 4, 5, 6, 7, 8, 9]


def test_an_answer_is_taken_over_in_steps_also_behind_a_partition_that_fails(plane, manager):
    image, keys = of_many(5)
    manager.apply(image, keys)
    manager.on_events([("lags", "topic", index, 5, 3, 0) for _, index in keys])
    assert manager.next_request(0, 101) is not None
    plane.take()
    changed = manager.isr_changes.changed

    def failing(led):
        if led.key[1] == 1:
            raise ZeroDivisionError("on purpose")
        changed(led)

    manager.isr_changes.changed = failing
    partitions = [
        messages.AlterPartitionResponsePartitionData(
            partition_index=index, leader_id=1, leader_epoch=5, isr=[1, 2], partition_epoch=11
        )
        for _, index in keys[:4]  # none for the last
    ]
    topic = messages.AlterPartitionResponseTopicData(topic_id=ID, partitions=partitions)
    steps = manager.answer_steps(messages.AlterPartitionResponse(topics=[topic]), 1000)
    next(steps)
    assert names(plane.take()) == ["set_isr"]
    assert manager.isr_changes.due_ms() is None  # the next request waits for the last step
    with pytest.raises(ZeroDivisionError):
        list(steps)
    assert [call[2] for call in plane.take()] == [2, 3]
    again = manager.next_request(1000 + RETRY_MS, 101)
    assert [each.partition_index for each in again.topics[0].partitions] == [4]


@pytest.mark.parametrize("kind", ["may-join", "lags"])
def test_an_event_that_ends_in_a_failure_loses_none_behind_it(plane, manager, kind):
    image, keys = of_many(5)
    for topic in image.topics.values():
        topic.partitions[:] = [each._replace(in_sync=(1, 2)) for each in topic.partitions]
    manager.apply(image, keys)
    failed = []
    manager.when_failed = lambda key, failure: failed.append((key, type(failure)))

    def failing(topic, index, *_, **__):
        if index == 1:
            raise ZeroDivisionError("on purpose")
        return True

    plane.try_join = plane.set_isr = failing
    events = [(kind, "topic", index, 5, 3 if kind == "may-join" else 2, 103) for _, index in keys]
    others = manager.on_events([*events[:3], ("truncated", "topic", 0, 5, 0, 7), *events[3:]])
    assert others == [("truncated", "topic", 0, 0, 7)] and failed == [(keys[1], ZeroDivisionError)]
    (topic,) = manager.next_request(0, 101).topics
    assert {0, 2, 3, 4} <= {each.partition_index for each in topic.partitions}
