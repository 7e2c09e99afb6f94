"""The probe of how long a large request keeps others waiting, at a small size."""

import json

from bench.silence.__main__ import main
from bench.silence.report import ALONE, LONGEST_MS, Row, is_met, line, worst, written


def test_each_large_request_is_measured_and_judged(capsys, tmp_path):
    (rows,) = main(["alone", "--small", "--out", str(tmp_path)])
    loads = [row.load for row in rows[::2]]
    assert loads == [
        "nothing",
        "Produce to 40 fresh partitions",
        "CreateTopics of 20 topics",
        "CreateTopics of 90 partitions",
        "DeleteTopics of 20 topics",
        "DeleteTopics of 90 partitions",
    ]
    assert all(row.answers > 0 and 0 < row.median_ms <= row.longest_ms for row in rows)
    assert capsys.readouterr().out.count("a broker alone") == len(rows)
    report = json.loads((tmp_path / "report.json").read_text())
    assert len(report["bars"]) == 2 * len(loads[1:])
    assert [each["bowstring"] for each in report["bars"]] == [row.longest_ms for row in rows[2:]]
    assert (tmp_path / "report.md").read_text().count("| a broker alone |") == len(rows)


def row(longest_ms: float, load: str = "DeleteTopics") -> Row:
    return Row("a broker alone", load, 1.0, "Metadata", 1000, 0.2, longest_ms)


def test_the_longest_wait_of_all_rounds_counts(tmp_path):
    rounds = [[row(60.0, ALONE), row(LONGEST_MS)], [row(1.0, ALONE), row(LONGEST_MS + 0.1)]]
    assert worst(rounds) == [rounds[0][0], rounds[1][1]]
    written(tmp_path, rounds, {"CPU": "one"})
    report = json.loads((tmp_path / "report.json").read_text())
    assert [(each["limits"], each["bowstring"], each["met"]) for each in report["bars"]] == [
        (["≤ 50 ms"], LONGEST_MS + 0.1, False)
    ]
    assert [len(each) for each in report["rounds"]] == [2, 2]
    assert "0 bars met, 1 missed" in (tmp_path / "report.md").read_text()


def test_rows_say_whether_they_meet_the_bar():
    assert line(row(LONGEST_MS)).endswith("| ≤ 50 ms: met |")
    assert line(row(LONGEST_MS + 0.1)).endswith("| ≤ 50 ms: **missed** |")
    assert is_met(row(1000.0, ALONE)) is None
    assert line(row(1000.0, ALONE)).endswith("|  |")
