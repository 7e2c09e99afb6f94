"""Implements `bowstring groups`: list, describe, lag, reset-offsets, top, delete; for groups of all types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from bowstring.cli.command_config import security
from bowstring.cli.group_offsets import reset_offsets
from bowstring.cli.group_top import top
from bowstring.cli.options import BOOTSTRAP_DEFAULT, TIMEOUT_DEFAULT_S, Bootstrap, Json, Timeout
from bowstring.cli.output import console, markup, print_json, print_note, print_table
from bowstring.clients.records import TopicPartition

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin
    from bowstring.clients.admin.results import GroupDescription, GroupLag, GroupMemberDescription

HELP = """\
Show and change groups of all types (consumer, share, streams, classic): members, offsets, lag.

`bowstring configs` shows and changes their settings with --group.
"""
TYPES = ("classic", "consumer", "share", "streams")
STATES = (
    "Empty",
    "Stable",
    "Assigning",
    "Reconciling",
    "NotReady",
    "PreparingRebalance",
    "CompletingRebalance",
    "Dead",
)

app = typer.Typer(help=HELP, no_args_is_help=True)

Group = Annotated[str, typer.Argument(metavar="GROUP", help="Name of the group.")]
Groups = Annotated[list[str], typer.Argument(metavar="GROUP...", help="Names of groups.")]


def _admin(bootstrap: str, timeout: float) -> Admin:
    from bowstring.clients.admin.admin import Admin

    return Admin(bootstrap, timeout_ms=int(timeout * 1000), client_id="bowstring-cli", security=security())


@app.command("list")
def list_groups(
    state: Annotated[
        list[str], typer.Option("--state", help=f"Only groups in this state: {', '.join(STATES)}.")
    ] = [],  # noqa: B006 - typer copies it
    type_: Annotated[
        list[str], typer.Option("--type", help=f"Only groups of this type: {', '.join(TYPES)}.")
    ] = [],  # noqa: B006 - typer copies it
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """List groups."""
    _check(state, STATES, "--state")
    _check(type_, TYPES, "--type")
    with _admin(bootstrap, timeout) as admin:
        groups = admin.list_groups(state, type_)
    if json:
        print_json([group._asdict() for group in groups])
    elif groups:
        rows = [[g.group_id, g.state or None, g.group_type or None, g.protocol_type or None] for g in groups]
        print_table(["group", "state", "type", "protocol"], rows)
    else:
        console().print("there are no groups")


def _check(values: list[str], known: tuple[str, ...], option: str) -> None:
    for value in values:
        if value.casefold() not in map(str.casefold, known):
            raise typer.BadParameter(f"{value!r} is not one of {', '.join(known)}", param_hint=option)


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
    facts = [found.group_type, found.state, *([found.assignor] if found.assignor else [])]
    if found.group_epoch >= 0:
        facts.append(f"epoch {found.group_epoch}")
    title = f"{markup(found.group_id)}  [not bold dim]{', '.join(facts)}, coordinator {found.coordinator}[/]"
    rows = [
        [m.client_id, m.group_instance_id, m.client_host, _work_text(m), _epoch(m), m.member_id]
        for m in found.members
    ]
    if rows:
        print_table(["client", "instance", "host", "reads", "epoch", "member"], rows, title)
    else:
        console().print(f"[bold]{title}[/]\nno members")


def _described(group: GroupDescription) -> dict[str, Any]:
    return {
        "group": group.group_id,
        "type": group.group_type,
        "state": group.state,
        "protocol_type": group.protocol_type,
        "assignor": group.assignor,
        "coordinator": {
            "id": group.coordinator.id,
            "host": group.coordinator.host,
            "port": group.coordinator.port,
        },
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "members": [
            {
                "member_id": m.member_id,
                "group_instance_id": m.group_instance_id,
                "client_id": m.client_id,
                "host": m.client_host,
                "epoch": m.epoch,
                "assignment": [p._asdict() for p in m.assignment],
                "target": [p._asdict() for p in m.target],
                "tasks": [task._asdict() for task in m.tasks],
            }
            for m in group.members
        ],
    }


def _epoch(member: GroupMemberDescription) -> str | None:
    return str(member.epoch) if member.epoch >= 0 else None


def _work_text(member: GroupMemberDescription) -> str | None:
    """Returns what a member reads, and where it moves if that differs."""
    if member.tasks:
        return " ".join(f"{task.kind}:{task.subtopology}_{task.partition}" for task in member.tasks)
    now = _assignment_text(member.assignment)
    if member.epoch < 0 or member.target == member.assignment:
        return now
    return f"{now or 'nothing'} → {_assignment_text(member.target) or 'nothing'}"


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
        console().print(f"group {markup(group)} has no stored offsets and no assigned partitions")
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
    print_table(columns, cells, f"{markup(group)}  [not bold dim]{total:,} behind[/]")


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


app.command("reset-offsets")(reset_offsets)
app.command("top")(top)


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
