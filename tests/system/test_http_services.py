"""The schema registry and the REST proxy beside a broker: `bowstring serve` and `bowstring.Broker`."""

import json
import os
import signal
import urllib.error
import urllib.request

import pytest

import bowstring
from tests.support.registry_command import RegistryCommand
from tests.support.registry_double import record_schema
from tests.support.serving import Process
from tests.support.waiting import HANG_S, wait_until


def ask(url, body=None, method=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=HANG_S) as answer:
        return json.load(answer)


def register(url, subject):
    return ask(f"{url}/subjects/{subject}/versions", {"schema": record_schema("a", name=subject)})["id"]


def test_both_run_beside_an_embedded_broker():
    with bowstring.Broker(registry=True, rest=True) as broker:
        assert register(broker.registry_url, "first") == 1
        assert ask(f"{broker.rest_url}/v3/clusters")["data"][0]["cluster_id"] == broker.cluster_id
        urls = broker.registry_url, broker.rest_url
    for url in urls:
        with pytest.raises(urllib.error.URLError):
            ask(url)


def test_a_broker_without_them_says_so():
    with bowstring.Broker() as broker:
        for name in ("registry_url", "rest_url"):
            with pytest.raises(RuntimeError, match="True"):
                getattr(broker, name)


def test_serve_runs_them_and_starts_them_again(tmp_path):
    process = Process("--data", str(tmp_path), "--port", "0", "--registry-port", "0", "--rest-port", "0")
    try:
        process.wait_for_text("serving HTTP")
        line = next(each for each in process.lines if each["message"] == "serving HTTP")
        registry, rest = line["registry"], line["rest"]
        assert register(registry, "kept") == 1
        assert ask(f"{rest}/v3/clusters")["kind"] == "KafkaClusterList"
        (child,) = children(process.process.pid)
        os.kill(child, signal.SIGKILL)
        ended = process.wait_for("the HTTP services ended; it starts again")
        assert ended["status"] == -signal.SIGKILL
        # The same port, and what was registered.
        assert ask(f"{registry}/subjects") == ["kept"]
        assert register(registry, "more") == 2
        (child,) = children(process.process.pid)
    finally:
        status = process.stop()
    assert status == 0
    assert wait_until(lambda: not os.path.exists(f"/proc/{child}"))


def test_the_console_beside_them_shows_values_by_their_schemas(tmp_path, monkeypatch):
    monkeypatch.delenv("BOWSTRING_SCHEMA_REGISTRY", raising=False)
    process = Process("--data", str(tmp_path), "--port", "0", "--registry-port", "0", "--console=0")
    try:
        line = process.wait_for("console")["line"]
        console = line.split()[2].rstrip("/")
        registry = next(each for each in process.lines if each["message"] == "serving HTTP")["registry"]
        assert register(registry, "shown") == 1
        with urllib.request.urlopen(f"{console}/schemas", timeout=HANG_S) as page:
            assert "shown" in page.read().decode()
    finally:
        process.stop()


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(each) for each in file.read().split()]


def test_serve_lets_pages_of_named_origins_call(tmp_path):
    app = "https://app.example.org"
    ports = ("--port", "0", "--registry-port", "0", "--rest-port", "0")
    process = Process("--data", str(tmp_path), *ports, "--http-allow-origin", app)
    try:
        process.wait_for_text("serving HTTP")
        line = next(each for each in process.lines if each["message"] == "serving HTTP")
        for url in (f"{line['registry']}/subjects", f"{line['rest']}/v3/clusters"):
            with urllib.request.urlopen(
                urllib.request.Request(url, headers={"Origin": app}), timeout=HANG_S
            ) as answer:
                assert answer.headers["Access-Control-Allow-Origin"] == app
            other = urllib.request.Request(url, headers={"Origin": "https://other.example.org"})
            with pytest.raises(urllib.error.HTTPError) as refusal:
                urllib.request.urlopen(other, timeout=HANG_S)
            assert refusal.value.code == 403
    finally:
        assert process.stop() == 0


def test_serve_names_a_port_in_use(tmp_path):
    with bowstring.Broker(registry=True) as broker:
        port = broker.registry_url.rpartition(":")[2]
        process = Process("--data", str(tmp_path), "--port", "0", "--registry-port", port, wait=False)
        process.wait_for_text("choose another port")
        assert process.process.wait(HANG_S) == 1


def test_two_registries_share_schemas_and_forward_writes():
    with bowstring.Broker() as broker:
        first = RegistryCommand("-b", broker.bootstrap_servers)
        assert register(first.url, "one") == 1
        second = RegistryCommand("-b", broker.bootstrap_servers, "--follower")
        try:
            assert ask(f"{second.url}/subjects") == ["one"]
            assert register(second.url, "two") == 2
            assert ask(f"{second.url}/subjects") == ["one", "two"]
            assert ask(f"{first.url}/subjects") == ["one", "two"]
            assert ask(f"{second.url}/subjects/one", method="DELETE") == [1]
            with pytest.raises(urllib.error.HTTPError) as refusal:
                register(second.url, "two?bad=%zz&x=%ff")
            assert refusal.value.code == 400
            health = ask(f"{second.url}/health")
            assert (health["leader"], health["is_leader"]) == (first.url, False)
        finally:
            statuses = second.stop(), first.stop()
        assert statuses == (0, 0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--listen", "0.0.0.0"), "--listen-unauthenticated"),
        (("--sign-in",), "SASL"),
        (("--access-rules", "/no/such/file"), "/no/such/file"),
        (("--max-body-mib", "0"), "--max-body-mib"),
        (("--tls-key", "x"), "--tls-certificate"),
    ],
)
def test_wrong_options_are_named(options, words):
    registry = RegistryCommand(*options)
    assert registry.stop() == 1
    assert words in registry.text
    assert "Traceback" not in registry.text


def test_another_registry_leads_when_the_leader_stops():
    with bowstring.Broker() as broker:
        first = RegistryCommand("-b", broker.bootstrap_servers)
        assert register(first.url, "one") == 1
        second = RegistryCommand("-b", broker.bootstrap_servers)
        try:
            assert register(second.url, "two") == 2
            assert first.stop() == 0
            # A write waits for the next leader; where none comes in time, the client tries again.
            assert wait_until(lambda: registered(second.url, "three")) == 3
            assert ask(f"{second.url}/health")["is_leader"]
        finally:
            assert second.stop() == 0


def registered(url, subject):
    """Returns the id; None while there is no leader."""
    try:
        return register(url, subject)
    except urllib.error.HTTPError as error:
        assert json.load(error)["error_code"] in (50002, 50003, 50004)
        return None
