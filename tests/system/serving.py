"""`bowstring serve` as a process."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from tests.readable import readable


def steady_port() -> int:
    """A free port that outgoing connections are never given: still free when a broker comes back to it."""
    ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for port in random.sample(range(10_000, ephemeral), 100):
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port
    raise AssertionError(f"no free port between 10000 and {ephemeral}")


class Process:
    """A broker process that logs JSON; its facts are those of its `ready` line."""

    def __init__(self, *arguments: str, wait: bool = True, cwd=None) -> None:
        self.lines: list[dict] = []
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bowstring", "serve", "--log-format", "json", *arguments],
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            cwd=cwd,
        )
        self._rest = b""
        try:
            self.facts = self.wait_for("ready") if wait else {}
        except BaseException:
            self.stop(signal.SIGKILL)
            raise

    @property
    def port(self) -> int:
        return int(self.facts["listeners"].rpartition(":")[2])

    def wait_for(self, message: str, timeout_s: float = 90.0) -> dict:
        """The next line that says `message`."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            for line in self._read(deadline - time.monotonic()):
                if line["message"] == message:
                    return line
            assert self.process.poll() is None, (
                f"exited {self.process.returncode}: {self.lines} {self._rest!r}"
            )
        raise AssertionError(f"no line {message!r} in {timeout_s} s: {self.lines}")

    def _read(self, timeout_s: float) -> list[dict]:
        if not readable(self.process.stderr, timeout_s):
            return []
        *whole, self._rest = (self._rest + os.read(self.process.stderr.fileno(), 1 << 16)).split(b"\n")
        # What is said before the configs are read is plain text.
        found = [
            json.loads(line) if line[:1] == b"{" else {"message": line.decode()} for line in whole if line
        ]
        self.lines += found
        return found

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Sends a signal and returns the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        status = self.process.wait(timeout=90)
        self.process.stderr.close()
        return status
