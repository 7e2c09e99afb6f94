"""Assigns partitions to the members of a share group, each to as many members as there are for it: Kafka's
"simple" assignor.
"""

from collections.abc import Iterable, Mapping, Sequence

from bowstring.engine.groups.modern.assignor import MemberSpec
from bowstring.engine.groups.modern.group import Assignment

NAME = "simple"

_Target = tuple[bytes, int]


def assign(
    members: Mapping[str, MemberSpec], assignable: Mapping[bytes, Iterable[int]]
) -> dict[str, Assignment]:
    """Returns the target assignment of each member.

    Every partition goes to about (members / partitions) members, rounded up, and members get equally many.
    Of what members have, as much as possible stays. If members subscribe to different topics, each topic is
    assigned on its own.

    Args:
        members: By member id.
        assignable: The partitions with state, by topic id.
    """
    topics = {spec.topics for spec in members.values()}
    if len(topics) == 1:
        (same,) = topics
        wanted = [target for topic_id in sorted(same) for target in _targets(topic_id, assignable)]
        return _by_topic(_share(list(members), wanted, members))
    shares: dict[str, set[_Target]] = {member_id: set() for member_id in members}
    for topic_id in sorted(frozenset().union(*topics)):
        subscribed = [member_id for member_id, spec in members.items() if topic_id in spec.topics]
        wanted = _targets(topic_id, assignable)
        for member_id, targets in _share(subscribed, wanted, members).items():
            shares[member_id] |= targets
    return _by_topic(shares)


def _targets(topic_id: bytes, assignable: Mapping[bytes, Iterable[int]]) -> list[_Target]:
    return [(topic_id, index) for index in sorted(assignable.get(topic_id, ()))]


def _share(
    member_ids: Sequence[str], wanted: Sequence[_Target], members: Mapping[str, MemberSpec]
) -> dict[str, set[_Target]]:
    """Distributes partitions among members that all subscribe to their topics."""
    if not wanted:
        return {member_id: set() for member_id in member_ids}
    most_members = -(-len(member_ids) // len(wanted))
    room = dict(zip(member_ids, _counts(most_members * len(wanted), len(member_ids)), strict=True))
    known = set(wanted)
    shares: dict[str, set[_Target]] = {}
    holders: dict[_Target, set[str]] = {target: set() for target in wanted}
    for member_id in member_ids:
        kept: set[_Target] = set()
        shares[member_id] = kept
        for topic_id, indexes in members[member_id].assigned.items():
            for index in sorted(indexes):
                target = (topic_id, index)
                if target in known and len(kept) < room[member_id] and len(holders[target]) < most_members:
                    kept.add(target)
                    holders[target].add(member_id)
    _fill(shares, holders, room, most_members)
    return shares


def _counts(total: int, among: int) -> list[int]:
    """Divides a number into parts that differ by at most one."""
    ends = [-(-total * (position + 1) // among) for position in range(among)]
    return [end - begin for begin, end in zip([0, *ends], ends, strict=False)]


def _fill(
    shares: dict[str, set[_Target]],
    holders: dict[_Target, set[str]],
    room: dict[str, int],
    most_members: int,
) -> None:
    """Gives partitions with too few members to members with room, in turn.

    A partition for which only members with room are left that have it already stays with fewer members, as in
    Kafka.
    """
    unfilled = [member_id for member_id in shares if len(shares[member_id]) < room[member_id]]
    position = 0
    for target, held_by in holders.items():
        refused = 0
        while unfilled and len(held_by) < most_members and refused < len(unfilled):
            position %= len(unfilled)
            member_id = unfilled[position]
            if member_id in held_by:
                refused += 1
                position += 1
                continue
            refused = 0
            held_by.add(member_id)
            shares[member_id].add(target)
            if len(shares[member_id]) >= room[member_id]:
                del unfilled[position]
            else:
                position += 1


def _by_topic(shares: Mapping[str, Iterable[_Target]]) -> dict[str, Assignment]:
    found: dict[str, Assignment] = {}
    for member_id, targets in shares.items():
        topics: dict[bytes, set[int]] = {}
        for topic_id, index in targets:
            topics.setdefault(topic_id, set()).add(index)
        found[member_id] = {topic_id: frozenset(topics[topic_id]) for topic_id in sorted(topics)}
    return found
