"""Stacks of running processes, sampled by Linux perf, with names that people know."""

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

# A prime, so that what happens every millisecond is not always met at the same place.
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
    """`perf record` of some processes between `with` and its end.

    Raises:
        PeerError: perf is not there, or may not look at these processes.
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
        """perf says nothing when it has attached itself; it does so within some milliseconds."""
        time.sleep(seconds)

    def stacks(self) -> dict[int, Counter[Stack]]:
        """Samples by process and stack, the outermost call first."""
        # Inlined calls would be looked up in the debug information one by one, for minutes.
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
    """(process, stack) of each sample in what `perf script` prints; a stack begins with its thread's name."""
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
    """A frame as people read it."""
    if where.startswith(KERNEL):
        return Frame(symbol.removeprefix("__x64_sys_").removeprefix("__pfx_"), "kernel")
    if "_native/" in where:
        return Frame(cython_name(symbol, Path(where).name.partition(".")[0]), "native")
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
            break  # not a length, but a function's place among its module's, which is before its name
        words.append(rest[number.end() : end])
        rest = rest[end:].removeprefix("_")
    # What the compiler split off is told apart by a suffix.
    name = re.sub(r"^\d+", "", rest).partition(".")[0]
    owner = ".".join(word for word in words if word not in ("bowstring", "_native"))
    return f"{owner}.{name}" if name else owner


def merged(frames: Iterator[Frame]) -> Iterator[Frame]:
    """Without calls of the same name below each other, and with the interpreter's own calls as one."""
    last: Frame | None = None
    for each in frames:
        if each != last:
            yield each
        last = each


def counted(stacks: Mapping[Stack, int]) -> int:
    """Samples in all."""
    return sum(stacks.values())
