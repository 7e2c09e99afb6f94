"""The page of the audit shows stages, and says when nothing was counted."""

import pytest

import bowstring
from bowstring.audit.counts_reader import now_ms

pytest.importorskip("starlette")

from starlette.testclient import TestClient

from bowstring.console.app import create_app
from bowstring.console.options import ConsoleOptions
from bowstring.console.pages import audit as audit_page

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


def test_a_page_reads_for_a_short_time_and_the_next_one_goes_on(monkeypatch):
    monkeypatch.setattr("bowstring.audit.counts_reader.POLL_RECORDS", 3)
    monkeypatch.setattr(audit_page, "READ_S", 0.0)
    monkeypatch.setattr(audit_page, "FRESH_S", 0.0)
    with bowstring.Broker() as broker:
        servers = broker.bootstrap_servers
        with bowstring.Producer(servers, audit="app") as producer:
            for number in range(8):
                producer.send(f"topic-{number}", b"x", timestamp=now_ms() - HOUR_MS)
        with TestClient(create_app(ConsoleOptions(servers)), base_url="http://localhost:8080") as client:
            answers = [client.get("/audit?all=1")]
            while "refresh" in answers[-1].headers:
                answers.append(client.get("/audit?all=1"))
            assert len(answers) > 2
            assert "are left" in answers[0].text and "topic-1" not in answers[-2].text
            assert all(f"topic-{number}" in answers[-1].text for number in range(8))
            with bowstring.Producer(servers, audit="app") as producer:
                producer.send("topic-later", b"x", timestamp=now_ms() - HOUR_MS)
            while "topic-later" not in (answer := client.get("/audit?all=1")).text:
                assert answer.status_code == 200
            assert "topic-1" in answer.text
