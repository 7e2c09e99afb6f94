"""What clients see without permissions, as KafkaApis and ControllerApis of Kafka 4.4 answer."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Producer

from bowstring.protocol import ZERO_UUID
from bowstring.protocol.acls import AclOperation, AclResourceType
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages import consumer_group_describe as cgd
from bowstring.protocol.messages import consumer_group_heartbeat as cgh
from bowstring.protocol.messages import create_topics as ct
from bowstring.protocol.messages import delete_topics as dt
from bowstring.protocol.messages import describe_cluster as dc
from bowstring.protocol.messages import describe_groups as dg
from bowstring.protocol.messages import describe_topic_partitions as dtp
from bowstring.protocol.messages import list_groups as lg
from bowstring.protocol.messages import list_transactions as lt
from bowstring.protocol.messages import metadata as md
from bowstring.protocol.messages import offset_commit as oc
from bowstring.protocol.messages import offset_fetch as of
from bowstring.protocol.messages import share_acknowledge as sa
from bowstring.protocol.messages import share_fetch as sf
from tests.support.embedded import engine_of
from tests.support.enforced_node import NAME, enforced_node
from tests.support.fake_authorizer import ANY
from tests.support.waiting import HANG_S, wait_until
from tests.support.wire_client import WireClient

DENIED = Errors.TOPIC_AUTHORIZATION_FAILED.code
NOT_ASKED = -(2**31)
READ, DESCRIBE, CREATE, DELETE = (
    AclOperation.READ,
    AclOperation.DESCRIBE,
    AclOperation.CREATE,
    AclOperation.DELETE,
)
TOPIC, GROUP, CLUSTER = AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.CLUSTER
HIDDEN = (DESCRIBE, TOPIC, NAME)


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with enforced_node(tmp_path_factory.mktemp("node")) as made:
        made.ask("broker", creation("open"), 7)
        yield made


@pytest.fixture
def authorizer(node):
    with node.instructed() as authorizer:
        yield authorizer


def creation(name):
    topic = ct.CreatableTopic(name=name, num_partitions=2, replication_factor=1)
    return ct.CreateTopicsRequest(topics=[topic])


def metadata(node, *names, version=13, **fields):
    topics = [md.MetadataRequestTopic(name=name) for name in names]
    request = md.MetadataRequest(topics=topics, **({"allow_auto_topic_creation": False} | fields))
    return node.ask("broker", request, version)


# ---- topics


def test_a_hidden_topic_looks_the_same_whether_it_exists(node, authorizer):
    authorizer.denied = {HIDDEN, (DESCRIBE, TOPIC, "missing")}
    topics = metadata(node, NAME, "missing", "open").topics
    assert [topic.name for topic in topics] == ["open", NAME, "missing"]
    for topic in topics[1:]:
        assert (topic.error_code, topic.topic_id, topic.is_internal) == (DENIED, ZERO_UUID, False)
        assert (topic.partitions, topic.topic_authorized_operations) == ([], NOT_ASKED)


def test_ids_of_hidden_topics_have_no_names(node, authorizer):
    authorizer.denied = {HIDDEN}
    ids = [md.MetadataRequestTopic(topic_id=each, name=None) for each in (node.topic_id, b"?" * 16)]
    unknown, hidden = node.ask("broker", md.MetadataRequest(topics=ids), 12).topics
    assert (unknown.error_code, unknown.topic_id) == (Errors.UNKNOWN_TOPIC_ID.code, b"?" * 16)
    assert (hidden.error_code, hidden.name, hidden.topic_id) == (DENIED, None, node.topic_id)


@pytest.mark.parametrize("version", [0, 1, 13])
def test_hidden_topics_are_left_out_among_all(node, authorizer, version):
    authorizer.denied = {HIDDEN}
    request = md.MetadataRequest(topics=None if version else [])
    names = {topic.name for topic in node.ask("broker", request, version).topics}
    assert "open" in names and NAME not in names
    assert not authorizer.counted
    page = node.ask("broker", dtp.DescribeTopicPartitionsRequest(), 0)
    assert NAME not in {topic.name for topic in page.topics}


def test_a_page_of_topics_ends_with_hidden_ones(node, authorizer):
    authorizer.denied = {HIDDEN}
    topics = [dtp.TopicRequest(name=name) for name in (NAME, "open")]
    page = node.ask("broker", dtp.DescribeTopicPartitionsRequest(topics=topics), 0)
    assert [(topic.name, topic.error_code) for topic in page.topics] == [("open", 0), (NAME, DENIED)]
    assert page.topics[1].topic_id == ZERO_UUID


def test_missing_topics_are_created_for_those_who_may(node, authorizer):
    authorizer.denied = {(CREATE, CLUSTER, ANY), (CREATE, TOPIC, "b")}
    topics = metadata(node, "a", "b", allow_auto_topic_creation=True).topics
    unknown = Errors.UNKNOWN_TOPIC_OR_PARTITION.code
    assert [(topic.name, topic.error_code) for topic in topics] == [("a", unknown), ("b", DENIED)]
    image = engine_of(node.broker).metadata.image
    assert "a" in image.topics and "b" not in image.topics
    # The controller checks it again, for the client.
    assert ("User:ANONYMOUS", CREATE, TOPIC, "a") in authorizer.asked


def test_many_names_are_checked(node, authorizer):
    """Those of a request that is decoded while it is answered."""
    authorizer.denied = {(DESCRIBE, TOPIC, ANY)}
    names = [f"topic-{number}" for number in range(3000)]
    assert {topic.error_code for topic in metadata(node, *names).topics} == {DENIED}
    authorizer.denied = {(READ, TOPIC, ANY)}
    topic = oc.OffsetCommitRequestTopic(
        name=NAME, partitions=[oc.OffsetCommitRequestPartition(partition_index=each) for each in range(2000)]
    )
    answer = node.ask("broker", oc.OffsetCommitRequest(group_id="g", topics=[topic]), 9)
    assert {each.error_code for topic in answer.topics for each in topic.partitions} == {DENIED}


def test_a_topic_is_created_without_a_look_at_its_configs(node, authorizer):
    authorizer.denied = {(AclOperation.DESCRIBE_CONFIGS, TOPIC, ANY)}
    (topic,) = node.ask("broker", creation("plain"), 7).topics
    assert (topic.error_code, topic.topic_config_error_code) == (0, DENIED)
    assert (topic.num_partitions, topic.replication_factor, topic.configs) == (-1, -1, [])
    assert not authorizer.counted


def test_a_refused_deletion_says_nothing_about_hidden_topics(node, authorizer):
    def deleted(*topics):
        states = [dt.DeleteTopicState(**each) for each in topics]
        answer = node.ask("broker", dt.DeleteTopicsRequest(topics=states), 6)
        return [(each.name, each.topic_id, each.error_code) for each in answer.responses]

    by_id, by_name = {"name": None, "topic_id": node.topic_id}, {"name": NAME}
    authorizer.denied = {(DELETE, CLUSTER, ANY), (DELETE, TOPIC, NAME)}
    assert deleted(by_id) == [(NAME, node.topic_id, DENIED)]
    assert deleted(by_name) == [(NAME, ZERO_UUID, DENIED)]
    assert deleted({"name": "missing"}) == [("missing", ZERO_UUID, Errors.UNKNOWN_TOPIC_OR_PARTITION.code)]
    authorizer.denied |= {HIDDEN, (DESCRIBE, TOPIC, "missing")}
    assert deleted(by_id) == [(None, node.topic_id, DENIED)]
    assert deleted(by_name, {"name": "missing"}) == [
        (NAME, ZERO_UUID, DENIED),
        ("missing", ZERO_UUID, DENIED),
    ]
    authorizer.denied = {(DELETE, CLUSTER, ANY), (DELETE, TOPIC, ANY)}
    assert NAME in engine_of(node.broker).metadata.image.topics


# ---- authorized operations (KIP-430)


def test_operations_are_those_that_the_client_may_do(node, authorizer):
    authorizer.denied = {(AclOperation.WRITE, TOPIC, NAME), (READ, GROUP, "g"), (CREATE, CLUSTER, ANY)}
    answer = metadata(node, NAME, version=10, include_topic_authorized_operations=True)
    allowed = answer.topics[0].topic_authorized_operations
    assert allowed & 1 << READ and not allowed & 1 << AclOperation.WRITE
    request = dg.DescribeGroupsRequest(groups=["g"], include_authorized_operations=True)
    (group,) = node.ask("broker", request, 5).groups
    assert group.error_code or not group.authorized_operations & 1 << READ
    request = dc.DescribeClusterRequest(include_cluster_authorized_operations=True)
    allowed = node.ask("broker", request, 1).cluster_authorized_operations
    assert allowed & 1 << DESCRIBE and not allowed & 1 << CREATE
    authorizer.denied = {(DESCRIBE, CLUSTER, ANY)}
    assert node.ask("broker", request, 1).cluster_authorized_operations == 0
    answer = metadata(node, version=10, include_cluster_authorized_operations=True)
    assert answer.cluster_authorized_operations == 0


# ---- groups


def test_groups_are_listed_for_those_who_may_describe_them(node, authorizer):
    def listed():
        return {group.group_id for group in node.ask("broker", lg.ListGroupsRequest(), 5).groups}

    authorizer.denied = {(DESCRIBE, GROUP, "g")}
    assert {"g", "s"} <= listed()  # who may describe the cluster sees all
    authorizer.denied.add((DESCRIBE, CLUSTER, ANY))
    assert "s" in listed() and "g" not in listed()
    assert not authorizer.counted


def test_refused_groups_come_first(node, authorizer):
    authorizer.denied = {(DESCRIBE, GROUP, "x")}
    request = dg.DescribeGroupsRequest(groups=["y", "x"])
    first, second = node.ask("broker", request, 5).groups
    assert (first.group_id, first.error_code) == ("x", Errors.GROUP_AUTHORIZATION_FAILED.code)
    assert second.group_id == "y"


@pytest.mark.parametrize("version", [7, 9, 10])
def test_offsets_of_hidden_topics_are_left_out_among_all(node, authorizer, version):
    def fetched():
        group = of.OffsetFetchRequestGroup(group_id="g", topics=None)
        asked = {"groups": [group]} if version >= 8 else {"group_id": "g", "topics": None}
        request = of.OffsetFetchRequest(**asked)
        answer = node.ask("broker", request, version)
        return answer.topics if version < 8 else answer.groups[0].topics

    assert len(fetched()) == 1
    authorizer.denied = {HIDDEN}
    assert fetched() == [] and not authorizer.counted


def join(node, **fields):
    request = cgh.ConsumerGroupHeartbeatRequest(
        **{
            "member_id": "m" * 22,
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": None,
            "topic_partitions": [],
        }
        | fields
    )
    return node.ask("broker", request, 1)


def test_a_group_with_hidden_topics_is_not_described(node, authorizer):
    assert join(node, group_id="c", subscribed_topic_names=[NAME]).error_code == 0
    request = cgd.ConsumerGroupDescribeRequest(group_ids=["c"])
    wait_until(lambda: node.ask("broker", request, 1).groups[0].members[0].target_assignment.topic_partitions)
    authorizer.denied = {HIDDEN}
    (group,) = node.ask("broker", request, 1).groups
    assert (group.error_code, group.members, group.group_state) == (DENIED, [], "")
    assert NAME not in (group.error_message or "")


def test_a_regular_expression_finds_only_topics_that_its_member_sees(node, authorizer):
    authorizer.denied = {HIDDEN}
    request = cgd.ConsumerGroupDescribeRequest(group_ids=["r"])

    def assigned():
        assert join(node, group_id="r", subscribed_topic_regex="(secret|open)").error_code == 0
        member = node.ask("broker", request, 1).groups[0].members[0]
        return [each.topic_name for each in member.target_assignment.topic_partitions]

    wait_until(assigned)
    authorizer.denied.clear()  # or the group would not be described
    assert assigned() == ["open"]


def test_transactional_ids_are_listed_for_those_who_may_describe_them(node, authorizer):
    authorizer.denied = {(DESCRIBE, AclResourceType.TRANSACTIONAL_ID, ANY)}
    wait_until(lambda: not node.ask("broker", lt.ListTransactionsRequest(), 1).error_code)
    assert node.ask("broker", lt.ListTransactionsRequest(), 1).transaction_states == []


def test_records_are_shared_with_those_who_may_read(node, authorizer):
    client = WireClient(node.broker.port)
    try:
        partition = sf.FetchPartition(partition_index=0)
        topic = sf.FetchTopic(topic_id=node.topic_id, partitions=[partition])
        fetch = sf.ShareFetchRequest(group_id="sh", member_id="m", topics=[topic], max_wait_ms=0)
        authorizer.denied = {(READ, TOPIC, NAME)}
        (found,) = client.ask(fetch, 1).responses
        assert found.partitions[0].error_code == DENIED and not found.partitions[0].records
        batch = sa.AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[1])
        acknowledged = sa.AcknowledgePartition(partition_index=0, acknowledgement_batches=[batch])
        topics = [sa.AcknowledgeTopic(topic_id=node.topic_id, partitions=[acknowledged])]
        request = sa.ShareAcknowledgeRequest(
            group_id="sh", member_id="m", share_session_epoch=1, topics=topics
        )
        (found,) = client.ask(request, 1).responses
        assert found.partitions[0].error_code == DENIED
    finally:
        client.close()


def test_a_fetch_that_waits_gets_no_records_after_the_permission_is_withdrawn(node, authorizer):
    partition = sf.FetchPartition(partition_index=0)
    topic = sf.FetchTopic(topic_id=node.topic_id, partitions=[partition])
    fetch = sf.ShareFetchRequest(
        group_id="s",
        member_id="m",
        topics=[topic],
        max_wait_ms=60_000,
        min_bytes=1,
        max_bytes=1000,
        max_records=9,
    )
    client = WireClient(node.broker.port)
    try:
        with ThreadPoolExecutor(1) as thread:
            answer = thread.submit(client.ask, fetch, 1)
            wait_until(lambda: any(each[1:] == (READ, TOPIC, NAME) for each in authorizer.asked))
            authorizer.denied = {(READ, TOPIC, NAME)}
            producer = Producer({"bootstrap.servers": f"127.0.0.1:{node.broker.port}"})
            producer.produce(NAME, b"x")
            assert producer.flush(HANG_S) == 0
            (found,) = answer.result(HANG_S).responses
        assert found.partitions[0].error_code == DENIED and not found.partitions[0].records
    finally:
        client.close()
