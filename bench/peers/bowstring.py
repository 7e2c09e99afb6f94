"""Bowstring as a process of its own, the way `bowstring serve` runs it."""

from __future__ import annotations

import compileall
import sys
from importlib.metadata import version
from pathlib import Path

import bowstring
from bench.peers.peer import COMMON_SETTINGS, Peer, free_ports, write_properties


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
        """Chooses a port, writes the settings both peers share, compiles the modules as pip does."""
        package = Path(bowstring.__file__).parent
        for directory in (package, package / "engine", package / "_native"):  # links are not walked into
            compileall.compile_dir(directory, quiet=2)
        (self.port,) = free_ports(1, self.host)
        write_properties(self._settings, COMMON_SETTINGS)

    def environment(self) -> dict[str, str]:
        """Without a wish of the caller's that Python should not keep what it compiles: users' Pythons do."""
        return {k: v for k, v in super().environment().items() if k != "PYTHONDONTWRITEBYTECODE"}

    def command(self) -> list[str]:
        """The same command a person would type."""
        where = ["--host", self.host, "--port", str(self.port)]
        # As Kafka: acknowledged from the page cache. What is to be durable says so in its topic's configs.
        mode = ["--set", "bowstring.durability=os"]
        options = [*where, "--data", str(self.data), "--config", str(self._settings), *mode]
        return [sys.executable, "-m", "bowstring", "serve", *options]
