"""Compares the stubs of the native modules with the modules at run time: `make stubs`.

mypy's stubtest imports each module that has a stub. A module without one must have no public name of its own, so that type
checkers lose nothing.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
NATIVE = ROOT / "_native"
ALLOWED = Path(__file__).with_name("native_stubs_allowed.txt")


def modules(suffix: str) -> set[str]:
    """Returns the dotted names of the native modules that have a file with this suffix."""
    paths = (path.relative_to(NATIVE).with_suffix("") for path in NATIVE.rglob(f"*{suffix}"))
    return {".".join(("bowstring._native", *path.parts)) for path in paths}


def untyped() -> Iterator[str]:
    """Returns public functions and classes of modules without a stub."""
    for name in sorted(modules(".pyx") - modules(".pyi")):
        module = import_module(name)
        for public, value in vars(module).items():
            own = getattr(value, "__module__", None) == name
            if own and not public.startswith("_") and not isinstance(value, ModuleType | type):
                yield f"{name}.{public} has no stub"


def main() -> int:
    """Runs stubtest, prints its findings, and returns its exit status."""
    lacking = list(untyped())
    print(*lacking, sep="\n", end="\n" if lacking else "")
    command = [sys.executable, "-m", "mypy.stubtest", "--concise", "--ignore-disjoint-bases"]
    command += ["--mypy-config-file", "pyproject.toml", "--allowlist", str(ALLOWED)]
    ran = subprocess.run([*command, *sorted(modules(".pyi") & modules(".pyx"))], cwd=ROOT, check=False)
    return 1 if lacking else ran.returncode


if __name__ == "__main__":
    sys.exit(main())
