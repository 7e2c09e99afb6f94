"""`make test` separates a broken product, which fails twice, from an unsteady test, which passes alone."""

import datetime
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import suite
from tests.support import chosen_tests
from tests.support.waiting import HANG_S, wait_until

ROOT = Path(__file__).resolve().parents[2]
ROWS_MAX = 10
DAYS_MAX = 30
FIRST_DAY = datetime.date(2026, 11, 1)
# Passes in the process that follows the one in which it failed.
UNSTEADY = """
import pathlib
def test_unsteady{suffix}():
    mark = pathlib.Path("mark{suffix}")
    if not mark.exists():
        mark.touch()
        print("what it wrote")
        raise ValueError("the machine was busy")
    print("all was quiet")
"""
BROKEN = "def test_broken():\n    assert not 'broken'\n"
STEADY = "def test_steady():\n    pass\n"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with its own tests, as the working directory; its processes find this tests package."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    monkeypatch.chdir(tmp_path)
    # Without the options and workers of the surrounding run; of all plugins, which take a second to load,
    # only xdist.
    for name in [name for name in os.environ if name.startswith("PYTEST_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "xdist.plugin")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path


def command(*arguments, code="sys.exit(suite.main(sys.argv[1:]))"):
    return [sys.executable, "-c", f"import sys; from tests import suite; {code}", *arguments]


def run(*arguments, **options):
    done = subprocess.run(
        command(*arguments, **options),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=HANG_S,
    )
    return done.returncode, done.stdout


def lines(output, begin):
    return [line for line in output.splitlines() if line.startswith(begin)]


class TestRuns:
    """Each is two processes of pytest, so few of them have many cases."""

    def test_what_passes_alone_is_unstable(self, project):
        (project / "test_it.py").write_text(STEADY + UNSTEADY.format(suffix=""))
        code, output = run("--numprocesses", "2")
        assert code == 0, output
        assert lines(output, "UNSTABLE ") == ["UNSTABLE test_it.py::test_unsteady"], output
        assert "1 passed, 1 deselected" in output, "the second run runs what failed and nothing else"
        (kept,) = (project / "build" / "unstable").glob("*.txt")
        text = kept.read_text()
        assert "the machine was busy" in text and "what it wrote" in text and "all was quiet" in text
        assert f"    {kept.relative_to(project)}" in output.splitlines()
        assert f"| `test_it.py::test_unsteady` | {datetime.date.today()} | … |" in output
        assert "slowest 30 durations" in output

    def test_what_fails_again_fails_the_run(self, project):
        (project / "test_it.py").write_text(BROKEN + UNSTEADY.format(suffix=""))
        code, output = run("--numprocesses", "2")
        assert code == 1, output
        assert lines(output, "UNSTABLE ") == ["UNSTABLE test_it.py::test_unsteady"]
        assert output.rstrip().endswith("The run has failed")
        end = output.rpartition("1 failed twice, 1 unstable")[2]
        assert lines(end, "FAILED") == ["FAILED test_it.py::test_broken"]

    def test_errors_and_tests_of_a_crashed_worker_run_again(self, project):
        (project / "test_it.py").write_text(
            "import os, pathlib, pytest\n"
            "def first(name):\n"
            "    mark = pathlib.Path(name)\n"
            "    return not mark.exists() and not mark.touch()\n"
            "@pytest.fixture(params=['setup', 'teardown a::b|c'])\n"
            "def unsteady(request):\n"
            "    assert 'setup' != request.param or not first('setup')\n"
            "    yield\n"
            "    assert 'setup' == request.param or not first('teardown')\n"
            "def test_errors(unsteady):\n"
            "    pass\n"
            "def test_crashes():\n"
            "    if first('crash'):\n"
            "        os._exit(3)\n"
        )
        code, output = run("--numprocesses", "2")
        assert code == 0, output
        assert sorted(lines(output, "UNSTABLE ")) == [
            "UNSTABLE test_it.py::test_crashes",
            "UNSTABLE test_it.py::test_errors[setup]",
            "UNSTABLE test_it.py::test_errors[teardown a::b|c]",
        ]

    def test_a_test_that_is_skipped_or_gone_alone_has_not_passed(self, project):
        (project / "test_it.py").write_text(
            "import os, pathlib, pytest\n"
            "BEFORE = pathlib.Path('mark').exists()\n"
            "pathlib.Path('mark').touch()\n"
            "def test_skipped():\n"
            "    pytest.skip('not now') if BEFORE else pytest.fail('first')\n"
            "if not BEFORE:\n"
            "    def test_gone():\n"
            "        assert False\n"
        )
        code, output = run()
        assert code == 1
        assert "2 failed twice, 0 unstable" in output

    def test_the_list_of_the_run_before_fails_it(self, project):
        (project / "test_it.py").write_text(UNSTEADY.format(suffix=""))
        (project / "tests").mkdir()
        (project / "tests" / "unstable.md").write_text(
            "| test | date | cause |\n| --- | --- | --- |\n"
            "| `test_it.py::test_unsteady` | 2026-11-20 | a port |\n"
        )
        code, output = run()
        assert code == 1
        assert (
            "FAILED: test_it.py::test_unsteady was unstable before, on 2026-11-20: a port"
            in output.splitlines()
        )

    def test_a_second_run_ends_in_time(self, project):
        """Results before the deadline count, and quick files come first."""
        (project / "test_a_slow.py").write_text(
            "import pathlib, threading\n"
            "def test_slow():\n"
            "    if pathlib.Path('slow').exists():\n"
            "        pathlib.Path('began').touch()\n"
            "        threading.Event().wait()\n"
            "    pathlib.Path('slow').touch()\n"
            "    threading.Event().wait(1)\n"
            "    assert False\n"
        )
        (project / "test_quick.py").write_text(UNSTEADY.format(suffix=""))
        # The deadline is when the slow test has begun, however long the start took.
        code, output = run(
            code="import subprocess, pathlib; from tests.support.waiting import wait_until\n"
            "class Process(subprocess.Popen):\n"
            "    def wait(self, timeout=None):\n"
            "        if timeout == 7.0:\n"
            "            wait_until(pathlib.Path('began').exists)\n"
            "            raise subprocess.TimeoutExpired(self.args, timeout)\n"
            "        return super().wait(timeout)\n"
            "subprocess.Popen = Process\n"
            "sys.exit(suite.main(sys.argv[1:], deadline_s=7.0))"
        )
        assert code == 1, output
        assert "The second run has taken 7 s" in output
        assert "UNSTABLE test_quick.py::test_unsteady" in output.splitlines()
        assert "FAILED test_a_slow.py::test_slow (did not end when it ran alone)" in output.splitlines()

    @pytest.mark.parametrize("number, expected", [(signal.SIGINT, 2), (signal.SIGTERM, 128 + signal.SIGTERM)])
    def test_signals_end_a_second_run(self, project, number, expected):
        (project / "test_it.py").write_text(
            "import os, pathlib, threading\n"
            "def test_slow():\n"
            "    if pathlib.Path('mark').exists():\n"
            "        pathlib.Path('part').write_text(str(os.getpid()))\n"
            "        pathlib.Path('part').rename('pid')\n"
            "        threading.Event().wait()\n"
            "    pathlib.Path('mark').touch()\n"
            "    assert False\n"
        )
        process = subprocess.Popen(command(), stdout=subprocess.DEVNULL)
        try:
            wait_until((project / "pid").exists)
            process.send_signal(number)
            assert process.wait(HANG_S) == expected
        finally:
            process.kill()
            process.wait()
        assert not Path("/proc", (project / "pid").read_text()).exists(), "the second run has ended, too"


class TestFirstRuns:
    """Cases that end with the first run; the exit codes are pytest's."""

    def test_success(self, project):
        (project / "test_it.py").write_text(STEADY)
        code, output = run("--numprocesses", "2")
        assert code == 0
        assert "once more" not in output and not (project / "build").exists()

    def test_nothing_collected(self, project):
        assert run("--numprocesses", "2")[0] == pytest.ExitCode.NO_TESTS_COLLECTED

    def test_wrong_arguments(self, project):
        assert run("--no-such-option")[0] == pytest.ExitCode.USAGE_ERROR

    @pytest.mark.parametrize("workers", ["0", "2"])
    def test_what_cannot_be_collected(self, project, workers):
        (project / "test_it.py").write_text(BROKEN)
        (project / "test_wrong.py").write_text("import nothing_of_this_name\n")
        code, output = run("--numprocesses", workers, "--continue-on-collection-errors")
        assert code != 0
        assert lines(output, "ERROR test_wrong.py"), output
        assert "once more" not in output

    def test_a_run_that_was_cut_short(self, project):
        (project / "test_it.py").write_text(UNSTEADY.format(suffix="") + BROKEN)
        code, output = run("--exitfirst")
        assert code == 1
        assert "once more" not in output

    def test_too_many_failures(self, project):
        (project / "test_it.py").write_text(
            "import pytest\n"
            f"@pytest.mark.parametrize('number', range({suite.AGAIN_MAX + 1}))\n"
            "def test_broken(number):\n"
            "    assert False\n"
        )
        code, output = run()
        assert code == 1
        assert "none runs again" in output
        end = output.rpartition("none runs again")[2]
        assert len(lines(end, "FAILED test_it.py::test_broken[")) == suite.AGAIN_MAX + 1

    def test_a_worker_that_crashes_after_its_tests(self, project):
        (project / "conftest.py").write_text(
            "import os\n"
            "def pytest_sessionfinish(session):\n"
            "    if hasattr(session.config, 'workerinput'):\n"
            "        os._exit(3)\n"
        )
        (project / "test_it.py").write_text(STEADY)
        code, output = run("--numprocesses", "1", "--max-worker-restart", "1")
        assert code == 1, output

    def test_names_are_printed_as_tests_fail(self, project):
        """The log of a killed run has them."""
        (project / "test_it.py").write_text(
            "import threading\n" + BROKEN + "def test_hangs():\n    threading.Event().wait()\n"
        )
        log = project / "log"
        with log.open("w") as file:
            process = subprocess.Popen(command("-q", "--numprocesses", "1"), stdout=file, stderr=file)
        try:
            wait_until(lambda: "FAILED test_it.py::test_broken" in log.read_text().splitlines())
        finally:
            process.kill()
            process.wait()


class TestVerdict:
    ROW = suite.Row("a.py::test_a", datetime.date(2026, 11, 20), "a port")

    def test_some_unstable_tests_pass(self):
        tests = [f"a.py::test_{number}" for number in range(suite.UNSTABLE_MAX)]
        found = suite.verdict(tests, set(tests), [self.ROW])
        assert found.unstable == tests and not found.has_failed

    def test_too_many_unstable_tests_fail(self):
        tests = [f"a.py::test_{number}" for number in range(suite.UNSTABLE_MAX + 1)]
        found = suite.verdict(tests, set(tests), [])
        assert found.has_failed and not found.failed
        assert found.objections == ["6 tests are unstable, more than 5"]

    def test_a_listed_test_may_not_be_unstable_again(self):
        found = suite.verdict(
            ["a.py::test_a[1]", "a.py::test_ab"], {"a.py::test_a[1]", "a.py::test_ab"}, [self.ROW]
        )
        assert found.objections == ["a.py::test_a[1] was unstable before, on 2026-11-20: a port"]

    def test_a_listed_test_that_fails_twice_has_failed(self):
        found = suite.verdict(["a.py::test_a"], set(), [self.ROW])
        assert found.failed == ["a.py::test_a"] and not found.objections

    def test_quick_files_come_first(self):
        durations_s = {"a.py::test_a": 3.0, "b.py::test_b": 2.0, "c.py::test_c": 0.0, "b.py::test_d[::]": 2.0}
        assert suite.by_duration(durations_s) == ["c.py", "a.py", "b.py"]


class TestList:
    def test_rows(self):
        text = "Words.\n\n| test | date | cause |\n| --- | --- | --- |\n| `a.py::test_a` | 2026-11-20 | a port |\n"
        assert suite.rows(text) == [TestVerdict.ROW]

    @pytest.mark.parametrize(
        "row",
        ["| `a.py::test_a` | 2026-11-20 |", "| `a.py::test_a` | today | a |", "| `a.py::t` | 2026-11-20 | |"],
    )
    def test_a_row_that_is_none_is_an_error(self, row):
        with pytest.raises(ValueError):
            suite.rows(row)

    @pytest.mark.parametrize(
        "row, complaint",
        [
            (suite.Row("tests/unit/test_suite.py::TestList::test_rows", FIRST_DAY, "a"), None),
            (suite.Row("tests/unit/test_suite.py::test_of_no_name", FIRST_DAY, "a"), "no such test"),
            (suite.Row("tests/unit/test_suit.py::test_rows", FIRST_DAY, "a"), "no such test"),
            (
                suite.Row("tests/unit/test_suite.py::test_rows", datetime.date(2026, 10, 3), "a"),
                "30 days old",
            ),
            (suite.Row("tests/unit/test_suite.py::test_rows", datetime.date(2026, 11, 4), "a"), "to come"),
        ],
    )
    def test_complaints(self, row, complaint):
        found = complaints([row], datetime.date(2026, 11, 2))
        assert [complaint in each for each in found] == [True] * (complaint is not None)

    def test_the_list_is_short_and_young(self):
        listed = suite.rows((ROOT / suite.LISTED).read_text())
        assert len(listed) <= ROWS_MAX, f"at most {ROWS_MAX} rows: mend some"
        assert not complaints(listed, datetime.date.today())


def complaints(listed, today):
    """Returns the problems of the list's rows on a day."""
    found = []
    for row in listed:
        file, _, name = row.test.partition("::")
        path = ROOT / file
        if not path.is_file() or f"def {name.rpartition('::')[2]}(" not in path.read_text():
            found.append(f"{row.test}: there is no such test")
        age = (today - row.date).days
        if age >= DAYS_MAX:
            found.append(
                f"{row.test}: the row is {age} days old, and {DAYS_MAX} days old is too old: mend the test"
            )
        if age < 0:
            found.append(f"{row.test}: its day is to come")
    return found


def test_outcomes_of_a_run_that_never_began(tmp_path):
    assert chosen_tests.outcomes(tmp_path / "again.json") == {}


def test_outputs_have_names_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    suite.OUTPUTS.mkdir(parents=True)
    paths = {
        suite.keep(f"tests/a.py::test_a[{letter}]", "1", "2") for letter in ["/", ".", "a" * 500, "\u2026"]
    }
    assert len(paths) == 4 and all(path.is_file() for path in paths)


def test_nothing_begins_on_a_disk_that_is_nearly_full(monkeypatch, capsys):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 30))
    assert suite.main(["--version"]) == pytest.ExitCode.USAGE_ERROR
    assert "1.0 GiB are free" in capsys.readouterr().out
