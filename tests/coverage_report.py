"""Reports which lines of Python and of native code the tests run: `make coverage [TESTS=tests/unit/log]`.

It copies the tree into build/coverage/tree and builds it there with Cython's line tracing, so the checkout's
own extensions stay. The report is build/coverage/html/index.html, and as text build/coverage/report.txt.

Native modules note their lines themselves (coverage_lines.h), also in threads without Python state and in
processes that end by SIGKILL. Not covered: Python in processes that end by SIGKILL; Java; C headers.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from coverage import Coverage, CoverageData
from coverage.plugin import FileReporter
from Cython.Coverage import CythonModuleReporter, Plugin

ROOT = Path(__file__).resolve().parents[1]
OUTPUT = ROOT / "build" / "coverage"
TREE = OUTPUT / "tree"
LINES = Path("build/lines")
MEASURED = ("_native", "engine", "python/bowstring")
NATIVE = ["*.pyx", "*.pxd"]


def copy_tree() -> None:
    """Updates the copy with the files that git tracks, and with new files. Keeps the build there."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        source, target = ROOT / name, TREE / name
        if not os.path.lexists(source):
            target.unlink(missing_ok=True)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            target.unlink(missing_ok=True)
            target.symlink_to(os.readlink(source))
        elif not target.exists() or target.read_bytes() != source.read_bytes():
            shutil.copyfile(source, target)


def run(*command: str, **variables: str) -> int:
    """Runs a module of this Python in the copy."""
    environment = {**os.environ, "PYTHONPATH": str(TREE / "python"), **variables}
    return subprocess.run([sys.executable, *command], cwd=TREE, env=environment, check=False).returncode


class NativeLines(Plugin):  # type: ignore[misc]
    """Gives coverage the native lines that can run: those that Cython traces, in any module that has them."""

    name = "tests.NativeLines"

    def __init__(self, tree: Path) -> None:
        self._tree = tree
        self._sources: dict[str, dict[int, str]] = {}
        for generated in sorted((tree / "_native").rglob("*.c")):
            for name, lines in self._parse_cfile_lines(str(generated)).items():
                # As Cython names it, from the folder of packages.
                self._sources.setdefault(str((tree / "python" / name).resolve()), {}).update(lines)

    @classmethod
    def register(cls, registry: Any) -> None:
        """For `Coverage(plugins=...)`."""
        registry.current_module, _, _ = cls.name.partition(".")
        registry.add_file_tracer(cls(Path.cwd()))

    def file_tracer(self, filename: str) -> None:
        """Coverage itself traces nothing."""

    def file_reporter(self, filename: str) -> FileReporter:
        """Returns the reporter for a source."""
        name = str(Path(filename).relative_to(self._tree))
        return CythonModuleReporter("", filename, name, self._sources.get(filename, {}), frozenset())  # type: ignore[no-any-return]


def native_data(tree: Path) -> CoverageData:
    """The lines that native modules noted, plus empty entries for measured modules never imported."""
    noted: dict[str, list[int]] = {}
    for path in (tree / LINES).iterdir():
        source = (tree / path.name.replace("!", "/")).resolve()
        if source.is_relative_to(tree):  # otherwise Cython's own
            noted[str(source)] = [line for line, ran in enumerate(path.read_bytes()) if ran]
    found = CoverageData(basename=str(tree / ".coverage.native"))
    found.add_lines(noted)
    found.add_file_tracers(dict.fromkeys(noted, NativeLines.name))
    for folder in MEASURED:
        for source in (tree / folder).rglob("*.py*"):
            # Symlinks point to folders that are measured themselves.
            if source.suffix in (".py", ".pyx") and source == source.resolve():
                found.touch_file(str(source), NativeLines.name if source.suffix == ".pyx" else "")
    return found


def report(tree: Path, output: Path) -> None:
    """Writes the report of what was collected in a tree, and prints the totals."""
    native_data(tree).write()
    with contextlib.chdir(tree):
        collected = Coverage(plugins=[NativeLines.register])
        collected.combine()
        collected.save()
        collected.html_report(directory=str(output / "html"))
        with (output / "report.txt").open("w", encoding="utf-8") as text:
            collected.report(file=text, show_missing=True)
        with open(os.devnull, "w") as nothing:
            python = collected.report(file=nothing, omit=[*NATIVE, "tests/*"])
            native = collected.report(file=nothing, include=NATIVE)
    print(f"Lines that ran: {python:.1f} % of Python, {native:.1f} % of native code")
    print(f"The report is {output / 'html' / 'index.html'}")


def main(tests: Sequence[str]) -> int:
    """Builds, runs the tests and writes the report; returns the exit status of the first failed step."""
    copy_tree()
    if status := run("setup.py", "--quiet", "build_ext", "--inplace", BOWSTRING_COVERAGE="1"):
        return status
    run("-m", "coverage", "erase")
    shutil.rmtree(TREE / LINES, ignore_errors=True)
    (TREE / LINES).mkdir(parents=True)
    status = run("-m", "coverage", "run", "-m", "pytest", "-p", "no:cacheprovider", *tests)
    report(TREE, OUTPUT)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
