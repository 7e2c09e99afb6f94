"""Finds partitions by the brokers in their ISR, by leader, by eligible leader and by directory.

A broker that fails must not cost a look at every partition of the cluster. Kafka's names are BrokersToIsrs,
BrokersToElrs and directoriesToPartitions.
"""

from collections.abc import Collection, Hashable, Iterable
from typing import Final, TypeVar

from bowstring.engine.metadata.directory_ids import is_reserved
from bowstring.engine.metadata.image import ClusterImage, PartitionImage

NO_LEADER: Final = -1

PartitionKey = tuple[bytes, int]
"""A topic's id and the number of one of its partitions."""

K = TypeVar("K", bound=Hashable)

# Dicts with None as values are sets that keep the order of insertion, so that a replay decides alike.
_Sets = dict[K, dict[PartitionKey, None]]
_EMPTY: Final[dict[PartitionKey, None]] = {}


class PartitionIndex:
    """Partitions by what matters when a broker or a directory comes or goes. Do not modify what it returns.

    Attributes:
        reassigning: Partitions whose replicas are being changed.
        imbalanced: Partitions that their first replica does not lead.
    """

    def __init__(self, image: ClusterImage) -> None:
        self._in_sync: _Sets[int] = {}
        self._eligible: _Sets[int] = {}
        self._led: _Sets[int] = {}
        self._in_directory: _Sets[bytes] = {}
        self.reassigning: dict[PartitionKey, None] = {}
        self.imbalanced: dict[PartitionKey, None] = {}
        for topic in image.topics.values():
            for number, partition in enumerate(topic.partitions):
                self._add((topic.id, number), partition)

    def _add(self, key: PartitionKey, new: PartitionImage) -> None:
        """Does what `update` does for a new partition, in half of the time: a new controller adds all."""
        for broker in new.in_sync:
            self._in_sync.setdefault(broker, {})[key] = None
        for broker in new.eligible_leaders:
            self._eligible.setdefault(broker, {})[key] = None
        for directory in new.directories:
            if not is_reserved(directory):
                self._in_directory.setdefault(directory, {})[key] = None
        self._led.setdefault(new.leader, {})[key] = None
        if new.adding or new.removing:
            self.reassigning[key] = None
        if new.leader != new.replicas[0]:
            self.imbalanced[key] = None

    def in_sync(self, broker: int) -> Collection[PartitionKey]:
        """Returns the partitions with a broker in their ISR."""
        return self._in_sync.get(broker, _EMPTY)

    def eligible(self, broker: int) -> Collection[PartitionKey]:
        """Returns the partitions with a broker in their eligible leader replicas (KIP-966)."""
        return self._eligible.get(broker, _EMPTY)

    def led(self, broker: int) -> Collection[PartitionKey]:
        """Returns the partitions that a broker leads; NO_LEADER returns those without a leader."""
        return self._led.get(broker, _EMPTY)

    def in_directory(self, directory: bytes) -> Collection[PartitionKey]:
        """Returns the partitions with a replica in a log directory."""
        return self._in_directory.get(directory, _EMPTY)

    def update(self, key: PartitionKey, old: PartitionImage | None, new: PartitionImage | None) -> None:
        """Notes that a partition is `new` now; None is a partition that does not exist."""
        if old is None and new is not None:
            self._add(key, new)
            return
        was, now = old or _NONE, new or _NONE
        if was.in_sync != now.in_sync:
            _move(self._in_sync, key, was.in_sync, now.in_sync)
        if was.eligible_leaders != now.eligible_leaders:
            _move(self._eligible, key, was.eligible_leaders, now.eligible_leaders)
        if was.directories != now.directories:
            _move(self._in_directory, key, _named(was.directories), _named(now.directories))
        leaders = (was.leader,) if old else (), (now.leader,) if new else ()
        if leaders[0] != leaders[1]:
            _move(self._led, key, *leaders)
        _mark(self.reassigning, key, is_set=bool(now.adding or now.removing))
        _mark(self.imbalanced, key, is_set=new is not None and now.leader != now.replicas[0])


_NONE: Final = PartitionImage((), (), NO_LEADER, 0, 0, ())


def _named(directories: Iterable[bytes]) -> list[bytes]:
    return [each for each in directories if not is_reserved(each)]


def _move(sets: _Sets[K], key: PartitionKey, old: Collection[K], new: Collection[K]) -> None:
    for each in old:
        if each not in new:
            members = sets[each]
            del members[key]
            if not members:
                del sets[each]
    for each in new:
        if each not in old:
            sets.setdefault(each, {})[key] = None


def _mark(marked: dict[PartitionKey, None], key: PartitionKey, *, is_set: bool) -> None:
    if is_set:
        marked[key] = None
    else:
        marked.pop(key, None)
