"""Refuses StreamsGroupHeartbeat requests that no state of the group could allow, as Kafka 4.4 does."""

from typing import Any

from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2


def check(request: StreamsGroupHeartbeatRequest) -> None:
    """Checks a request.

    Raises:
        KafkaError: INVALID_REQUEST; also for what Kafka 4.4 has in the protocol and does not support yet:
            source topics by regular expression.
    """
    _check_unsupported(request)
    for value, name in (
        (request.member_id, "MemberId"),
        (request.group_id, "GroupId"),
        (request.instance_id, "InstanceId"),
        (request.rack_id, "RackId"),
    ):
        _refuse_if(value is not None and not value.strip(), f"{name} can't be empty.")
    if request.member_epoch == JOIN_EPOCH:
        _check_join(request)
    elif request.member_epoch == LEAVE_STATIC_EPOCH:
        _refuse_if(request.instance_id is None, "InstanceId can't be null.")
    elif request.member_epoch < LEAVE_STATIC_EPOCH:
        raise KafkaError(
            Errors.INVALID_REQUEST,
            f"MemberEpoch is {request.member_epoch}, but must be greater than or equal to -2.",
        )
    given = [tasks is not None for tasks in _tasks(request)]
    _refuse_if(any(given) and not all(given), "If one task-type is non-null, all must be non-null.")
    _refuse_if(
        request.member_epoch != JOIN_EPOCH and request.topology is not None,
        "Topology can only be provided when (re-)joining.",
    )


def _tasks(request: StreamsGroupHeartbeatRequest) -> tuple[list[Any] | None, ...]:
    return request.active_tasks, request.standby_tasks, request.warmup_tasks


def _check_unsupported(request: StreamsGroupHeartbeatRequest) -> None:
    topology = request.topology
    _refuse_if(
        topology is not None and any(each.source_topic_regex for each in topology.subtopologies),
        "Regular expressions for source topics are not supported yet.",
    )


def _check_join(request: StreamsGroupHeartbeatRequest) -> None:
    _refuse_if(request.rebalance_timeout_ms == -1, "RebalanceTimeoutMs must be provided in first request.")
    for tasks, name in zip(_tasks(request), ("ActiveTasks", "StandbyTasks", "WarmupTasks"), strict=True):
        _refuse_if(tasks is None or bool(tasks), f"{name} must be empty when (re-)joining.")
    _refuse_if(request.topology is None, "Topology must be non-null when (re-)joining.")


def _refuse_if(wrong: bool, detail: str) -> None:
    if wrong:
        raise KafkaError(Errors.INVALID_REQUEST, detail)
