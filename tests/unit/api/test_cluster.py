"""DescribeCluster, DescribeLogDirs, DescribeQuorum over the wire."""

from bowstring._native.record.encode import encode_batch
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages import describe_cluster as dc
from bowstring.protocol.messages import describe_log_dirs as dld
from bowstring.protocol.messages import describe_quorum as dq


def test_the_cluster_is_one_broker(serve):
    served = serve(broker_rack="here")
    for version in range(3):
        response = served.ask(dc.DescribeClusterRequest(), version)
        (broker,) = response.brokers
        assert (broker.broker_id, broker.host, broker.port, broker.rack) == (
            1,
            "127.0.0.1",
            served.broker.port,
            "here",
        )
        assert (response.cluster_id, response.controller_id) == (served.broker.cluster_id, 1)
        assert response.cluster_authorized_operations == -2147483648
    asked = served.ask(dc.DescribeClusterRequest(include_cluster_authorized_operations=True))
    assert asked.cluster_authorized_operations > 0


def test_controllers_are_not_described_here(served):
    for endpoint_type, error in (
        (2, Errors.MISMATCHED_ENDPOINT_TYPE),
        (3, Errors.UNSUPPORTED_ENDPOINT_TYPE),
    ):
        response = served.ask(dc.DescribeClusterRequest(endpoint_type=endpoint_type))
        assert Errors.of(response.error_code) is error


def test_the_directory_and_its_partitions(served):
    served.create_topic("a", 2)
    served.create_topic("b")
    batch = encode_batch([(None, b"v", 1_700_000_000_000, [])])
    served.produce("a", batch, 1)

    def described(version=5, topics=None):
        (result,) = served.ask(dld.DescribeLogDirsRequest(topics=topics), version).results
        return result

    for version in range(1, 6):
        result = described(version)
        assert (result.error_code, result.log_dir) == (0, str(served.directory))
        sizes = {
            (topic.name, each.partition_index): each.partition_size
            for topic in result.topics
            for each in topic.partitions
        }
        assert sizes == {("a", 0): 0, ("a", 1): len(batch), ("b", 0): 0}
        assert (result.total_bytes > result.usable_bytes > 0) is (version >= 4)
    some = described(topics=[dld.DescribableLogDirTopic(topic="a", partitions=[1, 7])])
    assert [(topic.name, [each.partition_index for each in topic.partitions]) for topic in some.topics] == [
        ("a", [1])
    ]


def test_the_quorum_is_this_node(served):
    def described(topic, version):
        wanted = dq.DescribeQuorumRequestTopicData(
            topic_name=topic, partitions=[dq.DescribeQuorumRequestPartitionData(partition_index=0)]
        )
        return served.ask(dq.DescribeQuorumRequest(topics=[wanted]), version)

    for version in range(3):
        response = described("__cluster_metadata", version)
        (partition,) = response.topics[0].partitions
        assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (0, 1, 1)
        (voter,) = partition.current_voters
        assert (voter.replica_id, voter.log_end_offset) == (1, partition.high_watermark)
        assert len(response.nodes) == (version == 2)
    other = described("t", 2).topics[0].partitions[0]
    assert Errors.of(other.error_code) is Errors.UNKNOWN_TOPIC_OR_PARTITION


def test_each_start_is_a_new_leader_epoch_of_the_metadata_log(served):
    def epoch():
        wanted = dq.DescribeQuorumRequestTopicData(
            topic_name="__cluster_metadata",
            partitions=[dq.DescribeQuorumRequestPartitionData(partition_index=0)],
        )
        return served.ask(dq.DescribeQuorumRequest(topics=[wanted])).topics[0].partitions[0].leader_epoch

    assert epoch() == 1
    served.restart()
    assert epoch() == 2
