"""Runs the code blocks of a page, one after the other, in a new folder."""

from __future__ import annotations

import configparser
import contextlib
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Final

import yaml

from bowstring.engine.configs.files import load
from bowstring.pipeline.declaration import declared
from tests.support.pages import PLAIN, ROOT, STOP, Block, blocks, commands, is_server, name_of, patient
from tests.support.waiting import HANG_S, wait_until

DOCUMENTED: Final = "localhost:9092"
# Folders of a reader's machine; in tests they are below the page's folder.
PLACES: Final = {"/var/lib/": "", "/disk2": "disk2"}
_PRINTED: Final = re.compile(r"^ *print\(.*\)  # (.+)$", re.M)


class Place:
    """The environment of blocks: this checkout's interpreter and commands, and a broker's address.

    Attributes:
        folder: the working directory of all blocks.
        servers: replaces localhost:9092 in the blocks.
        variables: of the environment of commands.
    """

    def __init__(self, folder: Path, servers: str = DOCUMENTED, **namespace: Any) -> None:
        self.folder = folder
        self.servers = servers
        self.variables: Mapping[str, str] = {
            **os.environ,
            "PATH": f"{self._commands()}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "BOWSTRING_BOOTSTRAP_SERVERS": servers,
        }
        self._namespace: dict[str, Any] = {"__name__": "__page__", **namespace}

    def _commands(self) -> Path:
        """Creates a folder with `bowstring` of this interpreter; the script in a moved environment names another one."""
        commands = self.folder / ".bin"
        commands.mkdir()
        script = commands / "bowstring"
        script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m bowstring "$@"\n')
        script.chmod(0o755)
        return commands

    def run_python(self, code: str, name: str) -> str:
        """Runs code in the page's namespace; returns its output."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.chdir(self.folder):
            exec(compile(code, name, "exec", dont_inherit=True), self._namespace)
        return printed.getvalue()

    def start(self, command: list[str], output: int | IO[str]) -> subprocess.Popen[str]:
        """Starts a command in the folder, with both outputs in one stream."""
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=dict(self.variables),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def close(self) -> None:
        """Ends everything that `run_python` has started."""


class PageRun:
    """One page, from its first block to its last."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._server: subprocess.Popen[str] | None = None
        self._tests = 0
        self._said = place.folder / "server.log"

    def run(self, page: Path) -> None:
        """Runs every block; an error names the place of the failed block."""
        try:
            for block in blocks(page):
                if not block.no_run:
                    self._run_block(block._replace(text=self._here(block.text)))
            self._stop()
            if self._tests:
                said = self._shell("python -m pytest -q -p no:cacheprovider .", name_of(page))
                assert f"{self._tests} passed" in said, said
        finally:
            if self._server is not None:
                self._server.kill()
                self._server.wait()
            self.place.close()

    def _here(self, text: str) -> str:
        """Returns a block's text with the addresses and folders of this run."""
        for outside, below in PLACES.items():
            text = text.replace(outside, f"{self.place.folder}/{below}")
        return patient(text).replace(DOCUMENTED, self.place.servers)

    def _run_block(self, block: Block) -> None:
        if block.title:
            (self.place.folder / block.title).write_text(f"{block.text}\n", encoding="utf-8")
        if block.language == STOP:
            self._stop()
        elif block.title.startswith("test_"):
            self._tests += 1  # pytest runs all tests of a page together, at its end
        elif block.language == "python":
            # Leading blank lines give tracebacks the line numbers of the page.
            printed = self.place.run_python("\n" * (block.line - 1) + block.text, str(block.page))
            for expected in printed_lines(block.text):
                assert expected in printed.splitlines(), f"{block.where}: {expected!r} not in {printed!r}"
        elif block.language == "bash":
            self._run_commands(block)
        elif block.language == "sql":
            for statement in block.text.rstrip("; \n").split(";"):
                self.place.run_python(f"spark.sql({statement!r}).collect()", str(block.page))
        else:
            check(block, self.place.folder)

    def _run_commands(self, block: Block) -> None:
        script: list[str] = []
        for command in commands(block):
            if is_server(command):
                self._start(command)
            elif command.startswith("pip install "):
                check_install(command)
            elif command.startswith("make "):
                assert f"\n{command.split()[1]}:" in (ROOT / "Makefile").read_text(), command
            else:
                script.append(command)
        if script:
            self._shell("\n".join(script), block.where)

    def _shell(self, script: str, where: str) -> str:
        shell = self.place.start(["bash", "-euo", "pipefail", "-c", script], subprocess.PIPE)
        said, _ = shell.communicate(timeout=HANG_S)
        assert shell.returncode == 0, f"{where}: {script}\n{said[-6000:]}"
        return said

    def _start(self, command: str) -> None:
        """Starts a server and waits until it answers; ends the previous server first."""
        self._stop()
        with self._said.open("w") as output:
            self._server = server = self.place.start(["bash", "-c", f"exec {command}"], output)

        def is_ready() -> bool:
            assert server.poll() is None, f"{command}\n{self._said.read_text()}"
            return " ready " in self._said.read_text()

        wait_until(is_ready, self._said.read_text)

    def _stop(self) -> None:
        """Ends the server cleanly."""
        if self._server is not None:
            self._server.send_signal(signal.SIGTERM)
            assert self._server.wait(HANG_S) == 0, self._said.read_text()
            self._server = None


def printed_lines(code: str) -> list[str]:
    """The lines that a block's comments behind `print(...)` say it prints."""
    return _PRINTED.findall(code)


def check(block: Block, folder: Path) -> None:
    """Checks a block that is not code, such as a configuration, a pipeline or a unit, with the program that reads it."""
    if block.language == "properties":
        check_settings(block, folder / "checked.properties")
    elif block.language == "toml":
        tables = tomllib.loads(block.text)
        if "source" in tables:
            declared(tables)
        else:
            check_settings(block, folder / "checked.toml")
    elif block.language == "json":
        json.loads(block.text)
    elif block.language == "yaml":
        assert yaml.safe_load(block.text), block.where
    elif block.language == "ini":
        configparser.ConfigParser(strict=False, interpolation=None).read_string(block.text)
    else:
        assert block.language in PLAIN, f"{block.where}: nothing runs {block.language} here"


def check_settings(block: Block, path: Path) -> None:
    """Checks that every key is known and has a value of its type."""
    path.write_text(block.text, encoding="utf-8")
    assert load(path), block.where


def check_install(command: str) -> None:
    """Checks that `pip install` names existing extras."""
    for name, folder in (("bowstring", "."), (r"(?:bowstring-client|\./deploy/client)", "deploy/client")):
        project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
        for extras in re.findall(rf"{name}\[([\w,]+)\]", command):
            assert set(extras.split(",")) <= project["optional-dependencies"].keys(), command
