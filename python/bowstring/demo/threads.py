"""Measures the CPU time of the embedded broker's threads, separately from clients in the same process."""

from __future__ import annotations

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
