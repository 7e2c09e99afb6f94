"""Assigns ranges of partitions: members get partitions with the same numbers of all topics."""

from collections.abc import Mapping
from typing import Final

from bowstring.engine.groups.modern.assignor import MemberSpec
from bowstring.engine.groups.modern.group import Assignment

NAME: Final = "range"


def assign(members: Mapping[str, MemberSpec], partitions: Mapping[bytes, int]) -> dict[str, Assignment]:
    """Divides each topic among its subscribers in order: static members by instance id, then the others by
    member id. The first ones get one partition more if that is needed.

    As Kafka 4.4, it does not look at racks.
    """
    subscribers: dict[bytes, int] = {}
    for spec in members.values():
        for topic_id in spec.topics:
            subscribers[topic_id] = subscribers.get(topic_id, 0) + 1
    # by topic: how many subscribers have their range, and where the next range begins
    done: dict[bytes, tuple[int, int]] = dict.fromkeys(subscribers, (0, 0))
    result: dict[str, Assignment] = {}
    for member_id in sorted(members, key=lambda each: _place(each, members[each])):
        assignment: dict[bytes, frozenset[int]] = {}
        for topic_id in members[member_id].topics:
            served, start = done[topic_id]
            least, extra = divmod(partitions[topic_id], subscribers[topic_id])
            end = start + least + (served < extra)
            done[topic_id] = (served + 1, end)
            if start < end:
                assignment[topic_id] = frozenset(range(start, end))
        result[member_id] = assignment
    return result


def _place(member_id: str, spec: MemberSpec) -> tuple[bool, str]:
    return (True, member_id) if spec.instance_id is None else (False, spec.instance_id)
