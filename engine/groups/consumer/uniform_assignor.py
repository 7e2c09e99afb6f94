"""Assigns the same number of partitions to all members, and moves as few partitions as possible."""

from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final

from bowstring.engine.groups.modern.assignor import MemberSpec
from bowstring.engine.groups.modern.group import Assignment

NAME: Final = "uniform"

# With overlapping subscriptions, each round about halves what is out of balance.
_ROUNDS_MAX: Final = 16


def assign(members: Mapping[str, MemberSpec], partitions: Mapping[bytes, int]) -> dict[str, Assignment]:
    """Assigns every partition of a subscribed topic to one subscriber.

    If all members subscribe to the same topics, their numbers of partitions differ by one at most. Otherwise
    that is so as far as subscriptions allow, after a limited number of rounds. Where several members could
    get a partition more, the last ones do. As Kafka 4.4, it does not look at racks.
    """
    subscriptions = {spec.topics for spec in members.values()}
    if len(subscriptions) == 1:
        return _assign_alike(members, partitions, subscriptions.pop())
    return _Balance(members, partitions).result()


# ---- all members subscribe to the same topics


def _assign_alike(
    members: Mapping[str, MemberSpec], partitions: Mapping[bytes, int], topics: frozenset[bytes]
) -> dict[str, Assignment]:
    least, extra = divmod(sum(partitions[topic_id] for topic_id in topics), len(members))
    unassigned = {topic_id: set(range(partitions[topic_id])) for topic_id in sorted(topics)}
    result: dict[str, Assignment] = {}
    short: list[tuple[str, int]] = []
    for position, (member_id, spec) in enumerate(members.items()):
        may_have = least + (extra > 0)
        kept = _kept(spec.assigned, may_have, unassigned)
        size = sum(map(len, kept.values()))
        takes_extra = extra > 0
        # It leaves the additional partition to later members, unless all of them must take one.
        if takes_extra and size < may_have and len(members) - position > extra:
            takes_extra = False
        extra -= takes_extra
        missing = least + takes_extra - size
        if missing > 0:
            short.append((member_id, missing))
        result[member_id] = kept
    free = [(topic_id, index) for topic_id, indexes in unassigned.items() for index in sorted(indexes)]
    end = 0
    for member_id, missing in short:
        start, end = end, end + missing
        result[member_id] = _with(result[member_id], free[start:end])
    assert end >= len(free), (end, len(free))
    return result


def _kept(assigned: Assignment, most: int, unassigned: dict[bytes, set[int]]) -> Assignment:
    """Returns what the member keeps of its partitions, at most `most`, and removes it from `unassigned`."""
    kept: dict[bytes, frozenset[int]] = {}
    changed = False
    for topic_id, indexes in assigned.items():
        free = unassigned.get(topic_id)
        stay = indexes if free is not None and free.issuperset(indexes) else indexes & (free or frozenset())
        if len(stay) > most:
            stay = frozenset(sorted(stay)[:most])
        changed = changed or stay is not indexes
        if stay and free is not None:
            most -= len(stay)
            free -= stay
            kept[topic_id] = stay
    return kept if changed else assigned


def _with(assigned: Assignment, added: Iterable[tuple[bytes, int]]) -> Assignment:
    by_topic: dict[bytes, set[int]] = {}
    for topic_id, index in added:
        by_topic.setdefault(topic_id, set()).add(index)
    return {
        **assigned,
        **{topic_id: assigned.get(topic_id, frozenset()) | new for topic_id, new in by_topic.items()},
    }


# ---- members subscribe to different topics


class _Balance:
    """Members are numbers here, so that loads are in a list."""

    def __init__(self, members: Mapping[str, MemberSpec], partitions: Mapping[bytes, int]) -> None:
        self._members = members
        self._loads = [0] * len(members)
        self._subscribers: dict[bytes, list[int]] = {}
        for number, spec in enumerate(members.values()):
            for topic_id in spec.topics:
                self._subscribers.setdefault(topic_id, []).append(number)
        # the member that gets a partition, by topic and partition
        self._owners: dict[bytes, list[int]] = {
            topic_id: [-1] * partitions[topic_id] for topic_id in self._subscribers
        }

    def result(self) -> dict[str, Assignment]:
        """Returns the assignment."""
        self._keep()
        # Topics with most partitions for each subscriber come first: later ones balance the rest.
        topics = sorted(
            self._subscribers,
            key=lambda each: (
                -len(self._owners[each]) / len(self._subscribers[each]),
                len(self._subscribers[each]),
                each,
            ),
        )
        for topic_id in topics:
            self._assign_free(topic_id)
        for _ in range(_ROUNDS_MAX):
            if not sum([self._balance(topic_id) for topic_id in topics]):
                break
        return self._assignments()

    def _keep(self) -> None:
        for number, spec in enumerate(self._members.values()):
            for topic_id, indexes in spec.assigned.items():
                if topic_id not in spec.topics:
                    continue
                owners = self._owners[topic_id]
                for index in indexes:
                    if index < len(owners) and owners[index] < 0:
                        owners[index] = number
                        self._loads[number] += 1

    def _assign_free(self, topic_id: bytes) -> None:
        owners = self._owners[topic_id]
        free = [index for index, owner in enumerate(owners) if owner < 0]
        if not free:
            return
        loads = self._loads
        heap = [(loads[number], -number) for number in self._subscribers[topic_id]]
        heapify(heap)
        for index in free:
            load, negative = heap[0]
            owners[index] = -negative
            loads[-negative] = load + 1
            heapreplace(heap, (load + 1, negative))

    def _balance(self, topic_id: bytes) -> int:
        """Moves partitions of a topic from members with most to members with fewest partitions; returns how
        many.
        """
        loads, owners = self._loads, self._owners[topic_id]
        subscribers = self._subscribers[topic_id]
        by_load = [loads[number] for number in subscribers]
        if max(by_load) - min(by_load) <= 1:
            return 0
        held: dict[int, list[int]] = {}
        for index, owner in enumerate(owners):
            held.setdefault(owner, []).append(index)
        # most loaded first; entries whose load is out of date are dropped when they come up
        givers = [(-loads[number], number) for number in held]
        takers = [(loads[number], number) for number in subscribers]
        heapify(givers)
        heapify(takers)
        moved = 0
        while givers:
            negative, giver = givers[0]
            if -negative != loads[giver] or not held[giver]:
                heappop(givers)
                continue
            load, taker = takers[0]
            if load != loads[taker]:
                heappop(takers)
                continue
            if -negative - load <= 1:
                break
            owners[held[giver].pop()] = taker
            moved += 1
            loads[giver] -= 1
            loads[taker] += 1
            heapreplace(givers, (-loads[giver], giver))
            heapreplace(takers, (loads[taker], taker))
            heappush(takers, (loads[giver], giver))
        return moved

    def _assignments(self) -> dict[str, Assignment]:
        found: list[dict[bytes, set[int]]] = [{} for _ in self._members]
        for topic_id, owners in self._owners.items():
            for index, owner in enumerate(owners):
                found[owner].setdefault(topic_id, set()).add(index)
        return {
            member_id: {topic_id: frozenset(indexes) for topic_id, indexes in assignment.items()}
            for member_id, assignment in zip(self._members, found, strict=True)
        }
