"""`bowstring serve` as the help and shell completion know it.

`python -m bowstring serve` does not come here: it goes to bowstring.serve at once and loads no CLI.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer


def serve(
    data: Annotated[
        list[Path],
        typer.Option(
            "--data",
            metavar="DIR",
            help="Data directory; default ./bowstring-data; several for several disks.",
        ),
    ] = [],  # noqa: B006 - typer copies it
    durability: Annotated[
        Literal["commit", "os"] | None,
        typer.Option(
            "--durability",
            help="Acknowledge from the medium (default), or from the page cache as Kafka does.",
        ),
    ] = None,
    host: Annotated[str | None, typer.Option("--host", help="Address to listen on; default all.")] = None,
    port: Annotated[int | None, typer.Option("--port", help="Default 9092; 0 takes a free one.")] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="Kafka's server.properties, or TOML with its keys."),
    ] = None,
    set_: Annotated[
        list[str], typer.Option("--set", metavar="KEY=VALUE", help="One config; may be repeated.")
    ] = [],  # noqa: B006 - typer copies it
    metrics_port: Annotated[
        int | None, typer.Option("--metrics-port", help="Serve Prometheus text on this port.")
    ] = None,
    log_format: Annotated[
        Literal["text", "json"] | None, typer.Option("--log-format", help="Form of log lines.")
    ] = None,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"] | None, typer.Option("--log-level", help="Default info.")
    ] = None,
) -> None:
    """Run a broker until SIGTERM or SIGINT."""
    from bowstring.serve import main

    options = {
        "--durability": durability,
        "--host": host,
        "--port": port,
        "--config": config,
        "--metrics-port": metrics_port,
        "--log-format": log_format,
        "--log-level": log_level,
    }
    arguments = [part for name, value in options.items() if value is not None for part in (name, str(value))]
    arguments += [part for each in data for part in ("--data", str(each))]
    arguments += [part for item in set_ for part in ("--set", item)]
    raise typer.Exit(main(arguments))
