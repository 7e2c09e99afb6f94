"""Handles DescribeTopicPartitions: describes topics page by page (KIP-966)."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from bowstring.engine.api.denials import denied_among, hides
from bowstring.engine.api.offline_replicas import offline_replicas, reachable_brokers
from bowstring.engine.metadata.image import TopicImage
from bowstring.engine.metadata.names import is_internal, topic_name_problem
from bowstring.engine.requests.time_slices import streamed
from bowstring.protocol.acls import AclOperation, AclResourceType
from bowstring.protocol.errors import Error, Errors
from bowstring.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

if TYPE_CHECKING:
    from bowstring.engine.configs import BrokerConfigs
    from bowstring.engine.metadata.image import Metadata
    from bowstring.engine.requests.request import Request
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.security.authorizer import Authorizer
    from bowstring.engine.storage.log_manager import LogManager

Operations = Callable[[str], int]
"""Returns the field of authorized operations for a topic."""


async def handle(
    request: "Request",
    *,
    configs: "BrokerConfigs",
    node_id: int,
    metadata: "Metadata",
    logs: "LogManager",
    time_slices: "TimeSlices",
    authorizer: "Authorizer",
) -> DescribeTopicPartitionsResponse:
    """Describes topics in the order of their names, up to a number of partitions, and returns a cursor to
    continue.

    Behaviour: no topics request all. The limit is the smaller of the client's and
    max.request.partition.size.limit. A cursor must name one of the requested topics. Topics that the client
    may not describe come after the page, whether they exist or not; among all they are left out.

    Versions: only 0 exists.
    """
    body: DescribeTopicPartitionsRequest = request.body
    image = metadata.image
    cursor = body.cursor
    asked = await time_slices.different(topic.name for topic in body.topics)
    if cursor is not None and (cursor.partition_index < 0 or (asked and cursor.topic_name not in asked)):
        return DescribeTopicPartitionsResponse(
            topics=streamed(
                DescribeTopicPartitionsResponseTopic(error_code=Errors.INVALID_REQUEST.code, name=topic.name)
                for topic in body.topics
            )
        )
    start = cursor.topic_name if cursor is not None else ""
    of_topics = (authorizer, request, AclOperation.DESCRIBE, AclResourceType.TOPIC)
    after = [name for name in asked if name >= start]
    denied = await denied_among(*of_topics, after, time_slices=time_slices)
    if asked:
        names = await time_slices.in_order(name for name in after if name not in denied)
    else:
        every = list(image.topics)
        names = await time_slices.in_order(
            name for name in every if name >= start and not hides(*of_topics, name)
        )
    response = DescribeTopicPartitionsResponse()
    operations = partial(authorizer.operations, request, AclResourceType.TOPIC)
    describe = partial(_topic, node_id, metadata, logs, operations=operations)
    page = _page(
        body, names, response, configs=configs, metadata=metadata, describe=describe, operations=operations
    )
    response.topics = streamed(chain(page, (_denied(name) for name in after if name in denied)))
    return response


def _denied(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=Errors.TOPIC_AUTHORIZATION_FAILED.code, name=name)


def _page(
    body: DescribeTopicPartitionsRequest,
    names: Iterator[str],
    response: DescribeTopicPartitionsResponse,
    *,
    configs: "BrokerConfigs",
    metadata: "Metadata",
    describe: Callable[[TopicImage, range], DescribeTopicPartitionsResponseTopic],
    operations: Operations,
) -> Iterator[DescribeTopicPartitionsResponseTopic]:
    """Yields the topics of one page. Sets the response's cursor, which is encoded after them, to the start of
    the next page.
    """
    cursor = body.cursor
    limit = configs.value("max.request.partition.size.limit")
    remaining = max(1, min(limit, body.response_partition_limit))
    for name in names:
        if remaining == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = metadata.image.topics.get(name)
        if topic is None:
            invalid = topic_name_problem(name) is not None
            error = Errors.INVALID_TOPIC_EXCEPTION if invalid else Errors.UNKNOWN_TOPIC_OR_PARTITION
            yield _missing(name, error, operations)
            continue
        first = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        last = min(len(topic.partitions), first + remaining)
        yield describe(topic, range(first, last))
        if last < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=last)
            break
        remaining -= max(0, last - first)


def _missing(name: str, error: Error, operations: Operations) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=error.code,
        name=name,
        is_internal=is_internal(name),
        topic_authorized_operations=operations(name),
    )


def _topic(
    node_id: int,
    metadata: "Metadata",
    logs: "LogManager",
    topic: TopicImage,
    indexes: range,
    *,
    operations: Operations,
) -> DescribeTopicPartitionsResponseTopic:
    offline, missing = logs.offline_of(topic.name)
    reachable = reachable_brokers(metadata)
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=is_internal(topic.name),
        topic_authorized_operations=operations(topic.name),
        partitions=[
            DescribeTopicPartitionsResponsePartition(
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
                eligible_leader_replicas=list(partition.eligible_leaders),
                last_known_elr=list(partition.last_known_leaders),
            )
            for index in indexes
            for partition in (topic.partitions[index],)
        ],
    )
