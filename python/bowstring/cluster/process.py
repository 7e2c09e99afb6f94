"""Starts a node as a process, waits until it serves, and sends it signals."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from bowstring.clients.errors import ClientError
from bowstring.cluster.layout import Node

START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 60.0
TAIL_LINES: Final = 15
_PAUSE_S: Final = 0.01
_READY: Final = re.compile(rb'^\S+ \S+ INFO ready |"message": "ready"', re.M)


class NodeError(ClientError, RuntimeError):
    """A node did not start or stop, or is not in the state that a call needs."""


class NodeProcess:
    """The process of a node, which may run, be paused or be dead.

    Attributes:
        node: What it runs.
        is_paused: SIGSTOP holds it.
    """

    def __init__(self, node: Node, lifeline: int) -> None:
        """`lifeline` is the end of a pipe whose other end the starting process holds."""
        self.node = node
        self.is_paused = False
        self._lifeline = lifeline
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def is_running(self) -> bool:
        """Whether there is a process; a paused one counts."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Its process id.

        Raises:
            NodeError: It does not run.
        """
        if self._process is None or not self.is_running:
            raise NodeError(f"node {self.node.id} does not run; restart({self.node.id}) starts it")
        return self._process.pid

    @property
    def exit_status(self) -> int | None:
        """As of subprocess: negative for a signal; None while it runs or was never started."""
        return None if self._process is None else self._process.poll()

    # ------------------------------------------------------------ start

    def start(self) -> None:
        """Starts the process, and does not wait for it."""
        assert not self.is_running
        command = [sys.executable, "-m", "bowstring.cluster.node", "--config", str(self.node.config_file)]
        with open(self.node.log_file, "ab") as log:
            self._log_start = log.tell()
            # A process group of its own: Ctrl-C in a terminal must not reach the nodes before their starter.
            self._process = subprocess.Popen(
                command, stdin=self._lifeline, stdout=log, stderr=log, process_group=0
            )
        self.is_paused = False

    def wait_until_ready(self, deadline_s: float, is_cancelled: Callable[[], bool] = lambda: False) -> None:
        """Waits until the node serves, or until `is_cancelled`.

        Args:
            deadline_s: Of time.monotonic.
            is_cancelled: Whether the node is no longer needed.

        Raises:
            NodeError: It has ended, or it is too late; with the end of its log.
        """
        while not (_READY.search(self._new_log()) or is_cancelled()):
            if not self.is_running:
                raise NodeError(
                    f"node {self.node.id} did not start: {self.how_it_ended()}\n{self.log_tail()}"
                )
            if time.monotonic() > deadline_s:
                raise NodeError(
                    f"node {self.node.id} does not serve yet. A node needs a majority of the controllers.\n"
                    f"{self.log_tail()}"
                )
            time.sleep(_PAUSE_S)

    def how_it_ended(self) -> str:
        """Describes how the process ended."""
        status = self.exit_status
        if status is not None and status < 0:
            return f"{signal.Signals(-status).name} ended it"
        return f"it ended with exit status {status}"

    def _new_log(self) -> bytes:
        with open(self.node.log_file, "rb") as log:
            log.seek(self._log_start)
            return log.read()

    def log_tail(self, lines: int = TAIL_LINES) -> str:
        """Returns the last lines of its log since its last start, under the name of the file."""
        text = self._new_log().decode(errors="replace")
        last = "\n".join(f"  {line}" for line in text.splitlines()[-lines:])
        return f"The end of {self.node.log_file}:\n{last or '  (it is empty)'}"

    # ------------------------------------------------------------ signals

    def send(self, number: signal.Signals) -> None:
        """Sends a signal.

        Raises:
            NodeError: It does not run.
        """
        assert self.pid and self._process is not None
        self._process.send_signal(number)

    def pause(self) -> None:
        """Stops it with SIGSTOP; its connections stay open. Returns when all its threads have stopped."""
        pid = self.pid
        self.send(signal.SIGSTOP)
        self.is_paused = True
        # The kernel reports the stop once its last thread has stopped. WNOWAIT leaves the status to `poll`.
        with suppress(ChildProcessError):
            os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Continues it."""
        self.send(signal.SIGCONT)
        self.is_paused = False

    def kill(self) -> None:
        """Ends it at once."""
        if self._process is not None and self.is_running:
            self._process.kill()
        self._ended(STOP_TIMEOUT_S)

    def ask_to_stop(self) -> None:
        """Sends it SIGTERM for a clean stop, and does not wait for it."""
        if self.is_running:
            if self.is_paused:
                self.resume()
            self.send(signal.SIGTERM)

    def wait_until_stopped(self) -> None:
        """Waits for the end of a clean stop; kills a process that takes too long.

        Raises:
            NodeError: It took too long, or did not stop cleanly.
        """
        try:
            status = self._ended(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise NodeError(
                f"node {self.node.id} did not stop in {STOP_TIMEOUT_S:.0f} s: killed\n{self.log_tail()}"
            ) from None
        # SIGTERM itself ends a process that has not begun anything yet, and has no handler.
        if status not in (0, -signal.SIGTERM):
            raise NodeError(
                f"node {self.node.id} did not stop cleanly: {self.how_it_ended()}\n{self.log_tail()}"
            )

    def _ended(self, timeout_s: float) -> int:
        self.is_paused = False
        return 0 if self._process is None else self._process.wait(timeout_s)
