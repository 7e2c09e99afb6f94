"""Encodes the records of streams groups (KIP-1071) as Kafka 4.4 writes them."""

from collections.abc import Mapping
from typing import NamedTuple

from bowstring._native.protocol.message_codec import encode
from bowstring.engine.coordinators.effects import Record
from bowstring.engine.groups.streams.member import StreamsMember
from bowstring.engine.groups.streams.tasks import EpochsByTask, Tasks, TaskSet, in_order
from bowstring.engine.groups.streams.topology import Topology
from bowstring.protocol.records import streams_group as records
from bowstring.protocol.schema import CoordinatorKey, CoordinatorValue


def _record(key: CoordinatorKey, value: CoordinatorValue | None) -> Record:
    return _encoded(type(key).record_type, key), None if value is None else _encoded(0, value)


def _encoded(number: int, body: CoordinatorKey | CoordinatorValue) -> bytes:
    return number.to_bytes(2, "big") + encode(body, 0)


class GroupFacts(NamedTuple):
    """What the record of a group has."""

    epoch: int
    metadata_hash: int
    validated_topology_epoch: int
    assignment_configs: Mapping[str, str]


def group(group_id: str, facts: GroupFacts) -> Record:
    """Encodes a group's epoch and on what it depends."""
    return _record(
        records.StreamsGroupMetadataKey(group_id=group_id),
        records.StreamsGroupMetadataValue(
            epoch=facts.epoch,
            metadata_hash=facts.metadata_hash,
            validated_topology_epoch=facts.validated_topology_epoch,
            last_assignment_configs=[
                records.LastAssignmentConfig(key=key, value=value)
                for key, value in sorted(facts.assignment_configs.items())
            ],
        ),
    )


def topology(group_id: str, value: Topology) -> Record:
    """Encodes a group's topology."""
    return _record(records.StreamsGroupTopologyKey(group_id=group_id), value.record_value())


def member(group_id: str, member: StreamsMember) -> Record:
    """Encodes what a member says about itself."""
    endpoint = member.user_endpoint
    return _record(
        records.StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        records.StreamsGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            topology_epoch=member.topology_epoch,
            process_id=member.process_id,
            user_endpoint=None if endpoint is None else records.Endpoint(host=endpoint[0], port=endpoint[1]),
            client_tags=[
                records.KeyValue(key=key, value=value) for key, value in sorted(member.client_tags.items())
            ],
        ),
    )


def target_epoch(group_id: str, epoch: int, now_ms: int) -> Record:
    """Encodes the epoch of the target assignment, and when it was computed."""
    return _record(
        records.StreamsGroupTargetAssignmentMetadataKey(group_id=group_id),
        records.StreamsGroupTargetAssignmentMetadataValue(
            assignment_epoch=epoch, assignment_timestamp=now_ms
        ),
    )


def target(group_id: str, member_id: str, tasks: Tasks) -> Record:
    """Encodes the target assignment of a member."""
    return _record(
        records.StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        records.StreamsGroupTargetAssignmentMemberValue(
            active_tasks=_targets(tasks.active),
            standby_tasks=_targets(tasks.standby),
            warmup_tasks=_targets(tasks.warmup),
        ),
    )


def _targets(tasks: TaskSet) -> list[records.StreamsGroupTargetAssignmentMemberValueTaskIds]:
    return [
        records.StreamsGroupTargetAssignmentMemberValueTaskIds(
            subtopology_id=subtopology_id, partitions=partitions
        )
        for subtopology_id, partitions in in_order(tasks)
    ]


def current(group_id: str, member: StreamsMember) -> Record:
    """Encodes epoch, state and present assignment of a member."""
    return _record(
        records.StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        records.StreamsGroupCurrentMemberAssignmentValue(
            member_epoch=member.member_epoch,
            previous_member_epoch=member.previous_member_epoch,
            state=member.state,
            active_tasks=_actives(member.tasks.active),
            standby_tasks=_copies(member.tasks.standby),
            warmup_tasks=_copies(member.tasks.warmup),
            active_tasks_pending_revocation=_actives(member.revoked.active),
            standby_tasks_pending_revocation=_copies(member.revoked.standby),
            warmup_tasks_pending_revocation=_copies(member.revoked.warmup),
        ),
    )


def _actives(tasks: EpochsByTask) -> list[records.StreamsGroupCurrentMemberAssignmentValueTaskIds]:
    return [
        records.StreamsGroupCurrentMemberAssignmentValueTaskIds(
            subtopology_id=subtopology_id,
            partitions=partitions,
            assignment_epochs=[tasks[subtopology_id][partition] for partition in partitions],
        )
        for subtopology_id, partitions in in_order(tasks)
    ]


def _copies(tasks: TaskSet) -> list[records.StreamsGroupCurrentMemberAssignmentValueTaskIds]:
    return [
        records.StreamsGroupCurrentMemberAssignmentValueTaskIds(
            subtopology_id=subtopology_id, partitions=partitions, assignment_epochs=[]
        )
        for subtopology_id, partitions in in_order(tasks)
    ]


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """Encodes the deletion of a member, in Kafka's order."""
    return [
        _record(records.StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None),
        _record(records.StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None),
        _record(records.StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    ]


def group_tombstones(group_id: str) -> list[Record]:
    """Encodes the deletion of a group without members, in Kafka's order."""
    return [
        _record(records.StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        _record(records.StreamsGroupMetadataKey(group_id=group_id), None),
        _record(records.StreamsGroupTopologyKey(group_id=group_id), None),
    ]
