"""Topics over the wire: created, described, grown, deleted, and still there after a restart."""

import errno
import os
import time

import pytest

from bowstring.engine.storage.checkpoints import RECOVERY_POINTS, read_offsets
from bowstring.protocol import ZERO_UUID
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages import create_partitions as cp
from bowstring.protocol.messages import create_topics as ct
from bowstring.protocol.messages import delete_topics as dt
from bowstring.protocol.messages import describe_topic_partitions as dtp
from bowstring.protocol.messages import metadata as md
from tests.support import faults
from tests.support.log_batches import batch
from tests.support.waiting import FOR_EVER_MS, wait_until


def metadata(served, *names, version=13, **fields):
    topics = [md.MetadataRequestTopic(name=name) for name in names]
    return served.ask(md.MetadataRequest(topics=topics, **fields), version)


def all_topics(served) -> dict[str, int]:
    response = served.ask(md.MetadataRequest(topics=None))
    return {topic.name: len(topic.partitions) for topic in response.topics}


def create(served, *topics, **fields):
    return served.ask(ct.CreateTopicsRequest(topics=list(topics), **fields)).topics


def new(name, partitions=1, replicas=1, **fields):
    return ct.CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, **fields)


def test_a_created_topic_has_leaders_files_and_an_id(served):
    topic_id = served.create_topic("t", 3)
    (topic,) = metadata(served, "t").topics
    assert (topic.error_code, topic.topic_id, topic.is_internal) == (0, topic_id, False)
    assert [(each.partition_index, each.leader_id, each.leader_epoch) for each in topic.partitions] == [
        (0, 1, 0),
        (1, 1, 0),
        (2, 1, 0),
    ]
    assert all(each.replica_nodes == each.isr_nodes == [1] for each in topic.partitions)
    for index in range(3):
        files = os.listdir(served.directory / f"t-{index}")
        assert "partition.metadata" in files and "00000000000000000000.log" in files


def test_the_answer_has_counts_and_configs_in_force(served):
    config = ct.CreatableTopicConfig(name="retention.ms", value="5")
    (result,) = create(served, new("t", 2, -1, configs=[config]))
    assert (result.num_partitions, result.replication_factor) == (2, 1)
    values = {each.name: (each.value, each.config_source) for each in result.configs}
    assert values["retention.ms"] == ("5", 1)
    assert values["segment.bytes"] == ("1073741824", 5)
    assert "internal.segment.bytes" not in values


def test_each_topic_succeeds_or_fails_by_itself(served):
    served.create_topic("there")
    results = {
        each.name: Errors.of(each.error_code)
        for each in create(
            served,
            new("ok"),
            new("there"),
            new("twice"),
            new("twice"),
            new("bad name"),
            new("a.b"),
            new("a_b"),
            new("two-copies", 1, 2),
            new("__cluster_metadata"),
        )
    }
    assert results == {
        "ok": Errors.NONE,
        "there": Errors.TOPIC_ALREADY_EXISTS,
        "twice": Errors.INVALID_REQUEST,
        "bad name": Errors.INVALID_TOPIC_EXCEPTION,
        "a.b": Errors.NONE,
        "a_b": Errors.INVALID_TOPIC_EXCEPTION,
        "two-copies": Errors.INVALID_REPLICATION_FACTOR,
        "__cluster_metadata": Errors.INVALID_REQUEST,
    }
    assert all_topics(served) == {"there": 1, "ok": 1, "a.b": 1}


def test_validate_only_changes_nothing(served):
    (result,) = create(served, new("t"), validate_only=True)
    assert result.error_code == 0
    assert all_topics(served) == {}
    served.create_topic("t")


def test_a_partition_that_cannot_be_made_leaves_no_directory(served):
    """Without the topic's id, it would pass for a partition of any topic with that name. As in Kafka, the topic exists
    from the controller's answer on, and is served as soon as its partition can be made.
    """
    home = served.engine.directory

    def failing(original):
        def call(path, flags):
            return -errno.EMFILE if path.endswith(b"/partition.metadata") else original(path, flags)

        return call

    with faults.replaced("open", failing):
        (answer,) = create(served, new("t"))
        assert answer.error_code == 0
        assert not (home.path / "t-0").exists()
        assert Errors.of(served.produce("t", batch()).error_code).retriable
    wait_until(lambda: served.produce("t", batch()).error_code == 0)
    assert home.read_partition_metadata("t-0") == served.engine.metadata.image.topics["t"].id
    served.restart()
    assert served.produce("t", batch()).base_offset == 1


def test_partitions_without_descriptors_are_created_later(served, caplog):
    """Without a restart; so are those of the topics after the one that failed."""
    with faults.failing("open", errno.EMFILE):
        answers = create(served, new("a", 20), new("b", 2))
    assert {answer.error_code for answer in answers} == {0}
    assert all_topics(served) == {"a": 20, "b": 2}

    def all_open():
        logs = served.engine.logs
        return all(logs.get(topic, index) for topic, count in (("a", 20), ("b", 2)) for index in range(count))

    wait_until(all_open)
    wait_until(lambda: served.produce("a", batch(), 19).error_code == 0)
    wait_until(lambda: served.produce("b", batch(), 1).error_code == 0)
    told = [each for each in caplog.records if "could not be carried out" in each.getMessage()]
    assert [each.levelname for each in told] == ["ERROR"]


def test_many_topics_are_created_in_parts(served):
    """Records are appended, and the answer is relayed, in slices; each topic has its own outcome."""
    names = [f"t{number}" for number in range(600)]
    served.create_topic(names[300])
    topics = [*(new(name) for name in names), new("no", replicas=9)]
    results = create(served, *topics)
    errors = {each.name: each.error_code for each in results if each.error_code}
    assert errors == {
        names[300]: Errors.TOPIC_ALREADY_EXISTS.code,
        "no": Errors.INVALID_REPLICATION_FACTOR.code,
    }
    assert [each.name for each in results] == [*names, "no"]
    assert len({len(each.configs) for each in results if not each.error_code}) == 1
    assert set(all_topics(served)) == set(names)


@pytest.mark.parametrize("count", [1, 80])
def test_a_topic_is_served_when_its_creation_is_answered(served, count):
    """By the only broker there is: a client that goes on at once gets no error."""
    for name in ("a", "b", "c"):
        (answer,) = create(served, new(name, count))
        assert answer.error_code == 0
        assert served.produce(name, batch(), count - 1).error_code == 0
        (topic,) = metadata(served, name).topics
        assert [each.leader_id for each in topic.partitions] == [served.engine.node_id] * count
        assert all(served.engine.logs.of_topic(name))
        (deleted,) = served.ask(dt.DeleteTopicsRequest(topics=[dt.DeleteTopicState(name=name)])).responses
        assert deleted.error_code == 0
        assert not served.engine.logs.of_topic(name)


def test_added_partitions_are_served_when_that_is_answered(served):
    served.create_topic("t")
    wanted = cp.CreatePartitionsTopic(name="t", count=40, assignments=None)
    (answer,) = served.ask(cp.CreatePartitionsRequest(topics=[wanted], timeout_ms=FOR_EVER_MS)).results
    assert answer.error_code == 0
    assert [served.produce("t", batch(), index).error_code for index in range(40)] == [0] * 40


def test_topics_survive_a_restart(served):
    topic_id = served.create_topic("t", 2, retention_ms="77")
    served.create_topic("gone")
    served.ask(dt.DeleteTopicsRequest(topics=[dt.DeleteTopicState(name="gone")]))
    cluster_id = metadata(served).cluster_id
    served.restart()
    assert all_topics(served) == {"t": 2}
    response = metadata(served, "t")
    assert (response.topics[0].topic_id, response.cluster_id) == (topic_id, cluster_id)


@pytest.mark.parametrize("by_id", [False, True])
def test_a_deleted_topic_is_gone_and_its_files_set_aside_then_unlinked(serve, by_id):
    served = serve(log_segment_delete_delay_ms="200")
    topic_id = served.create_topic("t", 2)
    served.engine.logs.checkpoint(RECOVERY_POINTS)()
    state = dt.DeleteTopicState(name=None, topic_id=topic_id) if by_id else dt.DeleteTopicState(name="t")
    (result,) = served.ask(dt.DeleteTopicsRequest(topics=[state])).responses
    assert (result.error_code, result.name, result.topic_id) == (0, "t", topic_id)
    assert all_topics(served) == {}
    assert not (served.directory / "t-0").exists()
    wait_until(lambda: not [name for name in os.listdir(served.directory) if name.endswith("-delete")])
    # until then they say that these are of this topic, and of no later one of its name
    assert not [key for key in read_offsets(served.directory / RECOVERY_POINTS) if key[0] == "t"]
    assert served.create_topic("t") != topic_id


def test_directories_stay_a_while_when_no_checkpoint_can_be_written(serve, monkeypatch):
    """For want of descriptors; without a pause the attempts would take a whole core."""
    served = serve(log_segment_delete_delay_ms="50")
    served.create_topic("t")
    attempts = []

    def checkpoint(name):
        def write():
            attempts.append(name)
            raise OSError(errno.EMFILE, "Too many open files")

        return write

    monkeypatch.setattr(served.engine.logs, "checkpoint", checkpoint)
    served.ask(dt.DeleteTopicsRequest(topics=[dt.DeleteTopicState(name="t")]))
    wait_until(lambda: attempts)
    wait_until(lambda: served.engine.logs.retired.next_due() > time.monotonic() + 5)
    assert attempts == [RECOVERY_POINTS]
    assert [name for name in os.listdir(served.directory) if name.endswith("-delete")]


def test_directories_left_over_from_a_deletion_go_at_the_next_start(served):
    served.create_topic("t")
    served.ask(dt.DeleteTopicsRequest(topics=[dt.DeleteTopicState(name="t")]))
    assert [name for name in os.listdir(served.directory) if name.endswith("-delete")]
    served.restart()
    wait_until(lambda: not [name for name in os.listdir(served.directory) if name.endswith("-delete")])


def test_what_cannot_be_deleted_is_named(served):
    topic_id = served.create_topic("t")
    states = [
        dt.DeleteTopicState(name="none"),
        dt.DeleteTopicState(name=None, topic_id=b"n" * 16),
        dt.DeleteTopicState(name=None, topic_id=ZERO_UUID),
        dt.DeleteTopicState(name="t"),
        dt.DeleteTopicState(name=None, topic_id=topic_id),
    ]
    responses = served.ask(dt.DeleteTopicsRequest(topics=states)).responses
    assert {(each.name, each.topic_id): Errors.of(each.error_code) for each in responses} == {
        ("none", ZERO_UUID): Errors.UNKNOWN_TOPIC_OR_PARTITION,
        (None, b"n" * 16): Errors.UNKNOWN_TOPIC_ID,
        (None, ZERO_UUID): Errors.INVALID_REQUEST,
        # Named twice, but answered once.
        ("t", topic_id): Errors.INVALID_REQUEST,
    }
    assert all_topics(served) == {"t": 1}
    old = served.ask(dt.DeleteTopicsRequest(topic_names=["t"]), 1).responses
    assert [(each.name, each.error_code) for each in old] == [("t", 0)]


def test_deletion_may_be_switched_off(serve):
    served = serve(delete_topic_enable="false")
    served.create_topic("t")
    old = served.ask(dt.DeleteTopicsRequest(topic_names=["t"]), 2).responses
    new_one = served.ask(dt.DeleteTopicsRequest(topic_names=["t"]), 5).responses
    assert (old[0].error_code, new_one[0].error_code) == (
        Errors.INVALID_REQUEST.code,
        Errors.TOPIC_DELETION_DISABLED.code,
    )


def test_partitions_are_added(served):
    served.create_topic("t")
    topic = cp.CreatePartitionsTopic(name="t", count=3, assignments=None)
    assert (
        served.ask(cp.CreatePartitionsRequest(topics=[topic], validate_only=True)).results[0].error_code == 0
    )
    assert all_topics(served) == {"t": 1}
    assert served.ask(cp.CreatePartitionsRequest(topics=[topic])).results[0].error_code == 0
    assert all_topics(served) == {"t": 3}
    assert (served.directory / "t-2").is_dir()
    again = served.ask(cp.CreatePartitionsRequest(topics=[topic])).results[0]
    assert (again.error_code, again.error_message) == (
        Errors.INVALID_PARTITIONS.code,
        "Topic already has 3 partition(s).",
    )
    twice = served.ask(cp.CreatePartitionsRequest(topics=[topic, topic])).results
    assert [each.error_code for each in twice] == [Errors.INVALID_REQUEST.code]


# ---------------------------------------------------------------- Metadata


def test_a_topic_asked_for_is_created(serve):
    served = serve(num_partitions="4")
    (first,) = metadata(served, "auto").topics
    assert Errors.of(first.error_code) is Errors.UNKNOWN_TOPIC_OR_PARTITION
    (second,) = metadata(served, "auto").topics
    assert (second.error_code, len(second.partitions)) == (0, 4)


def test_a_topic_is_not_created_when_the_client_or_the_broker_says_no(serve):
    served = serve(auto_create_topics_enable="false")
    for version, fields in ((3, {}), (13, {}), (13, {"allow_auto_topic_creation": False})):
        (topic,) = metadata(served, "auto", version=version, **fields).topics
        assert Errors.of(topic.error_code) is Errors.UNKNOWN_TOPIC_OR_PARTITION
    (bad,) = metadata(served, "bad name").topics
    assert Errors.of(bad.error_code) is Errors.INVALID_TOPIC_EXCEPTION
    assert all_topics(served) == {}


def test_a_bad_name_is_not_created(served):
    (topic,) = metadata(served, "bad name").topics
    assert Errors.of(topic.error_code) is Errors.INVALID_TOPIC_EXCEPTION


def test_no_topics_and_all_topics_are_different_things(served):
    served.create_topic("t")
    assert served.ask(md.MetadataRequest(topics=[]), 0).topics[0].name == "t"
    assert served.ask(md.MetadataRequest(topics=[]), 1).topics == []
    assert served.ask(md.MetadataRequest(topics=None), 1).topics[0].name == "t"


def test_topics_are_found_by_id(served):
    topic_id = served.create_topic("t")
    ids = [md.MetadataRequestTopic(topic_id=each, name=None) for each in (topic_id, b"u" * 16)]
    found, missing = served.ask(md.MetadataRequest(topics=ids), 12).topics
    assert (found.name, found.error_code) == ("t", 0)
    assert (missing.name, Errors.of(missing.error_code)) == (None, Errors.UNKNOWN_TOPIC_ID)
    (refused,) = served.ask(md.MetadataRequest(topics=ids[:1]), 11).topics
    assert Errors.of(refused.error_code) is Errors.INVALID_REQUEST


def test_brokers_cluster_and_operations(served):
    response = metadata(served, version=8, include_cluster_authorized_operations=True)
    (broker,) = response.brokers
    assert (broker.node_id, broker.host, broker.port) == (1, "127.0.0.1", served.broker.port)
    assert (response.cluster_id, response.controller_id) == (served.broker.cluster_id, 1)
    assert response.cluster_authorized_operations > 0
    assert metadata(served, version=8).cluster_authorized_operations == -2147483648
    served.create_topic("t")
    asked = metadata(served, "t", include_topic_authorized_operations=True).topics[0]
    assert asked.topic_authorized_operations == 0b110111111000
    assert metadata(served, "t").topics[0].topic_authorized_operations == -2147483648


# ---------------------------------------------------------------- DescribeTopicPartitions


def test_topics_are_described_a_page_at_a_time(served):
    for name, partitions in (("c", 2), ("a", 3), ("b", 1)):
        served.create_topic(name, partitions)
    seen, cursor, pages = [], None, 0
    while pages == 0 or cursor is not None:
        page = served.ask(dtp.DescribeTopicPartitionsRequest(response_partition_limit=2, cursor=cursor))
        seen += [(topic.name, each.partition_index) for topic in page.topics for each in topic.partitions]
        cursor, pages = page.next_cursor, pages + 1
    assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("c", 0), ("c", 1)]
    assert pages == 3


def test_named_topics_may_be_missing_and_a_cursor_must_be_among_them(served):
    served.create_topic("a")
    names = [dtp.TopicRequest(name="none"), dtp.TopicRequest(name="a")]
    found, missing = served.ask(dtp.DescribeTopicPartitionsRequest(topics=names)).topics
    assert (found.name, found.error_code) == ("a", 0)
    assert Errors.of(missing.error_code) is Errors.UNKNOWN_TOPIC_OR_PARTITION
    stray = dtp.Cursor(topic_name="other", partition_index=0)
    refused = served.ask(dtp.DescribeTopicPartitionsRequest(topics=names, cursor=stray)).topics
    assert {Errors.of(each.error_code) for each in refused} == {Errors.INVALID_REQUEST}


def test_metadata_names_fenced_brokers_only_if_all_are(served):
    """librdkafka forgets every broker that an answer lacks: an empty one leaves it none to contact."""
    brokers = served.engine.metadata.image.brokers
    own = brokers[1]
    brokers[1] = own._replace(fenced=True)
    brokers[2] = own._replace(id=2, fenced=True)
    assert {each.node_id for each in metadata(served).brokers} == {1, 2}
    brokers[2] = own._replace(id=2)
    # another version: answers are kept until records change the image
    assert [each.node_id for each in metadata(served, version=12).brokers] == [2]
    brokers[1] = own
    del brokers[2]
