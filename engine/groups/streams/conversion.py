"""Finds or creates the streams group of a member that joins; an empty classic group makes way."""

from bowstring.engine.groups import records as classic_records
from bowstring.engine.groups.administration import cancel_timers
from bowstring.engine.groups.classic.group import ClassicGroup
from bowstring.engine.groups.modern.changes import Changes
from bowstring.engine.groups.state import ShardState
from bowstring.engine.groups.streams.group import StreamsGroup
from bowstring.protocol.errors import Errors, KafkaError


def found_or_new(state: ShardState, group_id: str, changes: Changes) -> tuple[StreamsGroup, bool]:
    """Returns the group, and whether it existed before. `changes` gets what a new one needs.

    Raises:
        KafkaError: GROUP_ID_NOT_FOUND when a group of another type has the name.
    """
    present = state.groups.get(group_id)
    if isinstance(present, StreamsGroup):
        return present, True
    if present is not None:
        if not (isinstance(present, ClassicGroup) and present.is_empty):
            raise KafkaError(Errors.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.")
        changes.add(classic_records.group_tombstone(group_id))
        cancel_timers(state, present)
    group = StreamsGroup(group_id)
    changes.then(lambda: state.groups.__setitem__(group_id, group))
    return group, False
