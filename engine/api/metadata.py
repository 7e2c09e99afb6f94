"""Metadata: brokers, topics, and who leads each partition."""

from typing import TYPE_CHECKING, Final

from bowstring.engine.api.authorized_operations import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS
from bowstring.engine.errors import Error, Errors, KafkaError
from bowstring.engine.metadata.image import TopicImage
from bowstring.engine.metadata.names import GROUPS_TOPIC, METADATA_TOPIC, is_internal, topic_name_problem
from bowstring.engine.metadata.topic_changes import NewTopic, create_topic
from bowstring.engine.protocol import ZERO_UUID, random_uuid
from bowstring.engine.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from bowstring.engine.broker.broker import Broker
    from bowstring.engine.broker.request import Request


NO_LEADER: Final = Errors.LEADER_NOT_AVAILABLE.code


async def handle(broker: "Broker", request: "Request") -> MetadataResponse:
    """Describes the cluster.

    Behaviour: null topics (in version 0: none) ask for all topics, an empty list for none. A topic that is
    not there is created when the client and auto.create.topics.enable allow it; the answer is then
    UNKNOWN_TOPIC_OR_PARTITION, as Kafka has it, and the client asks again. Topics asked for by id are never
    created.

    Versions: 1 adds rack, controller and internal topics; 2 the cluster id; 4 allow_auto_topic_creation;
    5 offline replicas; 7 leader epochs; 8 authorized operations (KIP-430), of the cluster up to 10 only;
    10 topic ids in the response, 12 in the request (KIP-516); 13 a top-level error code.
    """
    body: MetadataRequest = request.body
    response = MetadataResponse(
        brokers=_brokers(broker, request.listener.name),
        cluster_id=broker.cluster_id,
        controller_id=broker.node_id,
    )
    if body.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    operations = TOPIC_OPERATIONS if body.include_topic_authorized_operations else NOT_ASKED
    image = broker.metadata.image
    if body.topics is None or (request.version == 0 and not body.topics):
        response.topics = [_topic(broker, topic, operations) for topic in image.topics.values()]
        return response
    problem = _problem(body, request.version)
    if problem is not None:
        return _refusal(body, problem)
    ids = {topic.topic_id: None for topic in body.topics if topic.topic_id != ZERO_UUID}
    if ids:
        response.topics = [_topic_of_id(broker, topic_id, operations) for topic_id in ids]
        return response
    may_create = body.allow_auto_topic_creation and broker.configs.value("auto.create.topics.enable")
    for name in {topic.name or "": None for topic in body.topics}:
        found = image.topics.get(name)
        if found is not None:
            response.topics.append(_topic(broker, found, operations))
        else:
            error = await _create(broker, name) if may_create else _absence(name)
            response.topics.append(_missing(error, name, operations))
    return response


def _problem(body: MetadataRequest, version: int) -> Error | None:
    if version < 12 and any(topic.name is None or topic.topic_id != ZERO_UUID for topic in body.topics or ()):
        return Errors.INVALID_REQUEST
    return None


def _refusal(body: MetadataRequest, error: Error) -> MetadataResponse:
    return MetadataResponse(
        error_code=error.code,
        topics=[
            MetadataResponseTopic(error_code=error.code, name=topic.name or "", topic_id=topic.topic_id)
            for topic in body.topics or ()
        ],
    )


def _brokers(broker: "Broker", listener: str) -> list[MetadataResponseBroker]:
    return [
        MetadataResponseBroker(node_id=each.id, host=endpoint.host, port=endpoint.port, rack=each.rack)
        for each in broker.metadata.image.brokers.values()
        if not each.fenced and (endpoint := each.endpoint(listener)) is not None
    ]


def _topic(broker: "Broker", topic: TopicImage, operations: int) -> MetadataResponseTopic:
    offline, missing = broker.logs.offline_of(topic.name)
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=is_internal(topic.name),
        topic_authorized_operations=operations,
        partitions=[
            MetadataResponsePartition(
                error_code=Errors.LEADER_NOT_AVAILABLE.code
                if partition.leader < 0 or index in missing
                else 0,
                partition_index=index,
                leader_id=-1 if index in missing else partition.leader,
                leader_epoch=partition.leader_epoch,
                replica_nodes=list(partition.replicas),
                isr_nodes=list(partition.in_sync),
                offline_replicas=[broker.node_id] if index in offline or index in missing else [],
            )
            for index, partition in enumerate(topic.partitions)
        ],
    )


def _topic_of_id(broker: "Broker", topic_id: bytes, operations: int) -> MetadataResponseTopic:
    topic = broker.metadata.image.topics_by_id.get(topic_id)
    if topic is None:
        return MetadataResponseTopic(error_code=Errors.UNKNOWN_TOPIC_ID.code, name=None, topic_id=topic_id)
    return _topic(broker, topic, operations)


def _missing(error: Error, name: str, operations: int) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=error.code,
        name=name,
        is_internal=is_internal(name),
        topic_authorized_operations=operations,
    )


def _absence(name: str) -> Error:
    return Errors.INVALID_TOPIC_EXCEPTION if topic_name_problem(name) else Errors.UNKNOWN_TOPIC_OR_PARTITION


async def _create(broker: "Broker", name: str) -> Error:
    """Creates a topic and returns what the client is told: to ask again, or why not."""
    try:
        if name == GROUPS_TOPIC:
            await broker.groups.ensure_topic()
        elif is_internal(name) or name == METADATA_TOPIC:
            # Their coordinators are not there yet; the metadata log is never a topic.
            return Errors.UNKNOWN_TOPIC_OR_PARTITION
        else:
            async with broker.metadata.changing() as image:
                if name not in image.topics:
                    wanted = create_topic(image, broker.configs, NewTopic(name), random_uuid())
                    await broker.changes.commit(wanted)
    except KafkaError as error:
        # Kafka creates behind the answer, which hides every cause but a bad name.
        return Errors.UNKNOWN_TOPIC_OR_PARTITION if topic_name_problem(name) is None else error.error
    return Errors.UNKNOWN_TOPIC_OR_PARTITION
