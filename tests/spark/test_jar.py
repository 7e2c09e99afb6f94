"""The jar: what is in it, the same bytes from the same sources, and where wheels and source distributions have it."""

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from bowstring.spark.sessions import jar_path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = Path("python/bowstring/spark/java")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """What building the jar and the archives needs, without the native sources."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in ("setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    shutil.copytree(ROOT / SOURCES, copy / SOURCES)
    for package in ("python/bowstring", "python/bowstring/spark"):
        (copy / package / "__init__.py").write_text('"""A package."""\n')
    return copy


def run_setup(checkout, *arguments):
    command = [sys.executable, "setup.py", "--quiet", *arguments]
    ran = subprocess.run(command, cwd=checkout, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


def test_it_is_reproducible_and_compiles_without_a_warning(checkout):
    said = run_setup(checkout, "build_jar")
    assert "warning" not in said, said
    built = checkout / jar_path().relative_to(ROOT)
    assert built.read_bytes() == jar_path().read_bytes(), "run `python setup.py build_jar`"
    before = built.stat().st_mtime_ns
    run_setup(checkout, "build_jar")
    assert built.stat().st_mtime_ns == before, "it was built again from the same sources"


def test_what_is_in_it():
    with zipfile.ZipFile(jar_path()) as jar:
        names = jar.namelist()
    assert names[0] == "META-INF/MANIFEST.MF"
    assert {"bowstring/DefaultSource.class", "bowstring/spark/LocalCheckpointFileManager.class"} <= set(names)
    # A service of the name "bowstring" and the Python engine of that name would be one too many for Spark.
    assert not [name for name in names if name.startswith("META-INF/services")]


def test_wheels_have_the_jar_and_source_distributions_its_sources(checkout):
    run_setup(checkout, "build_py", "--build-lib", "built")
    shipped = {path.relative_to(checkout / "built").as_posix() for path in (checkout / "built").rglob("*.*")}
    assert "bowstring/spark/jars/bowstring-spark.jar" in shipped
    assert not [name for name in shipped if name.endswith(".java")]
    run_setup(checkout, "sdist", "--dist-dir", "archives")
    (archive,) = (checkout / "archives").glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = [name.partition("/")[2] for name in opened.getnames()]
    assert f"{SOURCES}/bowstring/DefaultSource.java" in names
    assert not [name for name in names if name.endswith(".jar")]


def test_without_a_jdk_everything_else_is_built(checkout, monkeypatch):
    (checkout / "python/bowstring/spark/jars/bowstring-spark.jar").unlink(missing_ok=True)
    monkeypatch.setenv("PATH", "/nowhere")
    said = run_setup(checkout, "build_py", "--build-lib", "without")
    assert "needs javac" in said
    assert (checkout / "without/bowstring/spark/__init__.py").exists()
    assert not list((checkout / "without").rglob("*.jar"))
