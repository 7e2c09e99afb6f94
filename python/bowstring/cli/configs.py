"""Implements `bowstring configs`: describe, alter."""

from __future__ import annotations

from typing import Annotated

import typer

from bowstring.cli.command_config import security
from bowstring.cli.options import BOOTSTRAP_DEFAULT, TIMEOUT_DEFAULT_S, Bootstrap, Json, Timeout, pairs
from bowstring.cli.output import console, print_json, print_note, print_table

app = typer.Typer(
    help="Show and change settings of topics, brokers, groups and loggers.", no_args_is_help=True
)

Topic = Annotated[str | None, typer.Option("--topic", "-t", help="Settings of this topic.")]
Broker = Annotated[str | None, typer.Option("--broker", help="Settings of the broker with this id.")]
Group = Annotated[str | None, typer.Option("--group", "-g", help="Settings of this group.")]
Loggers = Annotated[
    str | None, typer.Option("--loggers", metavar="BROKER", help="Log levels of the broker with this id.")
]


def _resource(
    topic: str | None, broker: str | None, group: str | None, loggers: str | None
) -> tuple[str, str]:
    kinds = {"topic": topic, "broker": broker, "group": group, "broker-logger": loggers}
    given = [(kind, name) for kind, name in kinds.items() if name is not None]
    if len(given) != 1:
        raise typer.BadParameter("give one of --topic, --broker, --group and --loggers")
    return given[0]


@app.command()
def describe(
    topic: Topic = None,
    broker: Broker = None,
    group: Group = None,
    loggers: Loggers = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Also settings at their defaults.")] = False,
    documentation: Annotated[
        bool, typer.Option("--doc", help="Also the documentation of each setting.")
    ] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """Show settings and their sources."""
    from bowstring.clients.admin.admin import Admin

    kind, name = _resource(topic, broker, group, loggers)
    with Admin(
        bootstrap, timeout_ms=int(timeout * 1000), client_id="bowstring-cli", security=security()
    ) as admin:
        entries = admin.describe_configs(kind, name, documentation=documentation)
    shown = [entries[key] for key in sorted(entries) if everything or not entries[key].is_default]
    if json:
        print_json([entry._asdict() for entry in shown])
        return
    if not shown:
        console().print(f"all settings of {kind} {name} are at their defaults; --all shows them")
        return
    columns = ["name", "value", "source", "meaning"] if documentation else ["name", "value", "source"]
    rows = []
    for entry in shown:
        row = [entry.name, "(hidden)" if entry.sensitive else entry.value, entry.source]
        rows.append([*row, entry.documentation] if documentation else row)
    print_table(columns, rows)


@app.command()
def alter(
    topic: Topic = None,
    broker: Broker = None,
    group: Group = None,
    loggers: Loggers = None,
    set_: Annotated[
        list[str], typer.Option("--set", "-s", metavar="NAME=VALUE", help="Set a value; may be repeated.")
    ] = [],  # noqa: B006 - typer copies it
    delete: Annotated[
        list[str],
        typer.Option("--delete", "-d", metavar="NAME", help="Reset to the default; may be repeated."),
    ] = [],  # noqa: B006 - typer copies it
    append: Annotated[
        list[str], typer.Option("--append", metavar="NAME=VALUE", help="Add to a list; may be repeated.")
    ] = [],  # noqa: B006 - typer copies it
    subtract: Annotated[
        list[str],
        typer.Option("--subtract", metavar="NAME=VALUE", help="Remove from a list; may be repeated."),
    ] = [],  # noqa: B006 - typer copies it
    validate_only: Annotated[
        bool, typer.Option("--validate-only", help="Check without changing anything.")
    ] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """Change single settings; the others stay as they are."""
    from bowstring.clients.admin.admin import Admin

    kind, name = _resource(topic, broker, group, loggers)
    if not (set_ or delete or append or subtract):
        raise typer.BadParameter("nothing to change: give --set, --delete, --append or --subtract")
    with Admin(
        bootstrap, timeout_ms=int(timeout * 1000), client_id="bowstring-cli", security=security()
    ) as admin:
        admin.alter_configs(
            kind,
            name,
            set=pairs(set_, "--set"),
            delete=delete,
            append=pairs(append, "--append"),
            subtract=pairs(subtract, "--subtract"),
            validate_only=validate_only,
        )
    if json:
        print_json({"kind": kind, "name": name, "altered": not validate_only})
    else:
        print_note(f"{'valid for' if validate_only else 'changed'} {kind} {name or '(all)'}")
