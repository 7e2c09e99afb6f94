"""Declares `bowstring serve` for help and shell completion.

`python -m bowstring serve` runs bowstring.serve directly and does not load the CLI.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

Data = Annotated[
    list[Path],
    typer.Option(
        "--data", metavar="DIR", help="Data directory; default ./bowstring-data; repeat for several disks."
    ),
]
Durability = Annotated[
    Literal["commit", "os"] | None,
    typer.Option(
        "--durability", help="Acknowledge from the medium (default), or from the page cache as in Kafka."
    ),
]
ListenUnauthenticated = Annotated[
    bool,
    typer.Option(
        "--listen-unauthenticated",
        help="Allow an address that other machines can reach, although clients are not authenticated; "
        "without --host: all interfaces.",
    ),
]
Config = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Kafka's server.properties, or TOML with its keys."),
]
StrictConfig = Annotated[
    bool,
    typer.Option("--strict-config", help="Refuse unknown keys of a server.properties instead of warning."),
]

RegistryPort = Annotated[
    int | None,
    typer.Option(
        "--registry-port", metavar="PORT", help="Serve a schema registry on this port of localhost; 0: any."
    ),
]
RestPort = Annotated[
    int | None,
    typer.Option("--rest-port", metavar="PORT", help="Serve a REST proxy on this port of localhost; 0: any."),
]


def serve(
    data: Data = [],  # noqa: B006 - typer copies it
    durability: Durability = None,
    host: Annotated[
        str | None, typer.Option("--host", help="Address to listen on; default 127.0.0.1.")
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", help="Port to listen on; default 9092; 0: any free port.")
    ] = None,
    listen_unauthenticated: ListenUnauthenticated = False,
    config: Config = None,
    strict_config: StrictConfig = False,
    set_: Annotated[
        list[str], typer.Option("--set", metavar="KEY=VALUE", help="One config; may be repeated.")
    ] = [],  # noqa: B006 - typer copies it
    metrics_port: Annotated[
        int | None, typer.Option("--metrics-port", help="Serve Prometheus text on this port.")
    ] = None,
    console: Annotated[
        int | None,
        typer.Option(
            "--console",
            metavar="PORT",
            help="Show the cluster on web pages on this port of localhost; 0: any.",
        ),
    ] = None,
    registry_port: RegistryPort = None,
    rest_port: RestPort = None,
    log_format: Annotated[
        Literal["text", "json"] | None, typer.Option("--log-format", help="Format of log lines.")
    ] = None,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"] | None,
        typer.Option("--log-level", help="Least severe level to log; default info."),
    ] = None,
) -> None:
    """Run a broker until SIGTERM, SIGINT or SIGHUP stops it cleanly."""
    from bowstring.serve import main

    options = {
        "--durability": durability,
        "--host": host,
        "--port": port,
        "--config": config,
        "--metrics-port": metrics_port,
        "--console": console,
        "--registry-port": registry_port,
        "--rest-port": rest_port,
        "--log-format": log_format,
        "--log-level": log_level,
    }
    arguments = [part for name, value in options.items() if value is not None for part in (name, str(value))]
    arguments += [part for each in data for part in ("--data", str(each))]
    arguments += [part for item in set_ for part in ("--set", item)]
    flags = {"--listen-unauthenticated": listen_unauthenticated, "--strict-config": strict_config}
    arguments += [flag for flag, given in flags.items() if given]
    raise typer.Exit(main(arguments))
