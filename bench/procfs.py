"""Reads CPU seconds and memory of a process from Linux."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
KIB = 1024


@dataclass(frozen=True)
class Memory:
    """Resident memory of a process, in bytes (proc_pid_status(5))."""

    rss_bytes: int
    rss_anon_bytes: int
    rss_file_bytes: int
    rss_peak_bytes: int


def cpu_seconds(pid: int) -> float:
    """Returns user plus system time of all threads that `pid` has had, in seconds.

    It equals utime plus stime in /proc/<pid>/stat, but is read from the process's CPU clock, which counts
    nanoseconds instead of ticks of 10 ms.

    Raises:
        ProcessLookupError: the process does not exist.
    """
    # The clock id of another process, computed like clock_getcpuclockid(3): CPUCLOCK_SCHED is 2.
    try:
        return time.clock_gettime_ns((~pid << 3) | 2) / 1e9
    except OSError as error:
        raise ProcessLookupError(f"process {pid} is gone") from error


def machine_cpu_seconds() -> tuple[float, float]:
    """(busy, stolen) CPU seconds of the whole machine since boot; stolen by a hypervisor."""
    fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    idle_ticks = fields[3] + fields[4]
    return (sum(fields) - idle_ticks) / TICKS_PER_SECOND, fields[7] / TICKS_PER_SECOND


def memory(pid: int) -> Memory:
    """Returns the process's present memory, and its peak since the start."""
    kib = {}
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name in ("VmRSS", "RssAnon", "RssFile", "VmHWM"):
            kib[name] = int(value.split()[0]) * KIB
    return Memory(kib["VmRSS"], kib["RssAnon"], kib["RssFile"], kib["VmHWM"])


def thread_count(pid: int) -> int:
    """Returns the present number of threads of the process."""
    return len(os.listdir(f"/proc/{pid}/task"))


class Meter:
    """Measures one process between `with` and its end.

    Attributes after the block: `wall_seconds`, `cpu_seconds`, `rss_peak_bytes` (the largest of samples taken
    every `sample_ms`), `other_cpu_seconds` (the rest of the machine, clients included) and `stolen_seconds`.
    """

    def __init__(self, pid: int, sample_ms: int = 50):
        self.pid = pid
        self.wall_seconds = 0.0
        self.cpu_seconds = 0.0
        self.other_cpu_seconds = 0.0
        self.stolen_seconds = 0.0
        self.rss_peak_bytes = 0
        self._sample_seconds = sample_ms / 1000
        self._done = threading.Event()
        self._sampler = threading.Thread(target=self._sample, name="meter", daemon=True)

    def __enter__(self) -> Meter:
        self.rss_peak_bytes = memory(self.pid).rss_bytes
        self._sampler.start()
        self._cpu_before = cpu_seconds(self.pid)
        self._machine_before = machine_cpu_seconds()
        self._started = time.monotonic()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._done.set()
        self._sampler.join()
        if exc_info[0] is not None:
            return  # the broker may have ended; the exception is more useful than figures
        self.wall_seconds = time.monotonic() - self._started
        self.cpu_seconds = cpu_seconds(self.pid) - self._cpu_before
        busy, stolen = machine_cpu_seconds()
        self.other_cpu_seconds = busy - self._machine_before[0] - self.cpu_seconds
        self.stolen_seconds = stolen - self._machine_before[1]

    def _sample(self) -> None:
        while not self._done.wait(self._sample_seconds):
            try:
                self.rss_peak_bytes = max(self.rss_peak_bytes, memory(self.pid).rss_bytes)
            except (FileNotFoundError, KeyError, ProcessLookupError):
                return  # the process ended; the code that drives it reports that
