"""bowstring.rest.records.record_query: bounds, formats, and what is refused."""

from datetime import UTC, datetime

import pytest

from bowstring.rest.records.record_query import bounds, record_query
from bowstring.web.http_error import HttpError


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("earliest", "earliest"),
        ("15", 15),
        ("-3", -3),
        ("0:15,2:7", {0: 15, 2: 7}),
        ("2026-11-30T10:00:00Z", datetime(2026, 11, 30, 10, tzinfo=UTC)),
        ("2026-11-30T11:00:00 01:00", datetime(2026, 11, 30, 10, tzinfo=UTC)),
        ("2026-11-30", datetime(2026, 11, 30, tzinfo=UTC)),
    ],
)
def test_bounds(text, bound):
    assert bounds("from", text) == bound


@pytest.mark.parametrize("text", ["", "yesterday", "1:", "1:x", "--3", "9" * 20, "1e3", "٣", "0:-1"])
def test_wrong_bounds(text):
    with pytest.raises(HttpError) as refusal:
        bounds("from", text)
    assert refusal.value.status == 400


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", "ndjson"),
        ("*/*", "ndjson"),
        ("text/html, text/csv;q=0.5", "csv"),
        ("application/vnd.apache.arrow.stream", "arrow"),
        ("text/event-stream", "events"),
    ],
)
def test_the_header_accept_chooses_a_format(accept, form):
    assert record_query("t", {}, accept, "").form == form


def test_nothing_acceptable():
    with pytest.raises(HttpError) as refusal:
        record_query("t", {}, "image/png", "")
    assert refusal.value.status == 406


@pytest.mark.parametrize(
    "query",
    [
        {"format": "xml"},
        {"limit": "0"},
        {"limit": "-1"},
        {"partition": "a"},
        {"partition": ""},
        {"key": "hex"},
        {"isolation": "serializable"},
        {"columns": "offset"},
        {"format": "arrow", "columns": "topic"},
        {"format": "arrow", "columns": "offset,offset"},
        {"form": "csv"},
    ],
)
def test_wrong_parameters(query):
    with pytest.raises(HttpError) as refusal:
        record_query("t", query, "", "")
    assert refusal.value.status == 400


def test_a_tail_begins_at_the_end_or_goes_on():
    assert record_query("t", {"format": "events"}, "", "").start == "latest"
    assert record_query("t", {"format": "events", "from": "earliest"}, "", "0:5").start == {0: 5}
