"""Measures what registry and REST proxy add to the start and memory of a broker that starts them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

from bench.peers.bowstring import Bowstring
from bench.peers.install import PeerError
from bench.peers.peer import free_ports
from bench.registry.programs import START_S, STEP_S, answers

MIB = 1 << 20
IDLE_S = 3.0
"""From the first answer until memory is read."""


class Beside(NamedTuple):
    """A broker with or without registry and REST proxy: seconds from fork until all of it answers, and the
    memory of all its processes when nothing is asked, in MiB; pages that several share count once (PSS).
    """

    start_s: float
    memory_mib: float


class _WithServices(Bowstring):
    """A broker that starts a registry and a REST proxy."""

    def prepare(self) -> None:
        """Chooses the ports."""
        super().prepare()
        ports = free_ports(2)
        self.options = ["--registry-port", str(ports[0]), "--rest-port", str(ports[1])]
        self.registry, self.rest = (f"http://127.0.0.1:{port}" for port in ports)

    def command(self) -> list[str]:
        """Returns the command that a user would type."""
        return [*super().command(), *self.options]


def beside(folder: Path, with_services: bool) -> Beside:
    """Starts a broker in a new folder; returns what it took.

    Raises:
        PeerError: it did not start.
    """
    peer = _WithServices(folder) if with_services else Bowstring(folder)
    peer.prepare()
    began = time.monotonic()
    with peer:
        if isinstance(peer, _WithServices):
            while not (answers(peer.registry, "GET", "/subjects") and answers(peer.rest, "GET", "/topics")):
                if not peer.alive or time.monotonic() - began > START_S:
                    raise PeerError(f"registry and REST proxy did not start:\n{peer.log_tail()}")
                time.sleep(STEP_S)
        start_s = time.monotonic() - began
        time.sleep(IDLE_S)
        return Beside(start_s, sum(_pss_bytes(pid) for pid in _with_children(peer.pid)) / MIB)


def _with_children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task").glob("*/children")
    children = [int(child) for each in listed for child in each.read_text().split()]
    return [pid, *(each for child in children for each in _with_children(child))]


def _pss_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))
