"""Implements `bowstring groups`: list, describe, lag, reset-offsets, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

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
from bowstring.cli.output import console, print_json, print_note, print_table
from bowstring.clients.errors import ConfigError
from bowstring.clients.records import TopicPartition

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin
    from bowstring.clients.admin.results import GroupDescription, GroupLag

app = typer.Typer(help="Consumer groups: members and progress.", no_args_is_help=True)

Group = Annotated[str, typer.Argument(metavar="GROUP", help="Name of the group.")]
Groups = Annotated[list[str], typer.Argument(metavar="GROUP...", help="Names of groups.")]


def _admin(bootstrap: str, timeout: float) -> Admin:
    from bowstring.clients.admin.admin import Admin

    return Admin(bootstrap, timeout_ms=int(timeout * 1000), client_id="bowstring-cli")


@app.command("list")
def list_groups(
    state: Annotated[
        list[str], typer.Option("--state", help="Only groups in this state, e.g. stable or empty.")
    ] = [],  # noqa: B006 - typer copies it
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """List groups."""
    with _admin(bootstrap, timeout) as admin:
        groups = admin.list_groups(state)
    if json:
        print_json([group._asdict() for group in groups])
    elif groups:
        rows = [[g.group_id, g.state or None, g.group_type or None, g.protocol_type or None] for g in groups]
        print_table(["group", "state", "type", "protocol"], rows)
    else:
        console().print("there are no groups")


@app.command()
def describe(
    group: Group,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """Show a group's members and their partitions."""
    with _admin(bootstrap, timeout) as admin:
        found = admin.describe_group(group)
    if json:
        print_json(_described(found))
        return
    assignor = f", {found.assignor}" if found.assignor else ""
    title = f"{found.group_id}  [not bold dim]{found.state}{assignor}, coordinator {found.coordinator}[/]"
    rows = [
        [m.client_id, m.group_instance_id, m.client_host, _assignment_text(m.assignment), m.member_id]
        for m in found.members
    ]
    if rows:
        print_table(["client", "instance", "host", "reads", "member"], rows, title)
    else:
        console().print(f"[bold]{title}[/]\nno members")


def _described(group: GroupDescription) -> dict[str, Any]:
    return {
        "group": group.group_id,
        "state": group.state,
        "protocol_type": group.protocol_type,
        "assignor": group.assignor,
        "coordinator": {
            "id": group.coordinator.id,
            "host": group.coordinator.host,
            "port": group.coordinator.port,
        },
        "members": [
            {
                "member_id": m.member_id,
                "group_instance_id": m.group_instance_id,
                "client_id": m.client_id,
                "host": m.client_host,
                "assignment": [p._asdict() for p in m.assignment],
            }
            for m in group.members
        ],
    }


def _assignment_text(assignment: list[TopicPartition]) -> str | None:
    topics: dict[str, list[str]] = {}
    for topic, partition in assignment:
        topics.setdefault(topic, []).append(str(partition))
    return " ".join(f"{topic}:{','.join(numbers)}" for topic, numbers in topics.items()) or None


@app.command()
def lag(
    group: Group,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """Show how far a group is behind in each partition."""
    with _admin(bootstrap, timeout) as admin:
        rows = admin.group_lag(group)
    if json:
        print_json([_lag_row(row) for row in rows])
        return
    if not rows:
        console().print(f"group {group} has no stored offsets and no assigned partitions")
        return
    columns = ["topic", "partition", "committed", "end offset", "lag", "read by"]
    cells = [
        [
            row.partition.topic,
            str(row.partition.partition),
            row.committed,
            row.log_end_offset if row.log_end_offset >= 0 else None,
            row.lag,
            row.member.client_id if row.member else None,
        ]
        for row in rows
    ]
    total = sum(row.lag or 0 for row in rows)
    print_table(columns, cells, f"{group}  [not bold dim]{total:,} behind[/]")


def _lag_row(row: GroupLag) -> dict[str, Any]:
    return {
        "topic": row.partition.topic,
        "partition": row.partition.partition,
        "committed": row.committed,
        "log_end_offset": row.log_end_offset,
        "lag": row.lag,
        "member_id": row.member.member_id if row.member else None,
        "client_id": row.member.client_id if row.member else None,
    }


@app.command("reset-offsets")
def reset_offsets(
    group: Group,
    topic: Annotated[
        list[str],
        typer.Option(
            "--topic",
            "-t",
            metavar="TOPIC[:0,1]",
            help="Topics or partitions; default: all with a stored offset.",
        ),
    ] = [],  # noqa: B006 - typer copies it
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the first record.")] = False,
    to_latest: Annotated[
        bool, typer.Option("--to-latest", help="To the end, after the last record.")
    ] = False,
    to_offset: Annotated[int | None, typer.Option("--to-offset", help="To this offset.")] = None,
    to_datetime: Annotated[
        str | None, typer.Option("--to-datetime", metavar="TIME", help="To the first record at this time.")
    ] = None,
    shift_by: Annotated[
        int | None, typer.Option("--shift-by", help="Shift by this number of records; negative: back.")
    ] = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="Make the change; otherwise only show it.")
    ] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """Move a group's stored offsets. The group must not have running members."""
    ways = [to_earliest, to_latest, to_offset is not None, to_datetime is not None, shift_by is not None]
    if sum(ways) != 1:
        raise typer.BadParameter(
            "give one of --to-earliest, --to-latest, --to-offset, --to-datetime and --shift-by"
        )
    with _admin(bootstrap, timeout) as admin:
        stored = {p: o.offset for p, o in admin.committed_offsets(group).items()}
        wanted = _wanted(admin, topic) if topic else sorted(stored)
        if not wanted:
            raise ConfigError(f"group {group!r} has no stored offsets: name topics with --topic")
        first = admin.beginning_offsets(wanted)
        end = admin.end_offsets(wanted)
        if to_datetime is not None:
            moment = timestamp_ms(to_datetime, "--to-datetime")
            answers = admin.list_offsets(dict.fromkeys(wanted, moment))
            target = {p: answers[p].offset if answers[p] else end[p] for p in wanted}  # type: ignore[union-attr]
        elif shift_by is not None:
            target = {p: stored.get(p, first[p]) + shift_by for p in wanted}
        else:
            target = {p: first[p] if to_earliest else end[p] if to_latest else to_offset or 0 for p in wanted}
        target = {p: min(max(offset, first[p]), end[p]) for p, offset in target.items()}
        if execute:
            admin.alter_offsets(group, target)
    _print_reset(group, stored, target, execute, json)


def _wanted(admin: Admin, topics: list[str]) -> list[TopicPartition]:
    found = []
    for value in topics:
        name, numbers = partitions(value, "--topic")
        found += all_of(name, admin.describe_topic(name).partitions if numbers is None else numbers)
    return found


def _print_reset(
    group: str,
    stored: dict[TopicPartition, int],
    target: dict[TopicPartition, int],
    execute: bool,
    json: bool,
) -> None:
    if json:
        rows = [
            {**p._asdict(), "old_offset": stored.get(p), "new_offset": offset, "executed": execute}
            for p, offset in target.items()
        ]
        print_json(rows)
        return
    cells = [[p.topic, str(p.partition), stored.get(p), offset] for p, offset in target.items()]
    print_table(["topic", "partition", "offset", "new offset"], cells, group)
    if execute:
        print_note(f"moved {len(target)} offsets of group {group}")
    else:
        console().print("\n[yellow]nothing was changed:[/] add --execute to make the change")


@app.command()
def delete(
    groups: Groups,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """Delete groups without members, and their offsets."""
    with _admin(bootstrap, timeout) as admin:
        for group in groups:
            admin.delete_groups([group])
            if not json:
                print_note(f"deleted group {group}")
    if json:
        print_json([{"group": group, "deleted": True} for group in groups])
