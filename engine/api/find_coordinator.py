"""Handles FindCoordinator: returns the broker that coordinates a group, a transaction or a share partition.

Versions: 1 transactions; 4 several keys (KIP-699); 6 share partitions (KIP-932).
"""

from typing import TYPE_CHECKING, Final

from bowstring.engine.errors import Error, Errors, KafkaError
from bowstring.engine.metadata.names import GROUPS_TOPIC
from bowstring.engine.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from bowstring.engine.requests.time_slices import streamed

if TYPE_CHECKING:
    from bowstring.engine.requests.broker_services import BrokerServices
    from bowstring.engine.requests.request import Request

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2

_LIBRDKAFKA_VERSION: Final = 2
_BATCH_VERSION: Final = 4
_SHARE_VERSION: Final = 6
_NO_NODE: Final = -1

NO_TRANSACTIONS: Final = (
    "This broker does not support transactions yet; idempotent producers work without them."
)


async def handle(broker: "BrokerServices", request: "Request") -> FindCoordinatorResponse:
    """Returns the leader of the group's partition of ``__consumer_offsets``, at its address of the listener
    used; creates the topic on first use.

    Behaviour: while the partition has no leader, COORDINATOR_NOT_AVAILABLE. There is no transaction
    coordinator yet, and every client must fail at once instead of retrying forever. The error that makes it
    fail differs between clients; the API version tells them apart (`_refusal`).
    """
    body: FindCoordinatorRequest = request.body
    error, detail = await _prepare(broker, body.key_type, request.version)
    if request.version >= _BATCH_VERSION:
        return FindCoordinatorResponse(
            coordinators=streamed(
                _coordinator(broker, request, key, error, detail) for key in body.coordinator_keys
            )
        )
    found = _coordinator(broker, request, body.key, error, detail)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message or Errors.of(found.error_code).name,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _coordinator(
    broker: "BrokerServices", request: "Request", key: str, error: Error, detail: str
) -> Coordinator:
    node_id, host, port = broker.node_id, request.listener.host, request.listener.port
    if not error and request.body.key_type == GROUP:
        found = _leader(broker, request, key)
        if isinstance(found, str):
            error, detail = Errors.COORDINATOR_NOT_AVAILABLE, found
        else:
            node_id, host, port = found
    if error:
        return Coordinator(
            key=key, node_id=_NO_NODE, host="", port=_NO_NODE, error_code=error.code, error_message=detail
        )
    return Coordinator(key=key, node_id=node_id, host=host, port=port, error_message=detail)


def _leader(broker: "BrokerServices", request: "Request", group_id: str) -> tuple[int, str, int] | str:
    """Returns id, host and port of the broker that coordinates a group, or why there is none."""
    image = broker.metadata.image
    topic = image.topics.get(GROUPS_TOPIC)
    partition = broker.groups.partition_of(group_id)
    if topic is None or partition >= len(topic.partitions):
        return "__consumer_offsets is being created; try again."
    leader_id = topic.partitions[partition].leader
    if leader_id == broker.node_id:
        if not broker.groups.coordinates(group_id):
            return (
                "This broker does not coordinate the group yet, or the log directory with its partition of "
                "__consumer_offsets has failed; see the broker's log."
            )
        return leader_id, request.listener.host, request.listener.port
    leader = image.brokers.get(leader_id)
    endpoint = leader.endpoint(request.listener.name) if leader is not None else None
    if endpoint is None:
        return "The group's partition of __consumer_offsets has no leader that can be reached from here."
    return leader_id, endpoint.host, endpoint.port


async def _prepare(broker: "BrokerServices", key_type: int, version: int) -> tuple[Error, str]:
    """Makes sure that the requested coordinator exists."""
    if key_type == GROUP:
        try:
            await broker.groups.ensure_topic()
        except KafkaError as error:
            return Errors.COORDINATOR_NOT_AVAILABLE, str(error)
        return Errors.NONE, ""
    if key_type == TRANSACTION:
        refusal = _refusal(version)
        return refusal, NO_TRANSACTIONS if refusal else ""
    if key_type == SHARE and version >= _SHARE_VERSION:
        # not a retriable error: the client would wait forever
        return Errors.INVALID_REQUEST, "This broker does not support share groups."
    return Errors.INVALID_REQUEST, f"Coordinator type {key_type} is unknown."


def _refusal(version: int) -> Error:
    """Returns the error for a transactional id that makes clients of this version give up
    (docs/guide/other-clients.md).

    Version 2: librdkafka, which retries forever except after authorization errors; it prints our text.
    Version 4 and later: Java, which prints our text, franz-go and kafka-python, which print the error.
    Versions 1 and 3: aiokafka, and sarama, which retries any refusal for 5 s. They get this broker as the
    coordinator, and UNSUPPORTED_VERSION from its InitProducerId.
    """
    if version >= _BATCH_VERSION:
        return Errors.UNSUPPORTED_VERSION
    return Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED if version == _LIBRDKAFKA_VERSION else Errors.NONE
