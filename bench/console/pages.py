"""Runs `bowstring console`, and finds its pages by the routes of its application."""

from __future__ import annotations

import http.client
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

START_S_MAX = 60.0


class Answer(NamedTuple):
    """An answer of the console.

    Attributes:
        status: HTTP's.
        kind: Its media type.
        body: What was read of it; nothing of an endless one.
        seconds: From the request to the last byte; to the headers of an endless one.
    """

    status: int
    kind: str
    body: bytes
    seconds: float


class NoNameError(Exception):
    """A route has a parameter that nobody gave a value for."""


class Console:
    """A running console.

    Attributes:
        port: Where it serves.
        pid: Of its process.
        start_seconds: From fork to the first answer.
    """

    def __init__(self, port: int, pid: int, start_seconds: float) -> None:
        self.port, self.pid, self.start_seconds = port, pid, start_seconds

    @property
    def url(self) -> str:
        """Of its first page, without a slash at the end."""
        return f"http://127.0.0.1:{self.port}"

    def get(self, path: str, timeout_s: float = 60.0) -> Answer:
        """Returns the answer to a GET; of server-sent events only the headers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        try:
            began = time.perf_counter()
            connection.request("GET", path)
            answer = connection.getresponse()
            kind = (answer.getheader("content-type") or "").partition(";")[0]
            body = b"" if kind == "text/event-stream" else answer.read()
            return Answer(answer.status, kind, body, time.perf_counter() - began)
        finally:
            connection.close()

    @contextmanager
    def stream(self, path: str) -> Iterator[http.client.HTTPResponse]:
        """Opens an endless answer, which the caller reads."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60.0)
        try:
            connection.request("GET", path)
            yield connection.getresponse()
        finally:
            connection.close()


@contextmanager
def running_console(bootstrap_servers: str, *arguments: str) -> Iterator[Console]:
    """Runs `bowstring console` until the block ends."""
    port = _free_port()
    command = [sys.executable, "-m", "bowstring", "console", "--bootstrap-server", bootstrap_servers]
    began = time.monotonic()
    process = subprocess.Popen([*command, "--port", str(port), *arguments])
    try:
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except ConnectionRefusedError:
                if process.poll() is not None or time.monotonic() > began + START_S_MAX:
                    raise RuntimeError(f"the console does not serve; status {process.poll()}") from None
                time.sleep(0.005)
        yield Console(port, process.pid, time.monotonic() - began)
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def paths(names: Mapping[str, str], queries: Mapping[str, Sequence[str]]) -> list[str]:
    """Returns the paths of all routes that answer GET.

    Args:
        names: Values of the parameters of routes.
        queries: By path, what follows its question mark: pages of one thing that a query names.

    Raises:
        NoNameError: A value is missing.
    """
    from starlette.routing import Route

    from bowstring.console.app import create_app
    from bowstring.console.options import ConsoleOptions

    found = []
    for route in create_app(ConsoleOptions()).routes:
        if isinstance(route, Route) and "GET" in (route.methods or ()):
            missing = set(route.param_convertors) - set(names)
            if missing:
                raise NoNameError(f"{route.path}: give {', '.join(sorted(missing))} a value")
            path = re.sub(r"\{(\w+)(:\w+)?\}", lambda match: names[match[1]], route.path)
            found += [f"{path}?{query}" for query in queries.get(route.path, ())] or [path]
    return found
