"""Every case runs to its end in its smallest size against Bowstring, so that the bench cannot rot.

The clients are Kafka's Java tools, brought by Maven; a machine without a JDK cannot run them.
"""

import shutil

import pytest

from bench import report
from bench.__main__ import ALL, measure
from bench.bars import BARS, judge_all
from bench.sizes import SMOKE

MISSING = [command for command in ("java", "javac", "mvn") if shutil.which(command) is None]


@pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}")
@pytest.mark.timeout(1_800)
def test_every_case_in_its_smoke_size(tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    run = measure(SMOKE, work, [])
    assert {name: case.failures for name, case in run.cases.items() if case.failures} == {}
    assert run.cases.keys() == set(ALL)
    for case in run.cases.values():
        own = {name for sample in case.samples if sample.peer == "bowstring" for name in sample.values}
        for loop in case.limits:
            found = {name for sample in case.samples if sample.peer == loop for name in sample.values}
            assert found and found <= own, f"{case.name}: {loop} has figures that no broker has"
    verdicts = judge_all(run.cases)
    assert all(verdict.bowstring is not None for verdict in verdicts)
    directory = report.write(run, tmp_path / "reports", work)
    assert "what failed" not in (directory / "report.md").read_text()


def test_every_bar_names_a_case_that_exists():
    assert {bar.case for bar in BARS} <= set(ALL)
