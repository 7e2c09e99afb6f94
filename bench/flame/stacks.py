"""Samples stacks of running processes with Linux perf, and makes their names readable."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from bench.peers.install import PeerError

# A prime, so that work that repeats every millisecond is not always sampled at the same place.
FREQUENCY_HZ = 997
# Stack copied with each sample for unwinding: frames of the interpreter are large.
STACK_BYTES = 16_384
KERNEL = "[kernel"
PYTHON = "libpython"

_SAMPLE = re.compile(r"^(?P<thread>.+?)\s+(?P<pid>\d+)/\d+ *:?$")
_FRAME = re.compile(r"^\s+[0-9a-f]+ (?P<name>.+) \((?P<object>.*)\)$")
_CYTHON = re.compile(r"^__pyx_(?:f|pf|pw|tp_\w+?|fuse_\d+\w*?)_(?=\d)")


class Frame(NamedTuple):
    """One call of a stack; `kind` is kernel, native (this project's), python (the interpreter) or library."""

    name: str
    kind: str


Stack = tuple[Frame, ...]


class Recording:
    """Runs `perf record` on some processes inside the ``with`` block.

    Raises:
        PeerError: perf is missing, or may not sample these processes.
    """

    def __init__(self, pids: list[int], output: Path):
        program = shutil.which("perf")
        if program is None:
            raise PeerError("perf is not installed: apt-get install linux-perf")
        self._program = program
        self._output = output
        self._process = subprocess.Popen(
            [
                *(program, "record", "-e", "cpu-clock", "-F", str(FREQUENCY_HZ)),
                *("--call-graph", f"dwarf,{STACK_BYTES}"),
                *("-p", ",".join(map(str, pids)), "-o", str(output)),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._process.send_signal(signal.SIGINT)
        try:
            _, told = self._process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise PeerError("perf record did not end") from None
        if exc_info[0] is None and not self._output.exists():
            raise PeerError(f"perf recorded nothing: {told.strip()[-500:]}")

    def await_start(self, seconds: float = 0.3) -> None:
        """Waits some milliseconds, because perf does not report when it has attached."""
        time.sleep(seconds)

    def stacks(self) -> dict[int, Counter[Stack]]:
        """Returns samples by process and stack, the outermost call first."""
        # Without this, perf looks up inlined calls in the debug information one by one, for minutes.
        ran = subprocess.Popen(
            [
                self._program,
                "script",
                "-i",
                str(self._output),
                "--no-inline",
                "-F",
                "comm,pid,tid,ip,sym,dso",
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            errors="replace",
        )
        assert ran.stdout is not None
        found: dict[int, Counter[Stack]] = {}
        for pid, stack in samples(ran.stdout):
            found.setdefault(pid, Counter())[stack] += 1
        if ran.wait() != 0:
            raise PeerError(f"perf script ended with {ran.returncode}")
        return found


def samples(lines: Iterator[str]) -> Iterator[tuple[int, Stack]]:
    """Yields (process, stack) of each sample in the output of `perf script`; a stack begins with its thread's
    name.
    """
    pid, thread = 0, ""
    frames: list[Frame] = []
    for line in lines:
        if found := _FRAME.match(line):
            frames.append(frame(found["name"], found["object"]))
        elif sample := _SAMPLE.match(line.rstrip()):
            pid, thread = int(sample["pid"]), sample["thread"].strip()
        elif not line.strip() and frames:
            yield pid, (Frame(thread, "thread"), *merged(reversed(frames)))
            frames = []
    if frames:
        yield pid, (Frame(thread, "thread"), *merged(reversed(frames)))


def frame(symbol: str, where: str) -> Frame:
    """Returns a frame with a readable name."""
    if where.startswith(KERNEL):
        return Frame(symbol.removeprefix("__x64_sys_").removeprefix("__pfx_"), "kernel")
    if "_native/" in where:
        module = where.rpartition("_native/")[2].partition(".")[0].replace("/", ".")
        return Frame(cython_name(symbol, module), "native")
    if PYTHON in where or Path(where).name.startswith("python"):
        return Frame("Python", "python")
    name = Path(where).name.partition(".so")[0] if symbol == "[unknown]" else symbol
    return Frame(name, "library")


def cython_name(symbol: str, module: str) -> str:
    """`produce.enqueue` for `__pyx_f_9bowstring_7_native_7produce_enqueue`."""
    found = _CYTHON.match(symbol)
    if found is None:
        return f"{module}.{symbol.removeprefix('__pyx_f_').partition('.')[0]}"
    rest, words = symbol[found.end() :], []
    while number := re.match(r"\d+", rest):
        end = number.end() + int(number[0])
        if rest[end : end + 1] not in ("", "_", "."):
            break  # not a length, but the number that Cython puts before a function's name
        words.append(rest[number.end() : end])
        rest = rest[end:].removeprefix("_")
    # The compiler marks parts that it split off with a suffix.
    name = re.sub(r"^\d+", "", rest).partition(".")[0]
    owner = ".".join(word for word in words if word not in ("bowstring", "_native"))
    return f"{owner}.{name}" if name else owner


def merged(frames: Iterator[Frame]) -> Iterator[Frame]:
    """Merges repeated calls of the same name, and the interpreter's own calls, into one."""
    last: Frame | None = None
    for each in frames:
        if each != last:
            yield each
        last = each


def counted(stacks: Mapping[Stack, int]) -> int:
    """Returns the total number of samples."""
    return sum(stacks.values())
