"""Random requests of administrators: topics, partitions, configs, elections, reassignments, features."""

from bowstring.engine.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE
from bowstring.protocol.messages import (
    alter_configs,
    alter_partition_reassignments,
    create_partitions,
    create_topics,
    delete_topics,
    describe_cluster,
    describe_configs,
    elect_leaders,
    incremental_alter_configs,
    list_partition_reassignments,
    metadata,
    update_features,
)

SET, DELETE, APPEND, SUBTRACT = range(4)
NONE_ID = bytes(16)
CONFIGS = (
    ("retention.ms", ("1000000", "2000000")),
    ("min.insync.replicas", ("1", "2")),
    ("cleanup.policy", ("delete", "compact")),
    ("segment.bytes", ("1048576", "2097152")),
    ("no.such.config", ("1",)),
    ("retention.bytes", ("-1", "x")),
)


def some(client, of, most=3):
    """A few of these, some of them twice."""
    return [client.random.choice(of) for _ in range(client.random.randrange(1, most + 1))]


def create(client):
    random = client.random
    topics = []
    for name in some(client, client.topics, 4):
        topic = create_topics.CreatableTopic(
            name=name,
            num_partitions=random.choice([1, 1, 2, 3]),
            replication_factor=random.choice([1, 3, 3, 3, 4]),
        )
        if random.random() < 0.2:
            config, values = random.choice(CONFIGS)
            topic.configs = [create_topics.CreatableTopicConfig(name=config, value=random.choice(values))]
        topics.append(topic)
    return create_topics.CreateTopicsRequest(topics=topics, validate_only=random.random() < 0.1)


def delete(client):
    if client.random.random() < 0.4:
        ids = [found for name in some(client, client.topics) if (found := id_of(client, name)) is not None]
        if ids:
            return delete_topics.DeleteTopicsRequest(
                topics=[delete_topics.DeleteTopicState(name=None, topic_id=each) for each in ids]
            )
    return delete_topics.DeleteTopicsRequest(
        topics=[
            delete_topics.DeleteTopicState(name=each, topic_id=NONE_ID)
            for each in some(client, client.topics)
        ]
    )


def id_of(client, name):
    image = client.image()
    found = image.topics.get(name) if image is not None else None
    return found.id if found is not None else None


def grow(client):
    return create_partitions.CreatePartitionsRequest(
        topics=[
            create_partitions.CreatePartitionsTopic(
                name=name, count=client.random.randrange(1, 6), assignments=None
            )
            for name in some(client, client.topics)
        ]
    )


def alter(client):
    random = client.random
    resources = []
    for name in dict.fromkeys(some(client, client.topics)):
        config, values = random.choice(CONFIGS)
        resources.append(
            incremental_alter_configs.AlterConfigsResource(
                resource_type=TOPIC_RESOURCE,
                resource_name=name,
                configs=[
                    incremental_alter_configs.AlterableConfig(
                        name=config,
                        config_operation=random.choice([SET, SET, DELETE, APPEND, SUBTRACT]),
                        value=random.choice(values),
                    )
                ],
            )
        )
    return incremental_alter_configs.IncrementalAlterConfigsRequest(resources=resources)


def alter_a_broker(client):
    random = client.random
    return incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[
            incremental_alter_configs.AlterConfigsResource(
                resource_type=BROKER_RESOURCE,
                resource_name=random.choice(["", "1", "2", "3"]),
                configs=[
                    incremental_alter_configs.AlterableConfig(
                        name=random.choice(
                            ["log.retention.ms", "num.replica.fetchers", "log.cleaner.threads"]
                        ),
                        config_operation=random.choice([SET, DELETE]),
                        value=random.choice(["2", "3000000"]),
                    )
                ],
            )
        ]
    )


def replace_configs(client):
    config, values = client.random.choice(CONFIGS)
    return alter_configs.AlterConfigsRequest(
        resources=[
            alter_configs.AlterConfigsResource(
                resource_type=TOPIC_RESOURCE,
                resource_name=client.random.choice(client.topics),
                configs=[alter_configs.AlterableConfig(name=config, value=client.random.choice(values))],
            )
        ]
    )


def elect(client):
    random = client.random
    if random.random() < 0.3:
        return elect_leaders.ElectLeadersRequest(election_type=0, topic_partitions=None)
    return elect_leaders.ElectLeadersRequest(
        election_type=random.choice([0, 0, 1]),
        topic_partitions=[
            elect_leaders.TopicPartitions(topic=name, partitions=[random.randrange(4)])
            for name in dict.fromkeys(some(client, client.topics))
        ],
    )


def reassign(client):
    random = client.random
    ids = [each.id for each in client.world.nodes.values()]
    return alter_partition_reassignments.AlterPartitionReassignmentsRequest(
        topics=[
            alter_partition_reassignments.ReassignableTopic(
                name=name,
                partitions=[
                    alter_partition_reassignments.ReassignablePartition(
                        partition_index=random.randrange(3),
                        replicas=random.choice(
                            [None, random.sample(ids, len(ids)), random.sample(ids, 2), random.sample(ids, 1)]
                        ),
                    )
                ],
            )
            for name in dict.fromkeys(some(client, client.topics))
        ]
    )


def list_reassignments(client):
    return list_partition_reassignments.ListPartitionReassignmentsRequest(topics=None)


def describe(client):
    return metadata.MetadataRequest(topics=None, allow_auto_topic_creation=False)


def describe_some(client):
    return metadata.MetadataRequest(
        topics=[metadata.MetadataRequestTopic(name=name) for name in some(client, client.topics)],
        allow_auto_topic_creation=client.random.random() < 0.3,
    )


def describe_the_cluster(client):
    return describe_cluster.DescribeClusterRequest(endpoint_type=1)


def describe_the_configs(client):
    return describe_configs.DescribeConfigsRequest(
        resources=[
            describe_configs.DescribeConfigsResource(
                resource_type=TOPIC_RESOURCE,
                resource_name=client.random.choice(client.topics),
                configuration_keys=None,
            )
        ]
    )


def raise_features(client):
    random = client.random
    name, levels = random.choice(
        [
            ("metadata.version", (20, 25, 26, 27, 29, 30, 31, 32, 33)),
            ("transaction.version", (0, 1, 2)),
            ("group.version", (0, 1)),
            ("share.version", (0, 1, 2)),
            ("eligible.leader.replicas.version", (0, 1)),
            ("kraft.version", (0, 1)),
        ]
    )
    return update_features.UpdateFeaturesRequest(
        feature_updates=[
            update_features.FeatureUpdateKey(
                feature=name,
                max_version_level=random.choice(levels),
                upgrade_type=random.choice([1, 1, 2, 3]),
            )
        ],
        validate_only=random.random() < 0.3,
    )


ADMINISTRATION = [
    (10, create),
    (8, delete),
    (5, grow),
    (4, alter),
    (1, alter_a_broker),
    (2, replace_configs),
    (2, elect),
    (3, reassign),
    (1, list_reassignments),
    (2, describe),
    (2, describe_some),
    (1, describe_the_cluster),
    (1, describe_the_configs),
    (1, raise_features),
]
