"""Share groups on three brokers: their state is where it was when a coordinator is killed."""

import pytest

import bowstring
from bowstring.protocol.ids import format_uuid
from bowstring.protocol.messages import create_topics, metadata, write_share_group_state
from bowstring.protocol.messages.find_coordinator import FindCoordinatorRequest
from bowstring.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.support.cluster_requests import asked
from tests.support.share_offsets import alter_request, describe_request, described, is_altered
from tests.support.waiting import HANG_S, wait_until

GROUP, SHARE = 0, 2
PARTITIONS = 6


@pytest.fixture(scope="module", params=["os", "commit"])
def cluster(request):
    config = {"bowstring.durability": request.param}
    with bowstring.Cluster(3, config=config, start_timeout_s=HANG_S) as made:
        yield made


def coordinator_of(cluster, key, kind):
    """Returns the id of the coordinator on which all running brokers agree."""
    request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])

    def agreed():
        found = {
            each.node_id
            for broker_id in cluster.running_ids
            for each in asked(cluster, broker_id, request).coordinators
        }
        (broker_id, *more) = found
        return broker_id if not more and broker_id in cluster.running_ids else None

    return wait_until(agreed)


def ask_group(cluster, group, request):
    return asked(cluster, coordinator_of(cluster, group, GROUP), request)


def create(cluster, name):
    topic = create_topics.CreatableTopic(name=name, num_partitions=PARTITIONS, replication_factor=3)
    (made,) = asked(cluster, cluster.running_ids[0], create_topics.CreateTopicsRequest(topics=[topic])).topics
    assert made.error_code == 0
    named = metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=name)])
    for broker_id in cluster.running_ids:
        wait_until(lambda id=broker_id: asked(cluster, id, named).topics[0].error_code == 0)
    return made.topic_id


def start_offsets(cluster, group):
    return {
        index: offset
        for (_, index), offset in described(ask_group(cluster, group, describe_request(group))).items()
    }


def test_state_outlives_the_share_coordinator(cluster):
    """Six share partitions have several coordinators, so requests go between brokers."""
    topic_id = create(cluster, "t")
    offsets = {index: 10 + index for index in range(PARTITIONS)}
    wait_until(lambda: is_altered(ask_group(cluster, "g", alter_request("g", "t", offsets))))
    assert start_offsets(cluster, "g") == offsets
    key = f"g:{format_uuid(topic_id)}:0"
    batch = write_share_group_state.StateBatch(
        first_offset=10, last_offset=12, delivery_state=2, delivery_count=1
    )
    data = write_share_group_state.PartitionData(
        partition=0, state_epoch=1, leader_epoch=0, start_offset=13, state_batches=[batch]
    )
    request = write_share_group_state.WriteShareGroupStateRequest(
        group_id="g",
        topics=[write_share_group_state.WriteStateData(topic_id=topic_id, partitions=[data])],
    )
    coordinator = coordinator_of(cluster, key, SHARE)
    (result,) = asked(cluster, coordinator, request).results[0].partitions
    assert result.error_code == 0, result.error_message
    cluster.kill(coordinator)
    wait_until(lambda: start_offsets(cluster, "g") == offsets | {0: 13})
    assert coordinator_of(cluster, key, SHARE) != coordinator
    cluster.restart(coordinator)


def test_members_outlive_the_group_coordinator(cluster):
    create(cluster, "u")
    epoch = 0

    def beat():
        nonlocal epoch
        request = ShareGroupHeartbeatRequest(
            group_id="h",
            member_id="m",
            member_epoch=epoch,
            subscribed_topic_names=["u"],
        )
        answer = ask_group(cluster, "h", request)
        if answer.error_code:
            return 0
        epoch = answer.member_epoch
        return sum(len(topic.partitions) for topic in answer.assignment.topic_partitions)

    wait_until(lambda: beat() == PARTITIONS)
    settled = epoch
    coordinator = coordinator_of(cluster, "h", GROUP)
    cluster.kill(coordinator)
    wait_until(lambda: beat() == PARTITIONS)
    assert epoch == settled, "the new coordinator has read everything"
    cluster.restart(coordinator)
