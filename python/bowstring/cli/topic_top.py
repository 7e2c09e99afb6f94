"""Implements `bowstring topics top`: how much is written to topics, measured from outside."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.console import RenderableType
from rich.text import Text

from bowstring.cli.live_view import LIVE, LiveOptions, LiveView, show_live
from bowstring.cli.options import with_groups
from bowstring.cli.output import size_text
from bowstring.cli.tables import Cell, FittedTable
from bowstring.clients.errors import AuthorizationError
from bowstring.clients.records import TopicPartition

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin


class Row(NamedTuple):
    """One topic. Rates are per second; bytes and size are of leaders, None if the user may not see them."""

    topic: str
    partitions: int
    records: float
    bytes: float | None
    size: int | None
    out_of_sync: int


@dataclass(frozen=True)
class Look:
    """What a cluster has at one time.

    Attributes:
        at: seconds of a clock that never goes back.
        ends: End offsets of partitions.
        sizes: Bytes of the leaders of each topic; None if the user may not see them.
        partitions: Partitions with a leader, by topic.
        out_of_sync: Those of them that have replicas which are not in sync.
    """

    at: float
    ends: Mapping[TopicPartition, int]
    sizes: Mapping[str, int] | None
    partitions: Mapping[str, int]
    out_of_sync: Mapping[str, int]


class TopicsView(LiveView):
    """Topics, those that most is written to first."""

    has_rates = True

    def __init__(self, topics: Sequence[str], *, internal: bool):
        self._topics = topics
        self._internal = internal

    def look(self, admin: Admin) -> Look:
        """Returns what there is of the topics."""
        return look(admin, self._topics, internal=self._internal)

    def measure(self, before: Look, now: Look, count: int) -> list[Row]:
        """Returns the rows that are shown."""
        return rows(before, now)[:count]

    def json(self, measured: list[Row]) -> list[dict[str, Any]]:
        """Returns the rows as JSON values."""
        return [row._asdict() for row in measured]

    def parts(self, measured: list[Row]) -> RenderableType:
        """Returns the table."""
        if not measured:
            return Text("there are no topics")
        cells: list[list[Cell]] = [
            [
                row.topic,
                row.partitions,
                round(row.records),
                _size(row.bytes),
                _size(row.size),
                row.out_of_sync,
            ]
            for row in measured
        ]
        return FittedTable(["topic", "partitions", "records/s", "bytes/s", "size", "out of sync"], cells)


@with_groups
def top(
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="[TOPIC]...", help="Topics; default: all.")
    ] = None,
    internal: Annotated[bool, typer.Option("--internal", help="Show internal topics, too.")] = False,
    live: LiveOptions = LIVE,
) -> None:
    """Show the topics that most is written to, with rates of the last interval, again and again."""
    show_live(TopicsView(topics or (), internal=internal), live)


def look(admin: Admin, wanted: Iterable[str], *, internal: bool) -> Look:
    """Returns what there is of topics (of `wanted`, if given) now.

    Raises:
        ClientError: No broker answers, or one refuses.
    """
    names = set(wanted)
    found = admin.topics(internal=internal or bool(names))
    leaders = {
        TopicPartition(name, number): info
        for name, topic in found.items()
        if not names or name in names
        for number, info in topic.partitions.items()
        if info.leader >= 0
    }
    at = time.monotonic()
    ends = admin.end_offsets(leaders)
    sizes: Counter[str] | None = Counter()
    try:
        of_brokers = admin.describe_log_dirs()
    except AuthorizationError:
        of_brokers, sizes = {}, None
    for broker, directories in of_brokers.items():
        for directory in directories:
            for partition, replica in directory.replicas.items():
                info = leaders.get(partition)
                if sizes is not None and info is not None and info.leader == broker and not replica.is_future:
                    sizes[partition.topic] += replica.size_bytes
    short = Counter(each.topic for each, info in leaders.items() if len(info.isr) < len(info.replicas))
    return Look(at, ends, sizes, Counter(each.topic for each in leaders), short)


def rows(before: Look, now: Look) -> list[Row]:
    """Returns a row for each topic that is there now, those with most records a second first."""
    elapsed_s = max(now.at - before.at, 1e-3)
    records = Counter[str]()
    for partition, end in now.ends.items():
        records[partition.topic] += max(0, end - before.ends.get(partition, end))
    found = []
    for topic, partitions in now.partitions.items():
        size = None if now.sizes is None else now.sizes.get(topic, 0)
        was = None if before.sizes is None else before.sizes.get(topic, size)
        written = None if size is None or was is None else max(0, size - was) / elapsed_s
        rate = records[topic] / elapsed_s
        found.append(Row(topic, partitions, rate, written, size, now.out_of_sync.get(topic, 0)))
    return sorted(found, key=lambda row: (-row.records, row.topic))


def _size(size_bytes: float | None) -> str | None:
    return None if size_bytes is None else size_text(int(size_bytes))
