"""The console's pages of connectors on a worker of Kafka Connect 4.4, whose topics our broker has."""

from __future__ import annotations

import html
import json
import re
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from bowstring.console.app import create_app
from bowstring.console.options import ConsoleOptions
from tests.support.console_patience import be_patient
from tests.support.peers import connect_plugins, connect_worker
from tests.support.serving import steady_port
from tests.support.waiting import wait_until

SECRET = "correct horse"
START_S = 120.0


@pytest.fixture(scope="module")
def worker(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a worker."""
    folder = tmp_path_factory.mktemp("connect")
    url = f"http://127.0.0.1:{steady_port()}"
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "connect",
        "listeners": url,
        "plugin.path": connect_plugins(),
        "plugin.discovery": "service_load",
        "offset.flush.interval.ms": 200,
        **{f"{part}.converter": "org.apache.kafka.connect.json.JsonConverter" for part in ("key", "value")},
        **{f"{part}.storage.topic": f"connect-{part}" for part in ("config", "offset", "status")},
        **{f"{part}.storage.replication.factor": 1 for part in ("config", "offset", "status")},
        **{f"{part}.storage.partitions": 1 for part in ("offset", "status")},
    }
    file = folder / "worker.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    with (folder / "worker.log").open("w") as log:
        process = subprocess.Popen(connect_worker(file), stdout=log, stderr=subprocess.STDOUT)
    try:
        wait_until(lambda: _is_up(url, process, folder / "worker.log"), "no worker", hang_s=START_S)
        yield url
    finally:
        process.kill()
        process.wait()


def _is_up(url: str, process: subprocess.Popen[bytes], log: Path) -> bool:
    assert process.poll() is None, log.read_text()[-3000:]
    try:
        with urllib.request.urlopen(f"{url}/connectors", timeout=5) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


def _form(text: str) -> dict[str, str]:
    found = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', text))
    area = re.search(r"<textarea[^>]*>(.*?)</textarea>", text, re.DOTALL)
    return {name: html.unescape(value) for name, value in found.items()} | (
        {"config": html.unescape(area[1])} if area else {}
    )


def test_a_connector_from_its_creation_to_its_end(
    bootstrap: str, worker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    be_patient(monkeypatch)
    options = ConsoleOptions(bootstrap, connect_urls=(worker,), write=True)
    with TestClient(create_app(options), base_url="http://localhost:8080") as pages:

        def is_shown(*words: str) -> bool:
            text = html.unescape(pages.get("/connectors/one?name=numbers").text)
            assert SECRET not in text
            return all(each in text for each in words)

        def confirm(path: str, **fields: str) -> None:
            asked = pages.post(path, data=fields)
            assert asked.status_code == 200, asked.text
            done = pages.post(path, data=_form(asked.text), follow_redirects=False)
            assert done.status_code == 303, done.text

        config = {"connector.class": "CountingSource", "topic": "numbers", "fails.at": 3, "pin": SECRET}
        new = _form(pages.get("/connectors/new").text)
        wrong = pages.post(
            "/connectors/new", data=new | {"name": "numbers", "config": json.dumps(config | {"most": "-1"})}
        )
        assert wrong.status_code == 400 and "Value must be at least 0" in wrong.text
        confirm("/connectors/new", **new | {"name": "numbers", "config": json.dumps(config)})
        wait_until(lambda: is_shown("FAILED", "number 3 is refused with [hidden]"))
        assert "1 failed" in pages.get("/connectors").text
        changed = _form(pages.get("/connectors/config?name=numbers").text)
        changed["config"] = changed["config"].replace('"fails.at": "3"', '"fails.at": "-1"')
        confirm("/connectors/config", **changed)
        wait_until(lambda: is_shown('"next": 11', 'href="/topics/numbers"') and not is_shown("FAILED"))
        for action, state in (("pause", "PAUSED"), ("resume", "RUNNING"), ("stop", "STOPPED")):
            asked = pages.get(f"/connectors/act?name=numbers&action={action}")
            assert pages.post("/connectors/act", data=_form(asked.text)).status_code == 200
            wait_until(lambda wanted=state: is_shown(wanted))  # type: ignore[misc]
        asked = pages.get("/connectors/act?name=numbers&action=delete")
        assert pages.post("/connectors/act", data=_form(asked.text)).status_code == 200
        wait_until(lambda: "There are no connectors" in pages.get("/connectors").text)
