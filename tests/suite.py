"""Runs the tests, then failed ones again, alone: a broken product fails twice, an unsteady test passes then.

`python -m tests.suite ARGUMENTS` takes the arguments of pytest. A test that fails and passes alone afterwards is
unstable: a defect of the test, or a race of the product that shows on a busy machine. It is listed at the end, with the
output of both runs in build/unstable. Unstable tests fail the run if there are more than UNSTABLE_MAX, or if one is in
tests/unstable.md, the list of those that were unstable before.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

import pytest

from tests.support import chosen_tests
from tests.support.failed_tests import FailedTests

UNSTABLE_MAX: Final = 5
# This many failures are not an accident of a busy machine.
AGAIN_MAX: Final = 40
# For all tests of the second run together: tests that have not passed by then have failed.
AGAIN_S: Final = 480.0
# For the teardown of a stopped run.
STOP_S: Final = 60.0
# Where a shorter run would have to begin; arguments may change the number.
SLOWEST: Final = ("--durations=30", "--durations-min=1")
# A full disk fails tests in misleading ways: a JVM dies, a broker waits for room.
ROOM_BYTES: Final = 8 << 30
LISTED: Final = Path("tests/unstable.md")
OUTPUTS: Final = Path("build/unstable")


@dataclass(frozen=True)
class Row:
    """A row of the list of unstable tests: a test without its parameters, the day it was seen, and why it failed."""

    test: str
    date: datetime.date
    cause: str


def rows(text: str) -> list[Row]:
    """Returns the rows of the list; raises ValueError for a malformed row."""
    found = []
    for line in text.splitlines():
        if not line.startswith("|") or re.fullmatch(r"\|( -+ \|)+|\| test \| date \| cause \|", line):
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != 3 or not all(cells):
            raise ValueError(f"a row is | `test` | date | cause |, not {line!r}")
        found.append(Row(cells[0].strip("`"), datetime.date.fromisoformat(cells[1]), cells[2]))
    return found


@dataclass
class Verdict:
    """What two runs show: tests that failed again, tests that are unstable, and why unstable ones fail the run."""

    failed: list[str]
    unstable: list[str]
    objections: list[str] = field(default_factory=list)

    @property
    def has_failed(self) -> bool:
        """Whether the whole run has failed."""
        return bool(self.failed or self.objections)


def verdict(first: list[str], passed_alone: set[str], listed: list[Row]) -> Verdict:
    """Returns the verdict on failed tests, given which of them passed alone."""
    found = Verdict(
        [test for test in first if test not in passed_alone], [test for test in first if test in passed_alone]
    )
    if len(found.unstable) > UNSTABLE_MAX:
        found.objections.append(f"{len(found.unstable)} tests are unstable, more than {UNSTABLE_MAX}")
    before = {row.test: row for row in listed}
    for test in found.unstable:
        if row := before.get(test.partition("[")[0]):
            found.objections.append(f"{test} was unstable before, on {row.date}: {row.cause}")
    return found


def by_duration(durations_s: Mapping[str, float]) -> list[str]:
    """Returns the files of tests, quick ones first: they have a verdict when time runs out for a slow one."""
    files: dict[str, float] = {}
    for test, duration_s in durations_s.items():
        file = test.partition("::")[0]
        files[file] = files.get(file, 0.0) + duration_s
    return sorted(files, key=lambda file: files[file])


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ends the second run with all that it started, unless it has ended: first as Ctrl-C does, then by force."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(STOP_S)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def ended(number: int, frame: FrameType | None) -> NoReturn:
    """Lets `finally` run at a signal that ends this process."""
    sys.exit(128 + number)


def run_again(first: FailedTests, *, deadline_s: float = AGAIN_S) -> dict[str, chosen_tests.Outcome]:
    """Runs the failed tests again in a separate process; returns the outcomes of those that ended in time."""
    OUTPUTS.mkdir(parents=True, exist_ok=True)
    chosen = OUTPUTS / "again.json"
    chosen.write_text(json.dumps(list(first.outputs)))
    plugin = ["-p", chosen_tests.__name__, "--chosen", str(chosen)]
    files = by_duration(first.durations_s)
    before = [signal.signal(number, ended) for number in (signal.SIGTERM, signal.SIGHUP)]
    # A group of its own: Ctrl-C reaches it once, through `stop`, which also ends what the tests started.
    command = [sys.executable, "-m", "pytest", "--verbose", *plugin, "--", *files]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0)
    try:
        process.wait(deadline_s)
    except subprocess.TimeoutExpired:
        print(f"\nThe second run has taken {deadline_s:.0f} s: what has not passed has failed", flush=True)
    finally:
        stop(process)
        for number, handler in zip((signal.SIGTERM, signal.SIGHUP), before, strict=True):
            signal.signal(number, handler)
    return chosen_tests.outcomes(chosen)


def keep(test: str, first: str, again: str) -> Path:
    """Writes both outputs of an unstable test; returns the file."""
    digest = hashlib.sha256(test.encode()).hexdigest()[:8]
    name = re.sub(r"[^A-Za-z0-9]+", "-", test.removeprefix("tests/")).strip("-")[:120]
    path = OUTPUTS / f"{name}-{digest}.txt"
    path.write_text(f"{test}\n\n##### Beside others: failed\n\n{first}\n##### Alone: passed\n\n{again}\n")
    return path


def title(text: str) -> None:
    """Prints a line that separates what follows from the output of pytest."""
    print(f"\n{f' {text} ':=^{shutil.get_terminal_size().columns}}", flush=True)


def report(found: Verdict, first: FailedTests, again: dict[str, chosen_tests.Outcome]) -> None:
    """Prints the end of the whole run."""
    title(f"{len(found.failed)} failed twice, {len(found.unstable)} unstable")
    for test in found.failed:
        print(f"FAILED {test}{'' if test in again else ' (did not end when it ran alone)'}")
    for test in found.unstable:
        print(f"UNSTABLE {test}\n    {keep(test, first.outputs[test], again[test].output)}")
    if found.unstable:
        print(f"Mend what is unstable, or give its cause in {LISTED}:")
        for test in dict.fromkeys(test.partition("[")[0] for test in found.unstable):
            print(f"| `{test}` | {datetime.date.today()} | … |")
    for objection in found.objections:
        print(f"FAILED: {objection}")
    print("The run has failed" if found.has_failed else "The run has passed", flush=True)


def lack_of_room() -> str | None:
    """Why the tests cannot begin, if the disk of their temporary directories is nearly full."""
    where = tempfile.gettempdir()
    free = shutil.disk_usage(where).free
    if free >= ROOM_BYTES:
        return None
    return (
        f"The tests write up to {ROOM_BYTES >> 30} GiB to {where}, where {free / (1 << 30):.1f} GiB are free: "
        "delete what is left there from earlier runs, or set TMPDIR to a directory on another disk"
    )


def main(arguments: list[str], *, deadline_s: float = AGAIN_S) -> int:
    """Runs tests with pytest's arguments; returns its exit code, or 0 if all failures are unstable tests."""
    if (reason := lack_of_room()) is not None:
        print(reason, flush=True)
        return pytest.ExitCode.USAGE_ERROR
    shutil.rmtree(OUTPUTS, ignore_errors=True)
    first = FailedTests()
    code = int(pytest.main([*SLOWEST, *arguments], plugins=[first]))
    if code in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) and first.lost_workers:
        print(f"Workers crashed outside of tests: {', '.join(first.lost_workers)}. The run has failed")
        return pytest.ExitCode.TESTS_FAILED
    if code != pytest.ExitCode.TESTS_FAILED or first.was_cut_short or first.uncollected or not first.outputs:
        return code
    if len(first.outputs) > AGAIN_MAX:
        title(f"{len(first.outputs)} tests failed, more than {AGAIN_MAX}: none runs again")
        print("\n".join(f"FAILED {test}" for test in first.outputs), flush=True)
        return code
    title(f"{len(first.outputs)} tests failed: each runs once more, alone")
    try:
        again = run_again(first, deadline_s=deadline_s)
    except KeyboardInterrupt:
        return pytest.ExitCode.INTERRUPTED
    passed = {test for test, outcome in again.items() if outcome.has_passed}
    found = verdict(list(first.outputs), passed, rows(LISTED.read_text()) if LISTED.exists() else [])
    report(found, first, again)
    return pytest.ExitCode.TESTS_FAILED if found.has_failed else pytest.ExitCode.OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
