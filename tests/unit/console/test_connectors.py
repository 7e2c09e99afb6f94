"""The console's pages of Kafka Connect: what they show, hide and change, and what a hostile one cannot do."""

import asyncio
import html
import json
import re
import time

import pytest
from starlette.testclient import TestClient

import bowstring
from bowstring.clients.errors import ConfigError
from bowstring.console.app import create_app
from bowstring.console.connect import connect_cluster
from bowstring.console.connect.config_change import parsed_config
from bowstring.console.connect.connect_cluster import ConnectCluster, ConnectError, login_of
from bowstring.console.connect.connectors import connectors_of
from bowstring.console.options import ConsoleOptions
from tests.support.connect_double import CLASS, connect_double
from tests.support.console_patience import be_patient

SECRETS = ("hunter22", "correct horse", "s3cr3t")


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """Pages wait for Connect, however busy this machine is."""
    be_patient(monkeypatch)


@pytest.fixture
def connect():
    with connect_double() as double:
        double.add("lines", topic="orders", pin="hunter22", **{"sasl.password": "correct horse"})
        double.add("<b>bold</b>", topic="orders", url="jdbc:pg://me:s3cr3t@db/shop", key="${file:/k:k}")
        double.traces["lines"] = "org.example.RefusedError: login hunter22 refused\n\tat Task.java:1"
        yield double


def client_of(connect, **options):
    options = ConsoleOptions("127.0.0.1:1", connect_urls=(connect.url,), timeout_s=0.2, **options)
    return TestClient(
        create_app(options),
        base_url="http://localhost:8080",
        follow_redirects=False,
        raise_server_exceptions=False,
    )


@pytest.fixture
def pages(connect):
    with client_of(connect, write=True) as client:
        yield client


def shown(page):
    """Returns the text of a page, and checks that no secret is anywhere in it."""
    text = html.unescape(page.text)
    assert not [each for each in SECRETS if each in text]
    assert "<b>bold" not in page.text
    return text


def field(page, name):
    return html.unescape(re.search(rf'name="{name}" value="([^"]*)"', page.text)[1])


def form(page):
    """Returns the fields of the form of a config as a browser sends them."""
    config = re.search(r"<textarea[^>]*>(.*?)</textarea>", page.text, re.DOTALL)[1]
    names = ("csrf_token", "connect", "name", "seen")
    return {name: field(page, name) for name in names} | {"config": html.unescape(config)}


def test_connectors_of_all_clusters_are_listed(connect):
    with connect_double() as other:
        other.add("elsewhere")
        options = ConsoleOptions("127.0.0.1:1", connect_urls=(connect.url, other.url))
        with TestClient(create_app(options), base_url="http://localhost:8080") as client:
            text = shown(client.get("/connectors"))
            assert all(
                each in text for each in ("lines", "1 failed", "elsewhere", other.url, "CountingSource")
            )
            assert "lines" not in shown(client.get("/connectors?q=ELSE"))
            other.raw = b"nothing of HTTP\r\n\r\n"
            time_out = time.monotonic() + 30
            while "does not answer" not in (text := shown(client.get("/connectors"))):
                assert time.monotonic() < time_out
            assert "lines" in text and "elsewhere" not in text


def test_a_connector_is_shown_without_its_secrets(pages):
    text = shown(pages.get("/connectors/one?name=lines"))
    for each in ("RUNNING", "FAILED", "10.0.0.7:8083", "login [hidden] refused", "hidden", '"line": 11'):
        assert each in text
    text = shown(pages.get("/connectors/one?name=%3Cb%3Ebold%3C/b%3E"))
    assert "jdbc:pg://[hidden]@db/shop" in text and "${file:/k:k}" in text
    missing = pages.get("/connectors/one?name=none")
    assert "has no such thing" in shown(missing)
    assert pages.get("/connectors/one?name=lines&connect=http://127.0.0.1:9").status_code == 404


def test_a_config_is_checked_previewed_and_then_changed(pages, connect):
    fields = form(pages.get("/connectors/config?name=lines"))
    assert "[hidden]" in fields["config"]
    wrong = fields | {"config": json.dumps(json.loads(fields["config"]) | {"most": "x"})}
    refused = pages.post("/connectors/config", data=wrong)
    assert refused.status_code == 400 and "Invalid value x" in shown(refused)
    right = fields | {"config": json.dumps(json.loads(fields["config"]) | {"most": 7})}
    preview = pages.post("/connectors/config", data=right)
    assert preview.status_code == 200 and "most" in shown(preview)
    assert "most" not in connect.configs["lines"]
    assert pages.post("/connectors/config", data=right | {"confirmed": "1"}).status_code == 303
    assert connect.configs["lines"]["most"] == "7"
    assert connect.configs["lines"]["pin"] == "hunter22", "a secret that was left hidden stays"
    stale = pages.post("/connectors/config", data=right | {"confirmed": "1"})
    assert stale.status_code == 400 and "has changed since" in shown(stale)


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"a": 1}', "{" * 200_000, f'{{"connector.class": "{CLASS}", "a": {{}}}}', '{"a": 1, "a": 2}'],
)
def test_a_config_that_is_none_is_refused(pages, connect, text):
    fields = form(pages.get("/connectors/config?name=lines")) | {"config": text, "confirmed": "1"}
    before = dict(connect.configs["lines"])
    assert pages.post("/connectors/config", data=fields).status_code == 400
    assert connect.configs["lines"] == before
    with pytest.raises(ConfigError):
        parsed_config(text)


def test_a_connector_is_created_once(pages, connect):
    token = field(pages.get("/connectors/new"), "csrf_token")
    body = {"name": "third", "config": {"connector.class": CLASS, "topic": "orders", "pin": "hunter22"}}
    fields = {"csrf_token": token, "connect": connect.url, "config": json.dumps(body)}
    preview = pages.post("/connectors/new", data=fields)
    assert preview.status_code == 200 and "third" not in connect.configs
    assert pages.post("/connectors/new", data=fields | {"confirmed": "1"}).status_code == 303
    assert connect.configs["third"]["pin"] == "hunter22"
    again = pages.post("/connectors/new", data=fields | {"confirmed": "1"})
    assert again.status_code == 400 and "already exists" in again.text


@pytest.mark.parametrize(
    ("action", "sent"),
    [
        ("pause", "PUT /connectors/%3Cb%3Ebold%3C%2Fb%3E/pause"),
        ("resume", "PUT /connectors/%3Cb%3Ebold%3C%2Fb%3E/resume"),
        ("stop", "PUT /connectors/%3Cb%3Ebold%3C%2Fb%3E/stop"),
        ("restart", "POST /connectors/%3Cb%3Ebold%3C%2Fb%3E/restart?includeTasks=true"),
        (
            "restart-failed",
            "POST /connectors/%3Cb%3Ebold%3C%2Fb%3E/restart?includeTasks=true&onlyFailed=true",
        ),
        ("restart-task", "POST /connectors/%3Cb%3Ebold%3C%2Fb%3E/tasks/3/restart"),
        ("delete", "DELETE /connectors/%3Cb%3Ebold%3C%2Fb%3E"),
    ],
)
def test_an_action_is_asked_for_and_then_done(pages, connect, action, sent):
    asked = pages.get(f"/connectors/act?name=%3Cb%3Ebold%3C/b%3E&action={action}&task=3")
    names = ("csrf_token", "connect", "name", "action", "task")
    fields = {name: field(asked, name) for name in names}
    assert shown(asked) and sent not in connect.requests
    assert pages.post("/connectors/act", data=fields | {"csrf_token": "x"}).status_code == 403
    assert pages.post("/connectors/act", data=fields | {"connect": "http://127.0.0.1:9"}).status_code == 404
    assert pages.post("/connectors/act", data=fields).status_code == 303
    assert connect.requests[-1] == sent


def test_nothing_is_changed_without_the_option(connect):
    with client_of(connect) as client:
        assert "Pause" not in client.get("/connectors/one?name=lines").text
        token = field(client.get("/nothing"), "csrf_token")
        fields = {"csrf_token": token, "connect": connect.url, "name": "lines", "action": "stop"}
        assert client.post("/connectors/act", data=fields).status_code == 403
    assert not [each for each in connect.requests if not each.startswith("GET ")]


DEEP = b'{"a":' + b"[" * 100_000
HOSTILE = {
    "silent": b"",
    "no HTTP": b"\x00\xff" * 100,
    "endless head": b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 200_000,
    "redirect": b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:9/\r\ncontent-length: 0\r\n\r\n",
    "half": b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{",
    "bytes": b'HTTP/1.1 200 OK\r\ncontent-length: 23\r\n\r\n{"password": "s3cr3t\xff"}',
    "deep": b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(DEEP), DEEP),
    "list": b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n[null]",
    "wrong": b'HTTP/1.1 200 OK\r\ncontent-length: 40\r\n\r\n{"x":{"status":{"connector":3},"info":4}}',
    "surrogate": b'HTTP/1.1 500 No\r\ncontent-length: 29\r\n\r\n{"message":"\\ud800<script>a"}',
    "large": b"HTTP/1.1 200 OK\r\ncontent-length: 30000000\r\n\r\n" + b" " * 20_000_000,
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_connect_is_named_and_nothing_else_happens(connect, monkeypatch, kind):
    monkeypatch.setattr(connect_cluster, "READ_S", 0.5 if kind == "silent" else 20.0)
    connect.raw = HOSTILE[kind]
    with client_of(connect, write=True) as client:
        for path in ("/connectors", "/connectors/one?name=lines", "/connectors/new"):
            assert client.get(path).status_code == 200
        config = client.get("/connectors/config?name=lines")
        assert 400 <= config.status_code < 600 and "Refused" in config.text
        assert "Connect" in shown(config) and "<script>" not in config.text


def test_one_answer_serves_all_who_ask_meanwhile(connect):
    async def look():
        cluster = ConnectCluster(connect.url)
        found = await asyncio.gather(*(connectors_of(cluster) for _ in range(50)))
        assert all(each == found[0] for each in found)

    asyncio.run(look())
    assert connect.requests.count("GET /connectors?expand=status&expand=info") == 1


def test_the_log_in_is_in_the_address_or_in_a_file(connect, tmp_path):
    connect.login = ("me", "s3cr3t:x")
    file = tmp_path / "connect.properties"
    file.write_text("basic.auth.user.info=me:s3cr3t:x\n")

    async def names(*arguments):
        cluster = ConnectCluster(*arguments)
        assert "s3cr3t" not in f"{cluster!r} {arguments[1:]!r}" and cluster.address == connect.url
        return [each.name for each in await connectors_of(cluster)]

    assert "lines" in asyncio.run(names(connect.url, login_of(str(file))))
    assert "lines" in asyncio.run(names(connect.url.replace("://", "://me:s3cr3t%3Ax@")))
    with pytest.raises(ConnectError, match="refuses the user"):
        asyncio.run(names(connect.url))
    file.write_text("user=me\n")
    with pytest.raises(ConfigError, match="line 1"):
        login_of(str(file))


@pytest.mark.parametrize(
    "url", ["connect:8083", "ftp://a", "http://", "http://a:b", "http://me:s3cr3t@:1", "http://a/?x"]
)
def test_an_address_that_is_none_is_refused_without_its_password(url):
    with pytest.raises(ConfigError, match="--connect-url") as refused:
        ConsoleOptions(connect_urls=(url,)).check()
    assert "s3cr3t" not in str(refused.value)


def test_a_cluster_without_access_control_allows_everything():
    with bowstring.Broker() as broker, bowstring.Admin(broker.bootstrap_servers) as admin:
        assert bowstring.AclOperation.ALTER_CONFIGS in admin.cluster_operations()
