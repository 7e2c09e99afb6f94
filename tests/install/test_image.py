"""The container image, built from the published wheel where there is a builder, and its life: served, healthy, restarted."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import bowstring
from tests.install.installed import ROOT, run
from tests.support.serving import steady_port
from tests.support.waiting import HANG_S, wait_until

RECIPE = ROOT / "deploy" / "Containerfile"
# With the download of the base image; hangs only.
BUILD_TIMEOUT_S = 1_500


def _builder() -> str | None:
    """A program that can build images here, if there is one."""
    for name in ("podman", "docker"):
        if shutil.which(name) is None:
            continue
        ran = subprocess.run([name, "info"], capture_output=True, timeout=HANG_S, check=False)
        if ran.returncode == 0:
            return name
    return None


@pytest.fixture(scope="module")
def program() -> str:
    found = _builder()
    if found is None:
        pytest.skip("there is no builder: neither podman nor a running docker")
    return found


@pytest.fixture(scope="module")
def image(program: str, release: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """For the Python of these tests, which the wheel is for; the context has what git does not track."""
    context = tmp_path_factory.mktemp("context")
    wheels = context / "dist" / "wheels"
    wheels.mkdir(parents=True)
    shutil.copy(release, wheels)
    name = f"bowstring-test-{os.getpid()}"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    arguments = ("--build-arg", f"PYTHON={version}", "--build-arg", f"WHEEL=dist/wheels/{release.name}")
    formats = ("--format", "docker") if program == "podman" else ()
    command = [program, "build", *formats, "--file", str(RECIPE), *arguments, "--tag", name, str(context)]
    run(command, timeout=BUILD_TIMEOUT_S)
    yield name
    run([program, "rmi", "--force", name])
    run([program, "volume", "rm", "--force", name])


class Container:
    """A broker in a container, from the moment when its health check succeeds; leaving it stops it."""

    def __init__(self, program: str, image: str) -> None:
        self._program = program
        self.port = steady_port()
        publish = ("--publish", f"127.0.0.1:{self.port}:9092", "--volume", f"{image}:/data")
        advertise = ("--set", f"advertised.listeners=PLAINTEXT://localhost:{self.port}")
        self._id = run([program, "run", "--detach", *publish, image, *advertise]).strip()

    def execute(self, *command: str) -> subprocess.CompletedProcess[str]:
        command = (self._program, "exec", self._id, *command)
        return subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)

    def __enter__(self) -> Container:
        check = json.loads(re.findall(r"^ +CMD (\[.*\])$", RECIPE.read_text(), re.M)[0])
        wait_until(lambda: self.execute(*check).returncode == 0, self._logs)
        return self

    def __exit__(self, *_: object) -> None:
        run([self._program, "stop", "--time", str(int(HANG_S)), self._id])
        status = run([self._program, "wait", self._id]).strip()
        logs = self._logs()
        run([self._program, "rm", "--force", self._id])
        assert status == "0", logs

    def _logs(self) -> str:
        ran = subprocess.run([self._program, "logs", self._id], capture_output=True, text=True, check=False)
        return ran.stdout + ran.stderr


def test_the_image_serves_and_keeps_its_data(program: str, image: str) -> None:
    with Container(program, image) as broker:
        assert broker.execute("id", "-u").stdout.strip() == "10001"
        with bowstring.Producer(f"localhost:{broker.port}") as producer:
            producer.send("greetings", b"hello", key=b"me").result(HANG_S)
    with (
        Container(program, image) as broker,
        bowstring.Consumer(f"localhost:{broker.port}", auto_offset_reset="earliest") as consumer,
    ):
        consumer.assign([("greetings", 0)])
        (record,) = consumer.poll(timeout=HANG_S)
        assert (record.key, record.value) == (b"me", b"hello")
