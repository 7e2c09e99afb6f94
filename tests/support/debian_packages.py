"""Packages of Debian, unpacked below .peers/: nothing is installed, and root is not needed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path


class NoPackagesError(Exception):
    """Debian's packages are unavailable here; the message says why."""


def unpack(names: Sequence[str], folder: Path, *, dependencies: bool = False) -> Path:
    """Downloads and unpacks packages in the versions that apt selects for this machine.

    The machine's lists of packages are used, or new ones where these are missing or old.

    Args:
        names: Names of packages.
        folder: A new folder.
        dependencies: Also what the packages need and the machine does not have.

    Returns:
        The root of the unpacked files.

    Raises:
        NoPackagesError: apt is missing, does not have the packages, or cannot download them.
    """
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise NoPackagesError(
            f"apt-get and dpkg-deb are missing: tests with {names[0]} run on Debian and Ubuntu"
        )
    failure = ""
    for command in _commands(folder / "apt"):
        packages = folder / "packages"
        shutil.rmtree(packages, ignore_errors=True)
        packages.mkdir(parents=True)
        wanted = set(names)
        if dependencies:
            listing = ["install", "--print-uris", "--no-install-recommends", "-o", "Debug::NoLocking=1"]
            done = _apt([*command, *listing, *names], packages)
            failure = done.stderr
            if done.returncode != 0:
                continue
            wanted.update(re.findall(r"^'\S+' ([^_\s]+)_", done.stdout, re.M))
        done = _apt([*command, "download", *sorted(wanted)], packages)
        failure = done.stderr
        if done.returncode == 0:
            return _unpacked(packages, folder / "root")
    raise NoPackagesError(f"`apt-get download {names[0]} …` failed: {failure[-500:]}")


def _commands(state: Path) -> Iterator[list[str]]:
    """Yields apt-get with the machine's lists of packages, then with lists that it just fetched."""
    command = ["apt-get", "-o", f"APT::Sandbox::User={os.environ.get('USER', 'root')}", "-qq"]
    yield command
    for part in ("state/lists/partial", "cache/archives/partial"):
        (state / part).mkdir(parents=True, exist_ok=True)
    command += ["-o", f"Dir::State={state}/state", "-o", f"Dir::Cache={state}/cache"]
    command += ["-o", "Dir::State::status=/var/lib/dpkg/status", "-o", "Acquire::http::Timeout=30"]
    _apt([*command, "update"], state)
    yield command


def _apt(command: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)


def _unpacked(packages: Path, root: Path) -> Path:
    for package in sorted(packages.glob("*.deb")):
        subprocess.run(["dpkg-deb", "-x", str(package), str(root)], check=True, timeout=300)
    shutil.rmtree(packages)
    return root
