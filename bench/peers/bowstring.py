"""Bowstring as a process of its own, the way `bowstring serve` runs it."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

from bench.peers.peer import COMMON_SETTINGS, HOST, Peer, free_ports, write_properties


class Bowstring(Peer):
    """`python -m bowstring serve` from the running Python's environment, with default settings."""

    name = "bowstring"

    def __init__(self, work: Path):
        super().__init__(work)
        self._settings = work / "server.properties"

    def version(self) -> str:
        """E.g. `Bowstring 0.1.0`."""
        return f"Bowstring {version('bowstring')}"

    def prepare(self) -> None:
        """Chooses a port and writes the settings both peers share."""
        (self.port,) = free_ports(1)
        write_properties(self._settings, COMMON_SETTINGS)

    def command(self) -> list[str]:
        """The same command a person would type."""
        where = ["--host", HOST, "--port", str(self.port)]
        # As Kafka: acknowledged from the page cache. What is to be durable says so in its topic's configs.
        mode = ["--set", "bowstring.durability=os"]
        options = [*where, "--data", str(self.data), "--config", str(self._settings), *mode]
        return [sys.executable, "-m", "bowstring", "serve", *options]
