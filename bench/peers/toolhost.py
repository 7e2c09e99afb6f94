"""Runs Kafka's command-line tools one after another in a warm JVM (see java/ToolHost.java)."""

from __future__ import annotations

import queue
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.peers.install import JVM_PERFORMANCE_OPTIONS, PeerError, java_program

END = "\x04"
# kafka-producer-perf-test.sh and kafka-consumer-perf-test.sh run with this heap.
HEAP = "-Xmx512M"
# The programs of java/ that a host can run, after the host itself.
PROGRAMS = ("ToolHost", "LatencyProbe", "ExactlyOnceTool")
LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = [%d] %p %m (%c)%n
"""


class ToolHost:
    """One JVM. `begin` starts a tool in it, `finish` waits for it; several hosts run side by side.

    Args:
        work: directory for its log.
        name: name in errors.
        options: those of its JVM, if not Kafka's own for tools.

    Attributes:
        heard: called by `finish` with each line that the tool prints.
    """

    def __init__(self, work: Path, name: str, options: Sequence[str] = (HEAP, *JVM_PERFORMANCE_OPTIONS)):
        work.mkdir(parents=True, exist_ok=True)
        self.name = name
        self._log = work / f"{name}.log"
        logging = work / "tools-log4j2.properties"
        logging.write_text(LOG4J)
        classpath = ":".join(map(java_program, PROGRAMS))
        logging_option = f"-Dlog4j2.configurationFile={logging}"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                ["java", *options, logging_option, "-cp", classpath, "ToolHost"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._busy = False
        self.heard: Callable[[str], None] = lambda line: None
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, name=name, daemon=True)
        self._reader.start()

    def __enter__(self) -> ToolHost:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """Process id of the JVM."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """False once the JVM has ended or was abandoned."""
        return self._process.poll() is None

    @property
    def busy(self) -> bool:
        """True from the start of a tool until `finish` has returned."""
        return self._busy

    def begin(self, tool: str, arguments: list[str]) -> None:
        """Starts class `tool` with `arguments`; the host runs one at a time."""
        assert self._process.stdin is not None
        self._busy = True
        self._process.stdin.write("\t".join([tool, *arguments]) + "\n")
        self._process.stdin.flush()

    def finish(self, timeout_seconds: float) -> list[str]:
        """Returns the lines that the tool printed.

        Raises:
            PeerError: the tool failed, or did not end in time; then the JVM is killed with it.
        """
        deadline = time.monotonic() + timeout_seconds
        lines: list[str] = []
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                self._process.kill()
                raise PeerError(self._said(f"did not end within {timeout_seconds:.0f} s", lines)) from None
            if line is None:
                raise PeerError(self._said("lost its JVM", lines))
            # A tool may leave its last line open, so the marker may not be at the start of a line.
            text, marker, outcome = line.partition(END)
            if text:
                lines.append(text)
                self.heard(text)
            if marker:
                self._busy = False
                break
        if outcome != "done":
            raise PeerError(self._said(outcome, lines))
        return lines

    def run(self, tool: str, arguments: list[str], timeout_seconds: float = 300.0) -> list[str]:
        """Runs `begin` and `finish`."""
        self.begin(tool, arguments)
        return self.finish(timeout_seconds)

    def close(self) -> None:
        """Ends the JVM and any tool in it."""
        if self._busy:
            self._process.kill()
        if self._process.poll() is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()
        self._reader.join(5)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def _said(self, what: str, lines: list[str]) -> str:
        log = self._log.read_text(errors="replace").splitlines() if self._log.exists() else []
        return "\n".join([f"{self.name}: {what}", *lines[-5:], *log[-10:]])
