"""Declares `bowstring console` for help and shell completion.

`bowstring console` runs bowstring.console.main directly and does not load the CLI.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bowstring.cli.command_config import CommandConfig
from bowstring.cli.options import BOOTSTRAP_DEFAULT, Bootstrap


def console(
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    port: Annotated[int, typer.Option("--port", help="Port of the pages; 0: any free port.")] = 8080,
    listen: Annotated[
        str, typer.Option("--listen", metavar="ADDRESS", help="Address to listen on.")
    ] = "127.0.0.1",
    write: Annotated[bool, typer.Option("--write", help="Allow pages to change the cluster.")] = False,
    command_config: CommandConfig = None,
    sign_in: Annotated[
        bool, typer.Option("--sign-in", help="Each user signs in, although the file has a user.")
    ] = False,
    listen_unauthenticated: Annotated[
        bool,
        typer.Option(
            "--listen-unauthenticated",
            help="Allow an address that other machines can reach, although nobody signs in.",
        ),
    ] = False,
    schema_registry: Annotated[
        str | None, typer.Option("--schema-registry", metavar="URL", help="Schema registry of values.")
    ] = None,
    connect_url: Annotated[
        list[str] | None,
        typer.Option("--connect-url", metavar="URL", help="Kafka Connect; may be given several times."),
    ] = None,
    connect_config: Annotated[
        Path | None,
        typer.Option("--connect-config", metavar="FILE", help="Properties file with the log-in to Connect."),
    ] = None,
    audit_topic: Annotated[
        str, typer.Option("--audit-topic", help="Topic of the counts of clients.")
    ] = "audit-counts",
    tls_certificate: Annotated[
        Path | None, typer.Option("--tls-certificate", metavar="FILE", help="PEM certificate, for https.")
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option("--tls-key", metavar="FILE", help="PEM key of the certificate.")
    ] = None,
) -> None:
    """Serve web pages that show a cluster, and change it with --write, until a signal stops it."""
    from bowstring.console.main import main

    options = {
        "--bootstrap-server": bootstrap,
        "--port": port,
        "--listen": listen,
        "--command-config": command_config,
        "--schema-registry": schema_registry,
        "--connect-config": connect_config,
        "--audit-topic": audit_topic,
        "--tls-certificate": tls_certificate,
        "--tls-key": tls_key,
    }
    arguments = [part for name, value in options.items() if value is not None for part in (name, str(value))]
    arguments += [part for url in connect_url or () for part in ("--connect-url", url)]
    flags = {"--write": write, "--sign-in": sign_in, "--listen-unauthenticated": listen_unauthenticated}
    arguments += [flag for flag, given in flags.items() if given]
    raise typer.Exit(main(arguments))
