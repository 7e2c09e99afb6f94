"""Reports of counts are parsed, and nothing else is."""

import json

import pytest

from bowstring.audit.count_message import Count, Stage, parse_count

REPORT = {
    "v": 1,
    "tier": "app",
    "role": "producer",
    "group": "",
    "host": "h",
    "client": "c",
    "instance": "i",
    "topic": "clicks",
    "window_ms": 600_000,
    "start_ms": 1_200_000,
    "count": 7,
    "newest_ms": 1_300_000,
    "sent_ms": 1_400_000,
}


def test_a_report_of_a_producer():
    found = parse_count(json.dumps(REPORT).encode())
    assert found == Count(Stage("app", "producer"), "h|c|i", "clicks", 1_200_000, 600_000, 7, 1_300_000)
    assert str(found.stage) == "app"


@pytest.mark.parametrize(("group", "stage"), [("g", "app/g"), ("", "app/c")])
def test_consumers_are_told_apart_by_their_group_or_client_id(group, stage):
    found = parse_count(json.dumps({**REPORT, "role": "consumer", "group": group}).encode())
    assert str(found.stage) == stage


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"\xff\xfe",
        b"[" * 5000,
        b"[]",
        b"7",
        *(
            json.dumps({**REPORT, **wrong}).encode()
            for wrong in (
                {"v": 2},
                {"role": "mirror"},
                {"count": -1},
                {"count": 1.5},
                {"count": True},
                {"start_ms": 1 << 64},
                {"window_ms": 0},
                {"tier": ""},
                {"topic": 3},
                {"topic": "x" * 5000},
            )
        ),
        json.dumps({name: each for name, each in REPORT.items() if name != "host"}).encode(),
    ],
)
def test_other_records_are_no_reports(value):
    assert parse_count(value) is None
