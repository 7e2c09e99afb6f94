"""Changes of in-sync replicas that leaders propose to the controller (KIP-497), batched and retried.

One change is under way for each partition, and one request for the broker. While it is, the leader counts
the maximal ISR: nobody leaves before the controller has agreed, and whoever joins counts at once. Only for
min.insync.replicas whoever is to leave does not count: the controller may have agreed already.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from bowstring.protocol.errors import Errors

if TYPE_CHECKING:
    from bowstring.protocol.messages.alter_partition import (
        AlterPartitionRequest,
        AlterPartitionRequestPartitionData,
        AlterPartitionResponse,
        AlterPartitionResponsePartitionData,
    )

RETRY_MS: Final = 50
PARTITIONS_MAX: Final = 500
"""Of one request: the controller decides upon it in some milliseconds, during which it does nothing else."""

PartitionKey = tuple[bytes, int]
"""Topic id and partition index."""

# A leader that was elected uncleanly needs no recovery beyond leading, as in Kafka: its first change says so.
# The controller refuses followers while it is RECOVERING.
_RECOVERED: Final = 0
# The leader's own state stays as it was; it may propose again.
_REFUSED: Final = {Errors.OPERATION_NOT_ATTEMPTED.code, Errors.INELIGIBLE_REPLICA.code}
# The controller has a newer state, which arrives as metadata. Until then nothing is proposed.
_OUTDATED: Final = {
    Errors.UNKNOWN_TOPIC_OR_PARTITION.code,
    Errors.UNKNOWN_TOPIC_ID.code,
    Errors.NEW_LEADER_ELECTED.code,
    Errors.FENCED_LEADER_EPOCH.code,
    Errors.INVALID_UPDATE_VERSION.code,
    Errors.INVALID_REQUEST.code,
}


class LedPartition:
    """A partition that this broker leads: its committed state, and the ISR that it proposes.

    Attributes:
        joined_by: The replica that joins, and the broker epoch of the fetch by which it may.
    """

    def __init__(
        self,
        key: PartitionKey,
        leader_epoch: int,
        partition_epoch: int,
        isr: tuple[int, ...],
    ) -> None:
        self.key = key
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.isr = isr
        self.proposed: tuple[int, ...] | None = None
        self.sent = False
        self.joined_by = (-1, -1)

    @property
    def joining(self) -> tuple[int, ...]:
        """Replicas that the change under way adds."""
        return tuple(each for each in self.proposed or () if each not in self.isr)

    @property
    def leaving(self) -> tuple[int, ...]:
        """Replicas that the change under way removes."""
        return tuple(each for each in self.isr if self.proposed is not None and each not in self.proposed)


class IsrChanges:
    """The changes under way.

    Args:
        broker_id: Of this broker.
        may_join: Begins to add a replica in the data plane: whether it still has all that is committed.
        changed: Called when the committed or the maximal ISR of a partition has changed.

    Attributes:
        shrinks, expands: Changes that the controller has accepted.
        failures: Requests that got no answer.
    """

    def __init__(
        self,
        broker_id: int,
        may_join: Callable[[LedPartition, int], bool],
        changed: Callable[[LedPartition], None],
    ) -> None:
        self.broker_id = broker_id
        self.may_join = may_join
        self.changed = changed
        self.partitions: dict[PartitionKey, LedPartition] = {}
        self.broker_epochs: dict[int, int] = {}
        self.shrinks = 0
        self.expands = 0
        self.failures = 0
        self._waiting: dict[PartitionKey, LedPartition] = {}
        self._in_flight: list[LedPartition] | None = None
        self._not_before_ms: float = 0

    # ------------------------------------------------------------ what the image says

    def lead(self, led: LedPartition) -> None:
        """Adopts a partition's committed state; a change under way of an earlier state is dropped."""
        self._waiting.pop(led.key, None)
        self.partitions[led.key] = led

    def leave(self, key: PartitionKey) -> None:
        """Forgets a partition that this broker no longer leads."""
        self._waiting.pop(key, None)
        self.partitions.pop(key, None)

    # ------------------------------------------------------------ proposals

    def join(self, key: PartitionKey, leader_epoch: int, broker_id: int, broker_epoch: int) -> bool:
        """Proposes to add a replica. Returns whether it did.

        Args:
            broker_epoch: Of the fetch that showed what the replica has; -1 if it named none. The request says
                so however late it is sent: a later incarnation of the broker may have lost records (KIP-903).
        """
        led = self.partitions.get(key)
        if led is None or broker_id in led.isr or led.proposed is not None:
            return False
        if led.leader_epoch != leader_epoch or not self.may_join(led, broker_id):
            return False
        led.joined_by = (broker_id, broker_epoch)
        return self._propose(led, leader_epoch, (*led.isr, broker_id))

    def shrink(self, key: PartitionKey, leader_epoch: int, lagging: set[int]) -> bool:
        """Proposes to remove replicas that lag. Returns whether it did."""
        led = self.partitions.get(key)
        if led is None:
            return False
        left = tuple(each for each in led.isr if each not in lagging or each == self.broker_id)
        return left != led.isr and self._propose(led, leader_epoch, left)

    def _propose(self, led: LedPartition, leader_epoch: int, isr: tuple[int, ...]) -> bool:
        if led.proposed is not None or led.leader_epoch != leader_epoch:
            return False
        led.proposed = isr
        self._waiting[led.key] = led
        self.changed(led)
        return True

    # ------------------------------------------------------------ requests

    def due_ms(self) -> float | None:
        """Returns when the next request may be sent; None: there is none, or one is in flight."""
        return self._not_before_ms if self._waiting and self._in_flight is None else None

    def next_request(self, now_ms: float, broker_epoch: int) -> "AlterPartitionRequest | None":
        """Returns the request that is due, and counts it as in flight."""
        due_ms = self.due_ms()
        if due_ms is None or due_ms > now_ms:
            return None
        chosen = list(self._waiting.values())[:PARTITIONS_MAX]
        # Not at start: partitions with one replica never change their ISR.
        from bowstring.protocol.messages.alter_partition import (
            AlterPartitionRequest,
            AlterPartitionRequestTopicData,
        )

        self._in_flight = chosen
        topics: dict[bytes, AlterPartitionRequestTopicData] = {}
        for led in chosen:
            del self._waiting[led.key]
            led.sent = True
            topic = topics.setdefault(led.key[0], AlterPartitionRequestTopicData(topic_id=led.key[0]))
            topic.partitions.append(self._encoded(led))
        return AlterPartitionRequest(
            broker_id=self.broker_id, broker_epoch=broker_epoch, topics=list(topics.values())
        )

    def _encoded(self, led: LedPartition) -> "AlterPartitionRequestPartitionData":
        from bowstring.protocol.messages.alter_partition import (
            AlterPartitionRequestPartitionData,
            BrokerState,
        )

        isr = led.proposed or ()
        return AlterPartitionRequestPartitionData(
            partition_index=led.key[1],
            leader_epoch=led.leader_epoch,
            new_isr_with_epochs=[
                BrokerState(broker_id=each, broker_epoch=self._epoch_of(led, each)) for each in isr
            ],
            leader_recovery_state=_RECOVERED,
            partition_epoch=led.partition_epoch,
        )

    def _epoch_of(self, led: LedPartition, broker_id: int) -> int:
        joining, epoch = led.joined_by
        if broker_id == joining and broker_id not in led.isr and epoch >= 0:
            return epoch
        return self.broker_epochs.get(broker_id, -1)

    def failed(self, now_ms: float) -> None:
        """The request in flight got no answer: sends its changes again later."""
        self.failures += 1
        for led in self._in_flight or ():
            self._again(led)
        self._in_flight = None
        self._not_before_ms = now_ms + RETRY_MS

    def _again(self, led: LedPartition) -> None:
        if self.partitions.get(led.key) is led:
            led.sent = False
            self._waiting[led.key] = led

    def answered(self, response: "AlterPartitionResponse", now_ms: float) -> None:
        """Applies the controller's answer."""
        for _ in self.answer_steps(response, now_ms):
            pass

    def answer_steps(self, response: "AlterPartitionResponse", now_ms: float) -> Iterator[None]:
        """Does the same, one partition at each step. Other calls may come between two steps, but the next
        request is due only after the last.

        Raises:
            Exception: The first failure of a partition, after the last step: the others do not depend on it.
        """
        if response.error_code != 0:
            self.failed(now_ms)
            return
        in_flight = {led.key: led for led in self._in_flight or ()}
        failures: list[Exception] = []
        try:
            for key, answer in _answers(response):
                led = in_flight.pop(key, None)
                try:
                    if led is not None and self.partitions.get(key) is led:
                        self._take(led, answer, now_ms)
                except Exception as error:
                    failures.append(error)
                yield
        finally:
            self._in_flight = None
            for led in in_flight.values():  # the controller did not answer for it
                self._again(led)
                self._not_before_ms = now_ms + RETRY_MS
        if failures:
            raise failures[0]

    def _take(self, led: LedPartition, answer: "AlterPartitionResponsePartitionData", now_ms: float) -> None:
        if answer.error_code == 0:
            if answer.leader_epoch == led.leader_epoch and answer.partition_epoch >= led.partition_epoch:
                self.shrinks += len(answer.isr) < len(led.isr)
                self.expands += len(answer.isr) > len(led.isr)
                led.isr, led.partition_epoch = tuple(answer.isr), answer.partition_epoch
            led.proposed, led.sent = None, False
            self.changed(led)
        elif answer.error_code in _REFUSED:
            led.proposed, led.sent = None, False
            self.changed(led)
        elif answer.error_code not in _OUTDATED:
            self._again(led)
            self._not_before_ms = now_ms + RETRY_MS


def _answers(
    response: "AlterPartitionResponse",
) -> "Iterator[tuple[PartitionKey, AlterPartitionResponsePartitionData]]":
    for topic in response.topics:
        for partition in topic.partitions:
            yield (topic.topic_id, partition.partition_index), partition
