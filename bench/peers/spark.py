"""Runs a Spark session under measurement: local[2], with this project's jar and Spark's own Kafka
connector.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.peers import install
from bench.peers.install import PeerError
from bench.procfs import cpu_seconds
from bowstring.spark.sessions import CHECKPOINT_CLASS, CHECKPOINT_CLASS_SETTING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARKS_CHECKPOINT_CLASS = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"
)
SETTINGS = {
    "spark.driver.memory": "3g",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "ERROR",
    # Otherwise the source would replace it for the whole session, and Spark's own source would benefit.
    CHECKPOINT_CLASS_SETTING: SPARKS_CHECKPOINT_CLASS,
}


@dataclass(frozen=True)
class Timing:
    """Time of a query, and its cost for the JVM."""

    rows: int
    seconds: float
    jvm_cpu_seconds: float

    def figures(self, name: str) -> dict[str, float]:
        """Rows a second, and CPU-seconds of the JVM for a million of them."""
        return {
            f"{name}_rows_per_second": self.rows / self.seconds,
            f"{name}_jvm_cpu_seconds_per_million": self.jvm_cpu_seconds / self.rows * 1e6,
        }


class SparkHost:
    """Starts the session on first use; a session that already runs in this process is used and not
    stopped.
    """

    def __init__(self, work: Path):
        self.work = work
        self._session: SparkSession | None = None
        self._owned = False

    @property
    def session(self) -> SparkSession:
        """The session.

        Raises:
            PeerError: PySpark, a JDK, Maven or the jar is missing, or the JVM did not start.
        """
        if self._session is None:
            self._start()
        assert self._session is not None
        return self._session

    def _start(self) -> None:
        from pyspark.sql import SparkSession

        from bowstring.clients.errors import ClientError
        from bowstring.spark import jar_path, session

        running = SparkSession.getActiveSession()
        if running is not None:
            self._session = running
            return
        settings: dict[str, Any] = {
            **SETTINGS,
            "spark.jars": ",".join(install.spark_kafka_jars()),
            "spark.local.dir": str(self.work / "local"),
            "spark.sql.warehouse.dir": str(self.work / "warehouse"),
        }
        try:
            jar_path()  # raises if it is missing; otherwise the Python engine would be measured
            self._session = session("bench", master="local[2]", **settings)
        except ClientError as error:
            raise PeerError(str(error)) from error
        self._owned = True

    def timed(self, rows: int, call: Callable[[], object]) -> Timing:
        """Runs a query over so many rows.

        Raises:
            PeerError: Spark says why it failed.
        """
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        jvm_pid: int = self.session.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
        cpu_before, before = cpu_seconds(jvm_pid), time.perf_counter()
        try:
            call()
        except (Py4JError, PySparkException) as error:
            raise PeerError(f"Spark: {str(error)[:2000]}") from error
        return Timing(rows, time.perf_counter() - before, cpu_seconds(jvm_pid) - cpu_before)

    @contextmanager
    def local_checkpoints(self) -> Iterator[None]:
        """Streams started inside the block store their checkpoints with this project's file manager."""
        self.session.conf.set(CHECKPOINT_CLASS_SETTING, CHECKPOINT_CLASS)
        try:
            yield
        finally:
            self.session.conf.set(CHECKPOINT_CLASS_SETTING, SPARKS_CHECKPOINT_CLASS)

    def close(self) -> None:
        """Stops the session if it was started here."""
        if self._session is not None and self._owned:
            self._session.stop()
        self._session = None
