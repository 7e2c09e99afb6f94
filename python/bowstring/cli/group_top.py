"""Implements `bowstring groups top`: how far groups are behind, in records and in seconds."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from bowstring.cli.command_config import security
from bowstring.cli.options import BOOTSTRAP_DEFAULT, TIMEOUT_DEFAULT_S, Bootstrap, Json, Timeout
from bowstring.cli.output import console, print_json, print_table
from bowstring.cli.tables import Cell

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin

CLEAR = "\x1b[H\x1b[2J"


class Row(NamedTuple):
    """One group. `seconds`: age of the oldest record that it has not read; None if it is not known."""

    group: str
    type: str
    state: str
    partitions: int
    lag: int
    seconds: float | None


def top(
    groups: Annotated[
        list[str] | None, typer.Argument(metavar="[GROUP]...", help="Groups; default: all.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Print one table and end.")] = False,
    interval: Annotated[
        float, typer.Option("--interval", metavar="SECONDS", min=0.5, help="Seconds between two tables.")
    ] = 5.0,
    count: Annotated[int, typer.Option("-n", "--count", min=1, help="Show this many groups.")] = 20,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """Show the groups that are most behind, in records and in seconds, again and again."""
    from bowstring.clients.admin.admin import Admin

    with Admin(
        bootstrap, timeout_ms=int(timeout * 1000), client_id="bowstring-cli", security=security()
    ) as admin:
        while True:
            rows = measure(admin, groups or ())[:count]
            _print(rows, json, clear=not once)
            if once:
                return
            time.sleep(interval)


def measure(admin: Admin, wanted: Iterable[str]) -> list[Row]:
    """Returns a row for each group (of `wanted`, if given), those most behind first."""
    names = set(wanted)
    listed = [each for each in admin.list_groups() if not names or each.group_id in names]
    lags = admin.group_lags(each.group_id for each in listed)
    late = {group: [row for row in rows if row.lag] for group, rows in lags.items()}
    places = {
        group: {(row.partition, max(row.committed or 0, row.log_start_offset)) for row in rows}
        for group, rows in late.items()
    }
    times = admin.batch_timestamps(place for each in places.values() for place in each)
    now_ms = time.time() * 1000
    rows = []
    for each in listed:
        found = places.get(each.group_id, set())
        ages = [max(0.0, (now_ms - times[place]) / 1000) for place in found if place in times]
        oldest = max(ages) if ages else (None if found else 0.0)
        of_group = lags.get(each.group_id, [])
        total = sum(row.lag or 0 for row in of_group)
        rows.append(Row(each.group_id, each.group_type, each.state, len(of_group), total, oldest))
    return sorted(rows, key=lambda row: (-row.lag, row.group))


def _print(rows: list[Row], json: bool, *, clear: bool) -> None:
    if json:
        print_json([row._asdict() for row in rows])
        return
    if clear and console().is_terminal:
        console().file.write(CLEAR)
    cells: list[list[Cell]] = [
        [row.group, row.type or None, row.state or None, row.partitions, row.lag, row.seconds] for row in rows
    ]
    if cells:
        print_table(["group", "type", "state", "partitions", "lag", "seconds"], cells)
    else:
        console().print("there are no groups")
