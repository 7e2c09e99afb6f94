"""An archive of the classes that Spark's driver loads: sessions start from it with a part of the work."""

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support import peers
from tests.support.waiting import FOR_EVER_S

# Else it would print omitted classes on standard output.
QUIET = "-Xlog:disable -Xlog:all=error:stderr"
# What most sessions of tests do: SQL, and a stream with state and a checkpoint.
TRAINING = """
import sys
from pyspark.sql import SparkSession
settings = {"spark.ui.enabled": "false", "spark.driver.memory": "600m", "spark.sql.shuffle.partitions": "1"}
spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
folder = sys.argv[1]
spark.range(100).selectExpr("id", "id % 2 AS odd").write.parquet(folder + "/rows")
rows = spark.readStream.schema("id BIGINT, odd BIGINT").parquet(folder + "/rows")
counts = rows.groupBy("odd").count().writeStream.outputMode("complete").format("memory").queryName("counts")
query = counts.option("checkpointLocation", folder + "/checkpoint").trigger(availableNow=True).start()
query.awaitTermination()
assert len(spark.table("counts").collect()) == 2
spark.stop()
"""


def _archive() -> Path:
    import pyspark

    java = Path(peers.tool("java", "a JDK (Debian: default-jdk-headless)")).resolve()
    name = hashlib.sha256(f"{java} {pyspark.__file__} {pyspark.__version__}".encode()).hexdigest()[:12]
    return peers.PEERS / f"spark-{name}.jsa"


def use_archive() -> None:
    """Adds the archive to SPARK_SUBMIT_OPTS, the options of the JVMs that PySpark starts; makes it, if it is not there.

    A JVM that the archive does not fit starts without it.
    """
    archive = _archive()
    with peers.lock("spark-archive"):
        if not archive.exists():
            _train(archive)
    os.environ["SPARK_SUBMIT_OPTS"] += f" {QUIET} -XX:SharedArchiveFile={archive}"


def _train(archive: Path) -> None:
    part = archive.with_suffix(".part")
    options = f"{os.environ['SPARK_SUBMIT_OPTS']} {QUIET} -XX:ArchiveClassesAtExit={part}"
    with tempfile.TemporaryDirectory() as folder:
        # The JVM ends after Python, and writes then: it is waited for by its end of the pipes.
        ran = subprocess.run(
            [sys.executable, "-c", TRAINING, folder],
            env={**os.environ, "SPARK_SUBMIT_OPTS": options, "SPARK_LOCAL_IP": "127.0.0.1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=FOR_EVER_S,
            check=False,
        )
    assert ran.returncode == 0 and part.exists(), ran.stderr[-3000:]
    part.rename(archive)
