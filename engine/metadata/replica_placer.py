"""Places the replicas of new partitions over racks and brokers, as Kafka's StripedReplicaPlacer does.

Leaders go round the racks, and within a rack round its brokers. The followers of a partition go to other
racks as long as there are some. Fenced brokers come last, and get no leader. With as many brokers in
each rack as there are racks, the same broker of a rack leads until the next shuffle, as in Kafka.
"""

from collections.abc import Iterable, MutableSequence, Sequence
from typing import Any, Final, Protocol

from bowstring.engine.metadata.directory_ids import takes_replicas
from bowstring.engine.metadata.image import BrokerImage
from bowstring.protocol.errors import Errors, KafkaError

NO_BROKER: Final = -1


class Randomness(Protocol):
    """The part of ``random.Random`` that placement needs."""

    def randrange(self, below: int, /) -> int:
        """Returns a number from 0 up to, and without, `below`."""

    def shuffle(self, items: MutableSequence[Any], /) -> None:
        """Shuffles in place."""


class NoRandomness:
    """Begins with the first rack and broker and changes no order: for clusters where it does not matter."""

    def randrange(self, below: int, /) -> int:
        """Returns 0."""
        return 0

    def shuffle(self, items: MutableSequence[Any], /) -> None:
        """Leaves the order."""


class _Brokers:
    """Brokers of one kind in a rack. In each epoch, all are returned once, from another one on."""

    def __init__(self, ids: Iterable[int], random: Randomness) -> None:
        self.ids = sorted(ids)
        self._offset = random.randrange(len(self.ids)) if self.ids else 0
        self._taken = 0
        self._epoch = 0

    def next(self, epoch: int) -> int:
        """Returns the next broker, or NO_BROKER when the epoch has had all."""
        if not self.ids:
            return NO_BROKER
        if epoch != self._epoch:
            self._epoch, self._taken = epoch, 0
            self._offset = (self._offset + 1) % len(self.ids)
        if self._taken == len(self.ids):
            return NO_BROKER
        self._taken += 1
        return self.ids[(self._taken - 1 + self._offset) % len(self.ids)]


class _Rack:
    def __init__(self, brokers: Sequence[BrokerImage], random: Randomness) -> None:
        self.fenced = _Brokers((each.id for each in brokers if each.fenced), random)
        self.unfenced = _Brokers((each.id for each in brokers if not each.fenced), random)

    def next(self, epoch: int) -> int:
        found = self.unfenced.next(epoch)
        return found if found != NO_BROKER else self.fenced.next(epoch)


class StripedReplicaPlacer:
    """Places one partition after the other.

    Args:
        brokers: The registered brokers; those that shut down or whose directories are all cordoned are left
            out.
        random: Where to begin, and the order once every unfenced broker has led a partition.

    Raises:
        KafkaError: INVALID_REPLICATION_FACTOR, from `place`.
    """

    def __init__(self, brokers: Iterable[BrokerImage], random: Randomness) -> None:
        usable = [each for each in brokers if (each.fenced or each.is_active) and takes_replicas(each)]
        by_rack: dict[str | None, list[BrokerImage]] = {}
        for each in usable:
            by_rack.setdefault(each.rack, []).append(each)
        # Without a rack comes first.
        names = sorted(by_rack, key=lambda name: (name is not None, name or ""))
        self._racks = [_Rack(by_rack[name], random) for name in names]
        self._total = len(usable)
        self._unfenced = sum(not each.fenced for each in usable)
        self._random = random
        self._offset = random.randrange(len(self._racks)) if self._racks else 0
        self._epoch = 0

    def place(self, replication_factor: int) -> tuple[int, ...]:
        """Returns the replicas of the next partition, the leader first."""
        self._check(replication_factor)
        if self._epoch == self._unfenced and self._unfenced > 1:
            self._shuffle()
        racks = self._racks
        self._offset %= len(racks)
        first = self._offset
        while (leader := racks[first].unfenced.next(self._epoch)) == NO_BROKER:
            first = (first + 1) % len(racks)
        placed = [leader]
        at = self._offset
        leader_rack = first  # it has had its turn
        while len(placed) < replication_factor:
            if at == leader_rack:
                leader_rack = -1
            elif (broker := racks[at].next(self._epoch)) != NO_BROKER:
                placed.append(broker)
            at = (at + 1) % len(racks)
        self._epoch += 1
        self._offset += 1
        return tuple(placed)

    def _shuffle(self) -> None:
        self._random.shuffle(self._racks)
        for rack in self._racks:
            self._random.shuffle(rack.fenced.ids)
            self._random.shuffle(rack.unfenced.ids)
        self._epoch = 0

    def _check(self, replication_factor: int) -> None:
        if self._unfenced == 0:
            raise KafkaError(
                Errors.INVALID_REPLICATION_FACTOR,
                "All brokers are currently fenced, or have all their log directories cordoned.",
            )
        if replication_factor > self._total:
            raise KafkaError(
                Errors.INVALID_REPLICATION_FACTOR,
                f"The target replication factor of {replication_factor} cannot be reached because only "
                f"{self._total} broker(s) are registered or some brokers have all their log directories "
                "cordoned.",
            )
