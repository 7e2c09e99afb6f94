"""Measures the CPU time of brokers: of the embedded one's threads, and of processes."""

from __future__ import annotations

import os
import threading
from pathlib import Path

BROKER_THREAD = "bowstring-control"


def broker_cpu_s() -> float:
    """Returns the CPU-seconds used by the broker's threads: its Python thread and every native one.

    All other Python threads belong to the demo (producer, consumer, progress bar) and do not count.
    """
    ours = {
        thread.native_id
        for thread in threading.enumerate()
        if thread.native_id is not None and not thread.name.startswith(BROKER_THREAD)
    }
    total_ns = 0
    for task in Path("/proc/self/task").iterdir():
        if int(task.name) not in ours:
            try:
                total_ns += int((task / "schedstat").read_text().split()[0])
            except FileNotFoundError:
                continue  # the thread has ended meanwhile
    return total_ns / 1e9


def processes_cpu_s(pids: list[int]) -> float:
    """Returns the CPU-seconds that all threads of processes have used; those that have ended count as 0."""
    ticks = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except FileNotFoundError:
            continue
        ticks += int(fields[11]) + int(fields[12])  # utime, stime
    return ticks / os.sysconf("SC_CLK_TCK")
