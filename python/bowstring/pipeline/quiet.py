"""Limits the output of Spark's JVM beside a pipeline's own lines to errors and our engine's warnings."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
# Spark puts these options before spark.driver.extraJavaOptions, so a log4j2.configurationFile there wins.
JAVA_OPTIONS = "spark.driver.defaultJavaOptions"
# PySpark writes each error of a query to these loggers, as JSON with the stack, before it raises the error.
_ECHOES = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
# No setting prevents these lines: Spark always requires that module, and mistakes PySpark for a shell.
_CHATTER = (
    b"WARNING: Using incubator modules:",
    b"Setting default log level to ",
    b"To adjust logging level use sc.setLogLevel",
)


def log_settings(settings: Mapping[str, Any]) -> dict[str, str]:
    """Returns settings that make a session's JVM log by `log4j2.properties`; none if `settings` have such
    Java options.
    """
    if JAVA_OPTIONS in settings:
        return {}
    return {JAVA_OPTIONS: f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}"}


def without_echoes() -> None:
    """Turns the loggers off that repeat what errors say; a pipeline prints an error as one line."""
    from pyspark.logger import PySparkLogger

    for name in _ECHOES:
        PySparkLogger.getLogger(name).disabled = True


@contextlib.contextmanager
def without_chatter() -> Iterator[None]:
    """Filters standard error of processes started inside the block, line by line, and drops known noise.

    The processes may write to the pipe after the block; a thread reads it until the last of them has ended.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    reading, writing = os.pipe()
    os.dup2(writing, 2)
    os.close(writing)
    threading.Thread(target=_pass_on, args=(reading, os.dup(kept)), name="spark-stderr", daemon=True).start()
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)


def _pass_on(reading: int, to: int) -> None:
    with os.fdopen(reading, "rb") as lines, os.fdopen(to, "wb", buffering=0) as said:
        for line in lines:
            if not line.startswith(_CHATTER):
                said.write(line)
