"""Contents of the source distribution and of pip's wheel of it, and what comes with the installation."""

import re
import zipfile
from pathlib import Path

from tests.install.installed import NATIVE, ROOT, pip


def test_the_source_distribution_has_what_the_extensions_are_built_from(sources):
    for suffix in (".pyx", ".pxd", ".h", ".pyi"):
        names = [path.relative_to(ROOT / NATIVE) for path in (ROOT / NATIVE).rglob(f"*{suffix}")]
        assert names, suffix
        for name in names:
            assert (sources / NATIVE / name).read_bytes() == (ROOT / NATIVE / name).read_bytes(), name
    assert not [path for path in sources.rglob("*") if path.suffix in (".so", ".jar", ".c")]


def test_what_is_in_the_wheel(wheel):
    """Built without PySpark, it has no jar and all that one is built from."""
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
    top = NATIVE.relative_to("python")
    extensions = {re.sub(r"\.[^/]*so$", "", name) for name in names if name.endswith(".so")}
    sources = (ROOT / NATIVE).rglob("*.pyx")
    assert extensions == {(top / path.relative_to(ROOT / NATIVE).parent).as_posix() for path in sources}
    package = ROOT / "python" / "bowstring"
    for path in [*package.rglob("*.py"), *package.rglob("*.java"), *package.rglob("*.properties")]:
        assert path.relative_to(ROOT / "python").as_posix() in names, path
    assert {
        "bowstring/spark/worker_python.sh",
        "bowstring/py.typed",
        "pyspark_bowstring/__init__.py",
    } <= names
    assert not [name for name in names if name.endswith((".c", ".jar")) or name.startswith("tests")]


def test_the_command_is_the_installed_one(installed, tmp_path):
    ran = installed.run(["bowstring", "version"], tmp_path)
    assert ran.returncode == 0 and ran.stderr == "", ran.stderr
    where = "import bowstring, bowstring._native.log.partition_log as native; print(bowstring.__file__, native.__file__)"
    found = installed.run(["python", "-c", where], tmp_path).stdout.split()
    assert all(Path(each).is_relative_to(installed.folder) for each in found), found


def test_the_jar_is_built_when_it_is_first_asked_for(installed, tmp_path):
    first = installed.run(["bowstring", "spark-jar"], tmp_path)
    assert first.returncode == 0, first.stderr
    jar = Path(first.stdout.strip())
    assert jar.parent == installed.home / ".cache" / "bowstring"
    assert first.stderr in ("", f"bowstring: compiling its Spark engine, once, into {jar}\n")
    again = installed.run(["bowstring", "spark-jar"], tmp_path)
    assert (again.stdout, again.stderr) == (first.stdout, "")


def test_a_wheel_that_is_built_beside_pyspark_has_the_jar(installed, sources, tmp_path):
    """In isolation, too: as by `pip install .` where PySpark is installed already. The extensions are left out."""
    wheel = ["wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(sources)]
    pip(installed.folder, *wheel, BOWSTRING_ONLY="none")
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        assert [name for name in opened.namelist() if re.search(r"\.jar$", name)] == [
            "bowstring/spark/jars/bowstring-spark.jar"
        ]
