"""Builds each revision that asv measures in a separate tree, for the Python in use (an asv plugin).

asv's own environments install every revision into a fresh virtual environment: minutes of compiling each, and
all dependencies from the network. Here a revision's tree starts as a copy of the last one built, so that only
differences are compiled, and both sides of a comparison have the same dependencies. The newest
`build_cache_size` trees are kept; delete the folder (`env_dir`) to rebuild them.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from asv import environment, util
from asv.console import log

# Written when a tree is complete, with the facts of its build.
STAMP = "bowstring-build.json"
BUILD_TIMEOUT_S = 3600
# Variables of a build that would make trees of one revision differ.
UNWANTED_VARIABLES = (
    "BOWSTRING_COVERAGE",
    "BOWSTRING_ONLY",
    "BOWSTRING_QUICK",
    "BOWSTRING_SANITIZE",
    "PYTHONPATH",
)


class BuildFailed(util.UserError):  # type: ignore[misc]
    """A revision could not be built; the message has the end of the compiler's output."""


class WorkTrees(environment.Environment):  # type: ignore[misc]
    """Installs a revision by pointing PYTHONPATH at its tree."""

    tool_name = "worktree"

    def __init__(self, conf: Any, python: str, requirements: dict[str, str], variables: dict[Any, str]):
        self._trees = Trees(Path(conf.env_dir), conf.repo, getattr(conf, "build_cache_size", 4))
        self._tree: Path | None = None
        self._requirements = requirements  # asv's own code reads it first
        super().__init__(conf, python, requirements, variables)

    @classmethod
    def matches(cls, python: str) -> bool:
        """Returns whether the version is the one that runs asv."""
        return python == ".".join(platform.python_version_tuple()[:2])

    def check_presence(self) -> bool:
        """Does nothing: only the trees must be built."""
        return Path(self._path).is_dir()

    def _setup(self) -> None:
        Path(self._path).mkdir(parents=True)

    @property
    def installed_commit_hash(self) -> str | None:
        """The revision that `run_executable` imports."""
        return None if self._tree is None else self._tree.name

    def install_project(self, conf: Any, repo: Any, commit_hash: str) -> None:
        """Builds the revision unless its tree exists.

        Raises:
            BuildFailed: it does not compile.
        """
        self._tree = self._trees.built(commit_hash)
        self._set_commit_hash(commit_hash)

    def find_executable(self, executable: str) -> str:
        """Returns the Python that runs asv."""
        return sys.executable if executable == "python" else str(util.which(executable))

    def run(self, args: Sequence[str], **kwargs: Any) -> Any:
        """Runs Python with these arguments."""
        return self.run_executable("python", args, **kwargs)

    def run_executable(self, executable: str, args: Sequence[str], **kwargs: Any) -> Any:
        """Runs like asv, with the tree's packages before all others."""
        variables = dict(kwargs.pop("env", os.environ))
        if self._tree is not None:
            packages = str(self._tree / "python")
            variables["ASV_PYTHONPATH"] = packages
            # asv removes it again, and the process that it starts removes PYTHONPATH from sys.path.
            args = [f"ASV_PYTHONPATH={packages}", self.find_executable(executable), *args]
            executable = "env"
        return super().run_executable(executable, args, env=variables, **kwargs)


class Trees:
    """The built trees in a folder, by revision.

    Args:
        folder: where they are.
        repository: the Git repository to take revisions from.
        keep: how many are kept.
    """

    def __init__(self, folder: Path, repository: str, keep: int):
        self.folder = folder.absolute()
        self.repository = Path(repository).absolute()
        self.keep = keep

    def built(self, revision: str) -> Path:
        """Returns the tree of a revision (a full hash); builds it if it does not exist.

        Raises:
            BuildFailed: it does not compile.
        """
        tree = self.folder / revision
        if self._stamp(tree) is None:
            log.info(f"Building {revision[:8]} (the first takes minutes, later ones what differs)")
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".building-", dir=self.folder) as partial:
                self._build(Path(partial) / revision, revision)
                if tree.exists():
                    shutil.rmtree(tree)
                (Path(partial) / revision).rename(tree)
        now_ns = time.time_ns()  # finer than what os.utime sets by default
        os.utime(tree / STAMP, ns=(now_ns, now_ns))
        for old in self._newest_first()[self.keep :]:
            shutil.rmtree(old)
        return tree

    def _build(self, tree: Path, revision: str) -> None:
        seed = next(iter(self._newest_first()), None)
        if seed is not None and self._stamp(seed) == _built_by(self._show(f"{revision}:setup.py")):
            _run(["cp", "-a", str(seed), str(tree)])
            (tree / STAMP).unlink()
            # The seed may come from another clone that lacks objects of this one.
            objects = _run(
                ["git", "rev-parse", "--path-format=absolute", "--git-path", "objects"], self.repository
            )
            (tree / ".git/objects/info/alternates").write_text(objects)
            # Otherwise Git considers every file changed and writes it again, which compiles everything.
            _run(["git", "status", "--porcelain"], tree)
        else:
            _run(["git", "clone", "--quiet", "--shared", "--no-checkout", str(self.repository), str(tree)])
        _run(["git", "checkout", "--quiet", "--force", "--detach", revision], tree)
        _run([sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"], tree)
        if shutil.which("javac") is not None:
            _run([sys.executable, "setup.py", "--quiet", "build_jar"], tree)
        (tree / STAMP).write_text(json.dumps(_built_by((tree / "setup.py").read_text())))

    def _newest_first(self) -> list[Path]:
        stamps = sorted(self.folder.glob(f"*/{STAMP}"), key=lambda stamp: stamp.stat().st_mtime, reverse=True)
        return [stamp.parent for stamp in stamps]

    def _stamp(self, tree: Path) -> Mapping[str, str] | None:
        stamp = tree / STAMP
        return json.loads(stamp.read_text()) if stamp.exists() else None

    def _show(self, name: str) -> str:
        return _run(["git", "show", name], self.repository)


def _built_by(setup_py: str) -> dict[str, str]:
    # setup.py has the compiler flags, and a change of them alone rebuilds no module.
    return {"python": sys.version, "setup.py": setup_py}


def _run(command: list[str], folder: Path | None = None) -> str:
    variables = {name: value for name, value in os.environ.items() if name not in UNWANTED_VARIABLES}
    ran = subprocess.run(
        command,
        cwd=folder,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=BUILD_TIMEOUT_S,
        check=False,
    )
    if ran.returncode != 0:
        raise BuildFailed(f"{' '.join(command)} failed:\n{ran.stdout[-4000:]}")
    return ran.stdout
