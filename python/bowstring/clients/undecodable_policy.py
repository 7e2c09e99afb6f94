"""Decides what consumers do with records that do not decode: raise, skip, or a dead-letter topic."""

from __future__ import annotations

import logging
import time
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from bowstring.clients.errors import ConfigError

LOG_INTERVAL_S = 60.0


class DeadLetters(Protocol):
    """What `bowstring.DeadLetter` has."""

    topic: str

    def send_record(self, record: Any, reason: str) -> Any:
        """Sends one record and returns its future."""


OnUndecodable: TypeAlias = Literal["raise", "skip"] | DeadLetters


class UndecodableRecord(NamedTuple):
    """A record that does not decode.

    Attributes:
        record: it, with the bytes of key and value.
        field: "key" or "value".
        reason: why, with the byte.
    """

    record: Any
    field: str
    reason: str


class UndecodablePolicy:
    """A consumer's policy and what it has passed.

    Args:
        policy: "raise", "skip", or a DeadLetter.
        log: the consumer's.

    Attributes:
        raises: whether the policy is "raise".
        skips: whether the policy is "skip".
        skipped: records that were skipped.
        dead_lettered: records that a dead-letter topic has.

    Raises:
        ConfigError: the policy is something else.
    """

    def __init__(self, policy: OnUndecodable, log: logging.Logger):
        if policy not in ("raise", "skip") and not hasattr(policy, "send_record"):
            raise ConfigError(
                f'on_undecodable is {policy!r}, it must be "raise", "skip" or '
                "bowstring.DeadLetter(topic, producer)"
            )
        self._policy = policy
        self._log = log
        self.raises, self.skips = policy == "raise", policy == "skip"
        self.skipped = 0
        self.dead_lettered = 0
        self._logged_at = -LOG_INTERVAL_S
        self._logged = 0

    def pass_over(self, found: list[UndecodableRecord]) -> None:
        """Counts records as skipped, or sends them to the dead-letter topic and waits until it has them.

        Raises:
            ClientError: the dead-letter topic did not take a record; none of them is counted.
        """
        if isinstance(self._policy, str):
            self.skipped += len(found)
        else:
            sent = [self._policy.send_record(each.record, f"{each.field}: {each.reason}") for each in found]
            for future in sent:
                future.result()
            self.dead_lettered += len(sent)
        self._note(found[-1])

    def _note(self, last: UndecodableRecord) -> None:
        """Logs what was passed, at most once a minute."""
        now = time.monotonic()
        if now - self._logged_at < LOG_INTERVAL_S:
            return
        total = self.skipped + self.dead_lettered
        done = "skipped" if isinstance(self._policy, str) else f"sent to {self._policy.topic}"
        record = last.record
        self._log.warning(
            "%d records that do not decode were %s; the last is %s-%d, offset %d, %s: %s",
            total - self._logged,
            done,
            record.topic,
            record.partition,
            record.offset,
            last.field,
            last.reason,
        )
        self._logged_at, self._logged = now, total
