"""Implements `bowstring groups top`: how far groups are behind, in records and in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType
from rich.text import Text

from bowstring.cli.live_view import LIVE, LiveOptions, LiveView, show_live
from bowstring.cli.options import with_groups
from bowstring.cli.tables import Cell, FittedTable
from bowstring.operations.group_progress import GroupProgress, progress_of_groups

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin


class GroupsView(LiveView):
    """Groups, those most behind first."""

    def __init__(self, groups: Sequence[str]):
        self._groups = groups

    def look(self, admin: Admin) -> list[GroupProgress]:
        """Returns all rows."""
        return progress_of_groups(admin, self._groups)

    def measure(self, before: Any, now: list[GroupProgress], count: int) -> list[GroupProgress]:
        """Returns the rows that are shown."""
        return now[:count]

    def json(self, measured: list[GroupProgress]) -> list[dict[str, Any]]:
        """Returns the rows as JSON values."""
        return [row._asdict() for row in measured]

    def parts(self, measured: list[GroupProgress]) -> RenderableType:
        """Returns the table."""
        if not measured:
            return Text("there are no groups")
        cells: list[list[Cell]] = [
            [row.group, row.type or None, row.state or None, row.partitions, row.lag, row.seconds]
            for row in measured
        ]
        return FittedTable(["group", "type", "state", "partitions", "lag", "seconds"], cells)


@with_groups
def top(
    groups: Annotated[
        list[str] | None, typer.Argument(metavar="[GROUP]...", help="Groups; default: all.")
    ] = None,
    live: LiveOptions = LIVE,
) -> None:
    """Show the groups that are most behind, in records and in seconds, again and again."""
    show_live(GroupsView(groups or ()), live)
