"""Every operation of the REST proxy answers hostile requests with an error of its API, and never with 500."""

import asyncio
import json
import re
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bowstring.rest.app import RestApp, operations
from bowstring.rest.options import RestOptions

OPERATIONS = [each for each in operations() if each.name not in ("readRecords",)]
NAMES = st.sampled_from(
    ["-", "t", "0", "1", "999999999999", "-1", "%00", "a/b", ".", "..", "é", "x" * 300, "*"]
) | st.text(min_size=1, max_size=20)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=9)
    | st.sampled_from(["TOPIC", "ALLOW", "1"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "data",
                    "name",
                    "value",
                    "topic_name",
                    "partitions_count",
                    "configs",
                    "entries",
                    "id",
                    "key",
                    "operation",
                    "records",
                    "partitions",
                    "offsets",
                    "topics",
                ]
            )
            | st.text(max_size=5),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
BODIES = JSON.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=60)
QUERIES = st.sampled_from(
    [
        b"",
        b"page_size=1",
        b"page_size=-1",
        b"page_token=9&page_size=2",
        b"a=%ff&b",
        b"resource_type=topic",
        b"x" * 2000,
        b"\xff=",
    ]
)


@pytest.fixture(scope="module")
def ask(bootstrap):
    """Asks an application; returns status, headers and body. Its loop is the module's."""
    loop = asyncio.new_event_loop()
    app = RestApp(RestOptions(bootstrap, timeout_s=10))

    async def call(method, path, query, body, headers=()):
        scope = {
            "type": "http",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode("ascii", "replace"),
            "query_string": query,
            "headers": [(b"host", b"h"), *headers],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 2),
        }
        sent = []
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive():
            return messages.pop() if messages else {"type": "http.disconnect"}

        async def send(message):
            sent.append(message)

        await app(scope, receive, send)
        return sent[0]["status"], dict(sent[0]["headers"]), b"".join(each.get("body", b"") for each in sent)

    yield lambda *given, **more: loop.run_until_complete(call(*given, **more))
    loop.run_until_complete(app.callers.close())
    loop.close()


@pytest.fixture(scope="module")
def cluster(ask):
    return json.loads(ask("GET", "/v3/clusters", b"", b"")[2])["data"][0]["cluster_id"]


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture], max_examples=150)
@given(st.data(), st.sampled_from(OPERATIONS), BODIES, QUERIES)
def test_no_request_is_the_proxys_fault(ask, cluster, data, operation, body, query):
    def filled(match):
        if match[1] == "cluster_id":
            return cluster
        return quote(data.draw(NAMES), safe="%")

    path = re.sub(r"\{(\w+)\}", filled, operation.path)
    status, headers, answer = ask(operation.method, path, query, body)
    assert status < 500 or json.loads(answer)["error_code"] == 50002, (path, answer)
    if status >= 400:
        assert headers[b"content-type"] in (b"application/json", b"application/vnd.kafka.v2+json")
        found = json.loads(answer)
        assert found.keys() == {"error_code", "message"} and isinstance(found["message"], str)


@pytest.mark.parametrize(
    "headers",
    [
        [(b"content-length", b"9999999999")],
        [(b"content-length", b"-5")],
        [(b"content-type", b"\xff")],
        [(b"authorization", b"Basic \xff")],
        [(b"authorization", b"Bearer a"), (b"authorization", b"Bearer b")],
        [(b"accept-encoding", b"\xff;q=\xff")],
        [(b"host", b"evil.example/\r\nx")],
    ],
)
def test_headers_that_are_wrong(ask, cluster, headers):
    status, found, answer = ask(
        "POST", f"/v3/clusters/{cluster}/topics", b"", b'{"topic_name":""}', headers=headers
    )
    assert 400 <= status < 500
    assert found[b"content-type"] == b"application/json"
    assert json.loads(answer)["error_code"]


def test_a_host_that_is_no_host_does_not_get_into_links(ask):
    status, _, answer = ask("GET", "/v3/clusters", b"", b"", headers=())
    assert (status, json.loads(answer)["metadata"]["self"]) == (200, "http://h/v3/clusters")
