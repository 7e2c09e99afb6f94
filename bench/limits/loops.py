"""Compiles the bare loops with the machine's C compiler, and runs them."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.peers.install import PeerError

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILT = ROOT / "build" / "limits"
# The broker's CRC-32C: a slower one would not be the limit.
CRC = ROOT / "_native" / "base" / "crc32c.h"
FLAGS = ("-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", f"-I{CRC.parent}", "-pthread")
LIMIT_SECONDS = 900.0


@dataclass(frozen=True)
class LoopResult:
    """The result of a loop. GB are 10⁹ bytes that it moved, without its warm-up.

    Attributes:
        cpu_s: Of the server's process, without the client's.
        options: Everything it was run with, defaults too.
        others: What only some loops have, such as `p99_ms` of commit.
    """

    loop: str
    bytes: int
    cpu_s: float
    wall_s: float
    cpu_s_per_gb: float
    gb_per_s: float
    options: dict[str, int]
    others: dict[str, float]

    @classmethod
    def parse(cls, line: str) -> LoopResult:
        """Parses the line of JSON that a loop prints."""
        found = json.loads(line)
        own = {name: found.pop(name) for name in cls.__dataclass_fields__ if name != "others"}
        return cls(**own, others=found)


def compiled(more_flags: Sequence[str] = ()) -> Path:
    """Returns the program; compiles it if it was not compiled from these sources with these flags.

    Raises:
        PeerError: there is no compiler, or it fails.
    """
    compiler = shlex.split(os.environ.get("CC", "cc"))
    if not compiler or shutil.which(compiler[0]) is None:
        raise PeerError(
            f"the bare loops need a C compiler, and there is no {' '.join(compiler) or 'cc'}: install one "
            "(Debian: apt-get install gcc), or name one in CC"
        )
    sources = sorted(HERE.glob("*.c"))
    command = [*compiler, *FLAGS, *more_flags, *map(str, sources)]
    digest = hashlib.sha256(shlex.join(command).encode())
    for path in [*sources, *sorted(HERE.glob("*.h")), CRC]:
        digest.update(path.read_bytes())
    program = BUILT / f"limits-{digest.hexdigest()[:12]}"
    if not program.exists():
        BUILT.mkdir(parents=True, exist_ok=True)
        # Renamed when it is whole, because tests compile at the same time.
        new = program.with_suffix(f".{os.getpid()}")
        done = subprocess.run([*command, "-o", str(new)], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise PeerError(f"compiling the bare loops failed:\n{shlex.join(command)}\n{done.stderr}")
        new.replace(program)
    return program


def run_loop(loop: str, options: Mapping[str, int], directory: Path) -> LoopResult:
    """Runs a loop once.

    Args:
        loop: Its name, such as produce-staged; `bench/limits/main.c` lists them.
        options: See `build/limits/limits-*` without arguments.
        directory: Where it puts its files: on the disk of the brokers. It removes them.

    Raises:
        PeerError: it cannot be compiled, or it failed.
    """
    command = _command(loop, options, directory)
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        raise PeerError(f"the bare loop {loop} was not done within {LIMIT_SECONDS:.0f} s") from None
    if done.returncode != 0:
        raise PeerError(f"the bare loop {loop} ended with {done.returncode}: {done.stderr.strip()}")
    return LoopResult.parse(done.stdout)


class StoredLoop:
    """The loop `stored`: like produce, in steps, while its files stay and grow. `close` removes them.

    Raises:
        PeerError: it cannot be compiled.
    """

    def __init__(self, options: Mapping[str, int], directory: Path):
        self._process = subprocess.Popen(
            _command("stored", options, directory),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Ctrl-C is for the bench, which ends its loops itself.
            start_new_session=True,
        )

    def step(self, mib: int) -> LoopResult:
        """Appends `mib` MiB more.

        Raises:
            PeerError: it failed.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(f"{mib}\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            _, said = self._process.communicate()
            raise PeerError(f"the bare loop stored ended with {self._process.returncode}: {said.strip()}")
        return LoopResult.parse(line)

    def close(self) -> None:
        """Ends it; it removes its files."""
        if self._process.poll() is None:
            self._process.communicate()


def _command(loop: str, options: Mapping[str, int], directory: Path) -> list[str]:
    directory.mkdir(parents=True, exist_ok=True)
    return [str(compiled()), loop, str(directory), *(f"{name}={value}" for name, value in options.items())]
