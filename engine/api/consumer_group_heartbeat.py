"""Handles ConsumerGroupHeartbeat: members of consumer groups join, follow assignments, and leave (KIP-848).

Versions: 1 member ids that clients make, and subscription by regular expression.
"""

from typing import TYPE_CHECKING, Any, Final

from bowstring.engine.api.request_context import client_host, request_context
from bowstring.engine.groups.append_errors import append_error_of_group
from bowstring.engine.groups.consumer.assignors import enabled_assignors
from bowstring.engine.groups.consumer.heartbeat import JOIN_EPOCH, only_kept_alive, refusal
from bowstring.engine.groups.modern.group import LEAVE_EPOCH, LEAVE_STATIC_EPOCH
from bowstring.engine.requests.time_slices import is_large
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.features import GROUP_VERSION
from bowstring.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from bowstring.engine.configs import BrokerConfigs
    from bowstring.engine.groups.service import GroupCoordinatorService
    from bowstring.engine.metadata.image import Metadata
    from bowstring.engine.requests.listeners import Listener
    from bowstring.engine.requests.request import Received, Request
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.security.authorizer import Authorizer

_CLIENT_MEMBER_ID_VERSION: Final = 1
_NAME_OVERHEAD_BYTES: Final = 2
# What one member may say that it has. The core compares these in one go.
_OWNED_MAX: Final = 200_000
_ADVICE: Final = (
    "The cluster has group.version 0, or group.coordinator.rebalance.protocols is without consumer: set "
    "group.protocol=classic."
)


def supports_consumer_groups(configs: "BrokerConfigs", metadata: "Metadata") -> bool:
    """Whether the protocol of KIP-848 is enabled, by the cluster's level and by this broker's config."""
    return metadata.image.features.get(GROUP_VERSION, 0) > 0 and "consumer" in configs.value(
        "group.coordinator.rebalance.protocols"
    )


def at_once(
    body: ConsumerGroupHeartbeatRequest,
    message: "Received",
    listener: "Listener",
    *,
    configs: "BrokerConfigs",
    metadata: "Metadata",
    groups: "GroupCoordinatorService",
) -> Any:
    """Answers without a task if nothing needs to be awaited, the usual case; None: call `handle`."""
    if body.member_epoch <= JOIN_EPOCH or not supports_consumer_groups(configs, metadata):
        return None
    return groups.heartbeat_at_once(
        body.group_id,
        body.member_id,
        lambda state: only_kept_alive(state, body, message.client_id or "", client_host(message.peer)),
    )


async def handle(
    request: "Request",
    *,
    configs: "BrokerConfigs",
    metadata: "Metadata",
    time_slices: "TimeSlices",
    groups: "GroupCoordinatorService",
    authorizer: "Authorizer",
) -> ConsumerGroupHeartbeatResponse:
    """Answers when all that the answer says is committed."""
    body: ConsumerGroupHeartbeatRequest = request.body
    if not supports_consumer_groups(configs, metadata):
        return refusal(Errors.UNSUPPORTED_VERSION, _ADVICE)
    try:
        _check(body, request.version, enabled_assignors(configs.value("group.consumer.assignors")))
        await _take_arrays(time_slices, groups, body)
        context = request_context(request, authorizer)
        answer: ConsumerGroupHeartbeatResponse = await groups.ask(
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


async def _take_arrays(
    time_slices: "TimeSlices", groups: "GroupCoordinatorService", body: ConsumerGroupHeartbeatRequest
) -> None:
    """Decodes large arrays in slices.

    Raises:
        KafkaError: More topic names than one append takes, or far more partitions than there are.
    """
    names = body.subscribed_topic_names
    if names is not None and is_large(names):
        known: dict[str, None] = {}
        size_bytes = 0
        async for name in time_slices.each(names):
            size_bytes += len(name) + _NAME_OVERHEAD_BYTES
            if size_bytes > groups.max_batch_bytes:
                raise KafkaError(append_error_of_group(Errors.MESSAGE_TOO_LARGE))
            known[name] = None
        body.subscribed_topic_names = list(known)
    owned = body.topic_partitions
    if owned is None or not (is_large(owned) or any(is_large(topic.partitions) for topic in owned)):
        return
    topics: list[TopicPartitions] = []
    count = 0
    async for topic in time_slices.each(owned):
        partitions: list[int] = []
        async for index in time_slices.each(topic.partitions):
            count += 1
            if count > _OWNED_MAX:
                raise KafkaError(Errors.INVALID_REQUEST, f"A member has at most {_OWNED_MAX} partitions.")
            partitions.append(index)
        topics.append(TopicPartitions(topic_id=topic.topic_id, partitions=partitions))
    body.topic_partitions = topics


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
