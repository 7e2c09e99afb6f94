"""Lets static members of streams groups come back with another member id and the tasks that they had."""

from dataclasses import replace
from functools import partial

from bowstring.engine.groups.modern.changes import Changes
from bowstring.engine.groups.modern.group import LEAVE_STATIC_EPOCH
from bowstring.engine.groups.streams import records
from bowstring.engine.groups.streams.group import StreamsGroup
from bowstring.engine.groups.streams.member import StreamsMember
from bowstring.engine.groups.streams.tasks import NO_CURRENT_TASKS
from bowstring.protocol.errors import Errors, KafkaError


def known(group: StreamsGroup, instance_id: str, member_id: str) -> StreamsMember:
    """Returns the member that has an instance id.

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if another member has it.
    """
    member = group.static_member(instance_id)
    if member is None:
        raise KafkaError(Errors.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        raise KafkaError(
            Errors.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member "
            f"{member.member_id}.",
        )
    return member


def take_place(group: StreamsGroup, old: StreamsMember, member_id: str, changes: Changes) -> StreamsMember:
    """Gives the place and the tasks of a static member that is away to another member id.

    Raises:
        KafkaError: UNRELEASED_INSTANCE_ID, if it has not left.
    """
    if old.member_epoch != LEAVE_STATIC_EPOCH:
        raise KafkaError(
            Errors.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {old.instance_id} cannot join the group because the "
            f"instance id is owned by {old.member_id} member.",
        )
    group_id = group.group_id
    new = replace(old, member_id=member_id, member_epoch=0, previous_member_epoch=0)
    target = group.target_of(old.member_id)
    for record in records.member_tombstones(group_id, old.member_id):
        changes.add(record)
    changes.then(partial(group.remove_member, old.member_id))
    changes.add(records.member(group_id, new))
    changes.add(records.target(group_id, member_id, target), partial(group.set_target, member_id, target))
    changes.add(records.current(group_id, new), partial(group.put_member, new))
    return new


def go_away(group: StreamsGroup, member: StreamsMember, changes: Changes) -> None:
    """Keeps the tasks of a static member that will come back within its session timeout."""
    active = {each: dict.fromkeys(epochs, 0) for each, epochs in member.tasks.active.items()}
    away = replace(
        member,
        member_epoch=LEAVE_STATIC_EPOCH,
        tasks=member.tasks._replace(active=active),
        revoked=NO_CURRENT_TASKS,
    )
    changes.add(records.current(group.group_id, away), partial(group.put_member, away))


def needs_assignment(old: StreamsMember, new: StreamsMember) -> bool:
    """Returns whether what a static member says about itself matters for the assignment (KIP-1071)."""
    before, after = (
        (member.topology_epoch, member.rack_id, member.client_tags, member.process_id)
        for member in (old, new)
    )
    return before != after
