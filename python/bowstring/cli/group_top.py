"""Implements `bowstring groups top`: how far groups are behind, in records and in seconds."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from bowstring.cli.command_config import security
from bowstring.cli.options import BOOTSTRAP_DEFAULT, TIMEOUT_DEFAULT_S, Bootstrap, Json, Timeout
from bowstring.cli.output import console, print_json, print_table
from bowstring.cli.tables import Cell
from bowstring.operations.group_progress import GroupProgress, progress_of_groups

CLEAR = "\x1b[H\x1b[2J"


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
            rows = progress_of_groups(admin, groups or ())[:count]
            _print(rows, json, clear=not once)
            if once:
                return
            time.sleep(interval)


def _print(rows: list[GroupProgress], json: bool, *, clear: bool) -> None:
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
