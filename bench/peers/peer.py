"""Runs a broker process under measurement: starts, watches and stops any broker in the same way."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar

from bench.peers.install import PeerError
from bench.peers.wire import Connection, wait_for_api_versions
from bowstring.cluster.ports import ClaimedPorts

if TYPE_CHECKING:
    from bench.peers.tls_files import TlsFiles

HOST = "127.0.0.1"
STOP_TIMEOUT_SECONDS = 120.0
_PORTS = ClaimedPorts()

# Settings of both brokers; all others are each one's defaults.
COMMON_SETTINGS = {
    # A single consumer need not wait for others to join; the wait would only prolong the measured interval.
    "group.initial.rebalance.delay.ms": "0",
    # Deleted topics of earlier rounds must leave the disk at once and not during a later round.
    "log.segment.delete.delay.ms": "1000",
}


class Peer(ABC):
    """One broker in a directory of its own; `with` starts and stops it.

    Attributes:
        name: what result rows call it.
        host: the address it listens on and advertises; set before `prepare` if clients run elsewhere.
        settings: further ones of the broker, which win; set before `prepare`.
        tls: with it the broker has a listener for TLS and one for SCRAM in the clear, too; set before
            `prepare`.
        tls_port, sasl_port: the ports of these listeners.
        start_seconds: from fork to the first answered ApiVersions, of the latest start.
        stop_seconds: from SIGTERM to the process's end, of the latest stop.
    """

    name: ClassVar[str]

    def __init__(self, work: Path):
        self.work = work
        self.data = work / "data"
        self.log = work / "broker.log"
        self.host = HOST
        self.port = 0
        self.settings: dict[str, str] = {}
        self.tls: TlsFiles | None = None
        self.tls_port = self.sasl_port = 0
        self.start_seconds = 0.0
        self.stop_seconds = 0.0
        self._process: subprocess.Popen[bytes] | None = None
        self._launched_at = 0.0
        work.mkdir(parents=True, exist_ok=True)

    @abstractmethod
    def prepare(self) -> None:
        """Does everything before the first start (installing, formatting, choosing ports); not timed."""

    @abstractmethod
    def command(self) -> list[str]:
        """Returns the command line that serves `data` on `port`."""

    @abstractmethod
    def version(self) -> str:
        """Returns the broker's name and version for the report."""

    def environment(self) -> dict[str, str]:
        """Returns the environment of the process: the bench's own, unless a peer overrides it."""
        return dict(os.environ)

    @property
    def pid(self) -> int:
        """Process id of the running broker."""
        if self._process is None:
            raise PeerError(f"{self.name} is not running")
        return self._process.pid

    @property
    def bootstrap(self) -> str:
        """`host:port` for clients."""
        return f"{self.host}:{self.port}"

    @property
    def tls_bootstrap(self) -> str:
        """`host:port` for clients over TLS."""
        return f"{self.host}:{self.tls_port}"

    def listeners(self) -> str:
        """Returns the listeners for clients; chooses their ports.

        Raises:
            PeerError: the host is not an address of this machine.
        """
        (self.port,) = free_ports(1, self.host)
        plain = f"PLAINTEXT://{self.host}:{self.port}"
        if self.tls is None:
            return plain
        self.tls_port, self.sasl_port = free_ports(2, self.host)
        return f"{plain},SSL://{self.host}:{self.tls_port},SASL://{self.host}:{self.sasl_port}"

    def tls_settings(self) -> dict[str, str]:
        """Returns the settings of the listener for TLS; none without it."""
        return self.tls.broker_settings() if self.tls is not None else {}

    @property
    def alive(self) -> bool:
        """True while the process runs."""
        return self._process is not None and self._process.poll() is None

    def start(self, timeout_seconds: float = 180.0) -> None:
        """Starts the broker and returns when it has answered ApiVersions.

        Raises:
            PeerError: it ended or did not answer in time; the end of its log is in the message.
        """
        if self.port == 0:
            self.prepare()
        self.launch()
        self.await_ready(timeout_seconds)

    def launch(self) -> None:
        """Starts the process without waiting for it."""
        with self.log.open("ab") as log:
            self._launched_at = time.monotonic()
            self._process = subprocess.Popen(
                self.command(),
                cwd=self.work,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def await_ready(self, timeout_seconds: float = 180.0) -> None:
        """Returns when the launched broker has answered ApiVersions; raises like `start`."""
        assert self._process is not None
        deadline = self._launched_at + timeout_seconds
        # Short waits, so that a broker that ends at once is reported at once.
        while not wait_for_api_versions(self.host, self.port, min(deadline, time.monotonic() + 1.0)):
            ended = self._process.poll()
            if ended is not None or time.monotonic() >= deadline:
                self.kill()
                reason = f"ended with {ended}" if ended is not None else "did not answer in time"
                raise PeerError(f"{self.name} {reason}; its log ends:\n{self.log_tail()}")
        self.start_seconds = time.monotonic() - self._launched_at

    def stop(self) -> None:
        """Stops the broker by SIGTERM and waits for its end.

        Raises:
            PeerError: it had ended before, or had to be killed.
        """
        if self._process is None:
            return
        process, self._process = self._process, None
        if process.poll() is not None:
            raise PeerError(f"{self.name} ended by itself ({process.returncode}):\n{self.log_tail()}")
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired as error:
            process.kill()
            process.wait()
            raise PeerError(f"{self.name} did not stop on SIGTERM:\n{self.log_tail()}") from error
        self.stop_seconds = time.monotonic() - began

    def kill(self) -> None:
        """Ends the broker at once, if it runs."""
        if self._process is not None:
            process, self._process = self._process, None
            process.kill()
            process.wait()

    def connect(self) -> Connection:
        """Returns a raw connection to the broker."""
        return Connection(self.host, self.port)

    def log_tail(self, lines: int = 20) -> str:
        """Returns the last lines of the broker's log."""
        if not self.log.exists():
            return "(no log)"
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def __enter__(self) -> Peer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.stop()
        else:
            self.kill()


def free_ports(count: int, host: str = HOST) -> list[int]:
    """Returns different ports of a local address, claimed until this process ends: a broker that starts
    again finds its own free.

    Raises:
        PeerError: it is not an address of this machine.
    """
    try:
        return _PORTS.take(count, host)
    except OSError as error:
        raise PeerError(
            f"cannot listen on {host}: {error}; name an address of the broker's machine"
        ) from error


def write_properties(path: Path, settings: dict[str, str]) -> Path:
    """Writes `settings` as a Java properties file and returns its path."""
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return path
