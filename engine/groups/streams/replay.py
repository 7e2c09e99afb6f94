"""Rebuilds streams groups from the records of the log, in any order of different keys."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from bowstring._native.protocol.message_codec import decode
from bowstring.engine.groups.classic.group import ClassicGroup
from bowstring.engine.groups.modern.group import DELETED_EPOCH
from bowstring.engine.groups.state import ShardState
from bowstring.engine.groups.streams.group import StreamsGroup
from bowstring.engine.groups.streams.member import MemberState, StreamsMember
from bowstring.engine.groups.streams.records import GroupFacts
from bowstring.engine.groups.streams.tasks import CurrentTasks, Tasks, task_set
from bowstring.engine.groups.streams.topology import from_record
from bowstring.protocol.records import streams_group as records


def apply(state: ShardState, key: bytes, value: bytes | None, record_offset: int, producer_id: int) -> None:
    """Applies a record of a streams group."""
    key_type, value_type, change = _TYPES[int.from_bytes(key[:2], "big")]
    name = decode(key_type, 0, key, 2)
    body = None if value is None else decode(value_type, int.from_bytes(value[:2], "big"), value, 2)
    group = state.groups.get(name.group_id)
    if not isinstance(group, StreamsGroup):
        if body is None:
            return
        if group is not None and not (isinstance(group, ClassicGroup) and group.is_empty):
            return  # a group of another type took the name, and this record is older
        # a classic group without members stands for offsets that were read before
        group = state.groups[name.group_id] = StreamsGroup(name.group_id)
    change(state, group, name, body)


def _group(state: ShardState, group: StreamsGroup, name: Any, body: Any) -> None:
    if body is None:
        del state.groups[group.group_id]
        if state.offsets.of_group(group.group_id):
            state.groups[group.group_id] = ClassicGroup(group.group_id, None)
        return
    configs = {each.key: each.value for each in body.last_assignment_configs or ()}
    group.set_facts(GroupFacts(body.epoch, body.metadata_hash, body.validated_topology_epoch, configs))


def _topology(state: ShardState, group: StreamsGroup, name: Any, body: Any) -> None:
    group.topology = None if body is None else from_record(body)


def _member(state: ShardState, group: StreamsGroup, name: Any, body: Any) -> None:
    if body is None:
        group.remove_member(name.member_id)
        return
    endpoint = body.user_endpoint
    group.put_member(
        replace(
            group.members.get(name.member_id) or StreamsMember(name.member_id),
            instance_id=body.instance_id,
            rack_id=body.rack_id,
            client_id=body.client_id,
            client_host=body.client_host,
            rebalance_timeout_ms=body.rebalance_timeout_ms,
            topology_epoch=body.topology_epoch,
            process_id=body.process_id,
            user_endpoint=None if endpoint is None else (endpoint.host, endpoint.port),
            client_tags={each.key: each.value for each in body.client_tags},
        )
    )


def _target_epoch(state: ShardState, group: StreamsGroup, name: Any, body: Any) -> None:
    if body is None:
        group.set_target_epoch(DELETED_EPOCH, 0)
    else:
        group.set_target_epoch(body.assignment_epoch, body.assignment_timestamp)


def _target(state: ShardState, group: StreamsGroup, name: Any, body: Any) -> None:
    if body is None:
        group.target.pop(name.member_id, None)
        return
    group.target[name.member_id] = Tasks(
        task_set(body.active_tasks), task_set(body.standby_tasks), task_set(body.warmup_tasks)
    )


def _current(state: ShardState, group: StreamsGroup, name: Any, body: Any) -> None:
    member = group.members.get(name.member_id)
    if body is None:
        if member is not None:
            forgotten = StreamsMember(name.member_id)
            group.put_member(
                replace(
                    member,
                    member_epoch=forgotten.member_epoch,
                    previous_member_epoch=forgotten.previous_member_epoch,
                    state=forgotten.state,
                    tasks=forgotten.tasks,
                    revoked=forgotten.revoked,
                )
            )
        return
    group.put_member(
        replace(
            member or StreamsMember(name.member_id),
            member_epoch=body.member_epoch,
            previous_member_epoch=body.previous_member_epoch,
            state=_state(body.state),
            tasks=CurrentTasks(
                _with_epochs(body.active_tasks, body.member_epoch),
                task_set(body.standby_tasks),
                task_set(body.warmup_tasks),
            ),
            revoked=CurrentTasks(
                _with_epochs(body.active_tasks_pending_revocation, body.member_epoch),
                task_set(body.standby_tasks_pending_revocation),
                task_set(body.warmup_tasks_pending_revocation),
            ),
        )
    )


def _state(number: int) -> MemberState:
    return MemberState(number) if number in MemberState._value2member_map_ else MemberState.UNKNOWN


def _with_epochs(task_ids: Iterable[Any], member_epoch: int) -> dict[str, dict[int, int]]:
    """Collects active tasks; without a list of epochs that fits, all are of the member's epoch."""
    found = {}
    for each in task_ids:
        epochs = each.assignment_epochs
        if epochs is None or len(epochs) != len(each.partitions):
            epochs = [member_epoch] * len(each.partitions)
        found[each.subtopology_id] = dict(zip(each.partitions, epochs, strict=True))
    return found


_TYPES: dict[int, tuple[Any, Any, Any]] = {
    key_type.record_type: (key_type, value_type, change)
    for key_type, value_type, change in (
        (records.StreamsGroupMetadataKey, records.StreamsGroupMetadataValue, _group),
        (records.StreamsGroupMemberMetadataKey, records.StreamsGroupMemberMetadataValue, _member),
        (
            records.StreamsGroupTargetAssignmentMetadataKey,
            records.StreamsGroupTargetAssignmentMetadataValue,
            _target_epoch,
        ),
        (
            records.StreamsGroupTargetAssignmentMemberKey,
            records.StreamsGroupTargetAssignmentMemberValue,
            _target,
        ),
        (
            records.StreamsGroupCurrentMemberAssignmentKey,
            records.StreamsGroupCurrentMemberAssignmentValue,
            _current,
        ),
        (records.StreamsGroupTopologyKey, records.StreamsGroupTopologyValue, _topology),
    )
}

RECORD_TYPES = tuple(_TYPES)
"""The record types of streams groups."""
