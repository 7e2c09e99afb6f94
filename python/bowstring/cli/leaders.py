"""Implements `bowstring leaders`: elect."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from bowstring.cli.command_config import security
from bowstring.cli.options import BOOTSTRAP_DEFAULT, TIMEOUT_DEFAULT_S, Bootstrap, Json, Timeout, all_of
from bowstring.cli.output import print_json, print_note, print_table
from bowstring.cli.tables import Cell

app = typer.Typer(help="Elect leaders of partitions.", no_args_is_help=True)

_NOT_NEEDED = "ELECTION_NOT_NEEDED"


@app.callback()
def leaders() -> None:
    """Keeps `elect` a command of its own, although it is the only one."""


@app.command()
def elect(
    unclean: Annotated[
        bool,
        typer.Option(
            "--unclean/--preferred",
            help="Preferred (default): the first replica, where it is in sync. Unclean: any live replica of "
            "partitions without a leader; records that it does not have are lost.",
        ),
    ] = False,
    topic: Annotated[
        str | None, typer.Option("--topic", "-t", help="Elect for the partitions of this topic.")
    ] = None,
    partition: Annotated[
        list[int],
        typer.Option("--partition", "-p", help="Partition of the topic; may be repeated. Default: all."),
    ] = [],  # noqa: B006 - typer copies it
    everything: Annotated[bool, typer.Option("--all", "-a", help="Elect for all partitions.")] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """Elect the preferred leaders, or leaders of partitions that have lost all in-sync replicas."""
    from bowstring.clients.admin.admin import Admin
    from bowstring.clients.errors import BrokerError, ClientError

    if (topic is None) != everything:
        raise typer.BadParameter("give either --topic or --all")
    if partition and topic is None:
        raise typer.BadParameter("--partition needs --topic")
    election: Literal["unclean", "preferred"] = "unclean" if unclean else "preferred"
    with Admin(
        bootstrap, timeout_ms=int(timeout * 1000), client_id="bowstring-cli", security=security()
    ) as admin:
        wanted = None
        if topic is not None:
            wanted = all_of(topic, partition or admin.describe_topic(topic).partitions)
        found = admin.elect_leaders(wanted, election=election)
    rows: list[list[Cell]] = []
    failed = []
    for each, error in sorted(found.items()):
        said = "elected" if error is None else error.name if isinstance(error, BrokerError) else str(error)
        rows.append([each.topic, each.partition, said])
        if error is not None and said != _NOT_NEEDED:
            failed.append(error)
    if json:
        print_json([dict(zip(("topic", "partition", "result"), row, strict=True)) for row in rows])
    elif rows:
        print_table(["topic", "partition", "result"], rows)
    else:
        print_note("no partition needed an election")
    if failed:
        raise ClientError(f"{len(failed)} elections failed; the first: {failed[0]}")
