"""Decides how the commands of a leader are sent, and what their answers mean: pure.

A command is sent again until its outcome is known, an append always with the same sequence number, so that
the broker stores it once (KIP-98). Time is an argument, in seconds of a monotonic clock."""

from __future__ import annotations

from typing import NamedTuple

from bowstring.clients.errors import BrokerError, broker_error
from bowstring.protocol.errors import Errors
from bowstring.registry.store.leadership import Append, Claim, Refusal

RETRY_PAUSE_S = 0.05
RETRY_PAUSE_MAX_S = 1.0

_FENCED = (Errors.INVALID_PRODUCER_EPOCH.code, Errors.PRODUCER_FENCED.code)
# The broker took nothing, and a repetition does not change that.
_REFUSED = (
    Errors.MESSAGE_TOO_LARGE.code,
    Errors.RECORD_LIST_TOO_LARGE.code,
    Errors.INVALID_RECORD.code,
    Errors.TOPIC_AUTHORIZATION_FAILED.code,
    Errors.CLUSTER_AUTHORIZATION_FAILED.code,
    Errors.POLICY_VIOLATION.code,
    Errors.INVALID_TOPIC_EXCEPTION.code,
    Errors.UNSUPPORTED_FOR_MESSAGE_FORMAT.code,
)
# The batch is in the leader's log, but perhaps not in those of its replicas.
_STORED_HERE = (Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND.code, Errors.REQUEST_TIMED_OUT.code)


class Outcome(NamedTuple):
    """The end of a command.

    Attributes:
        command: the one that ended.
        producer_id, epoch: of a claim that succeeded.
        base_offset: of an append that succeeded.
        refusal: why an append failed; None if it did not.
        error: why a command failed.
    """

    command: Claim | Append
    producer_id: int = -1
    epoch: int = -1
    base_offset: int = -1
    refusal: Refusal | None = None
    error: BrokerError | None = None


class CommandRunner:
    """Runs one command at a time.

    Attributes:
        trouble: the last error that is retried; the caller resets it.
    """

    def __init__(self) -> None:
        self.trouble: BrokerError | None = None
        self._command: Claim | Append | None = None
        self._is_sent = False
        self._attempts = 0
        self._retry_at = 0.0
        self._may_be_stored = False

    def take(self, command: Claim | Append | None, now: float) -> None:
        """Begins a command; one that is not over is abandoned. None begins none."""
        self._command = command
        self._is_sent = self._may_be_stored = False
        self._attempts, self._retry_at = 0, now

    def to_send(self, now: float, lease_until: float) -> Claim | Append | None:
        """Returns the command if it is to be sent now; then `answered…` or `unanswered` must follow.

        Nothing is appended once the lease is over: another registry may lead. An election or a heartbeat
        decides."""
        if self._command is None or self._is_sent or now < self._retry_at:
            return None
        if isinstance(self._command, Append) and now >= lease_until:
            self._retry_at = now + RETRY_PAUSE_S
            return None
        self._is_sent = True
        return self._command

    def due_at(self) -> float:
        """When `to_send` may return something."""
        return float("inf") if self._command is None or self._is_sent else self._retry_at

    def unsent(self, command: Claim | Append, now: float) -> None:
        """Notes that there was no broker to send the command to."""
        if command is self._command:
            self._again(now)

    def unanswered(self, command: Claim | Append, now: float) -> None:
        """Notes that the command was sent, and that no answer came."""
        if command is self._command:
            self._may_be_stored = True
            self._again(now)

    def _again(self, now: float) -> None:
        pause_s = min(RETRY_PAUSE_MAX_S, RETRY_PAUSE_S * 2 ** min(self._attempts, 10))
        self._attempts += 1
        self._is_sent = False
        self._retry_at = now + pause_s

    def claim_answered(
        self, claim: Claim, code: int, producer_id: int, epoch: int, now: float
    ) -> Outcome | None:
        """Applies the answer to a claim; returns how it ended, None if it goes on."""
        if claim is not self._command:
            return None
        if not code:
            self._command = None
            return Outcome(claim, producer_id=producer_id, epoch=epoch)
        error = broker_error(code, "claiming the registry's topic")
        if error.retriable:
            self._again(now)
            return None
        self._command = None
        return Outcome(claim, error=error)

    def append_answered(self, append: Append, code: int, base_offset: int, now: float) -> Outcome | None:
        """Applies the answer to an append; returns how it ended, None if it goes on."""
        if append is not self._command:
            return None
        if not code and base_offset >= 0:
            self._command = None
            return Outcome(append, base_offset=base_offset)
        error = broker_error(code, "writing to the registry's topic")
        if code in _FENCED:
            refusal = Refusal.FENCED_LATE if self._may_be_stored else Refusal.FENCED
        elif code in _REFUSED and not self._may_be_stored:
            refusal = Refusal.REFUSED
        elif code and error.retriable:
            self._may_be_stored = self._may_be_stored or code in _STORED_HERE
            self.trouble = error
            self._again(now)
            return None
        else:
            refusal = Refusal.UNKNOWN
        self._command = None
        return Outcome(append, refusal=refusal, error=error)
