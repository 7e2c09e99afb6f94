"""Runs `bowstring serve` as a process."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

from bowstring.cluster.ports import ClaimedPorts
from tests.support.readable import readable
from tests.support.waiting import HANG_S, wait_until

PORTS = ClaimedPorts()
PORTS_MAX = 200
"""A process of tests keeps this many claims of ports: more than one test needs."""


def steady_port(beside: Sequence[int] = ()) -> int:
    """Returns a free port that outgoing connections never get, so it is still free when a broker restarts on it.

    No other process of tests, and no `bowstring.Cluster`, gets it meanwhile. The ports that are `beside` higher are
    this test's, too.
    """

    def found() -> int | None:
        with ClaimedPorts() as first:
            (port,) = first.take(1)
        return port if PORTS.take_these([port, *(port + more for more in beside)]) else None

    port = wait_until(found)
    PORTS.give_back(max(0, len(PORTS) - PORTS_MAX), oldest=True)
    return port


def hear_hangups() -> None:
    """Restores SIGHUP in a child before it starts a broker, in case the tests run under `nohup`."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


class Process:
    """A broker process that logs JSON; its attributes are the fields of its `ready` line.

    `program` is what stands before `serve`: by default this checkout's command line.
    """

    def __init__(
        self,
        *arguments: str,
        wait: bool = True,
        program: Sequence[str] = (sys.executable, "-m", "bowstring"),
        **options,
    ) -> None:
        self.lines: list[dict] = []
        self.started = time.monotonic()
        options.setdefault("preexec_fn", hear_hangups)
        self.process = subprocess.Popen(
            [*program, "serve", "--log-format", "json", *arguments],
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            **options,
        )
        self._rest = b""
        self._ended = False
        try:
            self.facts = self.wait_for("ready") if wait else {}
        except BaseException:
            self.stop(signal.SIGKILL)
            raise

    @property
    def port(self) -> int:
        return int(self.facts["listeners"].rpartition(":")[2])

    def wait_for(self, message: str, timeout_s: float = HANG_S) -> dict:
        """Returns the next line with this message."""
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
        said = os.read(self.process.stderr.fileno(), 1 << 16)
        self._ended = not said
        *whole, self._rest = (self._rest + said).split(b"\n")
        # Output before the configs are read is plain text.
        found = [
            json.loads(line) if line[:1] == b"{" else {"message": line.decode()} for line in whole if line
        ]
        self.lines += found
        return found

    def wait_for_text(self, text: str) -> None:
        """Waits for a line that is not JSON and contains `text`."""
        deadline = time.monotonic() + HANG_S
        while not any(text in line["message"] for line in self.lines):
            assert time.monotonic() < deadline, f"no {text!r}: {self.lines}"
            self._read(deadline - time.monotonic())

    def read_for(self, seconds: float) -> None:
        """Reads the process's output for at most this time."""
        self._read(seconds)

    def read_to_the_end(self) -> None:
        """Reads the remaining lines of a process that has ended."""
        while not self._ended:
            self._read(HANG_S)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Sends a signal and returns the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        status = self.process.wait(timeout=HANG_S)
        self.process.stderr.close()
        return status
