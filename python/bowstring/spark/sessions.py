"""Spark sessions that know `format("bowstring")`, and where the jar of the columnar engine is."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bowstring.clients.errors import ClientError
from bowstring.spark.worker_python import choose_worker_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAR = Path(__file__).parent / "jars" / "bowstring-spark.jar"
CHECKPOINT_CLASS_SETTING = "spark.sql.streaming.checkpointFileManagerClass"
CHECKPOINT_CLASS = "bowstring.spark.LocalCheckpointFileManager"
JAVA_VERSION_MIN = 17
# What a session has unless it is told otherwise; settings Spark takes in a running session.
DEFAULTS = {
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Lets the Python engine read less where a query asks for less.
    "spark.sql.python.filterPushdown.enabled": "true",
}
# For a Spark that runs inside this process: a laptop, a test, a notebook.
LOCAL_DEFAULTS = {"spark.driver.host": "127.0.0.1", "spark.ui.showConsoleProgress": "false"}


class JarMissingError(ClientError):
    """The jar of the columnar engine has not been built into this installation."""

    def __init__(self) -> None:
        super().__init__(
            f"there is no {JAR.name} in this installation: it was built without a JDK or without PySpark. "
            "Install a JDK of 17 or newer and PySpark, then `python setup.py build_jar` in a checkout, or "
            "`pip install --no-build-isolation --force-reinstall bowstring`; or use the Python engine, which "
            "needs no jar"
        )


class JavaMissingError(ClientError):
    """Spark needs Java, and there is none, or one that is too old."""

    def __init__(self, found: str) -> None:
        super().__init__(
            f"Spark needs Java {JAVA_VERSION_MIN} or newer, and {found}. Install one (Debian: "
            "apt-get install default-jre-headless) or point JAVA_HOME to it"
        )


class SparkMissingError(ClientError, ImportError):
    """PySpark is not installed."""

    def __init__(self) -> None:
        super().__init__("PySpark is not installed: pip install 'bowstring[spark]'")


def jar_path() -> Path:
    """Where the jar of the columnar engine is: for `spark.jars`, `ADD JAR` or `spark-submit --jars`.

    Raises:
        JarMissingError: it has not been built.
    """
    if not JAR.exists():
        raise JarMissingError
    return JAR


def session(
    app_name: str = "bowstring",
    *,
    master: str | None = None,
    remote: str | None = None,
    fast_checkpoints: bool = False,
    **conf: Any,
) -> SparkSession:
    """A Spark session in which `format("bowstring")` is served by the columnar engine.

    A session that runs already gets the jar by ``ADD JAR`` and the settings it can still take. With `remote`
    (or SPARK_REMOTE set) the session is one of Spark Connect: the server decides which jars it has, and
    without this one the Python engine serves.

        spark = bowstring.spark.session(master="local[4]")
        spark.read.format("bowstring").option("kafka.bootstrap.servers", "localhost:9092").option(
            "subscribe", "orders"
        ).load()

    Args:
        app_name: The application's name in Spark's UI.
        master: Spark's master; by default what the environment says, else ``local[*]``.
        remote: A Spark Connect server, ``sc://host:port``, or ``local[n]`` to start one in this process.
        fast_checkpoints: Keep streaming checkpoints on local disks with
            ``bowstring.spark.LocalCheckpointFileManager``: synced to the disk, and tens of milliseconds
            a batch faster than Spark's own. Checkpoints elsewhere are kept as before.
        **conf: Spark settings by their names: ``**{"spark.sql.shuffle.partitions": 8}``.

    Raises:
        SparkMissingError: pip install 'bowstring[spark]'.
        JarMissingError: the jar has not been built.
        JavaMissingError: there is no Java, or it is too old.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SparkMissingError from error
    settings: dict[str, Any] = {**DEFAULTS, **{name: _text(value) for name, value in conf.items()}}
    if fast_checkpoints:
        settings[CHECKPOINT_CLASS_SETTING] = CHECKPOINT_CLASS
    remote = remote or os.environ.get("SPARK_REMOTE")
    if remote is not None and not remote.startswith("local"):
        return _connected(remote, app_name, settings)
    running = SparkSession.getActiveSession()
    if running is not None and remote is None:
        return _joined(running, settings)
    _require_java()
    master = remote or master or _master_of_environment()
    # Workers and data source lookups run this Python, not whichever is first on PATH.
    choose_worker_python(master)
    jars = [jar for jar in settings.get("spark.jars", "").split(",") if jar]
    settings["spark.jars"] = ",".join(dict.fromkeys([*jars, str(jar_path())]))
    builder = SparkSession.builder.appName(app_name)
    builder = builder.master(master) if remote is None else builder.remote(remote)
    if master.startswith("local"):
        settings = {**LOCAL_DEFAULTS, **settings}
    return builder.config(map=dict(settings)).getOrCreate()


def has_jar(spark: SparkSession) -> bool:
    """Whether the columnar engine is on the class path of a classic session."""
    jvm: Any = spark._jvm
    loader = jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
    return loader.getResource("bowstring/spark/LocalCheckpointFileManager.class") is not None


def _connected(remote: str, app_name: str, settings: dict[str, Any]) -> SparkSession:
    """A session on a Spark Connect server; only settings that a running server takes are given to it."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.remote(remote).appName(app_name).getOrCreate()
    for name, value in settings.items():
        if not name.startswith("spark.sql."):
            raise ClientError(
                f"{name} can only be set where the Spark Connect server is started, not from here"
            )
        spark.conf.set(name, value)
    return spark


def _joined(spark: SparkSession, settings: dict[str, Any]) -> SparkSession:
    """A running session with the jar and the settings put into it."""
    from pyspark.errors import AnalysisException

    if hasattr(spark, "_jvm") and not has_jar(spark):
        spark.sql(f"ADD JAR '{jar_path()}'")
    for name, value in settings.items():
        if spark.conf.get(name, None) == value:
            continue
        try:
            spark.conf.set(name, value)
        except AnalysisException as error:
            raise ClientError(
                f"{name} cannot be changed in a session that runs: stop() it, or set it where it is started"
            ) from error
    return spark


def _master_of_environment() -> str:
    from pyspark import SparkConf

    return str(SparkConf().get("spark.master", os.environ.get("MASTER", "local[*]")))


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home, "bin"))) if home else shutil.which("java")
    if java is None:
        raise JavaMissingError(f"JAVA_HOME={home} has none" if home else "there is no java on the PATH")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', said)
    if version is None or int(version[1]) < JAVA_VERSION_MIN:
        raise JavaMissingError(f"{java} says: {said.splitlines()[0] if said else 'nothing'}")


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
