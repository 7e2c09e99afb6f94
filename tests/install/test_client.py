"""The distribution bowstring-client: what is in it, and its clients beside a broker of the other distribution."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import bowstring
from deploy import wheels
from deploy.client.client_build import NATIVE_PACKAGES
from tests.install.installed import ROOT, Installed, run

# It has 2.3 MiB.
SIZE_MAX_MIB = 3
USE = """
import asyncio, json, sys, bowstring
from bowstring import aio

SERVERS = sys.argv[1]
found = {}
with bowstring.Admin(SERVERS) as admin:
    admin.create_topic("greetings", 2)
    found["topics"] = list(admin.topics())
with bowstring.Producer(SERVERS, compression_type="lz4") as producer:
    for number in range(100):
        producer.send("greetings", b"%d" % number, key=b"key", partition=number % 2)
with bowstring.Producer(SERVERS, compression_type="zstd", transactional_id="once") as producer:
    with producer.transaction():
        producer.send("greetings", b"100", partition=0)
with bowstring.Consumer(SERVERS, group_id="readers", auto_offset_reset="earliest") as consumer:
    consumer.subscribe(["greetings"])
    read = []
    while len(read) < 101:
        read += [int(record.value) for record in consumer.poll(timeout=1)]
    consumer.commit()
    found["read"] = sorted(read)

async def again():
    async with aio.Consumer(SERVERS, auto_offset_reset="earliest") as consumer:
        await consumer.assign([("greetings", 1)])
        return [record.offset for record in await consumer.poll(timeout=30)]

found["again"] = asyncio.run(again())
found["loaded"] = sorted({name.partition(".")[0] for name in sys.modules} & {"typer", "rich", "uvloop", "prometheus_client"})
print(json.dumps(found))
"""


def ran(client: Installed, code: str, cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return client.run(["python", "-c", code, *arguments], cwd)


def test_the_wheel(releases: wheels.Wheels) -> None:
    """Only the clients, with the native packages that they need."""
    wheels.check(releases.client)
    assert releases.client.stat().st_size <= SIZE_MAX_MIB * wheels.MIB
    with zipfile.ZipFile(releases.client) as opened:
        names = opened.namelist()
    libraries = {Path(name).name.partition(".")[0] for name in names if name.endswith(".so")}
    assert libraries == set(NATIVE_PACKAGES)
    tops = {name.split("/")[1] for name in names if name.startswith("bowstring/")}
    assert not tops & {"engine", "broker.py", "serve.py", "cli", "console", "rest", "registry", "spark"}
    assert not [name for name in names if name.endswith("entry_points.txt")]


def test_its_clients(client: Installed, tmp_path: Path) -> None:
    with bowstring.Broker() as broker:
        used = ran(client, USE, tmp_path, broker.bootstrap_servers)
    assert used.returncode == 0, used.stderr
    found = json.loads(used.stdout)
    assert found == {
        "topics": ["greetings"],
        "read": list(range(101)),
        "again": list(range(50)),
        "loaded": [],
    }


def test_what_it_depends_on(client: Installed) -> None:
    (site,) = client.folder.glob("lib/python3*/site-packages")
    installed = {each.name for each in importlib.metadata.distributions(path=[str(site)])}
    assert installed - {"pip", "setuptools"} == {"bowstring-client", "cramjam", "lz4"}


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("import bowstring; bowstring.Broker", "bowstring.Broker is not in bowstring-client"),
        ("from bowstring import spark", "bowstring.spark is not in bowstring-client"),
        ("import bowstring.spark", "bowstring.spark is not in bowstring-client"),
        ("from bowstring.cluster.process import NodeError", "bowstring.cluster is not in bowstring-client"),
        ("import cluster", "No module named 'cluster'"),
        ("import bowstring.sparks", "No module named 'bowstring.sparks'"),
        (
            "import bowstring; bowstring.Json({}); bowstring.read('t')",
            "pip install 'bowstring-client[arrow]'",
        ),
    ],
)
def test_what_it_lacks(code: str, error: str, client: Installed, tmp_path: Path) -> None:
    failed = ran(client, code, tmp_path)
    assert failed.returncode == 1 and error in failed.stderr.splitlines()[-1], failed.stderr


def test_its_public_names(client: Installed, tmp_path: Path) -> None:
    names = ran(client, "import bowstring; print(*bowstring.__all__)", tmp_path).stdout.split()
    assert set(bowstring.__all__) - set(names) == {
        "Broker",
        "BrokerConfigError",
        "Cluster",
        "NodeError",
        "spark",
    }


def test_the_command_line_is_elsewhere(client: Installed, tmp_path: Path) -> None:
    assert not (client.folder / "bin" / "bowstring").exists()
    failed = client.run(["python", "-m", "bowstring", "serve"], tmp_path)
    assert (failed.returncode, failed.stderr.count("\n")) == (1, 1)
    assert "then pip install bowstring" in failed.stderr


def test_both_distributions_in_one_environment(releases: wheels.Wheels, tmp_path: Path) -> None:
    """Whichever was the last to be installed."""
    for order in (releases, reversed(releases)):
        site = tmp_path / "site"
        for wheel in order:
            with zipfile.ZipFile(wheel) as opened:
                opened.extractall(site)
        failed = subprocess.run(
            [sys.executable, "-c", "import bowstring"],
            env={"PYTHONPATH": str(site)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert failed.returncode == 1
        assert f"bowstring and bowstring-client are both in {site}" in failed.stderr
        shutil.rmtree(site)


def test_the_command_of_the_docs(client: Installed, tmp_path: Path) -> None:
    """In isolation; the extensions are left out."""
    assert "pip install -v ./deploy/client" in (ROOT / "docs/how-to/install.md").read_text()
    make = ["wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), "./deploy/client"]
    run(
        [sys.executable, "-m", "pip", *make],
        cwd=ROOT,
        env={**os.environ, "BOWSTRING_ONLY": "none"},
    )
    (wheel,) = tmp_path.glob("bowstring_client-*.whl")
    with zipfile.ZipFile(wheel) as opened:
        assert "bowstring/client_only.txt" in opened.namelist()


def test_the_source_distribution(tmp_path: Path) -> None:
    """It has what the extensions are built from, and builds without the checkout."""
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path)]
    run([*build, "--sdist", str(ROOT / "deploy/client")])
    (archive,) = tmp_path.glob("bowstring_client-*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path, filter="data")
    (sources,) = (path for path in tmp_path.iterdir() if path.is_dir())
    native = Path("python/bowstring/_native")
    for name in NATIVE_PACKAGES:
        for path in (ROOT / "_native" / name).iterdir():
            if path.suffix in (".pyx", ".pxd", ".h", ".pyi"):
                assert (sources / native / name / path.name).read_bytes() == path.read_bytes()
    assert not [path for path in sources.rglob("*") if path.suffix in (".so", ".c")]
    run([*build, "--wheel", str(sources)], env={**os.environ, "BOWSTRING_ONLY": "none"})
