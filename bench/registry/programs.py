"""The registries that are measured: `bowstring registry`, and Karapace's where its source is."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from bench.peers.peer import free_ports

START_S = 120.0
STEP_S = 0.01


class Running(NamedTuple):
    """A registry that has started."""

    name: str
    url: str
    pid: int
    start_seconds: float


@contextmanager
def bowstring_registry(servers: str, topic: str, last_id: int = 0) -> Iterator[Running]:
    """Runs `bowstring registry` until the block ends.

    Args:
        servers: of the cluster.
        topic: of the schemas; its name is that of the group, too.
        last_id: of a topic that has schemas: it has started once it finds this one. 0: once it leads.
    """
    [port] = free_ports(1)
    command = [sys.executable, "-m", "bowstring", "registry", "-b", servers, "--port", str(port)]
    command += ["--topic", topic, "--group", topic, "--replication-factor", "1"]
    with _running("bowstring", command, port, dict(os.environ), last_id) as running:
        yield running


@contextmanager
def karapace_registry(home: Path, servers: str, topic: str, last_id: int = 0) -> Iterator[Running]:
    """Runs Karapace's registry until the block ends; its Python is `.venv/bin/python` of its source.

    It has its defaults but for a level of logging that writes nothing for each request, and the wait
    before it leads. The arguments are those of `bowstring_registry`.
    """
    [port] = free_ports(1)
    settings = {
        "BOOTSTRAP_URI": servers,
        "PORT": str(port),
        "HOST": "127.0.0.1",
        "ADVERTISED_HOSTNAME": "127.0.0.1",
        "TOPIC_NAME": topic,
        "GROUP_ID": topic,
        "KARAPACE_REGISTRY": "true",
        "LOG_LEVEL": "WARNING",
        "WAITING_TIME_BEFORE_ACTING_AS_MASTER_MS": "100",
    }
    environment = os.environ | {f"KARAPACE_{name}": value for name, value in settings.items()}
    environment["PYTHONPATH"] = str(home / "src")
    command = [str(home / ".venv/bin/python"), "-m", "karapace"]
    with _running("karapace", command, port, environment, last_id) as running:
        yield running


@contextmanager
def bowstring_rest(servers: str) -> Iterator[Running]:
    """Runs `bowstring rest` until the block ends."""
    [port] = free_ports(1)
    command = [sys.executable, "-m", "bowstring", "rest", "-b", servers, "--port", str(port)]
    with _running("bowstring", command, port, dict(os.environ), path="/topics") as running:
        yield running


@contextmanager
def karapace_rest(home: Path, servers: str) -> Iterator[Running]:
    """Runs Karapace's REST proxy until the block ends; see `karapace_registry`."""
    [port] = free_ports(1)
    settings = {
        "BOOTSTRAP_URI": servers,
        "PORT": str(port),
        "HOST": "127.0.0.1",
        "KARAPACE_REST": "true",
        "LOG_LEVEL": "WARNING",
        "REGISTRY_HOST": "127.0.0.1",
    }
    environment = os.environ | {f"KARAPACE_{name}": value for name, value in settings.items()}
    environment["PYTHONPATH"] = str(home / "src")
    command = [str(home / ".venv/bin/python"), "-m", "karapace.kafka_rest_apis"]
    with _running("karapace", command, port, environment, path="/topics") as running:
        yield running


@contextmanager
def _running(
    name: str, command: list[str], port: int, environment: dict[str, str], last_id: int = 0, path: str = ""
) -> Iterator[Running]:
    """`path`: the program has started once GET of it is answered."""
    path = path or (f"/schemas/ids/{last_id}" if last_id else "")
    began = time.perf_counter()
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(command, stdout=said, stderr=said, env=environment) as process,
    ):
        url = f"http://127.0.0.1:{port}"
        try:
            while not (answers(url, "GET", path) if path else _leads(url)):
                if process.poll() is not None or time.perf_counter() - began > START_S:
                    said.seek(0)
                    raise RuntimeError(f"{name} did not start: {said.read()[-2000:].decode()}")
                time.sleep(STEP_S)
            yield Running(name, url, process.pid, time.perf_counter() - began)
        finally:
            process.terminate()


def _leads(url: str) -> bool:
    """Whether the registry leads and has read its topic: it then takes a config."""
    return answers(url, "PUT", "/config", b'{"compatibility": "BACKWARD"}')


def answers(url: str, method: str, path: str, body: bytes | None = None) -> bool:
    """Returns whether a program answers a request with 200."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=START_S)
    try:
        connection.request(method, path, body, {"content-type": "application/json"})
        return connection.getresponse().status == http.client.OK
    except OSError:
        return False
    finally:
        connection.close()
