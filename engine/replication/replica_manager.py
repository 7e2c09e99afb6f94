"""Gives replicas of this broker the roles that the image says, and proposes changes of in-sync replicas.

Pure: the data plane, the logs and addresses are given as objects. The shell sends `next_request` to the
controller.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from bowstring.engine.metadata.directory_ids import LOST
from bowstring.engine.metadata.image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from bowstring.engine.replication.isr_changes import IsrChanges, LedPartition, PartitionKey

if TYPE_CHECKING:
    from bowstring.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse

Address = Callable[[BrokerImage], tuple[str, int] | None]
"""Returns the numeric address of a broker's inter-broker listener; None while it is unknown."""


class DataPlaneReplicas(Protocol):
    """What _native/server/replicas.pyx offers."""

    def lead(
        self,
        topic: str,
        partition: int,
        *,
        leader_epoch: int,
        replicas: Iterable[int],
        isr: Iterable[int],
        broker_epochs: dict[int, int],
        ineligible: Iterable[int],
    ) -> None:
        """Leads a partition, or changes its followers."""

    def set_isr(
        self,
        topic: str,
        partition: int,
        isr: Iterable[int],
        *,
        joining: Iterable[int],
        leaving: Iterable[int],
        changing: bool,
        ineligible: Iterable[int] | None,
    ) -> None:
        """Sets the committed ISR and the change under way."""

    def try_join(self, topic: str, partition: int, broker_id: int, *, leader_epoch: int) -> bool:
        """Begins to add a replica to the ISR, if it has all that is committed."""

    def follow(
        self, topic: str, partition: int, *, leader_epoch: int, leader_id: int, host: str | None, port: int
    ) -> None:
        """Follows a leader."""

    def stop(self, topic: str, partition: int) -> None:
        """Stops serving a partition."""


class ReplicaLogs(Protocol):
    """The logs of this broker."""

    def create(self, image: ClusterImage, topic: TopicImage, partition: int) -> bool:
        """Opens or creates a log and serves it as a follower. It may be served already.

        Returns:
            Whether it is served. If not, the image is newer than the logs: it assigned the partition to this
            broker after they were opened, and a later change names the partition again.
        """

    def remove(self, topic: str, partition: int) -> None:
        """Removes a log that is no longer served."""


_Brokers = dict[int, tuple[int, bool]]
"""By broker: its epoch, and whether it is active."""


def _brokers(image: ClusterImage) -> _Brokers:
    return {each.id: (each.epoch, each.is_active) for each in image.brokers.values()}


def _raise(key: PartitionKey, failure: Exception) -> None:
    raise failure


class ReplicaManager:
    """The replicas of this broker.

    Args:
        broker_id: Of this broker.
        plane: The data plane.
        logs: The logs.
        address: Finds addresses of brokers.

    Attributes:
        when_failed: Called with a partition and the failure that ended an event of it: events come once, so
            those behind it must not be lost.
    """

    def __init__(self, broker_id: int, plane: DataPlaneReplicas, logs: ReplicaLogs, address: Address) -> None:
        self.broker_id = broker_id
        self._plane = plane
        self._logs = logs
        self._address = address
        self._image: ClusterImage | None = None
        self._names: dict[bytes, str] = {}
        self._ids: dict[str, bytes] = {}
        self._indexes: dict[bytes, set[int]] = {}  # of this broker's partitions, by topic
        self._applied: dict[PartitionKey, PartitionImage] = {}
        self._following: dict[PartitionKey, tuple[int, int, str | None, int]] = {}
        # led partitions whose brokers have changed since the data plane got them
        self._outdated: set[PartitionKey] = set()
        self._brokers: _Brokers = {}  # as of the last check of every partition
        # of the image, for one pass over partitions
        self._addresses: dict[int, tuple[str, int] | None] = {}
        self._ineligible_of: dict[tuple[int, ...], list[int]] = {}
        self.isr_changes = IsrChanges(broker_id, self._may_join, self._isr_changed)
        self.when_failed: Callable[[PartitionKey, Exception], None] = _raise

    def partitions(self) -> Iterator[tuple[str, int, PartitionImage]]:
        """Yields topic, index and state of each partition that this broker has."""
        for (topic_id, index), partition in self._applied.items():
            yield self._names[topic_id], index, partition

    # ------------------------------------------------------------ the image

    def apply(
        self, image: ClusterImage, changed: Iterable[PartitionKey], *, brokers_changed: bool = False
    ) -> None:
        """Applies an image.

        Args:
            image: The cluster with all changes.
            changed: Topic ids and indexes of partitions that were created, changed or removed.
            brokers_changed: Brokers were registered, fenced, unfenced or moved: every partition is checked.
        """
        for _ in self.steps(image, changed, brokers_changed=brokers_changed):
            pass

    def steps(
        self, image: ClusterImage, changed: Iterable[PartitionKey], *, brokers_changed: bool = False
    ) -> Iterator[None]:
        """Does the same, one partition at each step. Other calls may come between two steps.

        Raises:
            Exception: The first failure of a partition, after the last step: the others do not depend on it.
        """
        self._image = image
        self._addresses.clear()
        self._ineligible_of.clear()
        brokers = _brokers(image)
        self.isr_changes.broker_epochs = {id: epoch for id, (epoch, _) in brokers.items()}
        led = set()
        failures: list[Exception] = []
        for key in changed:
            try:
                if self._apply(image, key):
                    led.add(key)
            except Exception as error:
                failures.append(error)
            yield
        if brokers_changed:
            if (now := _brokers(image)) != brokers:
                led.clear()
            differ = {id for id, _ in now.items() ^ self._brokers.items()}
            self._brokers = now
            for key in list(self._applied):
                try:
                    if key in self._applied and key not in led:
                        self._broker_changed(image, key, differ)
                except Exception as error:
                    failures.append(error)
                yield
        if failures:
            raise failures[0]

    def _apply(self, image: ClusterImage, key: PartitionKey) -> bool:
        """Returns whether the data plane was made to lead the partition."""
        topic = image.topics_by_id.get(key[0])
        partition = topic.partitions[key[1]] if topic is not None and key[1] < len(topic.partitions) else None
        before = self._applied.get(key)
        if topic is None or partition is None or self.broker_id not in partition.replicas:
            if before is not None:
                self._remove(key)
            return False
        if before is not None and partition.partition_epoch < before.partition_epoch:
            return False
        if before is None:
            if not self._logs.create(image, topic, key[1]):
                return False
            self._names[key[0]] = topic.name
            self._ids[topic.name] = key[0]
            self._indexes.setdefault(key[0], set()).add(key[1])
        self._applied[key] = partition
        if partition.leader != self.broker_id:
            self._follow(image, key, partition)
            return False
        if self._is_known(key, before, partition):
            return False
        self._lead(image, key, partition)
        return True

    def _remove(self, key: PartitionKey) -> None:
        name = self._names[key[0]]
        self.isr_changes.leave(key)
        self._outdated.discard(key)
        self._following.pop(key, None)
        del self._applied[key]
        self._plane.stop(name, key[1])
        self._logs.remove(name, key[1])
        self._indexes[key[0]].discard(key[1])
        if not self._indexes[key[0]]:
            del self._names[key[0]], self._indexes[key[0]]
            if self._ids.get(name) == key[0]:  # a new topic may have taken the name
                del self._ids[name]

    def has(self, key: PartitionKey) -> bool:
        """Returns whether this broker has a replica of a partition, by the changes that were applied."""
        return key in self._applied

    def keys_of(self, topic_id: bytes) -> list[PartitionKey]:
        """Returns the partitions of a topic that this broker has."""
        return [(topic_id, index) for index in self._indexes.get(topic_id, ())]

    def _ineligible(self, image: ClusterImage, partition: PartitionImage) -> list[int]:
        """Replicas that may not join the ISR."""
        found = self._ineligible_of.get(partition.replicas)
        if found is None:
            found = []
            for each in partition.replicas:
                broker = image.brokers.get(each)
                if broker is None or not broker.is_active:
                    found.append(each)
            self._ineligible_of[partition.replicas] = found
        if LOST in partition.directories:
            placed = zip(partition.replicas, partition.directories, strict=True)
            return found + [each for each, directory in placed if directory == LOST and each not in found]
        return found

    def _address_of(self, image: ClusterImage, leader: int) -> tuple[str, int] | None:
        if leader not in self._addresses:
            broker = image.brokers.get(leader)
            self._addresses[leader] = self._address(broker) if broker is not None else None
        return self._addresses[leader]

    def _is_known(self, key: PartitionKey, before: PartitionImage | None, partition: PartitionImage) -> bool:
        """Whether the controller's answer to a change of in-sync replicas was faster than the image.

        Another change may be under way since, which must not be dropped.
        """
        known = self.isr_changes.partitions.get(key)
        return (
            known is not None
            and before is not None
            and before.replicas == partition.replicas
            and known.leader_epoch == partition.leader_epoch
            and known.partition_epoch >= partition.partition_epoch
        )

    def _lead(self, image: ClusterImage, key: PartitionKey, partition: PartitionImage) -> None:
        self._following.pop(key, None)
        self._outdated.discard(key)
        led = LedPartition(
            key,
            partition.leader_epoch,
            partition.partition_epoch,
            partition.in_sync,
        )
        self.isr_changes.lead(led)
        self._plane.lead(
            self._names[key[0]],
            key[1],
            leader_epoch=partition.leader_epoch,
            replicas=partition.replicas,
            isr=partition.in_sync,
            broker_epochs=self.isr_changes.broker_epochs,
            ineligible=self._ineligible(image, partition),
        )

    def _follow(self, image: ClusterImage, key: PartitionKey, partition: PartitionImage) -> None:
        self.isr_changes.leave(key)
        self._outdated.discard(key)
        found = None if self._has_left(image, partition) else self._address_of(image, partition.leader)
        host, port = found if found is not None else (None, 0)
        wanted = (partition.leader_epoch, partition.leader, host, port)
        if self._following.get(key) == wanted:
            return
        self._following[key] = wanted
        self._plane.follow(
            self._names[key[0]],
            key[1],
            leader_epoch=partition.leader_epoch,
            leader_id=partition.leader,
            host=host,
            port=port,
        )

    def _has_left(self, image: ClusterImage, partition: PartitionImage) -> bool:
        """Whether this broker stops and is out of the ISR: what it would copy until its end counts for
        nobody, and would have to be written out.
        """
        own = image.brokers.get(self.broker_id)
        stops = own is not None and own.in_controlled_shutdown
        return stops and self.broker_id not in partition.in_sync

    def _broker_changed(self, image: ClusterImage, key: PartitionKey, differ: set[int]) -> None:
        partition = self._applied[key]
        led = self.isr_changes.partitions.get(key)
        if led is None:
            self._follow(image, key, partition)
            return
        if differ.isdisjoint(partition.replicas):
            return
        # Broker epochs wait for the end of a change under way; eligible replicas do not.
        self._outdated.add(key)
        self._isr_changed(led)

    # ------------------------------------------------------------ in-sync replicas

    def _may_join(self, led: LedPartition, broker_id: int) -> bool:
        return self._plane.try_join(
            self._names[led.key[0]], led.key[1], broker_id, leader_epoch=led.leader_epoch
        )

    def _isr_changed(self, led: LedPartition) -> None:
        image, partition = self._image, self._applied[led.key]
        if led.proposed is None and led.key in self._outdated and image is not None:
            self._outdated.discard(led.key)
            self._plane.lead(
                self._names[led.key[0]],
                led.key[1],
                leader_epoch=partition.leader_epoch,
                replicas=partition.replicas,
                isr=led.isr,
                broker_epochs=self.isr_changes.broker_epochs,
                ineligible=self._ineligible(image, partition),
            )
            return
        self._plane.set_isr(
            self._names[led.key[0]],
            led.key[1],
            led.isr,
            joining=led.joining,
            leaving=led.leaving,
            changing=led.proposed is not None,
            ineligible=self._ineligible(image, partition) if image is not None else None,
        )

    def on_events(self, events: Iterable[tuple[Any, ...]]) -> list[tuple[str, str, int, int, int]]:
        """Proposes what events of the data plane request.

        Returns:
            The others: ``(kind, topic, partition, a, b)``, to be logged.
        """
        others = []
        lagging: dict[tuple[PartitionKey, int], set[int]] = {}
        ids = self._ids
        for kind, topic, index, leader_epoch, a, b in events:
            key = (ids.get(topic, b""), index)
            if kind == "may-join":
                self._propose(key, partial(self.isr_changes.join, key, leader_epoch, a, b))
            elif kind == "lags":
                lagging.setdefault((key, leader_epoch), set()).add(a)
            else:
                others.append((kind, topic, index, a, b))
        for (key, leader_epoch), brokers in lagging.items():
            self._propose(key, partial(self.isr_changes.shrink, key, leader_epoch, brokers))
        return others

    def _propose(self, key: PartitionKey, proposal: Callable[[], bool]) -> None:
        try:
            proposal()
        except Exception as error:
            self.when_failed(key, error)

    def next_request(self, now_ms: float, broker_epoch: int) -> "AlterPartitionRequest | None":
        """Returns the AlterPartition request that is due. Answer it by `answered` or `failed`."""
        return self.isr_changes.next_request(now_ms, broker_epoch)

    def answered(self, response: "AlterPartitionResponse", now_ms: float) -> None:
        """The controller has answered."""
        self.isr_changes.answered(response, now_ms)

    def answer_steps(self, response: "AlterPartitionResponse", now_ms: float) -> Iterator[None]:
        """Does the same, one partition at each step; see `IsrChanges.answer_steps`."""
        return self.isr_changes.answer_steps(response, now_ms)

    def failed(self, now_ms: float) -> None:
        """The controller did not answer; the request is sent again."""
        self.isr_changes.failed(now_ms)
