"""Prometheus of Debian below .peers/, and a server of it that scrapes what a test names."""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.debian_packages import unpack
from tests.support.peers import PEERS, lock
from tests.support.serving import steady_port
from tests.support.waiting import HANG_S, wait_until

PACKAGES = ("prometheus",)


def prometheus() -> Path:
    """Returns the folder of Prometheus' programs, unpacked once.

    Raises:
        NoPackagesError: Debian's packages cannot be had here.
    """
    name = hashlib.sha256(f"{PACKAGES} {platform.machine()}".encode()).hexdigest()[:12]
    folder = PEERS / f"prometheus-{name}"
    with lock("prometheus"):
        if not (folder / "done").exists():
            shutil.rmtree(folder, ignore_errors=True)
            unpack(PACKAGES, folder)
            (folder / "done").touch()
    return folder / "root/usr/bin"


class PrometheusServer:
    """A running server.

    Args:
        port: Of its HTTP API.
    """

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/api/v1"

    def get(self, path: str, **parameters: str | float) -> dict:
        """Returns the data of an answer of its API; raises urllib's HTTPError with the reason as text."""
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"{self.url}/{path}?{query}", timeout=HANG_S) as answer:
            found = json.load(answer)
        assert found["status"] == "success", found
        return found["data"]


@contextmanager
def running_prometheus(folder: Path, targets: Sequence[str], rules: Path) -> Iterator[PrometheusServer]:
    """Runs a server that scrapes `targets` each second as job "bowstring", with a file of rules."""
    port = steady_port()
    settings = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(rules)],
        "scrape_configs": [{"job_name": "bowstring", "static_configs": [{"targets": list(targets)}]}],
    }
    # JSON is YAML.
    (folder / "prometheus.yml").write_text(json.dumps(settings))
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                str(prometheus() / "prometheus"),
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=log,
        )
    server = PrometheusServer(port)

    def ready() -> bool:
        assert process.poll() is None, (folder / "prometheus.log").read_text()
        try:
            found = server.get("query", query='count_over_time(up{job="bowstring"}[1m])')["result"]
        except OSError:
            return False
        # A rate needs two scrapes of each target.
        return len(found) == len(targets) and all(int(each["value"][1]) >= 3 for each in found)

    try:
        wait_until(ready, "Prometheus has not scraped")
        yield server
    finally:
        process.terminate()
        process.wait(HANG_S)
