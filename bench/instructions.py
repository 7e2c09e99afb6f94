"""Counts the instructions of a micro bench, a figure that does not depend on other load.

A child process runs the bench under valgrind's callgrind, or under `perf stat` if valgrind is missing and the
processor's counters are accessible. It runs N calls, and another child 2N. The difference is N calls alone,
because starting Python, importing and set-up cost the same both times. Instructions of all threads in user
space are counted.

Under valgrind the processor has no AVX-512, so code that chooses by processor (CRC-32C) takes its next best
kernel. Counts of the two tools must not be compared with each other.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import bowstring
from bench.counted_process import PACKAGES_VARIABLE

ROOT = Path(__file__).resolve().parents[1]
TIMEOUT_S = 300
NO_COUNTER = (
    "no instructions can be counted: install valgrind (Debian: apt-get install valgrind), or perf where the "
    "processor's counters can be read (sysctl kernel.perf_event_paranoid=2; most virtual machines have none)"
)

_COMMANDS = {
    "valgrind": ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--fair-sched=yes"],
    "perf": ["perf", "stat", "--event=instructions:u", "--field-separator=,", "--"],
}
_COUNTS = {
    "valgrind": re.compile(r"Collected : (\d+)"),
    "perf": re.compile(r"^(\d+),[^,]*,instructions:u", re.MULTILINE),
}


class CountError(RuntimeError):
    """The counted child failed; the message has its output."""


@functools.cache
def counter() -> str | None:
    """Returns `valgrind`, `perf`, or None if neither can count."""
    if shutil.which("valgrind"):
        return "valgrind"
    if shutil.which("perf"):
        tried = subprocess.run([*_COMMANDS["perf"], "true"], capture_output=True, text=True, check=False)
        if _COUNTS["perf"].search(tried.stderr):
            return "perf"
    return None


def count(name: str, calls: int) -> float:
    """Returns the instructions of one call of a micro bench.

    Args:
        name: as in the catalogue, e.g. `crc.Crc32c.time_crc32c[65536]`.
        calls: N, the same for every revision. Large enough that N calls take some ten million instructions.

    Raises:
        CountError: nothing here can count, or the bench failed.
    """
    _run([], name, 0)  # compiles missing bytecode, and fails with readable output
    return (_counted(name, 2 * calls) - _counted(name, calls)) / calls


def _counted(name: str, calls: int) -> int:
    chosen = counter()
    if chosen is None:
        raise CountError(NO_COUNTER)
    said = _run(_COMMANDS[chosen], name, calls)
    found = _COUNTS[chosen].search(said)
    if found is None:
        raise CountError(f"{chosen} gave no count of {name}:\n{said[-2000:]}")
    return int(found[1])


def _run(under: list[str], name: str, calls: int) -> str:
    # As few as possible, because the environment lies on the counted stack. With -S and a path that ends with
    # the installed packages, Python does not list their folder, whatever its size.
    variables = {
        "PATH": os.environ.get("PATH", os.defpath),
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(Path(bowstring.__file__).parents[1])]),
        PACKAGES_VARIABLE: os.pathsep.join({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}),
        "PYTHONHASHSEED": "0",
        "TMPDIR": tempfile.gettempdir(),
    }
    command = [*under, sys.executable, "-S", "-m", "bench.counted_process", name, str(calls)]
    try:
        ran = subprocess.run(
            command, env=variables, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise CountError(f"{calls} calls of {name} took more than {TIMEOUT_S} s: count fewer") from error
    if ran.returncode != 0:
        raise CountError(f"{name}: {' '.join(command)} failed:\n{ran.stderr[-2000:]}")
    return ran.stderr
