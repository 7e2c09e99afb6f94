"""The bench of the schema registry, at a small size."""

from bench.registry.__main__ import main
from bench.registry.report import BARS, figure_line


def test_every_figure_is_measured_and_reported(tmp_path):
    figures = main(["--small", "--out", str(tmp_path / "report")])
    assert list(figures) == [
        "start, until it leads, s",
        *(
            f"{each}, {unit}"
            for each in ("register a new schema", "look up by id", "check compatibility")
            for unit in ("1/s", "ms of CPU")
        ),
        "load 50 schemas, s",
        "load 50 schemas, s of CPU",
        "memory with 50 schemas, MiB",
        "REST v2: produce JSON in tens, records/s",
        "REST v2: produce JSON in tens, ms of CPU for a record",
        "registry and REST in the broker: start, s more",
        "registry and REST in the broker: idle memory, MiB more",
    ]
    for name, samples in figures.items():
        assert len(samples["bowstring"]) == 1
        assert samples["bowstring"][0] > 0, name
    text = (tmp_path / "report/report.md").read_text()
    assert all(f"| {name} | – |" in text for name in figures)
    assert "| – | ≥ 10 × |" in text


def test_bars_are_judged_by_medians():
    line = figure_line("look up by id, 1/s", {"bowstring": [5000.0, 9000.0, 9900.0], "karapace": [900.0]})
    assert line.endswith("≥ 10 ×: met |")
    line = figure_line("look up by id, 1/s", {"bowstring": [8900.0], "karapace": [900.0]})
    assert line.endswith("≥ 10 ×: **missed** |")
    assert BARS["load 100,000 schemas, s"].verdict(3.1, None) == "≤ 3: **missed**"
    assert BARS["REST: produce stream, records/s"].verdict(200_000, None) == "≥ 200,000: met"
