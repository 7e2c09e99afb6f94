"""The bench of the REST proxy, at a small size."""

from bench.rest.__main__ import READS, main


def test_every_figure_is_measured():
    figures = main(["--small"])
    assert [each.name for each in figures] == [
        "produce stream",
        *(f"read {query}" for query in READS),
        "one record",
    ]
    assert all(each.value > 0 for each in figures)
    assert {each.records for each in figures[:-1]} == {5_000}
