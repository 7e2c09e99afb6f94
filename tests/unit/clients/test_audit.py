"""The settings of the audit of counts, in every form that clients take."""

import pytest

from bowstring.clients.audit import Audit, audit_of
from bowstring.clients.config.client import CONSUMER
from bowstring.clients.errors import ConfigError
from bowstring.clients.producer.config import PRODUCER


@pytest.mark.parametrize(
    ("given", "audit"),
    [
        (None, None),
        ("eu", Audit("eu")),
        (Audit("eu", window_ms=5), Audit("eu", window_ms=5)),
        ({"audit.tier": "eu", "audit.window.ms": "60000"}, Audit("eu", window_ms=60_000)),
        (
            {
                "audit.tier": "eu",
                "audit.topic": "c",
                "audit.report.interval.ms": 5,
                "audit.bootstrap.servers": "b:1",
            },
            Audit("eu", "c", report_interval_ms=5, counts_bootstrap_servers="b:1"),
        ),
    ],
)
def test_forms(given, audit):
    assert audit_of(given) == audit


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("", "tier is ''"),
        ({}, "audit.tier is missing"),
        ({"audit.topic": "c"}, "audit.tier is missing"),
        ({"audit.tier": "eu", "audit.windows": 5}, "no setting 'audit.windows'"),
        ({"audit.tier": "eu", "audit.window.ms": "soon"}, "window_ms is 'soon'"),
        ({"audit.tier": "eu", "audit.window.ms": 0}, "window_ms is 0"),
        ({"audit.tier": "eu", "audit.report.interval.ms": True}, "report_interval_ms is True"),
        ({"audit.tier": 5}, "tier is 5"),
    ],
)
def test_wrong_settings_are_refused(given, message):
    with pytest.raises(ConfigError, match=message):
        audit_of(given)


@pytest.mark.parametrize("table", [PRODUCER, CONSUMER])
def test_settings_by_name_become_one_argument(table):
    assert table.arguments({"audit.tier": "eu", "audit.window.ms": "5"}) == {
        "audit": {"audit.tier": "eu", "audit.window.ms": "5"}
    }
