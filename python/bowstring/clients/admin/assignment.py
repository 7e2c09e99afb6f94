"""Plans which brokers have the replicas of partitions: in different racks, evenly, with few moves. Pure.

    plan = planned(current, racks={1: "a", 2: "b", 4: None}, replication_factor=None)

It begins with the replicas that may stay. What is missing goes to the broker with the fewest replicas, in
a rack that the partition does not use yet where there is one. With `spread`, replicas move from brokers with
many to brokers with few as long as that makes the numbers more equal, first those of topics that are
uneven themselves. In the end the order of replicas is changed so that brokers are the preferred leaders of
equally many partitions; that moves no data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from bowstring.clients.errors import ConfigError
from bowstring.clients.records import TopicPartition

Assignment = dict[TopicPartition, tuple[int, ...]]
"""Brokers of each partition, the preferred leader first."""


class Move(NamedTuple):
    """What a plan changes for one partition: brokers that get a replica, and brokers that lose theirs."""

    partition: TopicPartition
    adding: tuple[int, ...]
    removing: tuple[int, ...]


def moves(
    current: Mapping[TopicPartition, Iterable[int]], wanted: Mapping[TopicPartition, Iterable[int]]
) -> list[Move]:
    """Returns what changes, for partitions whose replicas or their order change; in order."""
    found = []
    for partition, replicas in sorted(wanted.items()):
        before, after = tuple(current.get(partition, ())), tuple(replicas)
        if before != after:
            adding = tuple(each for each in after if each not in before)
            removing = tuple(each for each in before if each not in after)
            found.append(Move(partition, adding, removing))
    return found


def planned(
    current: Mapping[TopicPartition, Iterable[int]],
    *,
    racks: Mapping[int, str | None],
    kept: Mapping[int, str | None] | None = None,
    replication_factor: int | None = None,
    spread: bool = True,
    loads: Mapping[int, int] | None = None,
) -> Assignment:
    """Returns the brokers that the partitions should have.

    Args:
        current: their brokers now.
        racks: the rack of each broker that may have replicas; None where it has none.
        kept: the same of brokers whose replicas stay, but that get no others, such as fenced ones.
        replication_factor: number of replicas; None keeps that of each partition.
        spread: also moves replicas that could stay, so that brokers have equally many. Otherwise only what
            must move does, and the order of the other partitions' replicas stays.
        loads: replicas of other partitions that the brokers have, and that count as well.

    Raises:
        ConfigError: there are fewer brokers than replicas.
    """
    plan = _Plan(current, racks, kept or {}, loads or {})
    for partition in sorted(plan.before):
        plan.fill(partition, replication_factor)
    if spread:
        plan.separate_racks()
        plan.even_out()
        plan.even_out_leaders()
    return {partition: tuple(replicas) for partition, replicas in plan.replicas.items()}


class _Plan:
    """A plan in the making.

    Attributes:
        before: Brokers of each partition now.
        targets: Brokers that may get replicas.
        racks: The racks of these and of those that may keep some.
        replicas: Brokers of each partition after the plan.
        held: The partitions of each broker.
        topics: How many of each topic.
        leads: How many partitions it is the preferred leader of.
    """

    def __init__(
        self,
        current: Mapping[TopicPartition, Iterable[int]],
        racks: Mapping[int, str | None],
        kept: Mapping[int, str | None],
        loads: Mapping[int, int],
    ) -> None:
        self.before = {partition: list(replicas) for partition, replicas in current.items()}
        self.targets = sorted(racks)
        self.racks = {**racks, **kept}
        self.replicas: dict[TopicPartition, list[int]] = {}
        self.held: dict[int, dict[TopicPartition, None]] = {broker: {} for broker in self.racks}
        self.topics: dict[int, Counter[str]] = {broker: Counter() for broker in self.racks}
        self.leads = dict.fromkeys(self.racks, 0)
        self.loads = {broker: loads.get(broker, 0) for broker in self.racks}
        for partition, replicas in self.before.items():
            for broker in replicas:
                if broker in self.racks:
                    self._hold(broker, partition)

    def _hold(self, broker: int, partition: TopicPartition) -> None:
        if partition not in self.held[broker]:
            self.held[broker][partition] = None
            self.topics[broker][partition.topic] += 1

    def _drop(self, broker: int, partition: TopicPartition) -> None:
        del self.held[broker][partition]
        self.topics[broker][partition.topic] -= 1

    def load(self, broker: int) -> int:
        return self.loads[broker] + len(self.held[broker])

    # ------------------------------------------------------------ replicas

    def fill(self, partition: TopicPartition, replication_factor: int | None) -> None:
        """Keeps replicas that may stay where they are, and places the others."""
        before = self.before[partition]
        size = len(before) if replication_factor is None else replication_factor
        usable = {*self.targets, *(each for each in before if each in self.racks)}
        if size > len(usable):
            raise ConfigError(
                f"{partition} is to have {size} replicas, but only {len(usable)} brokers may have some: "
                f"{', '.join(map(str, sorted(usable))) or 'none'}"
            )
        places: list[int | None] = [each if each in self.racks else None for each in before]
        self._shorten(places, size)
        places += [None] * (size - len(places))
        for number, each in enumerate(places):
            if each is None:
                places[number] = self._best(partition, [one for one in places if one is not None])
        self.replicas[partition] = placed = [each for each in places if each is not None]
        for broker in before:
            if broker in self.racks and broker not in placed:
                self._drop(broker, partition)
        for broker in placed:
            self._hold(broker, partition)
        self.leads[placed[0]] += 1

    def _shorten(self, places: list[int | None], size: int) -> None:
        """Drops replicas that may not stay, then those that share a rack, then the last ones."""
        while len(places) > size:
            if None in places:
                places.remove(None)
                continue
            racks = [self.racks[each] for each in places if each is not None]
            shared = [at for at in range(len(places)) if racks[at] is not None and racks.count(racks[at]) > 1]
            places.pop(shared[-1] if shared else -1)

    def _best(self, partition: TopicPartition, others: list[int]) -> int:
        """Returns the broker for one more replica: in another rack than the others if possible, with few
        replicas.
        """
        used = {self.racks[each] for each in others} - {None}
        free = [each for each in self.targets if each not in others]
        was_here = self.before[partition]
        return min(
            free,
            key=lambda each: (
                self.racks[each] in used,
                each not in was_here,
                self.load(each),
                self.topics[each][partition.topic],
                each,
            ),
        )

    def _exchange(self, partition: TopicPartition, old: int, new: int) -> None:
        replicas = self.replicas[partition]
        at = replicas.index(old)
        replicas[at] = new
        self._drop(old, partition)
        self._hold(new, partition)
        if at == 0:
            self.leads[old] -= 1
            self.leads[new] += 1

    def _shared(self, replicas: Iterable[int]) -> int:
        """Returns how many replicas are in a rack that another one uses as well."""
        racks = [self.racks[each] for each in replicas if self.racks[each] is not None]
        return len(racks) - len(set(racks))

    def separate_racks(self) -> None:
        """Moves replicas out of racks that a partition uses twice, where another rack is free."""
        for partition, replicas in sorted(self.replicas.items()):
            while shared := self._shared(replicas):
                found = [
                    (self.load(new) - self.load(old), at, new)
                    for at, old in enumerate(replicas)
                    for new in self.targets
                    if new not in replicas
                    and self._shared([*replicas[:at], new, *replicas[at + 1 :]]) < shared
                ]
                if not found:
                    break
                _, at, new = min(found)
                self._exchange(partition, replicas[at], new)

    def even_out(self) -> None:
        """Moves replicas from brokers with many to brokers with few."""
        while self._move_one():
            pass

    def _move_one(self) -> bool:
        by_load = sorted(self.targets, key=lambda each: (self.load(each), each))
        for old in reversed(by_load):
            for new in by_load:
                if self.load(old) - self.load(new) < 2:
                    break
                partition = self._movable(old, new)
                if partition is not None:
                    self._exchange(partition, old, new)
                    return True
        return False

    def _movable(self, old: int, new: int) -> TopicPartition | None:
        """Returns a partition whose replica may move: best one that moves anyway, then one of a topic of
        which `old` has many, then one that `old` does not lead.
        """
        found, best = None, (False, 0, False)
        many, few = self.topics[old], self.topics[new]
        for partition in self.held[old]:
            replicas = self.replicas[partition]
            if new in replicas:
                continue
            changed = [new if each == old else each for each in replicas]
            if self._shared(changed) > self._shared(replicas):
                continue
            excess = many[partition.topic] - few[partition.topic]
            rank = (old not in self.before[partition], excess, replicas[0] != old)
            if found is None or rank > best:
                found, best = partition, rank
        return found

    # ------------------------------------------------------------ leaders

    def even_out_leaders(self) -> None:
        """Changes the order of replicas, so that brokers are the preferred leaders of equally many
        partitions.
        """
        while self._hand_over():
            pass

    def _hand_over(self) -> bool:
        """Finds a chain of partitions from a broker that leads many to one that leads few, and hands each
        over to the next broker of the chain.
        """
        for start in sorted(self.racks, key=lambda each: (-self.leads[each], each)):
            chain = self._chain(start)
            if chain:
                for partition, broker in chain:
                    replicas = self.replicas[partition]
                    self.leads[replicas[0]] -= 1
                    self.leads[broker] += 1
                    replicas.remove(broker)
                    replicas.insert(0, broker)
                return True
        return False

    def _chain(self, start: int) -> list[tuple[TopicPartition, int]]:
        came: dict[int, tuple[TopicPartition, int]] = {}
        queue, seen = [start], {start}
        for broker in queue:
            for partition in self.held[broker]:
                replicas = self.replicas[partition]
                if replicas[0] != broker:
                    continue
                for other in replicas[1:]:
                    if other in seen:
                        continue
                    seen.add(other)
                    came[other] = (partition, broker)
                    if self.leads[start] - self.leads[other] >= 2:
                        return _walked(came, start, other)
                    queue.append(other)
        return []


def _walked(
    came: Mapping[int, tuple[TopicPartition, int]], start: int, end: int
) -> list[tuple[TopicPartition, int]]:
    chain = []
    while end != start:
        partition, before = came[end]
        chain.append((partition, end))
        end = before
    return chain
