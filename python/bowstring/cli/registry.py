"""Declares `bowstring registry` for help and shell completion.

`bowstring registry` runs bowstring.registry.program.main directly and does not load the CLI.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import typer

from bowstring.cli.command_config import CommandConfig
from bowstring.cli.options import BOOTSTRAP_DEFAULT, Bootstrap

Port = Annotated[int, typer.Option("--port", help="Port of the API; 0: any free port.")]
Listen = Annotated[str, typer.Option("--listen", metavar="ADDRESS", help="Address to listen on.")]
AdvertisedUrl = Annotated[
    str | None,
    typer.Option(
        "--advertised-url", metavar="URL", help="Where other registries reach this one; default: --listen."
    ),
]
Topic = Annotated[str, typer.Option("--topic", help="Topic that keeps the schemas.")]
Group = Annotated[str, typer.Option("--group", metavar="ID", help="Group that elects the leader.")]
Follower = Annotated[bool, typer.Option("--follower", help="Never lead; writes go to the leader.")]
LeaderAuthorities = Annotated[
    Path | None,
    typer.Option(
        "--leader-authorities", metavar="FILE", help="PEM certificates to trust a leader with https by."
    ),
]
ReplicationFactor = Annotated[
    int, typer.Option("--replication-factor", metavar="N", help="Of a topic that is created.")
]
Compatibility = Annotated[
    Literal[
        "NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE"
    ],
    typer.Option("--compatibility", metavar="LEVEL", help="Level of subjects without a config."),
]
SignIn = Annotated[bool, typer.Option("--sign-in", help="Clients log in as users of the cluster.")]
ListenUnauthenticated = Annotated[
    bool,
    typer.Option(
        "--listen-unauthenticated",
        help="Allow an address that other machines can reach, although nobody logs in.",
    ),
]
AccessRules = Annotated[
    Path | None,
    typer.Option(
        "--access-rules",
        metavar="FILE",
        help="TOML file that says which user may do what with which subject.",
    ),
]
TlsCertificate = Annotated[
    Path | None, typer.Option("--tls-certificate", metavar="FILE", help="PEM certificate, for https.")
]
TlsKey = Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="PEM key of the certificate.")]
TlsClientAuthorities = Annotated[
    Path | None,
    typer.Option(
        "--tls-client-authorities",
        metavar="FILE",
        help="PEM certificates of who signs clients' certificates.",
    ),
]
ClientCertificates = Annotated[
    Literal["none", "requested", "required"],
    typer.Option("--client-certificates", metavar="WHETHER", help="Of clients: none, requested or required."),
]
MaxBodyMib = Annotated[int, typer.Option("--max-body-mib", metavar="MIB", help="Largest body of a request.")]
RequestsPerS = Annotated[
    float,
    typer.Option(
        "--requests-per-s",
        metavar="N",
        help="Bound of each user, or of each address where nobody logs in; 0: none.",
    ),
]
AllowOrigin = Annotated[
    str,
    typer.Option(
        "--allow-origin",
        metavar="ORIGIN,…",
        help="Pages that may call (CORS), as https://app.example.org; * for all; default: none.",
    ),
]
AccessLog = Annotated[bool, typer.Option("--access-log", help="Write each request to stderr.")]


def registry(
    bootstrap_server: Bootstrap = BOOTSTRAP_DEFAULT,
    port: Port = 8081,
    listen: Listen = "127.0.0.1",
    advertised_url: AdvertisedUrl = None,
    command_config: CommandConfig = None,
    topic: Topic = "_schemas",
    group: Group = "schema-registry",
    follower: Follower = False,
    leader_authorities: LeaderAuthorities = None,
    replication_factor: ReplicationFactor = 3,
    compatibility: Compatibility = "BACKWARD",
    sign_in: SignIn = False,
    listen_unauthenticated: ListenUnauthenticated = False,
    access_rules: AccessRules = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
    tls_client_authorities: TlsClientAuthorities = None,
    client_certificates: ClientCertificates = "none",
    max_body_mib: MaxBodyMib = 4,
    requests_per_s: RequestsPerS = 0.0,
    allow_origin: AllowOrigin = "",
    access_log: AccessLog = False,
) -> None:
    """Serve a schema registry with Confluent's REST API until a signal stops it."""
    arguments = _command_line(locals())
    from bowstring.registry.program.main import main

    raise typer.Exit(main(arguments))


def _command_line(options: Mapping[str, object]) -> list[str]:
    """Returns options by the names of their parameters as words."""
    words = []
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(option)
        elif value is not None and value is not False:
            words += [option, str(value)]
    return words
