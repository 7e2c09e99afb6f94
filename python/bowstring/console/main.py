"""Runs `bowstring console`: the console in its own process, until a signal stops it."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from argparse import SUPPRESS, ArgumentParser
from collections.abc import Sequence

from bowstring.clients.audit import COUNTS_TOPIC
from bowstring.clients.errors import ClientError, ConfigError, MissingPackageError
from bowstring.console.options import (
    HOST_DEFAULT,
    PORT_DEFAULT,
    ConsoleOptions,
    needs_sign_in,
    security_settings,
)

BOOTSTRAP_DEFAULT = "localhost:9092"
_STOP_S = 2
"""How long open pages may take to end."""


def parser() -> ArgumentParser:
    """Returns the parser of the command line of `bowstring console`."""
    made = ArgumentParser(
        prog="bowstring console", description="Serve web pages that show a cluster.", allow_abbrev=False
    )
    made.add_argument(
        *("--bootstrap-server", "-b"),
        default=os.environ.get("BOWSTRING_BOOTSTRAP_SERVERS", BOOTSTRAP_DEFAULT),
        metavar="HOST:PORT,…",
        help=f"brokers to contact first (default {BOOTSTRAP_DEFAULT})",
    )
    made.add_argument(
        "--port", type=int, default=PORT_DEFAULT, help=f"port of the pages (default {PORT_DEFAULT}; 0: any)"
    )
    made.add_argument(
        "--listen", default=HOST_DEFAULT, metavar="ADDRESS", help=f"address (default {HOST_DEFAULT})"
    )
    made.add_argument("--write", action="store_true", help="allow pages to change the cluster")
    made.add_argument(
        "--command-config",
        default=os.environ.get("BOWSTRING_COMMAND_CONFIG"),
        metavar="FILE",
        help="properties file with settings of TLS and SASL; without a user in it, each user signs in",
    )
    made.add_argument(
        "--sign-in", action="store_true", help="each user signs in, although the file has a user"
    )
    made.add_argument(
        "--listen-unauthenticated",
        action="store_true",
        help="allow an address that other machines can reach, although nobody signs in",
    )
    made.add_argument(
        "--schema-registry",
        default=os.environ.get("BOWSTRING_SCHEMA_REGISTRY"),
        metavar="URL",
        help="schema registry of Avro, Protobuf and JSON values; http://user:password@host:port if it needs "
        "a user (or BOWSTRING_SCHEMA_REGISTRY)",
    )
    made.add_argument(
        "--connect-url",
        action="append",
        default=[],
        metavar="URL",
        help="Kafka Connect, whose connectors are shown; may be given several times; "
        "http://user:password@host:port if it needs a user (or BOWSTRING_CONNECT_URLS, with commas between)",
    )
    made.add_argument(
        "--connect-config",
        default=os.environ.get("BOWSTRING_CONNECT_CONFIG"),
        metavar="FILE",
        help="properties file for Kafka Connect: basic.auth.user.info=user:password, ssl.ca.location=ca.pem",
    )
    made.add_argument(
        "--audit-topic", default=COUNTS_TOPIC, metavar="TOPIC", help="topic of the counts of clients"
    )
    made.add_argument("--tls-certificate", metavar="FILE", help="PEM certificate, for https")
    made.add_argument("--until-stdin-ends", action="store_true", help=SUPPRESS)
    made.add_argument("--tls-key", metavar="FILE", help="PEM key of the certificate")
    return made


def main(argv: Sequence[str]) -> int:
    """Serves the console; returns the exit status: 0 after a signal, 1 when it could not start."""
    given = parser().parse_args(argv)
    try:
        security = security_settings(given.command_config)
        options = ConsoleOptions(
            bootstrap_servers=given.bootstrap_server,
            security=security,
            listen=given.listen,
            port=given.port,
            write=given.write,
            sign_in=given.sign_in or needs_sign_in(security),
            listen_unauthenticated=given.listen_unauthenticated,
            tls_certificate=given.tls_certificate,
            tls_key=given.tls_key,
            schema_registry=given.schema_registry,
            audit_topic=given.audit_topic,
            connect_urls=tuple(given.connect_url or _addresses(os.environ.get("BOWSTRING_CONNECT_URLS", ""))),
            connect_config=given.connect_config,
        )
        options.check()
        if given.until_stdin_ends:
            threading.Thread(target=_end_with_stdin, name="stdin", daemon=True).start()
        serve(options)
    except (ClientError, OSError) as error:
        print(f"bowstring console: {error}", file=sys.stderr)
        return 1
    return 0


def _addresses(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _end_with_stdin() -> None:
    """Ends this process when the one that started it has ended."""
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def serve(options: ConsoleOptions) -> None:
    """Serves until SIGINT or SIGTERM.

    Raises:
        MissingPackageError: the extra `console` is not installed.
        ConfigError: the options are wrong.
        OSError: the address cannot be listened on.
    """
    try:
        import jinja2  # noqa: F401
        import python_multipart  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn
    except ImportError as error:
        raise MissingPackageError(error.name or "starlette", "console") from error
    from bowstring.console.app import create_app
    from bowstring.console.server import CONNECTIONS_MAX, Connection, ConsoleServer

    app = create_app(options, warm_up=True)
    listening = _listen(options)
    scheme = "https" if options.tls_certificate else "http"
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    print(
        f"console on {scheme}://{shown}:{port}/ for {options.bootstrap_servers}", file=sys.stderr, flush=True
    )
    if not options.is_loopback and scheme == "http" and options.sign_in:
        print(
            "bowstring console: passwords cross the network in plain text; add --tls-certificate, --tls-key",
            file=sys.stderr,
        )
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        lifespan="on",
        server_header=False,
        date_header=False,
        proxy_headers=False,
        ssl_certfile=options.tls_certificate,
        ssl_keyfile=options.tls_key,
        timeout_graceful_shutdown=_STOP_S,
        timeout_keep_alive=30,
        limit_concurrency=CONNECTIONS_MAX + 1,
        http=Connection,
        ws="none",
    )
    with listening:
        ConsoleServer(config).run(sockets=[listening])


def _listen(options: ConsoleOptions) -> socket.socket:
    host = options.listen.strip("[]")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, options.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise ConfigError(f"--listen {options.listen}: {error.strerror or error}") from error
    made = socket.socket(family, kind, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(128)
    except OSError as error:
        made.close()
        raise ConfigError(
            f"cannot listen on {options.listen}:{options.port}: {error.strerror}; choose another --port"
        ) from error
    made.setblocking(False)
    return made
