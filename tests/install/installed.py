"""This project as pip installs it, in a virtual environment, and commands there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
NATIVE = Path("python/bowstring/_native")
DAY_S = 86_400
# Of pip, which may download PySpark; hangs only.
INSTALL_TIMEOUT_S = 1_500


def run(command: list[str], **options: object) -> str:
    """Standard output of a command that succeeds."""
    ran = subprocess.run(command, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
    assert ran.returncode == 0, f"{command}\n{ran.stdout[-3000:]}\n{ran.stderr[-6000:]}"
    return str(ran.stdout)


class Installed(NamedTuple):
    """A virtual environment with this project in it.

    Attributes:
        folder: of the environment.
        home: of its user: caches and the like.
        network: what stands before commands, so that README's ports are theirs.
        programs: PATH behind the environment's own commands.
    """

    folder: Path
    home: Path
    network: list[str]
    programs: str = os.environ["PATH"]

    @property
    def environment(self) -> dict[str, str]:
        """Variables as in a new shell with the environment activated: nothing of this checkout."""
        kept = {name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ}
        return {
            **kept,
            "HOME": str(self.home),
            "PATH": f"{self.folder / 'bin'}:{self.programs}",
            "VIRTUAL_ENV": str(self.folder),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }

    def start(self, script: str, cwd: Path, *, output: int | None = subprocess.PIPE) -> subprocess.Popen[str]:
        """A shell command that keeps running."""
        command = [*self.network, "bash", "-c", f"exec {script}"]
        return subprocess.Popen(
            command, cwd=cwd, env=self.environment, text=True, stdout=output, stderr=subprocess.STDOUT
        )

    def run(
        self, command: list[str], cwd: Path, timeout_s: float = 240.0
    ) -> subprocess.CompletedProcess[str]:
        """A command, with its two outputs."""
        command = [*self.network, *command]
        return subprocess.run(
            command,
            cwd=cwd,
            env=self.environment,
            text=True,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )


def pip(environment: Path, *arguments: str, **variables: str) -> None:
    """pip, for another environment than that of the tests."""
    command = [sys.executable, "-m", "pip", "--python", str(environment), *arguments]
    kept = {name: text for name, text in os.environ.items() if name not in ("PYTHONPATH", "SPARK_HOME")}
    run(command, env={**kept, **variables}, timeout=INSTALL_TIMEOUT_S)
