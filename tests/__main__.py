"""The whole suite, as `make test` runs it: `python -m tests [arguments for pytest]`.

Most tests wait more than they compute, or are one process that computes; so its parts run side by side, each a
pytest of its own, as many at once as cores and memory allow. What a part says is printed when it has ended. One
part alone is `pytest` with its paths; `pytest` without any runs everything, one test after the other.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
# A part has two JVMs at most; what runs beside it is given room, too.
BYTES_PER_LANE = 4 << 30
LANES_MAX = 4
NOTHING_COLLECTED = 5


class Part(NamedTuple):
    """Paths that run in one process, with fixtures that they share."""

    name: str
    paths: tuple[str, ...]
    without: tuple[str, ...] = ()


# Long ones first; neighbours differ in what they use: JVMs here, a compiler there.
PARTS = (
    Part("spark", ("tests/spark",)),
    Part("sanitize", ("tests/sanitize",)),
    Part("conformance", ("tests/conformance",)),
    Part("system", ("tests/system",)),
    Part("unit", ("tests/unit",), without=("tests/unit/bench",)),
    Part("simulation", ("tests/simulation",)),
    Part("fuzz", ("tests/fuzz",)),
    Part("bench", ("tests/unit/bench",)),
)


class Ended(NamedTuple):
    """How a part went."""

    part: Part
    status: int
    seconds: float
    output: str

    def failed(self, *, chosen: bool) -> bool:
        """Whether something is wrong; a part of which nothing was chosen is all right."""
        return self.status != 0 and not (chosen and self.status == NOTHING_COLLECTED)

    @property
    def last_line(self) -> str:
        """What pytest says in the end: 12 passed in 3.45s."""
        return (self.output.strip().splitlines() or ["it said nothing"])[-1].strip("= ")


class Lanes:
    """Takes one part after the other, several at once."""

    def __init__(self, count: int, arguments: list[str]):
        self._arguments = arguments
        self._waiting: queue.SimpleQueue[Part] = queue.SimpleQueue()
        for part in PARTS:
            self._waiting.put(part)
        self._running: dict[str, subprocess.Popen[str]] = {}
        self._stopped = False
        self._lock = threading.Lock()
        self.ended: queue.SimpleQueue[Ended] = queue.SimpleQueue()
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(count)]

    def start(self) -> None:
        """Begins."""
        for thread in self._threads:
            thread.start()

    def _work(self) -> None:
        while True:
            try:
                part = self._waiting.get_nowait()
            except queue.Empty:
                return
            began = time.monotonic()
            process = self._begin(part)
            if process is None:
                return
            output, _ = process.communicate()
            with self._lock:
                del self._running[part.name]
            self.ended.put(Ended(part, process.returncode, time.monotonic() - began, output))

    def _begin(self, part: Part) -> subprocess.Popen[str] | None:
        command = [sys.executable, "-m", "pytest", *part.paths, *self._arguments]
        command += [f"--ignore={path}" for path in part.without]
        with self._lock:
            if self._stopped:
                return None
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
            self._running[part.name] = process
            return process

    def stop(self) -> None:
        """Interrupts what runs, so that fixtures end their brokers and JVMs, and waits for it."""
        with self._lock:
            self._stopped = True
            for process in self._running.values():
                process.send_signal(signal.SIGINT)
        for thread in self._threads:
            thread.join(60)
        with self._lock:
            for process in self._running.values():
                os.killpg(process.pid, signal.SIGKILL)


def lanes() -> int:
    """How many parts may run at once here."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1, min(LANES_MAX, len(os.sched_getaffinity(0)), memory // BYTES_PER_LANE))


def main(arguments: list[str]) -> int:
    """Runs every part; 0 when all tests passed."""
    count = lanes()
    print(f"{len(PARTS)} parts of the suite, {count} at once; each is shown when it has ended", flush=True)
    began = time.monotonic()
    running = Lanes(count, arguments)
    running.start()
    ended: list[Ended] = []
    try:
        for _ in PARTS:
            each = running.ended.get()
            ended.append(each)
            print(f"\n{f' {each.part.name} ':─^100}\n{each.output}", flush=True)
    except KeyboardInterrupt:
        running.stop()
        return 130
    print("─" * 100)
    for each in ended:
        mark = "✗" if each.failed(chosen=bool(arguments)) else "✓"
        print(f"{mark} {each.part.name:12} {each.seconds:7.0f} s   {each.last_line}")
    print(f"{'all':14} {time.monotonic() - began:7.0f} s")
    return int(any(each.failed(chosen=bool(arguments)) for each in ended))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
