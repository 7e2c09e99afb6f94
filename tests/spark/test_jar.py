"""The jar: its contents, reproducible builds, its place in wheels and source distributions.

Also how an installation without the jar gets one.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pyspark
import pytest

import bowstring
from bowstring.spark import jar as jars
from bowstring.spark import jar_build
from bowstring.spark.jar import JarMissingError, jar_path
from tests.support.waiting import HANG_S

ROOT = Path(__file__).resolve().parents[2]
SOURCES = Path("python/bowstring/spark/java")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """The files for building the jar and the archives, without the native sources."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in ("setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    shutil.copytree(ROOT / SOURCES, copy / SOURCES)
    shutil.copy(ROOT / SOURCES.parent / "jar_build.py", copy / SOURCES.parent)
    shutil.copy(ROOT / "python/bowstring/version.py", copy / "python/bowstring")  # it has the version
    (copy / "python/bowstring/spark/__init__.py").write_text('"""A package."""\n')
    return copy


def run_setup(checkout, *arguments):
    command = [sys.executable, "setup.py", "--quiet", *arguments]
    ran = subprocess.run(command, cwd=checkout, capture_output=True, text=True, timeout=HANG_S, check=False)
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


PROBE = """
class Probe {
  public static void main(String[] arguments) {
    System.out.println(bowstring.spark.wire.ApiVersions.class.getPackage().getImplementationVersion());
  }
}
"""


def test_it_has_the_version_of_the_package(tmp_path):
    """Its connections send this version to brokers."""
    (tmp_path / "Probe.java").write_text(PROBE)
    command = ["java", "-cp", str(jar_path()), str(tmp_path / "Probe.java")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert ran.stdout.strip() == bowstring.__version__, ran.stderr
    source = (ROOT / SOURCES / "bowstring/spark/wire/ApiVersions.java").read_text()
    assert ".string(SOFTWARE_VERSION)" in source


def test_what_is_in_it():
    with zipfile.ZipFile(jar_path()) as jar:
        names = jar.namelist()
    assert names[0] == "META-INF/MANIFEST.MF"
    assert {"bowstring/DefaultSource.class", "bowstring/spark/LocalCheckpointFileManager.class"} <= set(names)
    # Spark accepts only one source named "bowstring": a service and the Python engine would be two.
    assert not [name for name in names if name.startswith("META-INF/services")]


def test_wheels_have_the_jar_and_its_sources_source_distributions_the_sources(checkout):
    run_setup(checkout, "build_py", "--build-lib", "built")
    shipped = {path.relative_to(checkout / "built").as_posix() for path in (checkout / "built").rglob("*.*")}
    assert "bowstring/spark/jars/bowstring-spark.jar" in shipped
    assert "bowstring/spark/java/bowstring/DefaultSource.java" in shipped
    run_setup(checkout, "sdist", "--dist-dir", "archives")
    (archive,) = (checkout / "archives").glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = [name.partition("/")[2] for name in opened.getnames()]
    assert f"{SOURCES}/bowstring/DefaultSource.java" in names
    assert not [name for name in names if name.endswith(".jar")]


def test_without_a_jdk_everything_else_is_built(checkout, monkeypatch):
    """A jar of older sources is not used in place of one of these."""
    stale = checkout / "python/bowstring/spark/jars/bowstring-spark.jar"
    stale.parent.mkdir(exist_ok=True)
    stale.write_bytes(b"older")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    said = run_setup(checkout, "build_py", "--build-lib", "without")
    assert "needs javac" in said and "the first Spark session will build it" in said
    assert (checkout / "without/bowstring/spark/java/bowstring/DefaultSource.java").exists()
    assert not list((checkout / "without").rglob("*.jar"))


# ------------------------------------------------------------ an installation without it


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """An installation without the jar: an empty cache."""
    monkeypatch.setattr(jars, "JAR", tmp_path / "not-there.jar")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    return tmp_path / "cache" / "bowstring"


@pytest.fixture
def builds(monkeypatch):
    """The built jars; javac does not run."""
    built = []

    def build(jar, libraries, javac):
        built.append(jar)
        with zipfile.ZipFile(jar, "w") as opened:
            opened.writestr(jar_build.DIGEST_ENTRY, jar_build.sources_digest())

    monkeypatch.setattr(jar_build, "build", build)
    return built


def test_it_is_built_once_and_says_so(cache, capsys, tmp_path):
    """Also if two processes need it at once."""
    code = (
        "import pathlib; from bowstring.spark import jar\n"
        "jar.JAR = pathlib.Path('/nowhere/bowstring-spark.jar')\n"
        "print(jar.jar_path())"
    )
    both = [
        subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    said = [process.communicate(timeout=240) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    (built,) = {out.strip() for out, _ in said}
    assert "".join(errors for _, errors in said) == (
        f"bowstring: compiling its Spark engine, once, into {built}\n"
    )
    assert sorted(os.listdir(cache)) == [".bowstring-spark.lock", Path(built).name]
    assert Path(built).read_bytes() == (ROOT / SOURCES.parent / "jars/bowstring-spark.jar").read_bytes()
    assert jar_path() == Path(built) and capsys.readouterr().err == ""


def test_another_spark_gets_another(cache, builds, monkeypatch, tmp_path):
    first = jar_path()
    assert first == jar_path() and builds == [first] and pyspark.__version__ in first.name
    libraries = tmp_path / "spark" / "jars"
    libraries.mkdir(parents=True)
    (libraries / "spark-core_2.13-4.2.9.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(libraries.parent))
    second = jar_path()
    assert "4.2.9" in second.name and builds == [first, second]
    first.write_bytes(b"broken")
    monkeypatch.delenv("SPARK_HOME")
    assert jar_path() == first and builds == [first, second, first]


def test_a_home_that_cannot_be_written_to(cache, builds, monkeypatch, tmp_path):
    cache.parent.write_text("in the way")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    own = tmp_path / f"bowstring-{os.getuid()}"
    assert jar_path().parent == own and own.stat().st_mode & 0o777 == 0o700
    assert jar_path().parent == own and len(builds) == 1
    # No jar is looked for where others could have put one.
    own.chmod(0o777)
    with pytest.raises(JarMissingError, match=r"neither .* nor .* is writable\. Set XDG_CACHE_HOME"):
        jar_path()


def javac_of(folder, version):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "javac").write_text(f"#!/bin/sh\necho javac {version}\n")
    (folder / "javac").chmod(0o755)
    return folder


def test_which_javac(monkeypatch, tmp_path):
    old, new = javac_of(tmp_path / "old" / "bin", "11.0.2"), javac_of(tmp_path / "new" / "bin", "21.0.1")
    monkeypatch.setenv("PATH", str(old))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert jar_build.find_javac() is None
    monkeypatch.setenv("JAVA_HOME", str(new.parent))
    assert jar_build.find_javac() == str(new / "javac")
    # JAVA_HOME may be a JRE; PATH may have links into a JDK.
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    (new / "java").touch(mode=0o755)
    links = tmp_path / "links"
    links.mkdir()
    (links / "java").symlink_to(new / "java")
    monkeypatch.setenv("PATH", str(links))
    assert jar_build.find_javac() == str(new / "javac")


def test_where_it_cannot_be_built(cache, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(
        JarMissingError, match=r"no javac of version 17 or newer.*default-jdk-headless.*JAVA_HOME"
    ):
        jar_path()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(JarMissingError, match=r"has none\. Set SPARK_HOME to Spark"):
        jar_path()
    monkeypatch.delenv("SPARK_HOME")
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(JarMissingError, match=r"is not installed\. pip install 'bowstring\[spark\]'"):
        jar_path()


def test_a_spark_that_it_does_not_fit(cache, monkeypatch, tmp_path):
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.13-3.5.1.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(
        JarMissingError, match=r"does not compile it against Spark 3\.5\.1 in .*error: .*needs the"
    ):
        jar_path()
    assert os.listdir(cache) == [".bowstring-spark.lock"]
