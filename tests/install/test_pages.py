"""README and the pages of docs that start servers, as they stand, by what pip has installed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import IO

import pytest

from tests.install.installed import Installed
from tests.support.page_run import PageRun, Place
from tests.support.pages import name_of, pages_of

# Runs the code it reads, a JSON string a line, and answers each with its output and its error.
INTERPRETER = """
import contextlib, io, json, sys, traceback
names, answers = {"__name__": "__page__"}, sys.stdout
for line in sys.stdin:
    code, name = json.loads(line)
    printed, wrong = io.StringIO(), ""
    with contextlib.redirect_stdout(printed):
        try:
            exec(compile(code, name, "exec"), names)
        except BaseException:
            wrong = traceback.format_exc()
    print(json.dumps([printed.getvalue(), wrong]), file=answers, flush=True)
"""


class InstalledPlace(Place):
    """The installed package in a separate network, where localhost:9092 is free."""

    def __init__(self, installed: Installed, folder: Path) -> None:
        super().__init__(folder)
        self.variables = installed.environment
        self._installed = installed
        self._interpreter: subprocess.Popen[str] | None = None

    def start(self, command: list[str], output: int | IO[str]) -> subprocess.Popen[str]:
        return super().start([*self._installed.network, *command], output)

    def run_python(self, code: str, name: str) -> str:
        if self._interpreter is None:
            self._interpreter = subprocess.Popen(
                [*self._installed.network, "python", "-c", INTERPRETER],
                cwd=self.folder,
                env=dict(self.variables),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=(self.folder / "python.log").open("w"),
                text=True,
            )
        assert self._interpreter.stdin is not None and self._interpreter.stdout is not None
        print(json.dumps([code, name]), file=self._interpreter.stdin, flush=True)
        answer = self._interpreter.stdout.readline()
        said = (self.folder / "python.log").read_text()
        assert answer, said
        printed, wrong = json.loads(answer)
        assert not wrong, f"{wrong}\n{said[-6000:]}"
        return str(printed)

    def close(self) -> None:
        if self._interpreter is not None and self._interpreter.stdin is not None:
            self._interpreter.stdin.close()
            self._interpreter.wait()


@pytest.mark.parametrize("page", pages_of("install"), ids=name_of)
def test_a_page(page: Path, installed: Installed, tmp_path: Path) -> None:
    """The pages assert what matters; Spark's has the columnar engine, whose jar pip has not built."""
    PageRun(InstalledPlace(installed, tmp_path)).run(page)


def test_pip_has_not_built_the_jar(installed: Installed) -> None:
    assert not list(installed.folder.rglob("bowstring-spark*.jar"))
