"""Implements `bowstring cluster top`: brokers, rates, lag and missing replicas, measured from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from bowstring.cli.live_view import LIVE, LiveOptions, LiveView, show_live
from bowstring.cli.options import with_groups
from bowstring.cli.output import size_text
from bowstring.cli.tables import Cell, FittedTable
from bowstring.operations.cluster_rates import ClusterLook, ClusterRates, cluster_rates, look_at_cluster

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin

COLUMNS = ("broker", "leaders", "replicas", "behind", "records/s", "bytes/s", "size", "disk")
"""With the widest cells that occur, they fit into 80 columns."""

NOTES = "* controller; behind: replicas that are not in sync; disk: the fullest, in use"


class ClusterView(LiveView):
    """A cluster in two lines, and a row for each broker."""

    has_rates = True

    def __init__(self) -> None:
        self._last: ClusterLook | None = None

    def look(self, admin: Admin) -> ClusterLook:
        """Returns what there is now."""
        self._last = look_at_cluster(admin, self._last)
        return self._last

    def measure(self, before: ClusterLook, now: ClusterLook, count: int) -> ClusterRates:
        """Returns the numbers of the interval, with so many brokers."""
        rates = cluster_rates(before, now)
        return rates._replace(brokers=rates.brokers[:count])

    def json(self, measured: ClusterRates) -> dict[str, Any]:
        """Returns the numbers as JSON values."""
        return measured._asdict() | {"brokers": [row._asdict() for row in measured.brokers]}

    def parts(self, measured: ClusterRates) -> RenderableType:
        """Returns two lines and the table."""
        cells: list[list[Cell]] = [
            [
                f"{row.id}{'*' if row.id == measured.controller else ''}{'' if row.up else ' down'}",
                row.leaders,
                row.replicas,
                row.out_of_sync,
                round(row.records),
                _size(row.bytes),
                _size(row.size),
                None if row.disk_used is None else f"{row.disk_used:.0%}",
            ]
            for row in measured.brokers
        ]
        return Group(*_lines(measured), FittedTable(list(COLUMNS), cells), Text(NOTES, "dim"))


def _lines(measured: ClusterRates) -> list[Text]:
    rates = Text(f"in {measured.records_in:,.0f} records/s", "bold")
    if measured.bytes_in is not None:
        rates.append(f", {_size(measured.bytes_in)}/s")
    if measured.records_out is not None:
        rates.append(f"   out {measured.records_out:,.0f} records/s by groups")
    if measured.lag is not None:
        rates.append(f"   lag {measured.lag:,} in {_counted(measured.groups or 0, 'group')}")
    state = Text(f"{_counted(measured.topics, 'topic')}, {_counted(measured.partitions, 'partition')}: ")
    troubled = [
        Text(f"{number:,} {name}", f"bold {colour}")
        for number, name, colour in (
            (measured.offline, "offline", "red"),
            (measured.under_replicated, "under-replicated", "yellow"),
        )
        if number
    ]
    state.append(Text(", ").join(troubled) if troubled else Text("all in sync", "green"))
    return [rates, state]


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _size(size_bytes: float | None) -> str | None:
    return None if size_bytes is None else size_text(int(size_bytes))


@with_groups
def top(live: LiveOptions = LIVE) -> None:
    """Show brokers, rates, lag and partitions without all replicas, again and again.

    What is read is measured by the offsets that groups commit, every five seconds.
    """
    show_live(ClusterView(), live)
