"""Reports the counts of one client to the counts topic, from a thread of its own.

A report is one record for each topic and window whose count has changed. Its key names the client's instance,
topic and window, and its value has the count so far: a report that is sent again, or copied by a mirror,
replaces the earlier one and adds nothing.
"""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from bowstring._native.client.window_counts import WindowCounts
from bowstring.clients.audit import Audit
from bowstring.clients.errors import ClientError

if TYPE_CHECKING:
    from bowstring.clients.producer.producer import Producer

_log = logging.getLogger("bowstring.audit")

# How long close() waits until the last counts are acknowledged.
CLOSE_TIMEOUT_S = 10.0
BUFFER_BYTES = 4 << 20
VERSION = 1


class Counted(NamedTuple):
    """Who counts.

    Attributes:
        role: "producer" or "consumer".
        client_id: of the client.
        group_id: of a consumer; empty for others.
    """

    role: str
    client_id: str
    group_id: str = ""


class Counting(NamedTuple):
    """What the reports of one instance have in common.

    Attributes:
        host: where it counts.
        instance: whose counts begin at 0; a later report of it replaces an earlier one.
    """

    audit: Audit
    who: Counted
    host: str
    instance: str

    def report(self, topic: str, start_ms: int, count: int, newest_ms: int, now_ms: int) -> tuple[str, str]:
        """Returns key and value of the record that reports a count.

        Args:
            start_ms: of the window.
            newest_ms: largest timestamp of the records.
        """
        value = {
            "v": VERSION,
            "tier": self.audit.tier,
            "role": self.who.role,
            "group": self.who.group_id,
            "host": self.host,
            "client": self.who.client_id,
            "instance": self.instance,
            "topic": topic,
            "window_ms": self.audit.window_ms,
            "start_ms": start_ms,
            "count": count,
            "newest_ms": newest_ms,
            "sent_ms": now_ms,
        }
        key = "|".join((self.audit.tier, self.host, self.who.client_id, self.instance, topic, str(start_ms)))
        return key, json.dumps(value, separators=(",", ":"))


def is_counted(audit: Audit, topic: str) -> bool:
    """Returns whether records of a topic count: those of counts and of the brokers' own topics do not."""
    return topic != audit.topic and not topic.startswith("__")


def counts_producer(
    audit: Audit, client_id: str, bootstrap_servers: str | Iterable[str], security: Mapping[str, Any] | None
) -> Producer:
    """Returns a producer for the counts of a client.

    Args:
        client_id, bootstrap_servers, security: of the client that counts.
    """
    from bowstring.clients.producer.producer import Producer

    return Producer(
        audit.counts_bootstrap_servers or bootstrap_servers,
        security=security,
        client_id=f"{client_id}-audit",
        buffer_memory=BUFFER_BYTES,
        max_block_ms=CLOSE_TIMEOUT_S * 1000,
    )


class CountReporter:
    """Sends counts every report interval, and the rest on `close`.

    Args:
        audit: the settings.
        who: whose counts they are.
        bootstrap_servers: of the client that counts.
        security: of the client that counts.
        staging: what is counted waits for `counts.keep`.
    """

    def __init__(
        self,
        audit: Audit,
        who: Counted,
        bootstrap_servers: str | Iterable[str],
        security: Mapping[str, Any] | None,
        *,
        staging: bool = False,
    ):
        self.counts = WindowCounts(audit.window_ms, staging=staging)
        self.audit, self.who = audit, who
        self._instance = uuid.uuid4().hex[:16]
        self._host = socket.gethostname()
        self._failures = 0
        self._producer = counts_producer(audit, who.client_id, bootstrap_servers, security)
        self._ended = threading.Event()
        self._before_last: Callable[[], Any] | None = None
        self._thread = threading.Thread(target=self._run, name="bowstring-audit", daemon=True)
        self._thread.start()

    def close(
        self, timeout_s: float | None = CLOSE_TIMEOUT_S, after: Callable[[], Any] | None = None
    ) -> None:
        """Reports what is counted and ends the thread; waits up to `timeout_s` seconds. May be called twice.

        Args:
            after: called before the last report, in the reporter's thread.
        """
        self._before_last = after
        self._ended.set()
        if timeout_s != 0 and threading.current_thread() is not self._thread:
            self._thread.join(timeout_s)
            if self._thread.is_alive():
                _log.warning("counts were not reported within %g s; the audit may miss them", timeout_s or 0)

    def _run(self) -> None:
        interval_s = self.audit.report_interval_ms / 1000
        while not self._ended.wait(interval_s):
            self.report()
        if self._before_last is not None:
            self._before_last()
        self.report()
        self._producer.close(CLOSE_TIMEOUT_S)

    def report(self) -> None:
        """Sends the counts that have changed since the last report; does not wait for acknowledgements."""
        if self.counts.failures > self._failures:
            _log.warning("%d batches could not be counted", self.counts.failures - self._failures)
            self._failures = self.counts.failures
        now_ms = time.time_ns() // 1_000_000
        for topic, start_ms, generation, count, newest_ms in self.counts.changes():
            if not is_counted(self.audit, topic):
                continue
            instance = f"{self._instance}.{generation}" if generation else self._instance
            counting = Counting(self.audit, self.who, self._host, instance)
            self._send(*counting.report(topic, start_ms, count, newest_ms, now_ms), topic, start_ms)

    def _send(self, key: str, value: str, topic: str, start_ms: int) -> None:
        try:
            sent = self._producer.send(self.audit.topic, value, key=key)
            sent.add_done_callback(lambda future: self._note(future.exception(0), topic, start_ms))
        except ClientError as error:
            self._note(error, topic, start_ms)

    def _note(self, error: Exception | None, topic: str, start_ms: int) -> None:
        """Keeps a count whose report failed for the next one."""
        if error is not None:
            self.counts.change(topic, start_ms)
            _log.warning(
                "a count for the audit was not sent to %s, and is sent again: %s", self.audit.topic, error
            )
