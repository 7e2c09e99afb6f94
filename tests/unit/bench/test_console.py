"""The bench of the console's pages, at a small size."""

from bench.console.__main__ import main


def test_each_page_is_measured_and_live_ones_while_they_are_open(capsys):
    rows, costs = main(["--small"])
    assert "/topics" in [row.path for row in rows]
    assert {row.status for row in rows} == {200}
    assert all(0 < row.median_ms <= row.longest_ms for row in rows)
    assert costs and all(cost.console_percent >= 0 for cost in costs)
    assert capsys.readouterr().out.count(" KiB |") == len(rows)
