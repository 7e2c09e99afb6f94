"""Workflows and the pre-commit configuration: valid, and made of the same commands as a developer's."""

from __future__ import annotations

import re
import shlex
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy import wheels

ROOT = Path(__file__).resolve().parents[3]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def targets() -> set[str]:
    """What the Makefile can make by name."""
    return set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.M))


def steps(workflow: Any) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def test_there_are_workflows_for_tests_wheels_and_docs():
    assert [path.stem for path in WORKFLOWS] == ["docs", "tests", "wheels"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow(path):
    workflow = load(path)
    assert workflow["name"] == path.stem
    assert workflow[True], "YAML reads `on` as true"
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        assert job["runs-on"] == "ubuntu-latest" and job["timeout-minutes"], name
        needed = job.get("needs", [])
        assert {needed} if isinstance(needed, str) else set(needed) <= set(workflow["jobs"])
    commands = [step["run"] for step in steps(workflow) if "run" in step]
    assert commands
    for command in commands:
        program, target, *settings = shlex.split(command)
        assert program == "make" and target in targets(), command
        assert all(re.fullmatch(r"[A-Z]+=\S+", each) for each in settings), command
    for step in steps(workflow):
        if "uses" in step:
            assert re.fullmatch(r"actions/[a-z-]+@v\d+", step["uses"]), "pinned by major version"


def test_wheels_are_built_where_they_run_on_old_systems():
    """Every Python, with the glibc of manylinux: on a newer system they would need that system's."""
    (job,) = load(ROOT / ".github/workflows/wheels.yml")["jobs"].values()
    assert re.fullmatch(r"quay\.io/pypa/manylinux_2_\d+_x86_64", job["container"])
    (command,) = (step["run"] for step in job["steps"] if "run" in step)
    assert "ALL=1" in command.split()


def test_pythons_tested_are_those_supported():
    matrix = load(ROOT / ".github/workflows/tests.yml")["jobs"]["check"]["strategy"]["matrix"]["python"]
    assert re.search(rf'requires-python = ">={re.escape(matrix[0])}"', (ROOT / "pyproject.toml").read_text())
    assert matrix == [f"3.{minor}" for minor in range(11, 11 + len(matrix))] == list(wheels.VERSIONS)


def test_every_target_is_declared_phony():
    text = (ROOT / "Makefile").read_text()
    (declared,) = re.findall(r"^\.PHONY: (.*)$", text, re.M)
    assert targets() == set(declared.split())


def test_pre_commit_runs_tools_that_are_there():
    hooks = [hook for repo in load(ROOT / ".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    assert {hook["id"] for hook in hooks} == {"ruff-check", "ruff-format", "mypy", "javac", "cython-lint"}
    sources = [path.relative_to(ROOT).as_posix() for path in (ROOT / "python").rglob("*.*")]
    sources += [path.relative_to(ROOT).as_posix() for path in (ROOT / "_native").rglob("*.*")]
    for hook in hooks:
        python, *command = shlex.split(hook["entry"])
        assert python == ".venv/bin/python"
        assert find_spec(command[1]) if command[0] == "-m" else (ROOT / command[0]).is_file(), hook
        if "files" in hook:
            assert any(re.search(hook["files"], path) for path in sources), hook
