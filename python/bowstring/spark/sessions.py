"""Starts Spark sessions that support `format("bowstring")`."""

from __future__ import annotations

import inspect
import logging
import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bowstring.clients.config.config_table import nearest
from bowstring.clients.errors import ClientError, ConfigError
from bowstring.spark.jar import JarMissingError, jar_path
from bowstring.spark.worker_python import choose_worker_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHECKPOINT_CLASS_SETTING = "spark.sql.streaming.checkpointFileManagerClass"
CHECKPOINT_CLASS = "bowstring.spark.LocalCheckpointFileManager"
JAVA_VERSION_MIN = 17
log = logging.getLogger("bowstring.spark")
# Default settings of a session; Spark accepts them in a running session.
DEFAULTS = {
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Lets the Python engine read less if a query's filters allow it.
    "spark.sql.python.filterPushdown.enabled": "true",
}
# Defaults for a Spark inside this process: a laptop, a test, a notebook.
LOCAL_DEFAULTS = {"spark.driver.host": "127.0.0.1", "spark.ui.showConsoleProgress": "false"}


class JavaMissingError(ClientError):
    """Spark needs Java, which is missing or too old."""

    def __init__(self, found: str) -> None:
        super().__init__(
            f"Spark needs Java {JAVA_VERSION_MIN} or newer, and {found}. Install one (Debian: apt-get "
            "install default-jre-headless) or set JAVA_HOME to it"
        )


class SparkMissingError(ClientError, ImportError):
    """PySpark is not installed."""

    def __init__(self) -> None:
        super().__init__("PySpark is not installed: pip install 'bowstring[spark]'")


def session(
    app_name: str = "bowstring",
    *,
    master: str | None = None,
    remote: str | None = None,
    fast_checkpoints: bool = False,
    **conf: Any,
) -> SparkSession:
    """Returns a Spark session in which the columnar engine serves `format("bowstring")`.

    The first call builds its jar if the installation has none. If that is impossible, for example without a
    JDK, the Python engine is used, and a warning says so.

    A session that already runs gets the jar by ``ADD JAR`` and the settings that it still accepts. With
    `remote` (or SPARK_REMOTE set) the session is one of Spark Connect: the server decides which jars it has,
    and without this one the Python engine is used.

        spark = bowstring.spark.session(master="local[4]")
        spark.read.format("bowstring").option("kafka.bootstrap.servers", "localhost:9092").option(
            "subscribe", "orders"
        ).load()

    Args:
        app_name: The application's name in Spark's UI.
        master: Spark's master; by default that of the environment, else ``local[*]``.
        remote: A Spark Connect server, ``sc://host:port``, or ``local[n]`` to start one in this process.
        fast_checkpoints: Store the checkpoints of all streams on local disks with
            ``bowstring.spark.LocalCheckpointFileManager``: synced to the disk, and tens of milliseconds a
            batch faster than Spark's own. Checkpoints on other file systems are not affected. Without it the
            same applies from the first use of ``format("bowstring")`` on.
        **conf: Spark settings by their names: ``**{"spark.sql.shuffle.partitions": 8}``.

    Raises:
        SparkMissingError: pip install 'bowstring[spark]'.
        ConfigError: a setting is not a Spark setting.
        JavaMissingError: Java is missing or too old.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SparkMissingError from error
    _check_names(conf)
    settings: dict[str, Any] = {**DEFAULTS, **{name: _text(value) for name, value in conf.items()}}
    remote = remote or os.environ.get("SPARK_REMOTE")
    if remote is not None and not remote.startswith("local"):
        return _connected(remote, app_name, settings)
    of_jar = {CHECKPOINT_CLASS_SETTING: CHECKPOINT_CLASS} if fast_checkpoints else {}
    running = _running()
    if running is not None and remote is None:
        return _joined(running, settings, of_jar)
    require_java()
    master = remote or master or _master_of_environment()
    # Workers and data source lookups must run this Python, not the first one on PATH.
    choose_worker_python(master)
    if (jar := _jar_if_any()) is not None:
        settings = {**of_jar, **settings, "spark.jars": _with(settings.get("spark.jars", ""), jar)}
    if master.startswith("local"):
        settings = {**LOCAL_DEFAULTS, **settings}
    builder = SparkSession.builder.appName(app_name).config(map=dict(settings))
    return (builder.master(master) if remote is None else builder.remote(remote)).getOrCreate()


def _running() -> SparkSession | None:
    """Returns the session of this process: the active one is that of a thread, and another has none."""
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    last: Any = SparkSession._instantiatedSession
    return last if last is not None and last._sc._jsc is not None else None


def _with(jars: str, jar: Path) -> str:
    return ",".join(dict.fromkeys([*(each for each in jars.split(",") if each), str(jar)]))


def has_jar(spark: SparkSession) -> bool:
    """Returns whether the columnar engine is on the class path of a classic session."""
    jvm: Any = spark._jvm
    loader = jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
    return loader.getResource("bowstring/spark/LocalCheckpointFileManager.class") is not None


def _connected(remote: str, app_name: str, settings: dict[str, Any]) -> SparkSession:
    """Returns a session on a Spark Connect server, with the settings that a running server accepts."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.remote(remote).appName(app_name).getOrCreate()
    for name, value in settings.items():
        if not name.startswith("spark.sql."):
            raise ClientError(
                f"{name} can only be set where the Spark Connect server is started, not from here"
            )
        spark.conf.set(name, value)
    return spark


def _joined(spark: SparkSession, settings: dict[str, Any], of_jar: dict[str, Any]) -> SparkSession:
    """Adds the jar, the settings, and those that need the jar to a running session."""
    from pyspark.errors import AnalysisException

    is_classic = hasattr(spark, "_jvm")
    if is_classic and not has_jar(spark) and (jar := _jar_if_any()) is not None:
        spark.sql(f"ADD JAR '{jar}'")
    if is_classic and has_jar(spark):
        settings = {**of_jar, **settings}
    for name, value in settings.items():
        if spark.conf.get(name, None) == value:
            continue
        try:
            spark.conf.set(name, value)
        except AnalysisException as error:
            raise ClientError(
                f"{name} cannot be changed in a running session: stop() it, or set it where it is started"
            ) from error
    return spark


def _jar_if_any() -> Path | None:
    """Returns the jar; None, with a warning, if there is none."""
    try:
        return jar_path()
    except JarMissingError as error:
        _tell_of_python_engine(str(error))
        return None


@cache
def _tell_of_python_engine(reason: str) -> None:
    """Warns once in a process."""
    log.warning(
        'the Python engine serves format("bowstring"), which is several times slower than the columnar '
        "engine: %s",
        reason,
    )


def _check_names(conf: Iterable[str]) -> None:
    """Refuses names that Spark would accept and ignore. All of Spark's settings have a dot in their names."""
    known = [
        name for name, each in inspect.signature(session).parameters.items() if each.kind != each.VAR_KEYWORD
    ]
    for name in conf:
        if "." not in name:
            near = nearest(name, known)
            hint = (
                f"did you mean {near}?"
                if near
                else 'Spark settings are given as **{"spark.sql.shuffle.partitions": 8}'
            )
            raise ConfigError(f"session() has no argument {name}, and Spark has no such setting: {hint}")


def _master_of_environment() -> str:
    from pyspark import SparkConf

    return str(SparkConf().get("spark.master", os.environ.get("MASTER", "local[*]")))


def require_java() -> None:
    """Checks that there is a Java that Spark runs on.

    Raises:
        JavaMissingError: There is none, or it is too old.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home, "bin"))) if home else shutil.which("java")
    if java is None:
        raise JavaMissingError(f"JAVA_HOME={home} has no java" if home else "there is no java on the PATH")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', said)
    if version is None or int(version[1]) < JAVA_VERSION_MIN:
        raise JavaMissingError(f"{java} says: {said.splitlines()[0] if said else 'nothing'}")


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
