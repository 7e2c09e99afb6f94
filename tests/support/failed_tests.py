"""Keeps which tests of a run failed and with what output, and prints the name of each as soon as it fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest import TerminalReporter

# `when` of the report that pytest-xdist makes for a test whose worker crashed.
CRASHED = "???"


def output_of(report: pytest.TestReport) -> str:
    """Returns what a phase of a test failed with, and what it wrote until then."""
    parts = [report.longreprtext, *(f"----- {name} -----\n{text}" for name, text in report.sections)]
    return "\n".join(part for part in parts if part)


class FailedTests:
    """A pytest plugin; with pytest-xdist, of the process that has the workers.

    Attributes:
        outputs: what each test that failed in any phase failed with, by node id, in the order of failing.
        durations_s: how long the phases of these tests took in which they failed.
        uncollected: node ids of what could not be collected.
        lost_workers: workers that crashed while they ran no test.
        was_cut_short: whether the run ended before its last test, as with `--exitfirst`.
    """

    def __init__(self) -> None:
        self.outputs: dict[str, str] = {}
        self.durations_s: dict[str, float] = {}
        self.uncollected: list[str] = []
        self.lost_workers: list[str] = []
        self.was_cut_short = False
        self._terminal: TerminalReporter | None = None
        self._verbosity = 0

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self._terminal = session.config.pluginmanager.get_plugin("terminalreporter")
        self._verbosity = session.config.get_verbosity(pytest.Config.VERBOSITY_TEST_CASES)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.failed:
            return
        test = report.nodeid
        if report.when == CRASHED and self.lost_workers:
            # pytest-xdist reports the crashed worker first, then the test that it ran.
            self.lost_workers.pop()
        if test not in self.outputs:
            self._print("FAILED" if report.when in ("call", CRASHED) else "ERROR", test)
        self.outputs[test] = self.outputs.get(test, "") + f"===== {report.when} =====\n{output_of(report)}\n"
        self.durations_s[test] = self.durations_s.get(test, 0.0) + report.duration

    @pytest.hookimpl(trylast=True)
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and report.nodeid not in self.uncollected:
            self._print("ERROR", report.nodeid)
            self.uncollected.append(report.nodeid)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object | None) -> None:
        if error is not None:
            self.lost_workers.append(node.gateway.id)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self.was_cut_short = bool(session.shouldfail or session.shouldstop)

    def _print(self, word: str, test: str) -> None:
        """Prints a line between the dots, which a log has even if the run never ends; `-v` has such lines anyway."""
        if self._terminal is not None and self._verbosity <= 0:
            self._terminal.write(f"\n{word} {test}\n", flush=True)
