"""Runs the schema registry and the REST proxy of `bowstring serve` in one process.

One process for both: they share Python, the clients and the server of HTTP, which take most of their memory.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import socket
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Awaitable, Sequence

from bowstring.clients.errors import ClientError
from bowstring.web.credentials import has_sasl, security_settings
from bowstring.web.listening import Listening, origins_of
from bowstring.web.serving import Site, run, serve


def parser() -> ArgumentParser:
    """Returns the parser of the command line."""
    made = ArgumentParser(prog="bowstring.http_services", allow_abbrev=False)
    made.add_argument("--bootstrap-server", required=True)
    made.add_argument("--registry-socket", type=int, help="file descriptor of a listening socket")
    made.add_argument("--rest-socket", type=int, help="file descriptor of a listening socket")
    made.add_argument("--allow-origin", default="", help="pages that may call both")
    return made


def main(argv: Sequence[str]) -> int:
    """Serves until standard input ends or a signal arrives; returns the exit status."""
    given = parser().parse_args(argv)
    logging.basicConfig(stream=sys.stderr, format="%(levelname)s %(message)s", level="INFO")
    gc.disable()  # nothing of what is imported goes away
    try:
        run(lambda stop: _serve(given, stop), until_stdin_ends=True)
    except (ClientError, OSError) as error:
        print(f"HTTP services: {error}", file=sys.stderr)
        return 1
    return 0


async def _serve(given: Namespace, stop: asyncio.Event) -> None:
    services: list[Awaitable[None]] = []
    registry_url = None
    if given.registry_socket is not None:
        site = _site("registry", given.registry_socket, given.allow_origin)
        registry_url = site.url
        services.append(_serve_registry(site, given.bootstrap_server, stop))
    if given.rest_socket is not None:
        site = _site("rest", given.rest_socket, given.allow_origin)
        services.append(_serve_rest(site, given.bootstrap_server, registry_url, stop))
    try:
        await asyncio.gather(*services)
    finally:
        stop.set()


def _site(extra: str, descriptor: int, allow_origin: str) -> Site:
    bound = socket.socket(fileno=descriptor)
    bound.setblocking(False)
    host, port = bound.getsockname()[:2]
    name = {"registry": "registry", "rest": "rest proxy"}[extra]
    at = Listening(port, host, allowed_origins=origins_of(allow_origin))
    return Site(name, at, extra, bound=bound)


async def _serve_registry(site: Site, bootstrap_servers: str, stop: asyncio.Event) -> None:
    from bowstring.registry.program.registry_options import RegistryOptions
    from bowstring.registry.program.registry_program import RegistryProgram

    security = security_settings(None)
    # Who needs a log-in at the broker needs one here: the registry has a user of its own.
    options = RegistryOptions(site.listening, bootstrap_servers, security, sign_in=has_sasl(security))
    async with RegistryProgram(options, site):
        gc.enable()
        await serve([site], stop)


async def _serve_rest(
    site: Site, bootstrap_servers: str, registry_url: str | None, stop: asyncio.Event
) -> None:
    from bowstring.rest.main import serve_rest
    from bowstring.rest.options import RestOptions

    options = RestOptions(bootstrap_servers, security_settings(None), registry_url)
    gc.enable()
    await serve_rest(site, options, stop)


if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(status)  # threads may still wait for a cluster that does not answer
