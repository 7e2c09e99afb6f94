"""Serves admin clients (ListGroups, DescribeGroups, DeleteGroups) and expires offsets and groups."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from bowstring.engine.coordinators.effects import Record
from bowstring.engine.groups import records
from bowstring.engine.groups.append_errors import append_error_of_group
from bowstring.engine.groups.classic.group import ClassicGroup, GroupState, Member
from bowstring.engine.groups.classic.rebalance import join_timer, session_timer, sync_timer
from bowstring.engine.groups.consumer import records as consumer_records
from bowstring.engine.groups.consumer.group import ConsumerGroup
from bowstring.engine.groups.descriptions import converted
from bowstring.engine.groups.group import Group
from bowstring.engine.groups.offsets.store import NO_EXPIRY, ZERO_TOPIC_ID, CommittedOffset, OffsetKey
from bowstring.engine.groups.share import records as share_records
from bowstring.engine.groups.share.group import ShareGroup
from bowstring.engine.groups.state import ShardState
from bowstring.engine.groups.streams import membership as streams_membership
from bowstring.engine.groups.streams.group import StreamsGroup
from bowstring.protocol.errors import Error, Errors
from bowstring.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from bowstring.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from bowstring.protocol.messages.list_groups import ListedGroup

GROUP_ID_NOT_FOUND_VERSION = 6

TOMBSTONES: Final[dict[str, Callable[[Any], list[Record]]]] = {
    ClassicGroup.group_type: lambda group: [records.group_tombstone(group.group_id)],
    ConsumerGroup.group_type: consumer_records.group_tombstones,
    ShareGroup.group_type: share_records.group_tombstones,
    StreamsGroup.group_type: StreamsGroup.tombstones,
}
"""Records that delete a group, by group type."""


def tombstones(group: Group) -> list[Record]:
    """Returns the records that delete a group."""
    return TOMBSTONES[group.group_type](group)


def list_groups(state: ShardState) -> Iterator[ListedGroup]:
    """Yields every group."""
    return (
        ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type or "",
            group_state=str(group.state),
            group_type=group.group_type,
        )
        for group in list(state.groups.values())
    )


class GroupFilter:
    """Selects groups by the states (KIP-518) and types (KIP-848) that were added; without any, all groups.

    Upper and lower case are equal.
    """

    def __init__(self) -> None:
        self._states: set[str] = set()
        self._types: set[str] = set()

    def add_state(self, name: str) -> None:
        """Adds a state."""
        self._states.add(name.strip().lower())

    def add_type(self, name: str) -> None:
        """Adds a type."""
        self._types.add(name.lower())

    def selects(self, group: ListedGroup) -> bool:
        """Returns whether the filter selects the group."""
        return (not self._states or group.group_state.lower() in self._states) and (
            not self._types or group.group_type in self._types
        )


def describe_group(state: ShardState, group_id: str, api_version: int) -> DescribedGroup:
    """Describes a classic group and its members; other group types have their own describe APIs."""
    group = state.groups.get(group_id)
    if not isinstance(group, ClassicGroup):
        described = DescribedGroup(group_id=group_id, group_state=str(GroupState.DEAD))
        if api_version >= GROUP_ID_NOT_FOUND_VERSION:
            described.error_code = Errors.GROUP_ID_NOT_FOUND.code
            what = "not found" if group is None else "is not a classic group"
            described.error_message = f"Group {group_id} {what}."
        return described
    # metadata belongs to the protocol, and only a stable group certainly has one
    protocol = group.protocol_name if group.state is GroupState.STABLE else None
    return DescribedGroup(
        group_id=group_id,
        group_state=str(group.state),
        protocol_type=group.protocol_type or "",
        protocol_data=protocol or "",
        members=converted(
            [
                (each, b"" if protocol is None else each.metadata(protocol), each.assignment)
                for each in group.members.values()
            ],
            _described_member,
        ),
    )


def _described_member(told: tuple[Member, bytes, bytes]) -> DescribedGroupMember:
    member, metadata, assignment = told
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=metadata,
        member_assignment=assignment,
    )


def delete_groups(state: ShardState, group_ids: list[str], token: object) -> None:
    """Deletes empty groups with their offsets in one append; answers with a DeleteGroupsResponse."""
    results = []
    groups: list[Group] = []
    for group_id in group_ids:
        group = state.groups.get(group_id)
        error = Errors.GROUP_ID_NOT_FOUND if group is None else group.check_delete()
        results.append(DeletableGroupResult(group_id=group_id, error_code=error.code))
        if group is not None and not error:
            groups.append(group)
    if not groups:
        return state.respond(token, DeleteGroupsResponse(results=results))
    doomed_records: list[Record] = []
    doomed: list[OffsetKey] = []
    for group in groups:
        held = state.offsets.of_group(group.group_id)
        keys = {(topic, index) for topic, partitions in held.items() for index in partitions}
        keys.update(state.offsets.open_partitions(group.group_id))
        of_group = [(group.group_id, *key) for key in sorted(keys)]
        doomed += of_group
        doomed_records += [records.offset_tombstone(*key) for key in of_group]
        doomed_records += tombstones(group)
    return state.append(
        doomed_records,
        written=partial(_forget, state, doomed, groups),
        finished=partial(_answer_delete, state, token, results),
    )


def cancel_timers(state: ShardState, group: Group) -> None:
    """Cancels all timers of a group that is about to be removed."""
    if isinstance(group, ClassicGroup):
        for member_id in group.pending_join_members:
            state.cancel_timer(session_timer(group.group_id, member_id))
        state.cancel_timer(join_timer(group.group_id))
        state.cancel_timer(sync_timer(group.group_id))
    elif isinstance(group, StreamsGroup):
        streams_membership.cancel_timers(state, group)


def _forget(state: ShardState, offsets: list[OffsetKey], groups: list[Group], base_offset: int) -> None:
    for key in offsets:
        state.offsets.remove(*key)
    for group in groups:
        cancel_timers(state, group)  # not before: a group that stays because of an error needs them
        state.groups.pop(group.group_id, None)


def _answer_delete(
    state: ShardState,
    token: object,
    results: list[DeletableGroupResult],
    error: Error,
    now_ms: int,
) -> None:
    if error:
        for result in results:
            result.error_code = result.error_code or append_error_of_group(error).code
    state.respond(token, DeleteGroupsResponse(results=results))


def expire(state: ShardState, now_ms: int) -> None:
    """Deletes expired offsets (offsets.retention.minutes) of topics without subscribers, and empty groups
    without offsets (KIP-211).
    """
    doomed: list[OffsetKey] = []
    gone: list[Group] = []
    for group in state.groups.values():
        held = state.offsets.of_group(group.group_id)
        expired = [
            (group.group_id, topic, index)
            for topic, partitions in held.items()
            if not group.is_subscribed_to(topic)
            for index, offset in partitions.items()
            if _is_expired(state, group, offset, now_ms)
            and not state.offsets.is_unstable(group.group_id, topic, index)
        ]
        doomed += expired
        keeps_offsets = len(expired) < sum(map(len, held.values()))
        busy = keeps_offsets or state.offsets.has_open_transactions(group.group_id)
        if (
            not busy
            and group.is_empty
            and not isinstance(group, ShareGroup)
            and not (isinstance(group, ClassicGroup) and group.pending_join_members)
        ):
            gone.append(group)
    if not doomed and not gone:
        return
    state.note(f"retention: deleting {len(doomed)} offsets and {len(gone)} groups")
    doomed_records = [records.offset_tombstone(*key) for key in doomed]
    for group in gone:
        doomed_records += tombstones(group)
    state.append(doomed_records, written=partial(_forget, state, doomed, gone), atomic=False)


def _is_expired(state: ShardState, group: Group, offset: CommittedOffset, now_ms: int) -> bool:
    base_ms = group.offset_expiry_base_ms(offset.commit_timestamp_ms)
    if base_ms is None:
        return False
    if offset.expire_timestamp_ms != NO_EXPIRY:
        return now_ms >= offset.expire_timestamp_ms
    return now_ms - base_ms >= state.config.offsets_retention_ms


def delete_topic_offsets(state: ShardState, topic: str, topic_id: bytes) -> None:
    """Deletes a removed topic's offsets in every group, except those of a later topic of the same name."""
    doomed: list[OffsetKey] = [
        (group_id, topic, index)
        for group_id, topics in state.offsets
        for index, offset in topics.get(topic, {}).items()
        if offset.topic_id in (ZERO_TOPIC_ID, topic_id)
    ]
    if doomed:
        doomed_records = [records.offset_tombstone(*key) for key in doomed]
        state.append(doomed_records, written=partial(_forget, state, doomed, []), atomic=False)
