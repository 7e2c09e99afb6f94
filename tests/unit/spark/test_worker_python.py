"""The Python that Spark's workers run."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from bowstring.spark.worker_python import LAUNCHED_VARIABLE, LAUNCHER, PYTHON_VARIABLE, choose_worker_python

SPARK_HOME = Path(sysconfig.get_path("purelib"), "pyspark")


@pytest.fixture
def environment(monkeypatch):
    """Without any explicit choice."""
    for name in (PYTHON_VARIABLE, LAUNCHED_VARIABLE, "SPARK_HOME"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    return os.environ


def launched(rest):
    """What a worker finds that Spark starts with `rest` as the user's PYTHONPATH."""
    (jar,) = SPARK_HOME.glob("jars/spark-core_*.jar")
    (py4j,) = SPARK_HOME.glob("python/lib/py4j-*-src.zip")
    path = [str(SPARK_HOME / "python/lib/pyspark.zip"), str(py4j), str(jar), *rest]
    given = {
        "SPARK_HOME": "/by/another/link",
        "PYTHONPATH": ":".join(path),
        LAUNCHED_VARIABLE: sys.executable,
    }
    code = (
        "import os, pyspark, sys; print(sys.executable, pyspark.__file__, os.environ['PYTHONPATH'], sep='|')"
    )
    done = subprocess.run(
        [LAUNCHER, "-c", code], env={**os.environ, **given}, capture_output=True, text=True, check=True
    )
    return done.stdout.strip().split("|")


def test_workers_load_the_installed_pyspark():
    assert launched([]) == [sys.executable, str(SPARK_HOME / "__init__.py"), ""]
    assert launched(["/a b", "/c"]) == [sys.executable, str(SPARK_HOME / "__init__.py"), "/a b:/c"]


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]"])
def test_local_sessions_have_the_launcher(environment, master):
    choose_worker_python(master)
    assert (environment[PYTHON_VARIABLE], environment[LAUNCHED_VARIABLE]) == (str(LAUNCHER), sys.executable)
    choose_worker_python("spark://host:7077")
    assert environment[PYTHON_VARIABLE] == sys.executable


def test_what_the_user_has_chosen_stays(environment):
    environment[PYTHON_VARIABLE] = "/opt/python"
    choose_worker_python("local[2]")
    assert environment[PYTHON_VARIABLE] == "/opt/python"
    assert LAUNCHED_VARIABLE not in environment


def test_another_spark_keeps_its_own_pyspark(environment, tmp_path):
    environment["SPARK_HOME"] = str(tmp_path)
    choose_worker_python("local[2]")
    assert environment[PYTHON_VARIABLE] == sys.executable
