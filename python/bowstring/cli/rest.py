"""Declares `bowstring rest` for help and shell completion.

`bowstring rest` runs bowstring.rest.main directly and does not load the CLI.
"""

from __future__ import annotations

from typing import Annotated

import typer

from bowstring.cli.command_config import CommandConfig
from bowstring.cli.options import BOOTSTRAP_DEFAULT, Bootstrap
from bowstring.cli.registry import (
    AllowOrigin,
    ClientCertificates,
    Listen,
    ListenUnauthenticated,
    Port,
    TlsCertificate,
    TlsClientAuthorities,
    TlsKey,
)

SchemaRegistry = Annotated[
    str | None,
    typer.Option(
        "--schema-registry",
        metavar="URL",
        envvar="BOWSTRING_SCHEMA_REGISTRY",
        help="Schema registry of Avro, Protobuf and JSON Schema values; it gets the user of each caller, "
        "unless the address has one.",
    ),
]
RequestBytes = Annotated[
    int, typer.Option("--request-bytes", help="Size of a request's body at most; streams have no bound.")
]
RecordBytes = Annotated[int, typer.Option("--record-bytes", help="Size of a record at most.")]
Streams = Annotated[int, typer.Option("--streams", help="Streams of records open at a time.")]
Consumers = Annotated[int, typer.Option("--consumers", help="Consumer instances of API v2 open at a time.")]
ConsumerTimeout = Annotated[
    int,
    typer.Option(
        "--consumer-timeout",
        metavar="SECONDS",
        help="A consumer instance that nobody used for so long is closed.",
    ),
]
Rate = Annotated[float, typer.Option("--rate", help="Requests of each caller in a second; 0: no bound.")]
AccessLog = Annotated[bool, typer.Option("--access-log", help="Write a line for each request to stderr.")]


def rest(
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    port: Port = 8082,
    listen: Listen = "127.0.0.1",
    listen_unauthenticated: ListenUnauthenticated = False,
    command_config: CommandConfig = None,
    schema_registry: SchemaRegistry = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
    tls_client_authorities: TlsClientAuthorities = None,
    client_certificates: ClientCertificates = "none",
    request_bytes: RequestBytes = 8 << 20,
    record_bytes: RecordBytes = 1 << 20,
    streams: Streams = 100,
    consumers: Consumers = 100,
    consumer_timeout: ConsumerTimeout = 300,
    rate: Rate = 0.0,
    allow_origin: AllowOrigin = "",
    access_log: AccessLog = False,
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
        "--consumers": consumers,
        "--consumer-timeout": consumer_timeout,
        "--rate": rate,
        "--allow-origin": allow_origin,
    }
    arguments = [part for name, value in options.items() if value is not None for part in (name, str(value))]
    flags = {"--listen-unauthenticated": listen_unauthenticated, "--access-log": access_log}
    raise typer.Exit(main([*arguments, *(flag for flag, given in flags.items() if given)]))
