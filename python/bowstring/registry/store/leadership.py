"""Decides when a registry may write to its topic, and keeps an earlier leader from it: pure.

Kafka refuses a batch whose producer epoch is older than the newest one that its partition has. All registries
of a group use one transactional id, though no transactions. An elected leader

1. claims: InitProducerId gives it the same producer id as its predecessor, with the next epoch;
2. marks: it appends a NOOP, as Confluent's registries do to find the end of the topic (its value is what the
   last NOOP must keep: the highest ids). From its offset on the partition refuses its predecessors;
3. catches up: its image gets every record below the NOOP. From then on nothing is written but by itself.

Nothing is written in transactions, because readers of Confluent's registry read uncommitted records: they
would keep a schema whose transaction was aborted. A batch without a transaction is in the log for all readers
or for none, and a leader that was killed before it answered leaves either nothing or a schema that its
successor has.

A new producer id (the first leader; the coordinator forgot the id, after 7 days; its 32,767 epochs are used
up), or a predecessor that is no Bowstring registry, leaves a gap: the marker refuses only epochs of its own
id. Then the leader waits `takeover_wait_s` and marks again, as Karapace's registries do, and a lease bounds
how long predecessors write: until the end of the session that the group's coordinator granted them.

Time is an argument, in seconds of a monotonic clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

# Key and value; None is a tombstone.
TopicRecord = tuple[bytes, bytes | None]

RETRY_PAUSE_S = 0.2
# A partition forgets a producer that does not write for a day, a coordinator one that does not claim for 7.
RENEW_AFTER_S = 43_200.0


class Stage(Enum):
    """Progress of a leader; `is_leader` is true in LEADING."""

    FOLLOWING = "following"
    CLAIMING = "claiming"
    MARKING = "marking"
    WAITING = "waiting"
    CATCHING_UP = "catching up"
    LEADING = "leading"


class Claim(NamedTuple):
    """A command: get the producer id with the next epoch."""

    term: int


class Append(NamedTuple):
    """A command: append one batch, whose first record has this sequence number."""

    term: int
    producer_id: int
    epoch: int
    sequence: int
    records: Sequence[TopicRecord]
    timestamp_ms: int


class Refusal(Enum):
    """Why a batch is not appended.

    REFUSED: the broker took nothing, and the next batch may go. FENCED: there is a later leader, and the
    batch is not in the log. FENCED_LATE: there is a later leader, and an earlier attempt may have reached the
    log. UNKNOWN: it may be in the log or not."""

    REFUSED = "refused"
    FENCED = "fenced"
    FENCED_LATE = "fenced late"
    UNKNOWN = "unknown"


class Leadership:
    """The leader's part of one registry.

    Args:
        takeover_wait_s: seconds to wait for batches of a predecessor that is not fenced.

    Attributes:
        term: counts tenures; outcomes of another term are ignored.
        is_elected: the group elected this registry.
    """

    def __init__(self, takeover_wait_s: float):
        self.stage = Stage.FOLLOWING
        self.term = 0
        self.is_elected = False
        self._takeover_wait_s = takeover_wait_s
        self._producer_id = -1
        self._epoch = -1
        self._sequence = 0
        self._in_flight: Claim | Append | None = None
        self._unfenced = False  # a predecessor may still write
        self._resume_at = 0.0
        self._target = 0
        self._mark: TopicRecord = (b"", None)
        self._claimed_at = 0.0

    # ------------------------------------------------------------ elections

    def elect(self, now: float, *, after_foreign: bool = False) -> None:
        """Begins a tenure, unless one is under way."""
        if self.is_elected:
            return
        self.is_elected = True
        self._unfenced = self._unfenced or after_foreign
        self._begin(now)

    def depose(self) -> None:
        """Ends the tenure: the outcome of a batch in flight stays unknown."""
        self.is_elected = False
        self.term += 1
        self.stage = Stage.FOLLOWING
        self._in_flight = None

    def restart(self, now: float) -> None:
        """Begins the tenure anew, because the image is not complete any more."""
        if self.is_elected:
            self._begin(now)

    def _begin(self, now: float) -> None:
        self.term += 1
        self.stage = Stage.CLAIMING
        self._in_flight = None
        self._resume_at = now

    # ------------------------------------------------------------ commands

    def command(
        self, now: float, mark: Callable[[], TopicRecord], timestamp_ms: int
    ) -> Claim | Append | None:
        """Returns the next command of a takeover, if one is due; `mark` returns the record that marks."""
        if self._in_flight is not None or now < self._resume_at:
            return None
        if self.stage is Stage.WAITING:
            self.stage = Stage.MARKING
        if self.stage is Stage.CLAIMING:
            self._in_flight = Claim(self.term)
            return self._in_flight
        if self.stage is Stage.MARKING:
            self._mark = mark()
            return self._append([self._mark], timestamp_ms)
        return None

    @property
    def due_at(self) -> float:
        """When `command` has one, unless an outcome comes first."""
        takes_over = self.stage in (Stage.CLAIMING, Stage.MARKING, Stage.WAITING)
        return self._resume_at if takes_over and self._in_flight is None else float("inf")

    @property
    def can_append(self) -> bool:
        """Whether `append` takes records: it leads, and no batch is in flight."""
        return self.stage is Stage.LEADING and self._in_flight is None

    def append(self, records: Sequence[TopicRecord], now: float, timestamp_ms: int) -> Append | None:
        """Returns the command that appends decided records; None: the leader claims anew before.

        A leader of a long time renews its claim, so that the coordinator does not forget it.
        """
        assert self.can_append and records
        if now - self._claimed_at > RENEW_AFTER_S:
            self._begin(now)
            return None
        return self._append(records, timestamp_ms)

    def _append(self, records: Sequence[TopicRecord], timestamp_ms: int) -> Append:
        producer = (self._producer_id, self._epoch, self._sequence)
        append = Append(self.term, *producer, records, timestamp_ms)
        self._in_flight = append
        return append

    # ------------------------------------------------------------ outcomes

    def claimed(self, term: int, producer_id: int, epoch: int, now: float) -> None:
        """Applies the answer to a claim."""
        if term != self.term or self.stage is not Stage.CLAIMING:
            return
        self._unfenced = self._unfenced or epoch == 0 or (self._producer_id not in (-1, producer_id))
        self._producer_id, self._epoch, self._sequence = producer_id, epoch, 0
        self._claimed_at = now
        self._in_flight = None
        self.stage = Stage.MARKING

    def claim_failed(self, term: int, now: float) -> None:
        """Claims again after a pause."""
        if term == self.term and self.stage is Stage.CLAIMING:
            self._in_flight = None
            self._resume_at = now + RETRY_PAUSE_S

    def appended(self, term: int, base_offset: int, now: float) -> bool:
        """Applies the success of a batch; returns whether it is one of this tenure."""
        done = self._in_flight
        if term != self.term or not isinstance(done, Append):
            return False
        self._in_flight = None
        # Sequence numbers wrap around (KIP-98).
        self._sequence = (self._sequence + len(done.records)) & 0x7FFFFFFF
        if self.stage is Stage.MARKING:
            self._target = base_offset + 1
            if self._unfenced and base_offset > 0:
                self._unfenced = False
                self.stage = Stage.WAITING
                self._resume_at = now + self._takeover_wait_s
            else:
                self._unfenced = False
                self.stage = Stage.CATCHING_UP
        return True

    def refused(self, term: int, refusal: Refusal, now: float) -> bool:
        """Applies the failure of a batch; returns whether it is one of this tenure.

        FENCED and FENCED_LATE end the tenure: the group has to elect again, or two registries would fence
        each other in turn. UNKNOWN begins it anew: the next claim fences the batch that may still arrive."""
        if term != self.term or self._in_flight is None:
            return False
        self._in_flight = None
        if refusal in (Refusal.FENCED, Refusal.FENCED_LATE):
            self.depose()
            return True
        if refusal is Refusal.UNKNOWN:
            self._begin(now)
        self._resume_at = now + RETRY_PAUSE_S
        return True

    def caught_up(self, position: int, mark: Callable[[], TopicRecord]) -> bool:
        """Notes that the image has every record below `position`; returns whether it leads from now on.

        If the record that marks would be another by now, it is written anew: compaction keeps only the last.
        """
        if self.stage is not Stage.CATCHING_UP or position < self._target:
            return False
        self.stage = Stage.LEADING if mark() == self._mark else Stage.MARKING
        return self.stage is Stage.LEADING
