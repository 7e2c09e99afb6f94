"""Decides what a consumer does with records that do not decode: raise, skip, or a dead-letter topic."""

from __future__ import annotations

import logging
import time
from typing import Any, Literal, Protocol, TypeAlias

from bowstring.clients.consumer.partition_state import PartitionState, Undecoded
from bowstring.clients.errors import ConfigError, UndecodableRecordError
from bowstring.clients.records import Record

_log = logging.getLogger("bowstring.consumer")

LOG_INTERVAL_S = 60.0


class DeadLetters(Protocol):
    """What `bowstring.DeadLetter` has."""

    topic: str

    def send_record(self, record: Record, reason: str) -> Any:
        """Sends one record and returns its future."""


OnUndecodable: TypeAlias = Literal["raise", "skip"] | DeadLetters


class Undecodables:
    """A consumer's policy and what it has passed.

    Args:
        policy: "raise", "skip", or a DeadLetter.

    Attributes:
        skipped: records that were skipped.
        dead_lettered: records that a dead-letter topic has.

    Raises:
        ConfigError: the policy is something else.
    """

    def __init__(self, policy: OnUndecodable):
        if policy not in ("raise", "skip") and not hasattr(policy, "send_record"):
            raise ConfigError(
                f'on_undecodable is {policy!r}, it must be "raise", "skip" or '
                "bowstring.DeadLetter(topic, producer)"
            )
        self._policy = policy
        self.skipped = 0
        self.dead_lettered = 0
        self._logged_at = -LOG_INTERVAL_S
        self._logged = 0

    def passes(self, state: PartitionState) -> None:
        """Moves the position behind records that do not decode.

        A dead-letter topic has acknowledged them before the position moves. If it does not, the position
        stays, and a later poll sends them again.

        Raises:
            UndecodableRecordError: the policy is "raise"; the record stays the next one.
            ClientError: the dead-letter topic did not take a record.
        """
        while state.undecoded_record is not None:
            found = state.undecoded_run()
            record, undecoded = found[0]
            if self._policy == "raise":
                raise UndecodableRecordError(record, undecoded.field, undecoded.reason)
            if self._policy == "skip":
                self.skipped += len(found)
            else:
                self._send(found)
            for _ in found:
                state.pass_undecoded()
            self._log(record, undecoded)

    def _send(self, found: list[tuple[Record, Undecoded]]) -> None:
        assert not isinstance(self._policy, str)
        sent = [self._policy.send_record(record, f"{each.field}: {each.reason}") for record, each in found]
        for future in sent:
            future.result()
        self.dead_lettered += len(sent)

    def _log(self, record: Record, undecoded: Undecoded) -> None:
        """Logs what was passed, at most once a minute."""
        now = time.monotonic()
        if now - self._logged_at < LOG_INTERVAL_S:
            return
        total = self.skipped + self.dead_lettered
        done = "skipped" if isinstance(self._policy, str) else f"sent to {self._policy.topic}"
        _log.warning(
            "%d records that do not decode were %s; the last is %s-%d, offset %d, %s: %s",
            total - self._logged,
            done,
            record.topic,
            record.partition,
            record.offset,
            undecoded.field,
            undecoded.reason,
        )
        self._logged_at, self._logged = now, total
