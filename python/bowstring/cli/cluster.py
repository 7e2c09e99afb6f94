"""Implements `bowstring cluster`: start, status."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from bowstring.cli.options import pairs
from bowstring.cli.output import print_error, print_note

app = typer.Typer(help="Run a cluster on this machine, and see how a cluster is.", no_args_is_help=True)


@app.command()
def start(
    data: Annotated[
        Path,
        typer.Option("--data", metavar="DIR", help="Directory for the nodes; a new one gets a new cluster."),
    ] = Path("bowstring-cluster"),
    brokers: Annotated[
        int | None,
        typer.Option("--brokers", help="Number of brokers; default: as the directory has, or 3."),
    ] = None,
    controllers: Annotated[
        int | None,
        typer.Option(
            "--controllers",
            help="Number of nodes that are only controllers; default: none, brokers are controllers, too.",
        ),
    ] = None,
    port: Annotated[
        int,
        typer.Option("--port", help="Port of the first broker; the next one has the next port, and so on."),
    ] = 9092,
    durability: Annotated[
        Literal["commit", "os"] | None,
        typer.Option(
            "--durability", help="Acknowledge from the medium (default), or from the page cache as in Kafka."
        ),
    ] = None,
    set_: Annotated[
        list[str],
        typer.Option("--set", metavar="KEY=VALUE", help="One config of all nodes; may be repeated."),
    ] = [],  # noqa: B006 - typer copies it
) -> None:
    """Run a cluster of processes on this machine until SIGTERM, SIGINT or SIGHUP stops it cleanly.

    Directories are formatted at the first start, and used again afterwards. Ports of controllers begin 100
    above that of the first broker. Each node has its server.properties and its node.log in DIR/node-ID.
    Topics have three replicas if there are three brokers, and a broker that is gone is noticed after three
    seconds.
    """
    from bowstring.cluster.foreground import ForegroundCluster
    from bowstring.engine.configs import ConfigError
    from bowstring.engine.storage.directory_lock import DataDirectoryError

    config = pairs(set_, "--set")
    if durability is not None:
        config["bowstring.durability"] = durability
    try:
        cluster = ForegroundCluster(
            data, brokers=brokers, controllers=controllers, port=port, config=config, tell=print_note
        )
        raise typer.Exit(cluster.run())
    except (ConfigError, DataDirectoryError, OSError) as error:
        print_error(str(error))
        raise typer.Exit(1) from None
