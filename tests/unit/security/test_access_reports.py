"""Denials are logged once per principal, operation and minute."""

from bowstring.engine import event_log
from bowstring.engine.security.access_reports import AccessReports
from bowstring.engine.security.decided import Decided


def test_a_denial_is_logged_once_a_minute_for_each_principal_and_operation(monkeypatch):
    logged = []
    monkeypatch.setattr(event_log, "warning", lambda message, **facts: logged.append(facts))
    now = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    reports = AccessReports()
    denied = Decided("User:a", "::1", 3, 2, "t", False, 1)
    for each in (
        denied,
        denied._replace(name="u"),
        denied._replace(operation=4),
        denied._replace(allowed=True),
    ):
        reports.note(each)
    assert [(each["operation"], each["resource"], each["api"]) for each in logged] == [
        ("Read", "Topic:t", "Fetch"),
        ("Write", "Topic:t", "Fetch"),
    ]
    now[0] += 60
    reports.note(denied)
    assert len(logged) == 3


def test_many_principals_do_not_fill_the_log(monkeypatch):
    logged = []
    monkeypatch.setattr(event_log, "warning", lambda message, **facts: logged.append(facts))
    monkeypatch.setattr("time.monotonic", lambda: 1000.0)
    reports = AccessReports()
    for n in range(3000):
        reports.note(Decided(f"User:{n}", "::1", 3, 2, "t", False, 1))
    assert len(logged) == 1000
