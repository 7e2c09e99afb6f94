"""Implements `bowstring groups reset-offsets`."""

from __future__ import annotations

import csv
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from bowstring.cli.command_config import security
from bowstring.cli.options import (
    BOOTSTRAP_DEFAULT,
    TIMEOUT_DEFAULT_S,
    Bootstrap,
    Json,
    Timeout,
    all_of,
    partitions,
    timestamp_ms,
)
from bowstring.cli.output import console, print_error, print_json, print_note, print_table
from bowstring.clients.errors import ConfigError, broker_error
from bowstring.clients.records import TopicPartition
from bowstring.protocol.errors import Errors

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin

_DURATION = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)
_WAYS = (
    "--to-earliest, --to-latest, --to-current, --to-offset, --to-datetime, --by-duration, --shift-by and "
    "--from-file"
)
Offsets = dict[TopicPartition, int]


class Way(NamedTuple):
    """How the new offsets are found; one field is set."""

    earliest: bool
    latest: bool
    current: bool
    offset: int | None
    moment: str | None
    duration: str | None
    shift: int | None
    file: Path | None


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
    from bowstring.clients.admin.admin import Admin

    way = Way(to_earliest, to_latest, to_current, to_offset, to_datetime, by_duration, shift_by, from_file)
    if sum(value is not None and value is not False for value in way) != 1:
        raise typer.BadParameter(f"give one of {_WAYS}")
    with Admin(
        bootstrap, timeout_ms=int(timeout * 1000), client_id="bowstring-cli", security=security()
    ) as admin:
        change = Change(admin, group)
        old = change.stored()
        new = change.find(old, topic, way)
        if execute:
            change.make(new)
        elif change.members:
            print_error(f"group {group!r} has {change.members} members: stop them before --execute")
    _print(group, old, new, execute, json, export)


class Change:
    """Finds and stores the offsets of one group, of any type that has offsets."""

    def __init__(self, admin: Admin, group: str):
        self._admin = admin
        self._group = group
        listed = {each.group_id: each for each in admin.list_groups()}.get(group)
        description = admin.describe_group(group) if listed is not None else None
        self.members = len(description.members) if description is not None else 0
        self._is_share = description is not None and description.group_type == "share"

    def stored(self) -> Offsets:
        """Returns the present offsets."""
        if self._is_share:
            found = self._admin.describe_share_offsets(self._group)
            return {partition: each.start_offset for partition, each in found.items()}
        return {p: each.offset for p, each in self._admin.committed_offsets(self._group).items()}

    def find(self, old: Offsets, topics: list[str], way: Way) -> Offsets:
        """Returns the new offsets, each within its log."""
        named: Offsets = {}
        if way.file is not None:
            named = read_offsets(way.file, self._group)
            wanted = sorted(named)
        else:
            wanted = self._wanted(topics) if topics else sorted(old)
        if not wanted:
            raise ConfigError(f"group {self._group!r} has no stored offsets: name topics with --topic")
        first, end = self._admin.beginning_offsets(wanted), self._admin.end_offsets(wanted)
        if way.moment is not None or way.duration is not None:
            named = self._at_time(wanted, end, way)
        choose: Callable[[TopicPartition], int] = lambda p: named.get(p, old.get(p, first[p]))  # noqa: E731
        if way.earliest or way.latest:
            ends = first if way.earliest else end
            choose = ends.__getitem__
        elif way.offset is not None:
            choose = lambda p: way.offset or 0  # noqa: E731
        elif way.shift is not None:
            choose = lambda p: old.get(p, first[p]) + (way.shift or 0)  # noqa: E731
        elif way.current:
            choose = lambda p: old.get(p, end[p])  # noqa: E731 - as Kafka's tool
        return {p: min(max(choose(p), first[p]), end[p]) for p in wanted}

    def _at_time(self, wanted: list[TopicPartition], end: Offsets, way: Way) -> Offsets:
        if way.moment is not None:
            moment = timestamp_ms(way.moment, "--to-datetime")
        else:
            # negative timestamps mean other things, such as the end
            moment = max(0, int(time.time() * 1000) - duration_ms(way.duration or "", "--by-duration"))
        found = self._admin.list_offsets(dict.fromkeys(wanted, moment))
        return {p: answer.offset if (answer := found[p]) is not None else end[p] for p in wanted}

    def _wanted(self, topics: list[str]) -> list[TopicPartition]:
        found = []
        for value in topics:
            name, numbers = partitions(value, "--topic")
            found += all_of(name, self._admin.describe_topic(name).partitions if numbers is None else numbers)
        return found

    def make(self, offsets: Offsets) -> None:
        """Stores the offsets.

        Raises:
            GroupError: the group has members.
        """
        if self.members:
            raise broker_error(
                Errors.NON_EMPTY_GROUP.code,
                f"group {self._group!r}",
                f"it has {self.members} members, which would overwrite the offsets",
            )
        if self._is_share:
            self._admin.alter_share_offsets(self._group, offsets)
        else:
            self._admin.alter_offsets(self._group, offsets)


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


def read_offsets(path: Path, group: str) -> Offsets:
    """Reads a file as Kafka's tool exports it: topic,partition,offset; or group,topic,partition,offset, of
    which the lines of `group` count.

    Raises:
        ConfigError: the file cannot be read, or a line is something else.
    """
    found: Offsets = {}
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            for number, row in enumerate(csv.reader(file), 1):
                if not row:
                    continue
                if len(row) == 4 and row[0] != group:
                    continue
                try:
                    topic, partition, offset = row[1:] if len(row) == 4 else row
                    found[TopicPartition(topic, int(partition))] = int(offset)
                except ValueError:
                    raise ConfigError(f"{path}, line {number}: {row} is not topic,partition,offset") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"{path} is not CSV in UTF-8: {error}") from error
    if not found:
        raise ConfigError(f"{path} has no offsets of group {group!r}")
    return found


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
