"""Chooses the Python for Spark's workers: this one, with a launcher that makes it start faster.

Every Python process of Spark first finds PySpark in a zip without compiled modules, and spends 0.6
CPU-seconds on compiling it: once for each kind of worker, and once for each streaming query of a source in
Python. The launcher removes the zip from PYTHONPATH, so that the same PySpark is loaded from pip's
installation.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

LAUNCHER = Path(__file__).with_name("worker_python.sh")
PYTHON_VARIABLE = "PYSPARK_PYTHON"
LAUNCHED_VARIABLE = "BOWSTRING_WORKER_PYTHON"


def choose_worker_python(master: str) -> None:
    """Sets PYSPARK_PYTHON for a Spark that is about to start, unless the user has set it.

    Executors on other machines get only the name of this Python: they have neither the launcher nor this
    environment.

    Args:
        master: Spark's master, such as ``local[4]`` or ``spark://host:7077``.
    """
    if os.environ.get(PYTHON_VARIABLE, str(LAUNCHER)) != str(LAUNCHER):
        return
    in_this_process = master == "local" or master.startswith("local[")
    if in_this_process and os.access(LAUNCHER, os.X_OK) and _is_spark_installed_here():
        os.environ[PYTHON_VARIABLE] = str(LAUNCHER)
        os.environ[LAUNCHED_VARIABLE] = sys.executable
    else:
        os.environ[PYTHON_VARIABLE] = sys.executable


def _is_spark_installed_here() -> bool:
    """Returns whether the Spark that will run is in this Python's packages; SPARK_HOME may name another."""
    from pyspark.find_spark_home import _find_spark_home

    installed = Path(sysconfig.get_path("purelib"), "pyspark")
    return Path(_find_spark_home()).resolve() == installed.resolve()
