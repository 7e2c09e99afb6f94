"""Defines the state of one transactional id and its transitions, which are new objects."""

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
NO_TIME: Final = -1
NO_TIMEOUT_MS: Final = 2**31 - 1
"""Timeout of transactions that another coordinator ends (KIP-939)."""
MAX_EPOCH: Final = 2**15 - 1
EPOCH_BUMP: Final = 2
"""The transaction version since which each end of a transaction raises the epoch (KIP-890)."""

TopicPartition = tuple[str, int]
"""Topic and partition."""


class Status(IntEnum):
    """Status of a transaction, numbered as in the log; DEAD and PREPARE_EPOCH_FENCE are never written."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """Kafka's name: ``PrepareCommit``."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def is_prepared(self) -> bool:
        """Whether the outcome is decided and markers are being written."""
        return self in (Status.PREPARE_COMMIT, Status.PREPARE_ABORT)

    @property
    def is_complete(self) -> bool:
        """Whether the last transaction has ended."""
        return self in (Status.COMPLETE_COMMIT, Status.COMPLETE_ABORT)


BY_LABEL: Final = {status.label: status for status in Status}
"""Statuses by Kafka's names."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """What the log holds of a transactional id.

    Attributes:
        previous_producer_id: The id before the present one, when its epochs were used up.
        next_producer_id: The id that the producer gets when the markers are written; else -1.
        last_epoch: The epoch before the last bump that a producer requested. Not in the log.
        partitions: Of the transaction; in the status PREPARE_* all of them, also those that have their
            marker.
        started_ms, updated_ms: Milliseconds since 1970; -1: unknown.
        client_version: The transaction version of the client that made the last change.
    """

    transactional_id: str
    producer_id: int
    epoch: int = NO_EPOCH
    timeout_ms: int = 0
    status: Status = Status.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    started_ms: int = NO_TIME
    updated_ms: int = NO_TIME
    client_version: int = 0
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    last_epoch: int = NO_EPOCH

    @property
    def is_exhausted(self) -> bool:
        """Whether no epoch is left for the producer: the last one is for fencing it."""
        return self.epoch >= MAX_EPOCH - 1

    @property
    def is_commit(self) -> bool:
        """Whether the outcome is to commit."""
        return self.status in (Status.PREPARE_COMMIT, Status.COMPLETE_COMMIT)

    # ---- transitions

    def bumped(self, timeout_ms: int, expected_epoch: int | None, now_ms: int) -> "Transaction | None":
        """Returns the state after InitProducerId; None when the producer is fenced.

        Args:
            expected_epoch: The epoch of a producer that continues after an error (KIP-360); None for a new
                one.
        """
        if expected_epoch is None:
            epoch, last_epoch = self.epoch + 1, NO_EPOCH
        elif self.epoch in (NO_EPOCH, expected_epoch):
            epoch, last_epoch = self.epoch + 1, self.epoch
        elif expected_epoch == self.last_epoch:  # a repeated request, whose first answer was lost
            epoch, last_epoch = self.epoch, self.last_epoch
        else:
            return None
        assert epoch < MAX_EPOCH, self
        return self._emptied(self.producer_id, epoch, last_epoch, timeout_ms, now_ms)

    def rotated(
        self, producer_id: int, timeout_ms: int, now_ms: int, *, keeps_last_epoch: bool
    ) -> "Transaction":
        """Returns the state after InitProducerId when all epochs are used up."""
        last_epoch = self.epoch if keeps_last_epoch else NO_EPOCH
        return self._emptied(producer_id, 0, last_epoch, timeout_ms, now_ms)

    def _emptied(
        self, producer_id: int, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int
    ) -> "Transaction":
        return replace(
            self,
            producer_id=producer_id,
            previous_producer_id=self.producer_id,
            next_producer_id=NO_PRODUCER_ID,
            epoch=epoch,
            last_epoch=last_epoch,
            timeout_ms=timeout_ms,
            status=Status.EMPTY,
            partitions=frozenset(),
            started_ms=NO_TIME,
            updated_ms=now_ms,
        )

    def with_partitions(
        self, partitions: frozenset[TopicPartition], version: int, now_ms: int
    ) -> "Transaction":
        """Returns the state after partitions have joined the transaction, which begins if none is ongoing."""
        return replace(
            self,
            previous_producer_id=self.producer_id,
            status=Status.ONGOING,
            partitions=self.partitions | partitions,
            started_ms=self.started_ms if self.status is Status.ONGOING else now_ms,
            updated_ms=now_ms,
            client_version=version,
        )

    def prepared(
        self, *, commit: bool, version: int, next_producer_id: int, now_ms: int, fences: bool = False
    ) -> "Transaction":
        """Returns the state that decides the outcome.

        Args:
            version: From `EPOCH_BUMP` on the epoch is raised.
            next_producer_id: A new id if the epoch cannot be raised once more; else -1.
            fences: The coordinator ends the transaction of a producer that must not continue.
        """
        epoch, last_epoch = self.epoch, self.last_epoch
        if version >= EPOCH_BUMP or fences:
            epoch = min(self.epoch + 1, MAX_EPOCH)
            last_epoch = self.epoch if version >= EPOCH_BUMP else NO_EPOCH
        return replace(
            self,
            previous_producer_id=self.producer_id,
            next_producer_id=next_producer_id,
            epoch=epoch,
            last_epoch=last_epoch,
            status=Status.PREPARE_COMMIT if commit else Status.PREPARE_ABORT,
            started_ms=self.started_ms if self.status is Status.ONGOING else now_ms,
            updated_ms=now_ms,
            client_version=version,
        )

    def completed(self, now_ms: int) -> "Transaction":
        """Returns the state after all markers are written."""
        assert self.status.is_prepared, self
        rotates = self.client_version >= EPOCH_BUMP and self.next_producer_id != NO_PRODUCER_ID
        return replace(
            self,
            producer_id=self.next_producer_id if rotates else self.producer_id,
            previous_producer_id=self.producer_id,
            next_producer_id=NO_PRODUCER_ID,
            epoch=0 if rotates else self.epoch,
            status=Status.COMPLETE_COMMIT if self.is_commit else Status.COMPLETE_ABORT,
            partitions=frozenset(),
            updated_ms=now_ms,
        )
