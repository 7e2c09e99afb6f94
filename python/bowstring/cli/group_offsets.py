"""Implements `bowstring groups reset-offsets`."""

from __future__ import annotations

import csv
import re
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from bowstring.cli.options import (
    BOOTSTRAP_DEFAULT,
    TIMEOUT_DEFAULT_S,
    Bootstrap,
    Json,
    Timeout,
    admin_at,
    partitions,
    timestamp_ms,
)
from bowstring.cli.output import console, print_error, print_json, print_note, print_table
from bowstring.operations.group_offsets import OffsetChange, Offsets, OffsetWay, read_offsets

_DURATION = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)
_WAYS = (
    "--to-earliest, --to-latest, --to-current, --to-offset, --to-datetime, --by-duration, --shift-by and "
    "--from-file"
)


def reset_offsets(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="Name of the group.")],
    topic: Annotated[
        list[str],
        typer.Option(
            "--topic", "-t", metavar="TOPIC[:0,1]", help="Topics or partitions; default: all with an offset."
        ),
    ] = [],  # noqa: B006 - typer copies it
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the first record.")] = False,
    to_latest: Annotated[
        bool, typer.Option("--to-latest", help="To the end, after the last record.")
    ] = False,
    to_current: Annotated[
        bool, typer.Option("--to-current", help="To the stored offsets, moved into the log if necessary.")
    ] = False,
    to_offset: Annotated[int | None, typer.Option("--to-offset", help="To this offset.")] = None,
    to_datetime: Annotated[
        str | None, typer.Option("--to-datetime", metavar="TIME", help="To the first record at this time.")
    ] = None,
    by_duration: Annotated[
        str | None,
        typer.Option("--by-duration", metavar="PnDTnHnMnS", help="To the first record since so long ago."),
    ] = None,
    shift_by: Annotated[
        int | None, typer.Option("--shift-by", help="Shift by this number of records; negative: back.")
    ] = None,
    from_file: Annotated[
        Path | None,
        typer.Option("--from-file", metavar="CSV", help="To the offsets of a file: topic,partition,offset."),
    ] = None,
    export: Annotated[
        bool, typer.Option("--export", help="Print the new offsets as CSV, for --from-file.")
    ] = False,
    execute: Annotated[
        bool, typer.Option("--execute", help="Make the change; otherwise only show it.")
    ] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """Move the offsets of a group without members. Shows old and new ones; --execute makes the change."""
    given = (to_earliest, to_latest, to_current, to_offset, to_datetime, by_duration, shift_by, from_file)
    if sum(value is not None and value is not False for value in given) != 1:
        raise typer.BadParameter(f"give one of {_WAYS}")
    named = None if from_file is None else read_offsets(from_file, group)
    at_ms = _moment_ms(to_datetime, by_duration)
    way = OffsetWay(to_earliest, to_latest, to_current, to_offset, at_ms, shift_by, named)
    topics = [partitions(each, "--topic") for each in topic]
    with admin_at(bootstrap, timeout) as admin:
        change = OffsetChange(admin, group)
        old = change.stored()
        new = change.find(old, topics, way)
        if execute:
            change.make(new)
        elif change.members:
            print_error(f"group {group!r} has {change.members} members: stop them before --execute")
    _print(group, old, new, execute, json, export)


def _moment_ms(moment: str | None, duration: str | None) -> int | None:
    if moment is not None:
        return timestamp_ms(moment, "--to-datetime")
    if duration is None:
        return None
    # negative timestamps mean other things, such as the end
    return max(0, int(time.time() * 1000) - duration_ms(duration, "--by-duration"))


def duration_ms(text: str, option: str) -> int:
    """Parses an ISO 8601 duration of days, hours, minutes and seconds, such as P1DT2H, into milliseconds.

    Raises:
        typer.BadParameter: it is none.
    """
    found = _DURATION.fullmatch(text.upper())
    parts = (
        {} if found is None else {name: float(value) for name, value in found.groupdict().items() if value}
    )
    if not parts:
        raise typer.BadParameter(f"{text!r} is not a duration: use PT15M, PT2H or P7D", param_hint=option)
    units = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}
    return int(sum(units[name] * value for name, value in parts.items()) * 1000)


def _print(group: str, old: Offsets, new: Offsets, execute: bool, json: bool, export: bool) -> None:
    if json:
        print_json(
            [
                {**p._asdict(), "old_offset": old.get(p), "new_offset": offset, "executed": execute}
                for p, offset in new.items()
            ]
        )
        return
    if export:
        lines = csv.writer(sys.stdout, lineterminator="\n")
        lines.writerows([p.topic, p.partition, offset] for p, offset in new.items())
        return
    cells = [[p.topic, str(p.partition), old.get(p), offset] for p, offset in new.items()]
    print_table(["topic", "partition", "offset", "new offset"], cells, group)
    if execute:
        print_note(f"moved {len(new)} offsets of group {group}")
    else:
        console().print("\n[yellow]nothing was changed:[/] add --execute to make the change")
