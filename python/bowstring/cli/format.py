"""Implements `bowstring format`: prepares a node's directories, as Kafka's storage tool does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bowstring.cli.output import print_error, print_note

if TYPE_CHECKING:
    from bowstring.engine.quorum.formatting import FormatOptions

InitialControllers = Annotated[
    str | None,
    typer.Option(
        "--initial-controllers",
        "-I",
        metavar="ID@HOST:PORT:DIRECTORY-ID,...",
        help="The first controllers; the same list on each of them.",
    ),
]

AddScram = Annotated[
    list[str],
    typer.Option(
        "--add-scram",
        "-S",
        metavar="MECHANISM=[name=USER,password=…]",
        help="A user of the first metadata, such as the one that brokers log in as.",
    ),
]
AddScramFile = Annotated[
    Path | None,
    typer.Option("--add-scram-file", metavar="FILE", help="Such users, one a line: ps does not show them."),
]


def format_directories(
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", metavar="FILE", help="Kafka's server.properties, or TOML."),
    ] = None,
    cluster_id: Annotated[
        str | None,
        typer.Option("--cluster-id", "-t", metavar="ID", help="The same on each node of the cluster."),
    ] = None,
    standalone: Annotated[
        bool, typer.Option("--standalone", "-s", help="This node is the only controller at first.")
    ] = False,
    initial_controllers: InitialControllers = None,
    no_initial_controllers: Annotated[
        bool,
        typer.Option("--no-initial-controllers", "-N", help="The node joins a cluster with controllers."),
    ] = False,
    feature: Annotated[
        list[str], typer.Option("--feature", "-f", metavar="NAME=LEVEL", help="A feature level.")
    ] = [],  # noqa: B006 - typer copies it
    add_scram: AddScram = [],  # noqa: B006 - typer copies it
    add_scram_file: AddScramFile = None,
    ignore_formatted: Annotated[
        bool, typer.Option("--ignore-formatted", "-g", help="Leave formatted directories as they are.")
    ] = False,
    random_uuid: Annotated[
        bool,
        typer.Option("--random-uuid", help="Print a new id for a cluster or directory."),
    ] = False,
) -> None:
    """Format the directories of a node before its first start in a cluster.

    Everything is checked first; after an error nothing has been written.
    """
    if random_uuid:
        _print_new_id()
        return
    if config is None or cluster_id is None:
        print_error("give --config and --cluster-id; bowstring format --random-uuid prints a new cluster id")
        raise typer.Exit(2)
    from bowstring.engine.configs import ConfigError
    from bowstring.engine.quorum.formatting import FormatOptions
    from bowstring.engine.storage.directory_lock import DataDirectoryError

    try:
        options = FormatOptions(
            cluster_id=cluster_id,
            standalone=standalone,
            initial_controllers=initial_controllers.split(",") if initial_controllers else (),
            no_initial_controllers=no_initial_controllers,
            features=dict(_level(text) for text in feature),
            ignore_formatted=ignore_formatted,
            add_scram=[*add_scram, *_lines(add_scram_file)],
        )
        _format(config, options)
    except (ConfigError, DataDirectoryError, OSError) as error:
        from bowstring.engine.configs.files import with_places

        print_error(with_places(str(error), config))
        raise typer.Exit(1) from None


def _lines(path: Path | None) -> list[str]:
    lines = [] if path is None else path.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.strip()]


def _print_new_id() -> None:
    from bowstring.protocol.ids import format_uuid, random_uuid

    typer.echo(format_uuid(random_uuid()))


def _format(config: Path, options: FormatOptions) -> None:
    from bowstring.engine.broker.node_format import format_plan
    from bowstring.engine.configs.files import load
    from bowstring.engine.quorum.formatting import carry_out

    plan = format_plan(load(config, []), options)
    carry_out(plan)
    for path in plan.present:
        print_note(f"{path} is already formatted, and stays as it is")
    for path in plan.new:
        levels = ", ".join(f"{name}={level}" for name, level in plan.features.items())
        typer.echo(f"formatted {path} for node {plan.node_id} of cluster {plan.cluster_id} with {levels}")


def _level(text: str) -> tuple[str, int]:
    from bowstring.engine.configs import ConfigError
    from bowstring.protocol.whole_numbers import whole_number

    name, equals, level = text.partition("=")
    number = whole_number(level)
    if not equals or number is None:
        raise ConfigError(f"--feature '{text}': write NAME=LEVEL, such as metadata.version=33")
    return name.strip(), number
