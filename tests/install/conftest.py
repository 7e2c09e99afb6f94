"""This project as pip installs it: source distribution, wheel, and a fresh, empty virtual environment.

pip builds the wheel in isolation, and `make wheels` builds the published one. Both would spend minutes
compiling the same C with the same compiler as the extensions under test, so they find those up to date in
their build directory; a separate test checks that the source distribution has all sources.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import sysconfig
import tarfile
import time
import tomllib
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy import wheels
from tests.install.installed import DAY_S, NATIVE, ROOT, Installed, pip, run
from tests.install.network import private_network

EXTRAS = ("spark", "polars", "security")


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, unpacked."""
    folder = tmp_path_factory.mktemp("sdist")
    run([sys.executable, "-m", "build", "--sdist", "--outdir", str(folder), str(ROOT)])
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    (unpacked,) = (path for path in folder.iterdir() if path.is_dir())
    return unpacked


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty virtual environment."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    return folder


@pytest.fixture(scope="session")
def wheel(sources: Path, environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What pip makes of the source distribution, in isolation."""
    built = copy = tmp_path_factory.mktemp("wheel")
    shutil.copytree(sources, copy / "sources")
    _reuse_extensions(copy / "sources")
    pip(environment, "wheel", "--quiet", "--no-deps", "--wheel-dir", str(built), str(copy / "sources"))
    (found,) = built.glob("*.whl")
    return found


@pytest.fixture(scope="session")
def releases(tmp_path_factory: pytest.TempPathFactory) -> wheels.Wheels:
    """What `make wheels` makes for this Python: stripped, for every Linux of their manylinux platform."""
    folder = tmp_path_factory.mktemp("release")
    wheels.copy_sources(folder / "sources")
    _reuse_extensions(folder / "sources")
    return wheels.build(sys.executable, folder / "sources", folder)


@pytest.fixture(scope="session")
def release(releases: wheels.Wheels) -> Path:
    """The wheel of everything, with the jar."""
    return releases.whole


@pytest.fixture(scope="session")
def bare(release: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The published wheel where PATH has the environment's own commands only: no compiler, no JDK, not even a shell."""
    folder = tmp_path_factory.mktemp("bare")
    environment, home = folder / "environment", folder / "home"
    home.mkdir()
    venv.create(environment, symlinks=True)
    own = str(environment / "bin")
    pip(environment, "install", "--quiet", str(release), PATH=own, JAVA_HOME="")
    return Installed(environment, home, [], programs=own)


@pytest.fixture(scope="session")
def client(releases: wheels.Wheels, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel of bowstring-client in an environment of its own, with what it depends on."""
    folder = tmp_path_factory.mktemp("client")
    environment, home = folder / "environment", folder / "home"
    home.mkdir()
    venv.create(environment, symlinks=True)
    pip(environment, "install", "--quiet", str(releases.client))
    return Installed(environment, home, [])


def _reuse_extensions(tree: Path) -> None:
    """Puts what `make ext` built where the build looks for it, newer than everything it is built from."""
    library = f"lib.{sysconfig.get_platform()}-{sys.implementation.cache_tag}"
    objects = tree / "build" / library / "bowstring" / "_native"
    objects.mkdir(parents=True)
    now = time.time()
    for suffix, folder, age_s in ((".c", tree / NATIVE, DAY_S), (".so", objects, 2 * DAY_S)):
        for path in (ROOT / NATIVE).rglob(f"*{suffix}"):
            target = folder / path.relative_to(ROOT / NATIVE)
            target.parent.mkdir(exist_ok=True)
            shutil.copy(path, target)
            os.utime(target, (now + age_s, now + age_s))


@pytest.fixture(scope="session")
def installed(
    wheel: Path, environment: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installed]:
    """The wheel with what the pages need, in the versions that the other tests use."""
    folder = tmp_path_factory.mktemp("user")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    tested = project["optional-dependencies"]["test"]
    pinned = [re.sub(r"\[.*]", "", each) for each in tested if "==" in each]
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join(pinned) + "\n")
    wanted = f"bowstring[{','.join(EXTRAS)}] @ {wheel.as_uri()}"
    pip(environment, "install", "--quiet", "--constraint", str(constraints), wanted, "pytest")
    home = folder / "home"
    home.mkdir()
    with private_network() as network:
        yield Installed(environment, home, network)
