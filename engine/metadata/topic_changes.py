"""Checks requested topic changes against an image and returns the records that make them."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from bowstring.engine.configs import BrokerConfigs, ConfigError, validate_topic_configs
from bowstring.engine.metadata.directory_ids import default_directory, takes_replicas
from bowstring.engine.metadata.features import DIRECTORIES_SINCE
from bowstring.engine.metadata.image import TOPIC_RESOURCE, ClusterImage, TopicImage
from bowstring.engine.metadata.names import topic_name_problem, unified
from bowstring.engine.metadata.replica_placer import NoRandomness, Randomness, StripedReplicaPlacer
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.features import HIGHEST_METADATA_VERSION, METADATA_VERSION
from bowstring.protocol.records.cluster_metadata.settings import ConfigRecord
from bowstring.protocol.records.cluster_metadata.topics import PartitionRecord, TopicRecord
from bowstring.protocol.schema import MetadataRecord

NO_RANDOMNESS: Final = NoRandomness()
MAX_PARTITIONS_PER_REQUEST = 10_000
"""Kafka refuses to create more partitions than this in one request."""


class NewTopic(NamedTuple):
    """A topic as CreateTopics requests it: by counts (-1 takes the broker's default) or by assignment."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: Mapping[int, Sequence[int]] | None = None
    configs: Mapping[str, str | None] | None = None


def check_topic_name(name: str) -> None:
    """Raises KafkaError INVALID_TOPIC_EXCEPTION when the name is not allowed for a topic."""
    problem = topic_name_problem(name)
    if problem is not None:
        raise KafkaError(Errors.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")


def check_new_topic_name(image: ClusterImage, name: str) -> None:
    """Raises KafkaError when the name is illegal, taken, or indistinguishable from another one in metrics."""
    check_topic_name(name)
    if name in image.topics:
        raise KafkaError(Errors.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    other = image.unified_names.get(unified(name))
    if other is not None:
        raise KafkaError(
            Errors.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}"
        )


def create_topic(
    image: ClusterImage,
    configs: BrokerConfigs,
    topic: NewTopic,
    topic_id: bytes,
    random: Randomness = NO_RANDOMNESS,
) -> list[MetadataRecord]:
    """Returns the records that create a topic: TopicRecord, its ConfigRecords, its PartitionRecords.

    Args:
        random: Spreads the partitions of several topics over the brokers; one broker needs none.

    Raises:
        KafkaError: With the error that CreateTopics answers.
    """
    check_new_topic_name(image, topic.name)
    overrides = _checked_configs(topic, configs)
    if topic.assignments:
        placement = _manual_placement(image, topic)
    else:
        placement = _default_placement(image, configs, topic, random)
    records: list[MetadataRecord] = [TopicRecord(name=topic.name, topic_id=topic_id)]
    records += (
        ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic.name, name=name, value=value)
        for name, value in overrides.items()
    )
    records += (_new_partition(image, topic_id, index, replicas) for index, replicas in enumerate(placement))
    return records


def create_partitions(
    image: ClusterImage,
    name: str,
    count: int,
    assignments: Sequence[Sequence[int]] | None,
    random: Randomness = NO_RANDOMNESS,
) -> list[MetadataRecord]:
    """Returns the records that grow a topic to `count` partitions.

    Raises:
        KafkaError: With the error that CreatePartitions answers.
    """
    topic = image.topics.get(name)
    if topic is None:
        raise KafkaError(Errors.UNKNOWN_TOPIC_OR_PARTITION)
    present = len(topic.partitions)
    if count == present:
        raise KafkaError(Errors.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
    if count < present:
        raise KafkaError(
            Errors.INVALID_PARTITIONS,
            f"The topic {name} currently has {present} partition(s); {count} would not be an increase.",
        )
    check_partition_total(count - present)
    replication_factor = len(topic.partitions[0].replicas)
    if assignments is None:
        placement = place(image, count - present, replication_factor, random)
    else:
        placement = _extra_placement(image, assignments, present, count - present, replication_factor)
    return [_new_partition(image, topic.id, present + i, replicas) for i, replicas in enumerate(placement)]


def place(
    image: ClusterImage, count: int, replication_factor: int, random: Randomness = NO_RANDOMNESS
) -> list[tuple[int, ...]]:
    """Returns the replicas of `count` new partitions, with leaders and followers spread over racks and
    brokers.

    Raises:
        KafkaError: INVALID_REPLICATION_FACTOR when there are too few brokers.
    """
    placer = StripedReplicaPlacer(image.brokers.values(), random)
    return [placer.place(replication_factor) for _ in range(count)]


def check_partition_total(count: int) -> None:
    """Raises KafkaError POLICY_VIOLATION when a request creates too many partitions."""
    if count > MAX_PARTITIONS_PER_REQUEST:
        raise KafkaError(
            Errors.POLICY_VIOLATION,
            f"At most {MAX_PARTITIONS_PER_REQUEST} partitions may be created at once, not {count}.",
        )


def _checked_configs(topic: NewTopic, configs: BrokerConfigs) -> dict[str, str]:
    wanted = topic.configs or {}
    overrides = {name: value for name, value in wanted.items() if value is not None}
    if len(overrides) != len(wanted):
        nulls = ",".join(name for name, value in wanted.items() if value is None)
        raise KafkaError(Errors.INVALID_CONFIG, f"Null value not supported for topic configs: {nulls}")
    try:
        validate_topic_configs(overrides, configs)
    except ConfigError as error:
        raise KafkaError(Errors.INVALID_CONFIG, str(error)) from None
    return overrides


def _default_placement(
    image: ClusterImage, configs: BrokerConfigs, topic: NewTopic, random: Randomness
) -> list[tuple[int, ...]]:
    if topic.replication_factor < -1 or topic.replication_factor == 0:
        raise KafkaError(
            Errors.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.partitions < -1 or topic.partitions == 0:
        raise KafkaError(
            Errors.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
        )
    count = configs.value("num.partitions") if topic.partitions == -1 else topic.partitions
    replication_factor = topic.replication_factor
    if replication_factor == -1:
        replication_factor = configs.value("default.replication.factor")
    check_partition_total(count)
    try:
        return place(image, count, replication_factor, random)
    except KafkaError as error:
        raise KafkaError(
            error.error,
            f"Unable to replicate the partition {replication_factor} time(s): {error.detail}",
        ) from None


def _manual_placement(image: ClusterImage, topic: NewTopic) -> list[tuple[int, ...]]:
    assignments = topic.assignments or {}
    for value, what in (
        (topic.replication_factor, "replication factor"),
        (topic.partitions, "numPartitions"),
    ):
        if value != -1:
            raise KafkaError(
                Errors.INVALID_REQUEST,
                f"A manual partition assignment was specified, but {what} was not set to -1.",
            )
    replication_factor = None
    for index, replicas in assignments.items():
        check_replicas(image, replicas, replication_factor)
        _check_active(image, index, replicas)
        replication_factor = len(replicas)
    if sorted(assignments) != list(range(len(assignments))):
        raise KafkaError(
            Errors.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
        )
    check_partition_total(len(assignments))
    return [tuple(assignments[index]) for index in range(len(assignments))]


def _extra_placement(
    image: ClusterImage,
    assignments: Sequence[Sequence[int]],
    start: int,
    count: int,
    replication_factor: int,
) -> list[tuple[int, ...]]:
    if len(assignments) != count:
        raise KafkaError(
            Errors.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {count} additional partition(s), but only {len(assignments)} assignment(s) "
            "were specified.",
        )
    for index, replicas in enumerate(assignments, start):
        check_replicas(image, replicas, replication_factor)
        _check_active(image, index, replicas)
    return [tuple(replicas) for replicas in assignments]


def check_replicas(
    image: ClusterImage, replicas: Sequence[int], replication_factor: int | None = None
) -> None:
    """Checks the replicas that a request assigns to a partition.

    Raises:
        KafkaError: INVALID_REPLICA_ASSIGNMENT.
    """

    def refuse(reason: str) -> KafkaError:
        return KafkaError(
            Errors.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment includes {reason}"
        )

    if not replicas:
        raise refuse("an empty replica list.")
    for broker in replicas:
        if broker not in image.brokers:
            raise refuse(f"broker {broker}, but no such broker is registered.")
        if not takes_replicas(image.brokers[broker]):
            raise refuse(f"broker {broker}, but all its log directories are cordoned.")
        if replicas.count(broker) > 1:
            raise refuse(f"the broker {broker} more than once.")
    if replication_factor is not None and len(replicas) != replication_factor:
        raise refuse(
            f"a partition with {len(replicas)} replica(s), but this is not consistent with previous "
            f"partitions, which have {replication_factor} replica(s)."
        )


def _check_active(image: ClusterImage, index: int, replicas: Sequence[int]) -> None:
    if not any(image.brokers[broker].is_active for broker in replicas):
        raise KafkaError(
            Errors.INVALID_REPLICA_ASSIGNMENT,
            f"All brokers specified in the manual partition assignment for partition {index} are fenced "
            "or in controlled shutdown.",
        )


def _new_partition(
    image: ClusterImage, topic_id: bytes, index: int, replicas: Sequence[int]
) -> PartitionRecord:
    brokers = [image.brokers[broker] for broker in replicas]
    in_sync = [broker.id for broker in brokers if broker.is_active]
    level = image.features.get(METADATA_VERSION, HIGHEST_METADATA_VERSION)
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(replicas),
        isr=in_sync,
        leader=in_sync[0],
        leader_epoch=0,
        partition_epoch=0,
        # A broker with several directories chooses one (KIP-858).
        directories=[default_directory(broker) for broker in brokers] if level >= DIRECTORIES_SINCE else [],
    )


def find_topic(image: ClusterImage, name: str | None, topic_id: bytes) -> TopicImage:
    """Returns the topic with a name, or with an id when the name is null or empty.

    Raises:
        KafkaError: UNKNOWN_TOPIC_OR_PARTITION or UNKNOWN_TOPIC_ID.
    """
    topic = image.topics.get(name) if name else image.topics_by_id.get(topic_id)
    if topic is None:
        raise KafkaError(Errors.UNKNOWN_TOPIC_OR_PARTITION if name else Errors.UNKNOWN_TOPIC_ID)
    return topic
