"""Reports what tasks have counted, for the audit of counts: once, however often Spark runs a task or a
batch.

A client's counts grow while it runs. A task ends, and may run again, so its counts are those of a unit that
Spark repeats as a whole: a range of offsets that is read, or a micro-batch or job that is written. The unit's
name is the instance in the report: the report of a repetition replaces the earlier one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from bowstring.clients.audit import Audit
from bowstring.clients.errors import ClientError
from bowstring.clients.producer.count_reporter import (
    CLOSE_TIMEOUT_S,
    Counted,
    Counting,
    counts_producer,
    is_counted,
)

if TYPE_CHECKING:
    from bowstring._native.client.window_counts import WindowCounts
    from bowstring.clients.producer.producer import Producer

log = logging.getLogger("bowstring.spark")

# Instead of a host: the same unit may run anywhere.
HOST = "spark"
PENDING_MAX = 10_000
# How long a process does not try again to report, so that a cluster of counts that is down delays one task.
PAUSE_S = 60.0


class Count(NamedTuple):
    """The records of a topic and window; times in ms since the epoch."""

    topic: str
    start_ms: int
    records: int
    newest_ms: int


def taken(counts: WindowCounts) -> list[Count]:
    """Returns what was counted since the last call."""
    return [Count(topic, start, records, newest) for topic, start, _, records, newest in counts.changes()]


def total(counts: Iterable[Count]) -> list[Count]:
    """Returns one count for each topic and window."""
    found: dict[tuple[str, int], Count] = {}
    for each in counts:
        at = (each.topic, each.start_ms)
        known = found.get(at, each._replace(records=0))
        found[at] = Count(*at, known.records + each.records, max(known.newest_ms, each.newest_ms))
    return list(found.values())


class TaskReports:
    """Sends the counts of units, from this process. What was not sent is sent with the next ones.

    Args:
        audit: the settings.
        who: whose counts they are.
        bootstrap_servers, security: of the source or sink.
    """

    def __init__(
        self, audit: Audit, who: Counted, bootstrap_servers: str, security: Mapping[str, Any] | None
    ):
        self.audit = audit
        self._who = who
        self._connection = (bootstrap_servers, security)
        self._producer: Producer | None = None
        self._pending: dict[str, str] = {}
        self._paused_until = 0.0

    def report(self, unit: str, counts: Iterable[Count]) -> None:
        """Sends the counts of a unit; waits ten seconds at most. A failure is logged.

        Args:
            unit: its name, the same when it runs again.
            counts: all of the unit.
        """
        counting = Counting(self.audit, self._who, HOST, unit)
        now_ms = time.time_ns() // 1_000_000
        for each in counts:
            if is_counted(self.audit, each.topic):
                key, value = counting.report(*each, now_ms)
                self._pending[key] = value
        if not self._pending or time.monotonic() < self._paused_until:
            return
        try:
            self._send()
        except ClientError as error:
            self._paused_until = time.monotonic() + PAUSE_S
            self.close()
            while len(self._pending) > PENDING_MAX:
                del self._pending[next(iter(self._pending))]
            log.warning("counts for the audit were not sent to %s: %s", self.audit.topic, error)

    def _send(self) -> None:
        if self._producer is None:
            self._producer = counts_producer(self.audit, self._who.client_id, *self._connection)
        deadline = time.monotonic() + CLOSE_TIMEOUT_S
        topic = self.audit.topic
        sent = [(key, self._producer.send(topic, value, key=key)) for key, value in self._pending.items()]
        self._producer.flush(CLOSE_TIMEOUT_S)
        for key, future in sent:
            future.result(max(0.0, deadline - time.monotonic()))
            del self._pending[key]

    def close(self) -> None:
        """Closes the connections; drops what is on its way."""
        if self._producer is not None:
            self._producer.close(0)
            self._producer = None
