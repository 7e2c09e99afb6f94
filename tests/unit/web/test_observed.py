"""bowstring.web.observed, access_log and http_metrics: what is written about requests."""

import asyncio
import io

import pytest

from bowstring.web.access_log import AccessLog
from bowstring.web.http_metrics import SERIES_MAX, HttpMetrics
from bowstring.web.observed import ROUTE, USER, Observed

SCOPE = {
    "type": "http",
    "method": "GET",
    "path": "/x",
    "raw_path": b"/x",
    "query_string": b'a="\n',
    "client": ("10.0.0.1", 1),
}


def test_requests_are_counted_and_logged():
    async def app(scope, receive, send):
        scope[ROUTE], scope[USER] = "/x", "ann lee"
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b"12345"})

    async def send(message):
        pass

    metrics, log = HttpMetrics("test", {"things": ("Things.", lambda: 3)}), io.StringIO()
    asyncio.run(Observed(app, metrics, AccessLog(log))(dict(SCOPE), None, send))
    line = log.getvalue()
    assert line.startswith("10.0.0.1 - ann_lee [")
    assert '"GET /x?a=\\x22\\x0a" 404 5 ' in line
    body, kind = metrics.text("application/openmetrics-text; version=1.0.0")
    assert kind.startswith("application/openmetrics-text")
    text = body.decode()
    assert 'test_request_seconds_count{method="GET",route="/x",status="404"} 1.0' in text
    assert 'test_response_bytes_total{method="GET",route="/x",status="404"} 5.0' in text
    assert "test_requests_in_flight 0.0" in text
    assert "test_things 3.0" in text
    assert metrics.text("text/plain")[1].startswith("text/plain")


def test_a_failure_of_the_application_is_counted():
    async def app(scope, receive, send):
        raise ValueError("broken")

    metrics = HttpMetrics("test")
    with pytest.raises(ValueError, match="broken"):
        asyncio.run(Observed(app, metrics)(dict(SCOPE), None, None))
    assert metrics.in_flight == 0
    assert b'status="499"' in metrics.text("")[0]


def test_series_are_bounded():
    metrics = HttpMetrics("test")
    for number in range(SERIES_MAX + 50):
        metrics.note(f"/{number}", "GET", 200, 0, 0.1)
    assert metrics.text("")[0].count(b"_request_seconds_count") == SERIES_MAX + 1
