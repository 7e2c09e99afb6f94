"""Handles Metadata: returns brokers, topics, and the leader of each partition."""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Set
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from bowstring._native.protocol.message_steps import PAUSE
from bowstring.engine.api.authorized_operations import NOT_ASKED, cluster_operations
from bowstring.engine.api.denials import NONE_DENIED, allows_on_cluster, denied_among, hides, names_of
from bowstring.engine.api.forwarded import ask_for_client
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
from bowstring.protocol.acls import AclOperation, AclResourceType
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
    from bowstring.engine.coordinators.cluster_changes import Ask, ClusterChanges
    from bowstring.engine.coordinators.coordinators import Coordinators
    from bowstring.engine.metadata.image import Metadata
    from bowstring.engine.quorum.service import QuorumService
    from bowstring.engine.requests.request import Request
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.security.authorizer import Authorizer
    from bowstring.engine.storage.log_manager import LogManager


_ID_VERSION: Final = 12

Describe = Callable[[TopicImage], MetadataResponseTopic]
"""Returns the answer for a topic."""

Create = Callable[[str], Awaitable[Error]]
"""Creates a topic; returns the error for the client."""

Operations = Callable[[str], int]
"""Returns the field of authorized operations for a topic."""


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
    authorizer: "Authorizer",
    quorum: "QuorumService",
) -> MetadataResponse:
    """Describes the cluster.

    Behaviour: null topics (in version 0: none) request all topics, an empty list for none. A missing topic is
    created when the client and auto.create.topics.enable allow it. As in Kafka, the answer is then
    UNKNOWN_TOPIC_OR_PARTITION, and the client retries. Topics requested by id are never created. Topics that
    the client may not describe, or would have to create and may not, come last, whether they exist or not;
    among all topics they are left out.

    Versions: 1 adds rack, controller and internal topics; 2 the cluster id; 4 allow_auto_topic_creation; 5
    offline replicas; 7 leader epochs; 8 authorized operations (KIP-430), of the cluster up to 10 only; 10
    topic ids in the response, 12 in the request (KIP-516); 13 a top-level error code.
    """
    body: MetadataRequest = request.body
    brokers = _brokers(metadata, request.listener.name)
    response = MetadataResponse(brokers=brokers, cluster_id=cluster_id, controller_id=node_id)
    operations = _operations(authorizer, request, response)
    describe = partial(_topic, node_id, metadata, logs, operations)
    if body.topics is None or (request.version == 0 and not body.topics):
        response.topics = streamed(_all(metadata, describe, authorizer, request))
        return response
    by_id = False
    async for topic in time_slices.each(body.topics):
        by_id = by_id or topic.topic_id != ZERO_UUID
        if request.version < _ID_VERSION and (by_id or topic.name is None):
            return _refusal(body, Errors.INVALID_REQUEST)
    names = names_of(metadata.image, body.topics, by_id=True) if by_id else _names(body)
    operation, kind = AclOperation.DESCRIBE, AclResourceType.TOPIC
    denied = await denied_among(authorizer, request, operation, kind, names, time_slices=time_slices)
    if by_id:
        response.topics = streamed(_of_ids(metadata, describe, body, denied))
        return response
    creates = body.allow_auto_topic_creation and configs.value("auto.create.topics.enable")
    wanted = await _missing_names(metadata, time_slices, body, denied) if creates else ()
    refused = _Refused(denied, await _uncreatable(authorizer, request, wanted, time_slices))
    count = len(wanted) - len(refused.uncreatable)
    # As in Kafka, which sends one request for all: if there are too many, none is created.
    if 0 < count * configs.value("num.partitions") <= MAX_PARTITIONS_PER_REQUEST:
        distinct = await time_slices.different(_names(body))
        ask = partial(ask_for_client, request, quorum=quorum, configs=configs, time_slices=time_slices)
        knows_clients = authorizer.is_on or metadata.image.client_quotas.entities
        create = partial(_create, changes, coordinators, ask if knows_clients else None)
        response.topics = streamed(_made(metadata, describe, create, distinct, operations, refused=refused))
    else:
        request.keeps = logs.all_online and not (authorizer.is_on and refused.may_count(body))
        response.topics = streamed(_of_names(metadata, describe, body, operations, refused))
    return response


def _operations(authorizer: "Authorizer", request: "Request", response: MetadataResponse) -> Operations:
    """Fills in the operations on the cluster, if requested; returns the function for those on topics."""
    if request.body.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(authorizer, request)
    if request.body.include_topic_authorized_operations:
        return partial(authorizer.operations, request, AclResourceType.TOPIC)
    return lambda name: NOT_ASKED


def _all(
    metadata: "Metadata", describe: Describe, authorizer: "Authorizer", request: "Request"
) -> Iterator[MetadataResponseTopic]:
    """Yields the topics that the client may describe."""
    asked = (authorizer, request, AclOperation.DESCRIBE, AclResourceType.TOPIC)
    for topic in list(metadata.image.topics.values()):
        yield PAUSE if hides(*asked, topic.name) else describe(topic)


async def _uncreatable(
    authorizer: "Authorizer", request: "Request", missing: Collection[str], time_slices: "TimeSlices"
) -> Set[str]:
    """Returns the names of missing topics that the client may not create."""
    if not missing or allows_on_cluster(authorizer, request, AclOperation.CREATE):
        return NONE_DENIED
    operation, kind = AclOperation.CREATE, AclResourceType.TOPIC
    return await denied_among(authorizer, request, operation, kind, missing, time_slices=time_slices)


class _Refused(NamedTuple):
    """Names of topics that the client may not describe, and that it may not create."""

    denied: Set[str]
    uncreatable: Set[str]

    def may_count(self, body: MetadataRequest) -> bool:
        """Returns whether a denial was counted, which it is for each request."""
        return bool(self.denied or self.uncreatable or body.include_cluster_authorized_operations)

    def answers(self, names: Iterable[str]) -> Iterator[MetadataResponseTopic]:
        """Yields the answers for those of the names that are refused, with the error alone."""
        error = Errors.TOPIC_AUTHORIZATION_FAILED.code
        if self.uncreatable:
            for name in dict.fromkeys(name for name in names if name in self.uncreatable):
                yield MetadataResponseTopic(error_code=error, name=name, is_internal=is_internal(name))
        if self.denied:
            for name in dict.fromkeys(name for name in names if name in self.denied):
                yield MetadataResponseTopic(error_code=error, name=name)


def _names(body: MetadataRequest) -> Iterator[str]:
    for topic in body.topics or ():
        yield topic.name or ""


async def _missing_names(
    metadata: "Metadata", time_slices: "TimeSlices", body: MetadataRequest, denied: Set[str]
) -> Collection[str]:
    topics = metadata.image.topics
    return await time_slices.different(
        name for name in _names(body) if name not in topics and name not in denied
    )


def _of_names(
    metadata: "Metadata",
    describe: Describe,
    body: MetadataRequest,
    operations: Operations,
    refused: _Refused,
) -> Iterator[MetadataResponseTopic]:
    named: set[str] = set()
    for name in _names(body):
        if name in named or name in refused.denied or name in refused.uncreatable:
            yield PAUSE
            continue
        named.add(name)
        found = metadata.image.topics.get(name)
        if found is not None:
            yield describe(found)
        else:
            yield _missing(_absence(name), name, operations)
    yield from refused.answers(list(_names(body)) if refused.denied or refused.uncreatable else ())


def _of_ids(
    metadata: "Metadata", describe: Describe, body: MetadataRequest, denied: Set[str]
) -> Iterator[MetadataResponseTopic]:
    named = {ZERO_UUID}
    refused: list[bytes] = []
    for topic in body.topics or ():
        if topic.topic_id in named:
            yield PAUSE
            continue
        named.add(topic.topic_id)
        found = metadata.image.topics_by_id.get(topic.topic_id)
        if found is not None and found.name in denied:
            refused.append(topic.topic_id)
            yield PAUSE
            continue
        yield describe(found) if found is not None else _unknown(topic.topic_id)
    error = Errors.TOPIC_AUTHORIZATION_FAILED.code
    for topic_id in refused:
        yield MetadataResponseTopic(error_code=error, name=None, topic_id=topic_id)


async def _made(
    metadata: "Metadata",
    describe: Describe,
    create: Create,
    names: Collection[str],
    operations: Operations,
    *,
    refused: _Refused,
) -> AsyncIterator[MetadataResponseTopic]:
    """Yields existing topics, and for each missing one the result of creating it."""
    for name in names:
        if name in refused.denied or name in refused.uncreatable:
            continue
        found = metadata.image.topics.get(name)
        if found is not None:
            yield describe(found)
        else:
            yield _missing(await create(name), name, operations)
    for each in refused.answers(names):
        yield each


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
    node_id: int, metadata: "Metadata", logs: "LogManager", operations: Operations, topic: TopicImage
) -> MetadataResponseTopic:
    offline, missing = logs.offline_of(topic.name)
    reachable = reachable_brokers(metadata)
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=is_internal(topic.name),
        topic_authorized_operations=operations(topic.name),
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


def _missing(error: Error, name: str, operations: Operations) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=error.code,
        name=name,
        is_internal=is_internal(name),
        topic_authorized_operations=operations(name),
    )


def _absence(name: str) -> Error:
    return Errors.INVALID_TOPIC_EXCEPTION if topic_name_problem(name) else Errors.UNKNOWN_TOPIC_OR_PARTITION


async def _create(
    changes: "ClusterChanges", coordinators: "Coordinators", ask: "Ask | None", name: str
) -> Error:
    """Creates a topic and returns the error for the client: to retry, or the reason of the failure."""
    try:
        if name in coordinators.topics:
            await coordinators.of(name).ensure_topic()
        elif name == METADATA_TOPIC:
            return Errors.UNKNOWN_TOPIC_OR_PARTITION  # the metadata log is never a topic
        else:
            await changes.create_missing_topic(name, ask)
    except KafkaError as error:
        # Kafka creates topics after the answer, so clients see no error but that of an invalid name.
        return Errors.UNKNOWN_TOPIC_OR_PARTITION if topic_name_problem(name) is None else error.error
    return Errors.UNKNOWN_TOPIC_OR_PARTITION
