"""Collects facts about the machine of a run, without names of hosts or people and without paths."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

from bench.peers.install import PeerError, java_version


def facts() -> dict[str, str]:
    """Returns CPU, memory, kernel and runtimes, for the head of a report."""
    return {
        "CPU": _cpu_model(),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / (1 << 30):.0f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        "Java": _java(),
    }


def slug(machine: dict[str, str]) -> str:
    """Returns a short name of the kind of machine, for a directory's name, e.g. `amd-epyc-2-cores`."""
    words = re.sub(r"[^a-z0-9]+", "-", machine["CPU"].lower()).strip("-")
    return f"{words}-{machine['cores']}-cores"


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return re.sub(r"\s+", " ", line.partition(":")[2]).strip()
    return platform.machine() or "unknown CPU"


def _java() -> str:
    try:
        return java_version()
    except PeerError:
        return "not installed"
