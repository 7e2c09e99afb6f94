"""Handles Metadata: returns brokers, topics, and the leader of each partition."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from bowstring._native.protocol.message_steps import PAUSE
from bowstring.engine.api.authorized_operations import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS
from bowstring.engine.api.offline_replicas import offline_replicas, reachable_brokers
from bowstring.engine.metadata.image import TopicImage
from bowstring.engine.metadata.names import (
    METADATA_TOPIC,
    is_internal,
    topic_name_problem,
)
from bowstring.engine.metadata.topic_changes import MAX_PARTITIONS_PER_REQUEST
from bowstring.engine.requests.time_slices import streamed
from bowstring.protocol import ZERO_UUID
from bowstring.protocol.errors import Error, Errors, KafkaError
from bowstring.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from bowstring.engine.configs import BrokerConfigs
    from bowstring.engine.coordinators.cluster_changes import ClusterChanges
    from bowstring.engine.coordinators.coordinators import Coordinators
    from bowstring.engine.metadata.image import Metadata
    from bowstring.engine.requests.request import Request
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.storage.log_manager import LogManager


_ID_VERSION: Final = 12

Describe = Callable[[TopicImage], MetadataResponseTopic]
"""Returns the answer for a topic."""

Create = Callable[[str], Awaitable[Error]]
"""Creates a topic; returns the error for the client."""


async def handle(
    request: "Request",
    *,
    configs: "BrokerConfigs",
    node_id: int,
    cluster_id: str,
    metadata: "Metadata",
    logs: "LogManager",
    changes: "ClusterChanges",
    time_slices: "TimeSlices",
    coordinators: "Coordinators",
) -> MetadataResponse:
    """Describes the cluster.

    Behaviour: null topics (in version 0: none) request all topics, an empty list for none. A missing topic is
    created when the client and auto.create.topics.enable allow it. As in Kafka, the answer is then
    UNKNOWN_TOPIC_OR_PARTITION, and the client retries. Topics requested by id are never created.

    Versions: 1 adds rack, controller and internal topics; 2 the cluster id; 4 allow_auto_topic_creation; 5
    offline replicas; 7 leader epochs; 8 authorized operations (KIP-430), of the cluster up to 10 only; 10
    topic ids in the response, 12 in the request (KIP-516); 13 a top-level error code.
    """
    body: MetadataRequest = request.body
    response = MetadataResponse(
        brokers=_brokers(metadata, request.listener.name),
        cluster_id=cluster_id,
        controller_id=node_id,
    )
    if body.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    operations = TOPIC_OPERATIONS if body.include_topic_authorized_operations else NOT_ASKED
    image = metadata.image
    describe = partial(_topic, node_id, metadata, logs, operations)
    if body.topics is None or (request.version == 0 and not body.topics):
        topics = list(image.topics.values())
        response.topics = streamed(describe(topic) for topic in topics)
        return response
    by_id = False
    async for topic in time_slices.each(body.topics):
        by_id = by_id or topic.topic_id != ZERO_UUID
        if request.version < _ID_VERSION and (by_id or topic.name is None):
            return _refusal(body, Errors.INVALID_REQUEST)
    if by_id:
        response.topics = streamed(_of_ids(metadata, describe, body))
    else:
        missing = 0
        if body.allow_auto_topic_creation and configs.value("auto.create.topics.enable"):
            missing = await _count_missing(metadata, time_slices, body)
        # As in Kafka, which queries its controller for all of them at once: if there are too many, none is
        # created.
        too_many = missing * configs.value("num.partitions") > MAX_PARTITIONS_PER_REQUEST
        if missing and not too_many:
            names = await time_slices.different(topic.name or "" for topic in body.topics)
            create = partial(_create, changes, coordinators)
            response.topics = streamed(_made(metadata, describe, create, names, operations))
        else:
            response.topics = streamed(_of_names(metadata, describe, body, operations))
    return response


async def _count_missing(metadata: "Metadata", time_slices: "TimeSlices", body: MetadataRequest) -> int:
    topics = metadata.image.topics
    return len(
        await time_slices.different(
            topic.name or "" for topic in body.topics or () if (topic.name or "") not in topics
        )
    )


def _of_names(
    metadata: "Metadata", describe: Describe, body: MetadataRequest, operations: int
) -> Iterator[MetadataResponseTopic]:
    named = set()
    for topic in body.topics or ():
        name = topic.name or ""
        if name in named:
            yield PAUSE
            continue
        named.add(name)
        found = metadata.image.topics.get(name)
        if found is not None:
            yield describe(found)
        else:
            yield _missing(_absence(name), name, operations)


def _of_ids(
    metadata: "Metadata", describe: Describe, body: MetadataRequest
) -> Iterator[MetadataResponseTopic]:
    named = {ZERO_UUID}
    for topic in body.topics or ():
        if topic.topic_id in named:
            yield PAUSE
            continue
        named.add(topic.topic_id)
        found = metadata.image.topics_by_id.get(topic.topic_id)
        yield describe(found) if found is not None else _unknown(topic.topic_id)


async def _made(
    metadata: "Metadata", describe: Describe, create: Create, names: Iterable[str], operations: int
) -> AsyncIterator[MetadataResponseTopic]:
    """Yields existing topics, and for each missing one the result of creating it."""
    for name in names:
        found = metadata.image.topics.get(name)
        if found is not None:
            yield describe(found)
        else:
            yield _missing(await create(name), name, operations)


def _refusal(body: MetadataRequest, error: Error) -> MetadataResponse:
    return MetadataResponse(
        error_code=error.code,
        topics=streamed(
            MetadataResponseTopic(error_code=error.code, name=topic.name or "", topic_id=topic.topic_id)
            for topic in body.topics or ()
        ),
    )


def _brokers(metadata: "Metadata", listener: str) -> list[MetadataResponseBroker]:
    """Returns the brokers that are not fenced.

    If all are, as after every process stood still, it returns all: librdkafka forgets every broker that an
    answer lacks, and never comes back from an empty one.
    """
    known = [
        (each, endpoint)
        for each in metadata.image.brokers.values()
        if (endpoint := each.endpoint(listener)) is not None
    ]
    return [
        MetadataResponseBroker(node_id=each.id, host=endpoint.host, port=endpoint.port, rack=each.rack)
        for each, endpoint in [pair for pair in known if not pair[0].fenced] or known
    ]


def _topic(
    node_id: int, metadata: "Metadata", logs: "LogManager", operations: int, topic: TopicImage
) -> MetadataResponseTopic:
    offline, missing = logs.offline_of(topic.name)
    reachable = reachable_brokers(metadata)
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=is_internal(topic.name),
        topic_authorized_operations=operations,
        partitions=streamed(
            MetadataResponsePartition(
                error_code=Errors.LEADER_NOT_AVAILABLE.code
                if partition.leader < 0 or index in missing
                else 0,
                partition_index=index,
                leader_id=-1 if index in missing else partition.leader,
                leader_epoch=partition.leader_epoch,
                replica_nodes=list(partition.replicas),
                isr_nodes=list(partition.in_sync),
                offline_replicas=offline_replicas(
                    partition,
                    reachable,
                    node_id=node_id,
                    has_log=index not in offline and index not in missing,
                ),
            )
            for index, partition in enumerate(topic.partitions)
        ),
    )


def _unknown(topic_id: bytes) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=Errors.UNKNOWN_TOPIC_ID.code, name=None, topic_id=topic_id)


def _missing(error: Error, name: str, operations: int) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=error.code,
        name=name,
        is_internal=is_internal(name),
        topic_authorized_operations=operations,
    )


def _absence(name: str) -> Error:
    return Errors.INVALID_TOPIC_EXCEPTION if topic_name_problem(name) else Errors.UNKNOWN_TOPIC_OR_PARTITION


async def _create(changes: "ClusterChanges", coordinators: "Coordinators", name: str) -> Error:
    """Creates a topic and returns the error for the client: to retry, or the reason of the failure."""
    try:
        if name in coordinators.topics:
            await coordinators.of(name).ensure_topic()
        elif name == METADATA_TOPIC:
            return Errors.UNKNOWN_TOPIC_OR_PARTITION  # the metadata log is never a topic
        else:
            await changes.create_missing_topic(name)
    except KafkaError as error:
        # Kafka creates topics after the answer, so clients see no error but that of an invalid name.
        return Errors.UNKNOWN_TOPIC_OR_PARTITION if topic_name_problem(name) is None else error.error
    return Errors.UNKNOWN_TOPIC_OR_PARTITION
