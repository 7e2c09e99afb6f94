"""A consumer group whose coordinator is killed or stopped: members and offsets stay."""

import pytest

import bowstring
from bowstring.clients.admin.admin import Admin
from bowstring.clients.consumer.consumer import Consumer
from bowstring.clients.producer.producer import Producer
from bowstring.clients.records import TopicPartition
from bowstring.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from bowstring.protocol.messages.find_coordinator import FindCoordinatorRequest
from bowstring.protocol.messages.list_groups import ListGroupsRequest
from bowstring.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from tests.support.cluster_requests import asked
from tests.support.streams_topologies import subtopology, topology
from tests.support.waiting import HANG_S, wait_until

TIMEOUT_MS = int(HANG_S * 1000)
TOPIC = "t"
PARTITION = TopicPartition(TOPIC, 0)


@pytest.fixture(scope="module", params=["os", "commit"])
def cluster(request):
    config = {"bowstring.durability": request.param}
    with bowstring.Cluster(3, config=config, start_timeout_s=HANG_S) as made:
        yield made


def coordinator_of(cluster, group):
    """Returns id and address of the group's coordinator, on which all brokers that run agree."""
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])

    def agreed():
        found = {
            (each.node_id, f"{each.host}:{each.port}")
            for broker_id in cluster.running_ids
            for each in asked(cluster, broker_id, request).coordinators
        }
        ((broker_id, address), *more) = found
        return (broker_id, address) if not more and broker_id in cluster.running_ids else None

    return wait_until(agreed)


def listed_at(cluster, group):
    """Returns the brokers that list a group: those that coordinate it."""
    return [
        broker_id
        for broker_id in cluster.running_ids
        if group in {each.group_id for each in asked(cluster, broker_id, ListGroupsRequest()).groups}
    ]


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_members_and_offsets_move(cluster, how):
    group, bootstrap = f"group-{how}", cluster.bootstrap_servers
    settings = {
        "auto_offset_reset": "earliest",
        "default_timeout_ms": TIMEOUT_MS,
        "enable_auto_commit": False,
        "session_timeout_ms": 300_000,
    }
    with (
        Admin(bootstrap, timeout_ms=TIMEOUT_MS) as admin,
        Producer(bootstrap) as producer,
        Consumer(bootstrap, group_id=group, **settings) as consumer,
    ):
        if TOPIC not in admin.list_topics():
            admin.create_topic(TOPIC, partitions=1)
        consumer.subscribe([TOPIC])
        (first,) = coordinator_of(cluster, group)[:1]
        committed = member = None
        for step in range(3):
            for number in range(20):
                producer.send(TOPIC, b"%d" % number, partition=0)
            producer.flush()
            wait_until(lambda: consumer.poll(0.2))
            committed = consumer.position(PARTITION)
            consumer.commit({PARTITION: committed})
            assert consumer.committed([PARTITION])[PARTITION].offset == committed
            (described,) = admin.describe_group(group).members
            member = member or described.member_id
            assert described.member_id == member, "the member is known to each coordinator"
            if step == 0:
                getattr(cluster, how)(first)
                coordinator_of(cluster, group)
            elif step == 1:
                cluster.restart(first)
                wait_until(lambda: listed_at(cluster, group) == [coordinator_of(cluster, group)[0]])
        assert admin.committed_offsets(group)[PARTITION].offset == committed
        broker_id, address = coordinator_of(cluster, group)
        assert address == cluster.address(broker_id)


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_members_of_the_new_protocol_move(cluster, how):
    """A group of KIP-848: the member continues in its epoch with its partitions, and keeps its commits."""
    group, bootstrap = f"new-{how}", cluster.bootstrap_servers
    topic, partition = f"topic-{how}", TopicPartition(f"topic-{how}", 0)
    settings = {
        "auto_offset_reset": "earliest",
        "default_timeout_ms": TIMEOUT_MS,
        "enable_auto_commit": False,
        "group_protocol": "consumer",
    }

    def described():
        broker_id, _ = coordinator_of(cluster, group)
        (found,) = asked(cluster, broker_id, ConsumerGroupDescribeRequest(group_ids=[group])).groups
        return found if found.error_code == 0 and found.members else None

    with (
        Admin(bootstrap, timeout_ms=TIMEOUT_MS) as admin,
        Producer(bootstrap) as producer,
        Consumer(bootstrap, group_id=group, **settings) as consumer,
    ):
        admin.create_topic(topic, partitions=1)
        consumer.subscribe([topic])
        (first,) = coordinator_of(cluster, group)[:1]
        before = None
        for step in range(3):
            for number in range(20):
                producer.send(topic, b"%d" % number, partition=0)
            producer.flush()
            wait_until(lambda: consumer.poll(0.2))
            committed = consumer.position(partition)
            consumer.commit({partition: committed})
            assert consumer.committed([partition])[partition].offset == committed
            after = wait_until(described)
            before = before or after
            assert (after.group_epoch, after.members) == (before.group_epoch, before.members)
            if step == 0:
                getattr(cluster, how)(first)
                coordinator_of(cluster, group)
            elif step == 1:
                cluster.restart(first)
                wait_until(lambda: listed_at(cluster, group) == [coordinator_of(cluster, group)[0]])
        assert admin.committed_offsets(group)[partition].offset == committed


def test_a_member_of_a_streams_group_moves(cluster):
    """Internal topics come from the active controller. The member keeps its epoch and tasks at a new coordinator."""
    group = "streams"
    with Admin(cluster.bootstrap_servers, timeout_ms=TIMEOUT_MS) as admin:
        admin.create_topic("words", partitions=2)
    sent = topology(subtopology("0", ["words"], changelogs=["streams-changelog"]))
    nothing = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
    member = {"epoch": 0}

    def beat(**fields):
        broker_id, _ = coordinator_of(cluster, group)
        request = StreamsGroupHeartbeatRequest(
            group_id=group, member_id="m", member_epoch=member["epoch"], **fields
        )
        answer = asked(cluster, broker_id, request)
        if answer.error_code:
            return None
        member["epoch"] = answer.member_epoch
        return answer

    joining = {**nothing, "topology": sent, "process_id": "p", "rebalance_timeout_ms": TIMEOUT_MS}
    wait_until(lambda: beat(**joining))
    tasks = wait_until(lambda: (answer := beat()) and answer.active_tasks)
    assert [(each.subtopology_id, each.partitions) for each in tasks] == [("0", [0, 1])]
    epoch = member["epoch"]
    first, _ = coordinator_of(cluster, group)
    cluster.kill(first)
    again = wait_until(lambda: beat(active_tasks=tasks, standby_tasks=[], warmup_tasks=[]))
    assert (again.member_epoch, again.active_tasks, again.status) == (epoch, None, [])
    cluster.restart(first)
