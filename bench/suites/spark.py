"""Measures Spark reading a topic with the columnar engine: a local session, a broker, CPU time of both."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any, ClassVar

import bowstring
from bench.procfs import cpu_seconds

ROWS = 1_000_000
# Of 100 bytes, different in every row.
VALUE = "concat(repeat(md5(cast(id as string)), 3), 'abcd')"

# asv calls its timer without arguments.
_jvm: int | None = None


def timer() -> float:
    """CPU time of this process and of the JVM it started, in seconds."""
    return time.process_time() + (cpu_seconds(_jvm) if _jvm is not None else 0.0)


class Read:
    """A million records of two partitions, read by two tasks at a time."""

    of_seconds = True
    timeout = 600
    # A JVM needs some runs to compile; setting up again would only cost time.
    number, repeat, rounds, warmup_time = 1, 5, 1, 10.0

    rows: ClassVar = ROWS

    def setup(self) -> None:
        """Starts Spark, unless it runs, and a broker; not measured without Spark, Java or the jar."""
        global _jvm
        from bowstring.clients.errors import ClientError
        from bowstring.spark import jar_path, session

        try:
            from pyspark.sql import SparkSession
        except ImportError as error:
            raise NotImplementedError("PySpark is not installed: pip install 'bowstring[spark]'") from error

        self.work = Path(tempfile.mkdtemp(prefix="bowstring-bench-spark-"))
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        settings: dict[str, Any] = {
            "spark.driver.memory": "1500m",
            "spark.ui.enabled": "false",
            "spark.log.level": "ERROR",
            "spark.local.dir": str(self.work),
            "spark.sql.warehouse.dir": str(self.work / "warehouse"),
        }
        with contextlib.ExitStack() as stack:
            stack.callback(shutil.rmtree, self.work, ignore_errors=True)
            spark = SparkSession.getActiveSession()
            if spark is None:
                try:
                    jar_path()  # raises if it is missing; otherwise the Python engine would be measured
                    spark = session("bench", master="local[2]", **settings)
                except ClientError as error:
                    raise NotImplementedError(str(error)) from error
                stack.callback(spark.stop)
            _jvm = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
            broker = stack.enter_context(bowstring.Broker())
            with bowstring.Admin(broker.bootstrap_servers) as admin:
                admin.create_topics([bowstring.NewTopic("bench", 2)])
            servers = {"kafka.bootstrap.servers": broker.bootstrap_servers}
            frame = spark.range(0, self.rows, 1, 2).selectExpr("cast(id as string) key", f"{VALUE} value")
            frame.write.format("bowstring").options(**servers, topic="bench").save()
            self.frame = spark.read.format("bowstring").options(**servers, subscribe="bench").load()
            assert self.frame.count() == self.rows
            self.running = stack.pop_all()

    def teardown(self) -> None:
        """Stops Spark and the broker."""
        global _jvm
        _jvm = None
        self.running.close()

    def time_sum_of_lengths(self) -> None:
        """`sum(length(value))`: keys and values decoded, values looked at."""
        self.frame.selectExpr("sum(length(value))").collect()

    def time_all_columns(self) -> None:
        """Every column, into nothing."""
        self.frame.write.format("noop").mode("overwrite").save()
