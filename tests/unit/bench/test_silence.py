"""The probe of how long a large request keeps others waiting, at a small size."""

from bench.silence.__main__ import main


def test_each_large_request_is_measured(capsys):
    rows = main(["alone", "--small"])
    assert [row.load for row in rows[::2]] == [
        "nothing",
        "Produce to 40 fresh partitions",
        "CreateTopics of 20 topics",
        "CreateTopics of 90 partitions",
        "DeleteTopics of 20 topics",
        "DeleteTopics of 90 partitions",
    ]
    assert all(row.answers > 0 and 0 < row.median_ms <= row.longest_ms for row in rows)
    assert capsys.readouterr().out.count("a broker alone") == len(rows)
