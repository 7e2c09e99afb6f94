"""Random questions about logs and topics: directories, epochs, pages of topics, resources with configs, versions."""

from bowstring.protocol.messages import (
    alter_replica_log_dirs,
    api_versions,
    describe_log_dirs,
    describe_topic_partitions,
    list_config_resources,
    offset_for_leader_epoch,
)
from tests.simulation.nodes.transactions import a_partition


async def describe_directories(client):
    topics = None
    if client.random.random() < 0.5:
        topic = client.random.choice(client.topics)
        topics = [describe_log_dirs.DescribableLogDirTopic(topic=topic, partitions=[0, 1, 7])]
    await client.ask(describe_log_dirs.DescribeLogDirsRequest(topics=topics))


async def move_a_replica(client):
    """Moves a partition to a directory of a node; it may have one, have it already, or not exist."""
    random = client.random
    node = client.a_node()
    topic = alter_replica_log_dirs.AlterReplicaLogDirTopic(
        name=random.choice(client.topics), partitions=[random.randrange(2)]
    )
    path = random.choice([*node.directories, *node.directories, f"{node.path}/none"])
    directory = alter_replica_log_dirs.AlterReplicaLogDir(path=path, topics=[topic])
    await client.ask(alter_replica_log_dirs.AlterReplicaLogDirsRequest(dirs=[directory]), node)


async def ask_where_an_epoch_ends(client):
    found = a_partition(client)
    if found is None:
        return
    random = client.random
    part = offset_for_leader_epoch.OffsetForLeaderPartition(
        partition=found[1],
        current_leader_epoch=random.choice([-1, -1, 0, 3]),
        leader_epoch=random.randrange(4),
    )
    topic = offset_for_leader_epoch.OffsetForLeaderTopic(topic=found[0], partitions=[part])
    request = offset_for_leader_epoch.OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic])
    await client.ask(request, found[2])


async def page_through_topics(client):
    """Reads topics by pages of one or two partitions, which may be deleted between two pages."""
    random = client.random
    names = sorted({random.choice(client.topics) for _ in range(3)})
    topics = [describe_topic_partitions.TopicRequest(name=each) for each in names]
    cursor = None
    for _ in range(3):
        request = describe_topic_partitions.DescribeTopicPartitionsRequest(
            topics=topics, response_partition_limit=random.choice([1, 2]), cursor=cursor
        )
        answer = await client.ask(request)
        if answer is None or answer.next_cursor is None:
            return
        cursor = describe_topic_partitions.Cursor(
            topic_name=answer.next_cursor.topic_name, partition_index=answer.next_cursor.partition_index
        )


async def list_resources(client):
    await client.ask(list_config_resources.ListConfigResourcesRequest(resource_types=[]))


async def ask_for_versions(client):
    request = api_versions.ApiVersionsRequest(client_software_name="seeds", client_software_version="1")
    await client.ask(request, None, client.random.randrange(5))


REPLICAS = [
    (2, describe_directories),
    (3, move_a_replica),
    (2, ask_where_an_epoch_ends),
    (2, page_through_topics),
    (1, list_resources),
    (1, ask_for_versions),
]
