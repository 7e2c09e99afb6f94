"""A pytest plugin (`-p tests.support.chosen_tests --chosen FILE`) that runs only the tests a JSON file lists.

What became of each is appended to FILE with the suffix `.done`, one JSON object a line, as soon as the test has ended.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from tests.support.failed_tests import output_of


@dataclass(frozen=True)
class Outcome:
    """What became of a test: neither a skipped test nor one whose teardown failed has passed."""

    test: str
    has_passed: bool
    output: str


class ChosenTests:
    """Node ids to run, and what became of those that ran."""

    def __init__(self, chosen: Path) -> None:
        self._tests = frozenset(json.loads(chosen.read_text()))
        self._done = done_file(chosen)
        self._reports: list[pytest.TestReport] = []

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        others = [item for item in items if item.nodeid not in self._tests]
        items[:] = [item for item in items if item.nodeid in self._tests]
        config.hook.pytest_deselected(items=others)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._reports.append(report)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        reports, self._reports = self._reports, []
        has_passed = all(report.passed for report in reports) and any(
            report.when == "call" for report in reports
        )
        output = "\n".join(f"===== {report.when} =====\n{output_of(report)}" for report in reports)
        with self._done.open("a") as file:
            file.write(json.dumps(asdict(Outcome(nodeid, has_passed, output))) + "\n")


def done_file(chosen: Path) -> Path:
    """Returns where the outcomes of chosen tests are."""
    return chosen.with_suffix(".done")


def outcomes(chosen: Path) -> dict[str, Outcome]:
    """Returns what became of the chosen tests that have ended, by node id."""
    if not done_file(chosen).exists():
        return {}
    found = (Outcome(**json.loads(line)) for line in done_file(chosen).read_text().splitlines())
    return {outcome.test: outcome for outcome in found}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option that names the file."""
    parser.addoption("--chosen", type=Path, required=True, help="JSON file with a list of node ids to run")


def pytest_configure(config: pytest.Config) -> None:
    """Reads the file."""
    config.pluginmanager.register(ChosenTests(config.getoption("chosen")))
