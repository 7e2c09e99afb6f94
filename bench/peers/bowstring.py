"""Runs Bowstring as its own process, like `bowstring serve`."""

from __future__ import annotations

import compileall
import sys
from pathlib import Path

import bowstring
from bench.peers.peer import COMMON_SETTINGS, HOST, Peer, write_properties


class Bowstring(Peer):
    """`python -m bowstring serve` from the running Python's environment, with default settings.

    Attributes:
        durability: of topics that do not say it in their configs: as in Kafka, the page cache acknowledges.
    """

    name = "bowstring"
    durability = "os"

    def __init__(self, work: Path):
        super().__init__(work)
        self._settings = work / "server.properties"

    def version(self) -> str:
        """E.g. `Bowstring 0.1.0`."""
        return f"Bowstring {bowstring.__version__}"

    def prepare(self) -> None:
        """Chooses a port, writes the settings shared by both peers, compiles the modules."""
        self.compile()
        listeners = self.listeners()
        settings = COMMON_SETTINGS | self.tls_settings() | self.settings
        if self.tls is not None:
            settings = {"listeners": listeners} | settings
        write_properties(self._settings, settings)

    def compile(self) -> None:
        """Compiles the modules, as pip does."""
        package = Path(bowstring.__file__).parent
        for directory in (package, package / "engine", package / "_native"):  # links are not followed
            compileall.compile_dir(directory, quiet=2)

    def environment(self) -> dict[str, str]:
        """Returns the environment without PYTHONDONTWRITEBYTECODE, as users have it."""
        return {k: v for k, v in super().environment().items() if k != "PYTHONDONTWRITEBYTECODE"}

    def command(self) -> list[str]:
        """Returns the command that a user would type."""
        where = ["--host", self.host, "--port", str(self.port)] if self.tls is None else []
        if self.host != HOST:
            where.append("--listen-unauthenticated")  # for the other machines of the bench
        mode = ["--set", f"bowstring.durability={self.durability}"]
        options = [*where, "--data", str(self.data), "--config", str(self._settings), *mode]
        return [sys.executable, "-m", "bowstring", "serve", *options]
