"""The version is defined in one place, and every output of it agrees."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import bowstring
from bowstring import serve
from bowstring.clients.net.frames import api_versions_body
from tests.support.waiting import HANG_S

ROOT = Path(__file__).resolve().parents[3]


def run(*command: str) -> str:
    ran = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, timeout=HANG_S, check=True
    )
    return ran.stdout.strip()


def test_the_build_reads_it_from_the_package():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in declared["project"] and "version" in declared["project"]["dynamic"]
    assert run("setup.py", "--version") == bowstring.__version__


def test_everything_that_tells_it_agrees():
    assert vars(serve)["__version__"] == bowstring.__version__  # the version in the `ready` line
    assert json.loads(run("-m", "bowstring", "version", "--json"))["bowstring"] == bowstring.__version__
    assert api_versions_body(4).client_software_version == bowstring.__version__


def test_no_source_repeats_it():
    """Neither as a literal nor by the installed distribution, which can be older than the source."""
    repeats = []
    for folder in ("python/bowstring", "engine", "bench"):
        for path in (ROOT / folder).rglob("*.py"):
            if {"_native", "engine"} & set(path.relative_to(ROOT).parts[1:]):
                continue
            text = path.read_text()
            literal = text.count(f'"{bowstring.__version__}"')
            allowed = 1 if path == ROOT / "python/bowstring/version.py" else 0
            if literal != allowed or re.search(r"metadata\.version\(.bowstring|\bversion\(.bowstring", text):
                repeats.append(str(path.relative_to(ROOT)))
    assert not repeats


def test_the_changelog_has_it():
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert headings[0] == "Unreleased" and bowstring.__version__ in headings
