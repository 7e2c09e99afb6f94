"""Declares `bowstring rest` for help and shell completion.

`bowstring rest` runs bowstring.rest.main directly and does not load the CLI.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bowstring.cli.command_config import CommandConfig
from bowstring.cli.options import BOOTSTRAP_DEFAULT, Bootstrap


def rest(
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    port: Annotated[int, typer.Option("--port", help="Port; 0: any free port.")] = 8082,
    listen: Annotated[
        str, typer.Option("--listen", metavar="ADDRESS", help="Address to listen on.")
    ] = "127.0.0.1",
    command_config: CommandConfig = None,
    schema_registry: Annotated[
        str | None,
        typer.Option(
            "--schema-registry",
            metavar="URL",
            envvar="BOWSTRING_SCHEMA_REGISTRY",
            help="Schema registry of Avro, Protobuf and JSON Schema values; it gets the user of each caller, "
            "unless the address has one.",
        ),
    ] = None,
    tls_certificate: Annotated[
        Path | None, typer.Option("--tls-certificate", metavar="FILE", help="PEM certificate, for https.")
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option("--tls-key", metavar="FILE", help="PEM key of the certificate.")
    ] = None,
    tls_client_authorities: Annotated[
        Path | None,
        typer.Option(
            "--tls-client-authorities",
            metavar="FILE",
            help="PEM certificates of who signs clients' certificates.",
        ),
    ] = None,
    client_certificates: Annotated[
        str,
        typer.Option(
            "--client-certificates", help="Whether clients show a certificate: none, requested or required."
        ),
    ] = "none",
    request_bytes: Annotated[
        int, typer.Option("--request-bytes", help="Size of a request's body at most; streams have no bound.")
    ] = 8 << 20,
    record_bytes: Annotated[int, typer.Option("--record-bytes", help="Size of a record at most.")] = 1 << 20,
    streams: Annotated[int, typer.Option("--streams", help="Streams of records open at a time.")] = 100,
    rate: Annotated[
        float, typer.Option("--rate", help="Requests of each caller in a second; 0: no bound.")
    ] = 0.0,
    access_log: Annotated[
        bool, typer.Option("--access-log", help="Write a line for each request to stderr.")
    ] = False,
) -> None:
    """Serve topics, groups and records over HTTP (Confluent's REST API), until a signal stops it."""
    from bowstring.rest.main import main

    options = {
        "--bootstrap-server": bootstrap,
        "--port": port,
        "--listen": listen,
        "--command-config": command_config,
        "--schema-registry": schema_registry,
        "--tls-certificate": tls_certificate,
        "--tls-key": tls_key,
        "--tls-client-authorities": tls_client_authorities,
        "--client-certificates": client_certificates,
        "--request-bytes": request_bytes,
        "--record-bytes": record_bytes,
        "--streams": streams,
        "--rate": rate,
    }
    arguments = [part for name, value in options.items() if value is not None for part in (name, str(value))]
    raise typer.Exit(main([*arguments, *(["--access-log"] if access_log else [])]))
