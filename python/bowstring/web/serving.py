"""Serves ASGI applications with uvicorn until a signal, or until standard input ends."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from bowstring.clients.errors import ConfigError, MissingPackageError
from bowstring.web.listening import Listening
from bowstring.web.site_guard import SiteGuard
from bowstring.web.tls_listener import HANDSHAKES_MAX

STOP_S = 3
"""How long answers that are under way may take when the program stops."""
KEEP_ALIVE_S = 75
CONNECTIONS_MAX = 4000
SITES_MAX = 2
"""Of one process: registry and REST proxy."""
DESCRIPTORS_BESIDE = 1000
"""What a program may have open besides the connections of its clients."""


@dataclass(slots=True)
class Site:
    """An application and the address that it is served on.

    Attributes:
        name: of the program, for the line with its address.
        listening: where.
        extra: the optional packages to name if one is missing.
        app: an ASGI application; set before `serve`.
        bound: a listening socket of another process; None: the site binds its own.
        socket: bound when the site is made, so that the port is known before the application is.
        url: such as `http://127.0.0.1:8081`.
        port: of the address.
    """

    name: str
    listening: Listening
    extra: str
    app: Any = None
    bound: socket.socket | None = field(default=None, repr=False)
    socket: socket.socket = field(init=False, repr=False)
    url: str = field(init=False)
    port: int = field(init=False)

    def __post_init__(self) -> None:
        """Binds the address.

        Raises:
            ConfigError: it is unknown or in use.
        """
        self.listening.check()
        self.socket = self.listening.bind() if self.bound is None else self.bound
        self.url = self.listening.url(self.socket)
        self.port = self.socket.getsockname()[1]

    def close(self) -> None:
        """Frees the address of a site that is not served."""
        self.socket.close()


async def serve(sites: Sequence[Site], stop: asyncio.Event) -> None:
    """Serves until `stop` is set; then lets answers that are under way end.

    Pages of other sites are refused: see `site_guard`.

    Prints a line with the address of each site to stderr, as `registry on http://127.0.0.1:8081`.

    Raises:
        MissingPackageError: uvicorn or httptools is not installed.
        ConfigError: a certificate or key cannot be read.
    """
    try:
        from bowstring.web.server import make_server
    except ImportError as error:
        raise MissingPackageError(error.name or "uvicorn", sites[0].extra) from error
    servers = [make_server(_guarded(site), _tls(site.listening), stop) for site in sites]
    for site in sites:
        print(f"{site.name} on {site.url}", file=sys.stderr, flush=True)
    await asyncio.gather(
        *(server.serve(sockets=[site.socket]) for server, site in zip(servers, sites, strict=True))
    )


def _guarded(site: Site) -> SiteGuard:
    listening = site.listening
    return SiteGuard(site.app, is_local=listening.is_loopback, allowed_origins=listening.allowed_origins)


def _tls(listening: Listening) -> ssl.SSLContext | None:
    if listening.tls_certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(listening.tls_certificate, listening.tls_key)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"cannot read {listening.tls_certificate} and {listening.tls_key}: {error}"
        ) from error
    if listening.tls_client_authorities is not None:
        try:
            context.load_verify_locations(listening.tls_client_authorities)
        except (OSError, ValueError) as error:
            raise ConfigError(f"cannot read {listening.tls_client_authorities}: {error}") from error
    context.verify_mode = {
        "none": ssl.CERT_NONE,
        "requested": ssl.CERT_OPTIONAL,
        "required": ssl.CERT_REQUIRED,
    }[listening.client_certificates]
    return context


def run(program: Callable[[asyncio.Event], Awaitable[None]], *, until_stdin_ends: bool = False) -> None:
    """Runs `program(stop)` on uvloop. SIGTERM, SIGINT and SIGHUP set `stop`.

    Args:
        program: serves until `stop` is set, and cleans up.
        until_stdin_ends: the end of standard input sets `stop`, too: the process that started this one ended.
    """
    import uvloop

    _raise_descriptor_limit()

    async def main() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if each is signal.SIGHUP and signal.getsignal(each) is signal.SIG_IGN:
                continue  # nohup: the program must outlive its terminal
            loop.add_signal_handler(each, stop.set)
        if until_stdin_ends:
            threading.Thread(target=_await_stdin, args=(loop, stop), name="stdin", daemon=True).start()
        await program(stop)

    uvloop.run(main())


def _raise_descriptor_limit() -> None:
    """Lets the process have as many connections as it takes, where the system permits that."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = SITES_MAX * (CONNECTIONS_MAX + HANDSHAKES_MAX) + DESCRIPTORS_BESIDE
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _await_stdin(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    try:
        loop.call_soon_threadsafe(stop.set)
    except RuntimeError:  # the loop is closed: the program ends
        return
