"""Lists every command of `bowstring` and the options they share.

A command line that names one of them imports only that one: all of them take three times as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Final, NamedTuple

import typer

from bowstring.cli.command_config import connecting
from bowstring.cli.version import print_version

HELP = """\
An event-streaming broker that Kafka's clients cannot tell from Kafka, and tools for it.

The tools work against Apache Kafka as well. Exit codes: 0 done, 1 failed, 2 wrong usage.
"""
BROKER, RECORDS, MANAGE, OPERATE, SECURE = "Broker", "Records", "Manage", "Cluster", "Security"


class Row(NamedTuple):
    """A command, or a group of commands: its name, its panel in the help, and where it is."""

    name: str
    panel: str
    module: str
    attribute: str = "app"


ROWS: Final = (
    Row("serve", BROKER, "serve", "serve"),
    Row("format", BROKER, "format", "format_directories"),
    Row("cluster", BROKER, "cluster"),
    Row("console", BROKER, "console", "console"),
    Row("registry", BROKER, "registry", "registry"),
    Row("rest", BROKER, "rest", "rest"),
    Row("demo", BROKER, "demo", "demo"),
    Row("bench", BROKER, "bench"),
    Row("version", BROKER, "version", "version"),
    Row("produce", RECORDS, "produce", "produce"),
    Row("consume", RECORDS, "consume", "consume"),
    Row("search", RECORDS, "search", "search"),
    Row("perf", RECORDS, "perf"),
    Row("topics", MANAGE, "topics"),
    Row("configs", MANAGE, "configs"),
    Row("groups", MANAGE, "groups"),
    Row("share", MANAGE, "share"),
    Row("transactions", MANAGE, "transactions"),
    Row("pipeline", RECORDS, "pipeline"),
    Row("brokers", OPERATE, "brokers"),
    Row("audit", OPERATE, "audit"),
    Row("reassign", OPERATE, "reassign"),
    Row("leaders", OPERATE, "leaders"),
    Row("quorum", OPERATE, "quorum"),
    Row("monitoring", OPERATE, "monitoring", "monitoring"),
    Row("features", OPERATE, "features"),
    Row("users", SECURE, "users"),
    Row("acls", SECURE, "acls"),
    Row("certs", SECURE, "certs"),
    Row("quotas", SECURE, "quotas"),
    Row("spark-jar", RECORDS, "spark_jar", "spark_jar"),
    Row("dump-log", MANAGE, "dump_log", "dump_log"),
    Row("scrub", MANAGE, "scrub", "scrub"),
    Row("migrate-dir", MANAGE, "migrate_dir", "migrate_dir"),
)


def application(arguments: Sequence[str] = ()) -> typer.Typer:
    """Returns the command that these arguments begin with, or all commands if they name none."""
    app = typer.Typer(
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(help=HELP)(bowstring)
    for row in [row for row in ROWS if row.name in arguments[:1]] or ROWS:
        command = getattr(import_module(f"bowstring.cli.{row.module}"), row.attribute)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=row.name, rich_help_panel=row.panel)
        else:
            app.command(row.name, rich_help_panel=row.panel)(command)
    return connecting(app)


def bowstring(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", is_eager=True, callback=print_version),
    ] = False,
) -> None:
    """Takes the options that stand before a command."""
