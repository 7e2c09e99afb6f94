"""The page of the audit shows stages, and says when nothing was counted."""

import pytest

import bowstring
from bowstring.audit.counts_reader import now_ms

pytest.importorskip("starlette")

from starlette.testclient import TestClient

from bowstring.console.app import create_app
from bowstring.console.options import ConsoleOptions

HOUR_MS = 3_600_000


def page_of(servers: str, path: str = "/audit") -> str:
    with TestClient(create_app(ConsoleOptions(servers)), base_url="http://localhost:8080") as client:
        answer = client.get(path)
    assert answer.status_code == 200
    return answer.text


def test_incomplete_windows_are_shown_and_complete_ones_on_request():
    with bowstring.Broker() as broker:
        servers = broker.bootstrap_servers
        assert "There are no counts of the last 24 hours." in page_of(servers)
        for tier, records in (("app", 10), ("<b>dc", 9)):
            with bowstring.Producer(servers, audit=tier) as producer:
                for number in range(records):
                    producer.send("clicks", b"x", timestamp=now_ms() - HOUR_MS)
                    if number < 3:
                        producer.send("whole", b"x", timestamp=now_ms() - HOUR_MS)
        text = page_of(servers)
        assert "90.00 %" in text and "&lt;b&gt;dc" in text and "<b>dc" not in text
        assert "whole" not in text
        assert "whole" in page_of(servers, "/audit?all=1")
        assert "No topic matches." in page_of(servers, "/audit?q=other")
