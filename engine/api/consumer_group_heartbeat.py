"""Handles ConsumerGroupHeartbeat: members of consumer groups join, follow assignments, and leave (KIP-848).

Versions: 1 member ids that clients make, and subscription by regular expression.
"""

from typing import TYPE_CHECKING, Final

from bowstring.engine.api.join_group import request_context
from bowstring.engine.errors import Errors, KafkaError
from bowstring.engine.groups.consumer.heartbeat import JOIN_EPOCH, refusal
from bowstring.engine.groups.modern.group import LEAVE_EPOCH, LEAVE_STATIC_EPOCH
from bowstring.engine.metadata.features import GROUP_VERSION
from bowstring.engine.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from bowstring.engine.requests.broker_services import BrokerServices
    from bowstring.engine.requests.request import Request

_CLIENT_MEMBER_ID_VERSION: Final = 1
_ADVICE: Final = (
    "The cluster has group.version 0, or group.coordinator.rebalance.protocols is without consumer: set "
    "group.protocol=classic."
)


def supports_consumer_groups(broker: "BrokerServices") -> bool:
    """Whether the protocol of KIP-848 is enabled, by the cluster's level and by this broker's config."""
    return broker.metadata.image.features.get(GROUP_VERSION, 0) > 0 and "consumer" in broker.configs.value(
        "group.coordinator.rebalance.protocols"
    )


async def handle(broker: "BrokerServices", request: "Request") -> ConsumerGroupHeartbeatResponse:
    """Answers when all that the answer tells is committed."""
    body: ConsumerGroupHeartbeatRequest = request.body
    if not supports_consumer_groups(broker):
        return refusal(Errors.UNSUPPORTED_VERSION, _ADVICE)
    try:
        _check(body, request.version, broker.configs.value("group.consumer.assignors"))
        context = request_context(request)
        answer: ConsumerGroupHeartbeatResponse = await broker.groups.ask(
            body.group_id,
            lambda shard, token, now_ms: shard.consumer_group_heartbeat(body, context, token, now_ms),
        )
    except KafkaError as error:
        return refusal(error.error, error.detail)
    return answer


def _check(body: ConsumerGroupHeartbeatRequest, version: int, assignors: list[str]) -> None:
    """Checks what does not depend on the group.

    Raises:
        KafkaError: INVALID_REQUEST or UNSUPPORTED_ASSIGNOR.
    """
    epoch = body.member_epoch
    if version >= _CLIENT_MEMBER_ID_VERSION or epoch > JOIN_EPOCH or epoch == LEAVE_EPOCH:
        _refuse_blank("MemberId", body.member_id)
    _refuse_blank("GroupId", body.group_id)
    _refuse_blank("InstanceId", body.instance_id)
    _refuse_blank("RackId", body.rack_id)
    if epoch == JOIN_EPOCH:
        _check_join(body)
    elif epoch == LEAVE_STATIC_EPOCH and body.instance_id is None:
        raise KafkaError(Errors.INVALID_REQUEST, "InstanceId can't be null.")
    elif epoch < LEAVE_STATIC_EPOCH:
        raise KafkaError(Errors.INVALID_REQUEST, "MemberEpoch is invalid.")
    if body.server_assignor is not None and body.server_assignor not in assignors:
        raise KafkaError(
            Errors.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {body.server_assignor} is not supported. Supported assignors: "
            f"{', '.join(assignors)}.",
        )


def _refuse_blank(field: str, value: str | None) -> None:
    if value is not None and not value.strip():
        raise KafkaError(Errors.INVALID_REQUEST, f"{field} can't be empty.")


def _check_join(body: ConsumerGroupHeartbeatRequest) -> None:
    if body.rebalance_timeout_ms == -1:
        raise KafkaError(Errors.INVALID_REQUEST, "RebalanceTimeoutMs must be provided in first request.")
    if body.topic_partitions is None or body.topic_partitions:
        raise KafkaError(Errors.INVALID_REQUEST, "TopicPartitions must be empty when (re-)joining.")
    if body.subscribed_topic_names is None and body.subscribed_topic_regex is None:
        raise KafkaError(
            Errors.INVALID_REQUEST,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        )
