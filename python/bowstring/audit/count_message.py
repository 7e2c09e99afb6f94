"""Parses reports of the counts topic, which Python and Java clients write."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

# Windows and counts beyond are no reports of a client.
LONG_MAX = (1 << 63) - 1
TEXT_MAX = 1024


class Stage(NamedTuple):
    """Where records are counted: producers into a tier, or consumers of one group in it.

    Attributes:
        tier: as the clients name it.
        role: "producer" or "consumer".
        reader: of consumers: the group, or without one the client id; empty for producers.
    """

    tier: str
    role: str
    reader: str = ""

    def __str__(self) -> str:
        return self.tier if self.role == "producer" else f"{self.tier}/{self.reader}"


class Count(NamedTuple):
    """One report: what one instance of a client has counted so far in a topic and window.

    Attributes:
        instance: differs between starts of a client, whose counts begin at 0 again.
        start_ms: of the window.
        records: counted so far.
        newest_ms: largest timestamp of the records.
    """

    stage: Stage
    instance: str
    topic: str
    start_ms: int
    window_ms: int
    records: int
    newest_ms: int


def parse_count(value: bytes | None) -> Count | None:
    """Returns the report in a record of the counts topic; None when it is not one that this version reads."""
    try:
        fields: Any = json.loads(value or b"")
        if not isinstance(fields, dict) or fields.get("v") != 1:
            return None
        texts = [fields[name] for name in ("tier", "role", "group", "client", "host", "instance", "topic")]
        numbers = [fields[name] for name in ("start_ms", "window_ms", "count", "newest_ms")]
    except (ValueError, KeyError, RecursionError):
        return None
    if not all(isinstance(each, str) and len(each) <= TEXT_MAX for each in texts):
        return None
    if not all(type(each) is int and abs(each) <= LONG_MAX for each in numbers):
        return None
    tier, role, group, client, host, instance, topic = texts
    start_ms, window_ms, count, newest_ms = numbers
    if role not in ("producer", "consumer") or window_ms < 1 or count < 0 or not tier or not topic:
        return None
    stage = Stage(tier, role, (group or client) if role == "consumer" else "")
    return Count(stage, f"{host}|{client}|{instance}", topic, start_ms, window_ms, count, newest_ms)
