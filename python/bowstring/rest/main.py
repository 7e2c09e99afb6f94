"""Runs `bowstring rest`: the proxy in its own process, until a signal stops it."""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import SUPPRESS, ArgumentParser
from collections.abc import Sequence

from bowstring.clients.errors import ClientError, ConfigError, MissingPackageError
from bowstring.rest.options import PORT_DEFAULT, RestOptions
from bowstring.web.access_log import AccessLog
from bowstring.web.credentials import has_sasl, security_settings
from bowstring.web.limits import RateLimit
from bowstring.web.listening import add_arguments, of_arguments
from bowstring.web.observed import App, Observed
from bowstring.web.serving import Site, run, serve

BOOTSTRAP_DEFAULT = "localhost:9092"
_DEFAULTS = RestOptions()


def parser() -> ArgumentParser:
    """Returns the parser of the command line of `bowstring rest`."""
    made = ArgumentParser(
        prog="bowstring rest", description="Serve topics, groups and records over HTTP.", allow_abbrev=False
    )
    made.add_argument(
        *("--bootstrap-server", "-b"),
        default=os.environ.get("BOWSTRING_BOOTSTRAP_SERVERS", BOOTSTRAP_DEFAULT),
        metavar="HOST:PORT,…",
        help=f"brokers to contact first (default {BOOTSTRAP_DEFAULT})",
    )
    add_arguments(made, PORT_DEFAULT)
    made.add_argument(
        "--command-config",
        default=os.environ.get("BOWSTRING_COMMAND_CONFIG"),
        metavar="FILE",
        help="properties file with settings of TLS and SASL; callers send their own user, or token",
    )
    made.add_argument(
        "--schema-registry",
        default=os.environ.get("BOWSTRING_SCHEMA_REGISTRY"),
        metavar="URL",
        help="schema registry of Avro, Protobuf and JSON Schema values; it gets the user of each caller, "
        "unless the address has one (or BOWSTRING_SCHEMA_REGISTRY)",
    )
    made.add_argument(
        "--request-bytes", type=int, default=_DEFAULTS.request_bytes_max, help="size of a body at most"
    )
    made.add_argument(
        "--record-bytes", type=int, default=_DEFAULTS.record_bytes_max, help="size of a record at most"
    )
    made.add_argument(
        "--streams", type=int, default=_DEFAULTS.streams_max, help="streams of records at a time"
    )
    made.add_argument(
        "--consumers", type=int, default=_DEFAULTS.consumers_max, help="consumer instances at a time (v2)"
    )
    made.add_argument(
        "--consumer-timeout",
        type=int,
        default=int(_DEFAULTS.consumer_idle_s),
        metavar="SECONDS",
        help="a consumer instance that nobody used for so long is closed "
        f"(default {_DEFAULTS.consumer_idle_s:.0f})",
    )
    made.add_argument(
        "--rate", type=float, default=0.0, help="requests of each caller in a second (default 0: no bound)"
    )
    made.add_argument(
        "--listen-unauthenticated",
        action="store_true",
        help="allow an address that other machines can reach, although nobody logs in",
    )
    made.add_argument("--access-log", action="store_true", help="write a line for each request to stderr")
    made.add_argument("--until-stdin-ends", action="store_true", help=SUPPRESS)
    return made


def main(argv: Sequence[str]) -> int:
    """Serves the proxy; returns the exit status: 0 after a signal, 1 when it could not start."""
    given = parser().parse_args(argv)
    try:
        for name in ("request_bytes", "record_bytes", "streams", "consumers", "consumer_timeout"):
            if getattr(given, name) < 1:
                raise ConfigError(f"--{name.replace('_', '-')} must be at least 1")
        security, listening = security_settings(given.command_config), of_arguments(given)
        logs_in = has_sasl(security) or listening.client_certificates == "required"
        if not (logs_in or listening.is_loopback or given.listen_unauthenticated):
            raise ConfigError(
                f"--listen {listening.host} lets other machines in, and nobody logs in: give the settings of "
                "a cluster with SASL by --command-config, or add --listen-unauthenticated if everybody "
                "may use the cluster"
            )
        options = RestOptions(
            bootstrap_servers=given.bootstrap_server,
            security=security,
            schema_registry=given.schema_registry,
            request_bytes_max=given.request_bytes,
            record_bytes_max=given.record_bytes,
            streams_max=given.streams,
            streams_of_one=max(1, given.streams // 5),
            consumers_max=given.consumers,
            consumers_of_one=max(1, given.consumers // 5),
            consumer_idle_s=given.consumer_timeout,
        )
        site = Site("rest proxy", listening, "rest")
        log = AccessLog(sys.stderr) if given.access_log else None

        async def program(stop: asyncio.Event) -> None:
            await serve_rest(site, options, stop, log=log, rate=given.rate)

        run(program, until_stdin_ends=given.until_stdin_ends)
    except (ClientError, OSError) as error:
        print(f"bowstring rest: {error}", file=sys.stderr)
        return 1
    return 0


async def serve_rest(
    site: Site, options: RestOptions, stop: asyncio.Event, *, log: AccessLog | None = None, rate: float = 0.0
) -> None:
    """Serves the proxy at a site until `stop` is set.

    Args:
        site: the address.
        options: of the proxy.
        stop: ends it.
        log: of requests; None for none.
        rate: requests of each caller in a second; 0 for no bound.

    Raises:
        MissingPackageError: the extra `rest` is not installed.
    """
    try:
        from bowstring.rest.app import RestApp
    except ImportError as error:
        raise MissingPackageError(error.name or "msgspec", site.extra) from error
    app = RestApp(options, RateLimit(rate))
    observed: App = Observed(app, app.metrics, log)
    site.app = observed
    await serve([site], stop)
