"""The chart of README shows the numbers of the reports' JSON, and the one checked in is up to date."""

import json
import statistics
import xml.etree.ElementTree as ElementTree

import pytest

from bench import chart
from bench.bars import BOWSTRING, KAFKA

SVG = "{http://www.w3.org/2000/svg}"


def shown_by(report):
    """How many rows of the chart a report alone has."""
    try:
        return len(chart.figures([report]))
    except chart.ChartError:
        return 0


# Of the reports with most rows, the newest: that of `make bench`.
BROAD = chart.REPORTS / max(chart.load(chart.REPORTS.iterdir()), key=shown_by).name


def bars(svg):
    return [each for each in ElementTree.fromstring(svg).iter(f"{SVG}rect") if "data-case" in each.attrib]


def test_every_bar_is_the_median_of_the_report():
    samples = {
        name: case["samples"]
        for name, case in json.loads((BROAD / "report.json").read_text())["cases"].items()
    }
    found = bars(chart.draw(chart.load([BROAD])))
    assert len(found) >= 20
    for bar in found:
        values = [
            each["values"][bar.get("data-metric")]
            for each in samples[bar.get("data-case")]
            if each["peer"] == bar.get("class")
        ]
        assert float(bar.get("data-value")) == statistics.median(values)


def test_bars_of_a_panel_have_one_scale_and_their_printed_figure():
    svg = chart.draw(chart.load([BROAD]))
    printed = {element.text for element in ElementTree.fromstring(svg).iter(f"{SVG}text")}
    for panel in (panel for column in chart.COLUMNS for panel in column):
        rows = {(row.case, row.metric) for row in panel.rows}
        ours = [each for each in bars(svg) if (each.get("data-case"), each.get("data-metric")) in rows]
        scales = [float(each.get("width")) / float(each.get("data-value")) for each in ours]
        assert scales == pytest.approx([scales[0]] * len(scales), rel=0.05) if ours else True
        for each in ours:
            shown = chart.text_of(float(each.get("data-value")), panel)
            assert shown in printed and each.find(f"{SVG}title").text.endswith(shown)


def test_figures_that_kafka_wins_are_shown():
    reports = chart.load([BROAD])
    lost = [
        (panel, row, both)
        for panel in (panel for column in chart.COLUMNS for panel in column)
        for row in panel.rows
        if (both := chart.figures(reports).get(row)) and panel.more_is_better == (both.kafka > both.bowstring)
    ]
    assert lost, "a report in which Bowstring wins everything: this test needs another"
    for panel, row, both in lost:
        kafka, bowstring = (chart.text_of(value, panel) for value in (both.kafka, both.bowstring))
        assert f"{row.label}: Kafka {kafka}, Bowstring {bowstring}" in chart.draw(reports)


def test_it_reads_without_eyes_and_in_the_dark():
    root = ElementTree.fromstring(chart.draw(chart.load([BROAD])))
    named = [root.find(f"{SVG}{name}") for name in ("title", "desc")]
    assert root.get("aria-labelledby").split() == [each.get("id") for each in named]
    assert root.get("role") == "img" and all(each.text for each in named)
    style = root.find(f"{SVG}style").text
    assert "@media (prefers-color-scheme: dark)" in style
    assert "url(" not in style and "@import" not in style


def report(folder, name, started, kafka, own, **facts):
    samples = [
        {"peer": peer, "values": {"start_seconds": value}}
        for peer, value in ((KAFKA, kafka), (BOWSTRING, own))
        if value is not None
    ]
    data = {
        "size": "short",
        "started": started,
        "machine": {"CPU": "Model T", "cores": "2"},
        "peers": {KAFKA: "Apache Kafka 4.3.1", BOWSTRING: "Bowstring 0.1.0"},
        "cases": {"start": {"samples": samples}},
    }
    (folder / name).mkdir()
    (folder / name / "report.json").write_text(json.dumps(data | facts))


def test_the_newest_report_of_both_brokers_counts(tmp_path):
    report(tmp_path, "old", "2026-01-01 10:00 UTC", 3.0, 0.3)
    report(tmp_path, "new", "2026-01-02 10:00 UTC", 2.0, 0.2)
    report(tmp_path, "alone", "2026-01-03 10:00 UTC", None, 0.1)
    report(tmp_path, "smoke", "2026-01-04 10:00 UTC", 1.0, 0.1, size="smoke")
    (only,) = chart.figures(chart.load(tmp_path.iterdir())).values()
    assert (only.kafka, only.bowstring, only.report) == (2.0, 0.2, "new")
    other = {"CPU": "Other", "cores": "64"}
    report(tmp_path, "elsewhere", "2026-01-05 10:00 UTC", None, 9.9, machine=other)
    (only,) = chart.figures(chart.load(tmp_path.iterdir())).values()
    assert only.report == "new"  # of the machine that has more rows
    report(tmp_path, "both-elsewhere", "2026-01-06 10:00 UTC", 9.0, 9.9, machine=other)
    (only,) = chart.figures(chart.load(tmp_path.iterdir())).values()
    assert only.report == "both-elsewhere"  # of as many rows the newest report


def test_the_command_writes_it_and_says_what_is_left_out(tmp_path, capsys):
    picture = tmp_path / "chart.svg"
    assert chart.main([str(BROAD), "--output", str(picture)]) == 0
    said = capsys.readouterr()
    assert said.out == f"{picture}\n" and "spark-queries" in said.err
    assert ElementTree.parse(picture).getroot().tag == f"{SVG}svg"
    assert chart.main([str(tmp_path), "--output", str(tmp_path / "none.svg")]) == 1
    assert not (tmp_path / "none.svg").exists()


def test_the_chart_checked_in_is_that_of_the_reports_checked_in():
    """`python -m bench.chart` draws it again."""
    reports = chart.load(chart.REPORTS.iterdir())
    assert chart.PICTURE.read_text(encoding="utf-8") == chart.draw(reports)
    page = (chart.ROOT / "docs" / "figures.md").read_text(encoding="utf-8")
    for name in {each.report for each in chart.figures(reports).values()}:
        assert f"perf_reports/{name}/" in page
