"""Starts one quiet Spark session for both jobs of the demo, and removes it afterwards."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bowstring.spark.sessions import JavaMissingError, SparkMissingError, has_jar, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

APPLICATION, MASTER = "bowstring demo", "local[2]"
SETTINGS: dict[str, Any] = {
    "spark.driver.memory": "1g",
    "spark.log.level": "ERROR",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": 2,
    "spark.ui.enabled": "false",
}


class DemoSpark(NamedTuple):
    """A session, or the reason for its absence.

    Attributes:
        spark: None when there is no session.
        skipped: why; else empty.
        engine: which Bowstring engine reads topics, columnar or Python.
        folder: for checkpoints; deleted with the session.
    """

    spark: SparkSession | None
    skipped: str = ""
    engine: str = ""
    folder: str = ""


@contextlib.contextmanager
def opened() -> Iterator[DemoSpark]:
    """Opens a session until the block ends. Adds Spark's output to exceptions of the block."""
    with tempfile.TemporaryDirectory(prefix="bowstring-demo-spark-") as folder:
        said = Path(folder, "spark.log")
        with _quietly(said):
            found = _session(folder)
            try:
                yield found
            except Exception as error:
                error.add_note("Spark said:\n" + said.read_text()[-4_000:])
                raise
            finally:
                if found.spark is not None:
                    found.spark.stop()


def _session(folder: str) -> DemoSpark:
    settings = SETTINGS | {"spark.local.dir": folder, "spark.sql.warehouse.dir": f"{folder}/warehouse"}
    try:
        spark = session(APPLICATION, master=MASTER, fast_checkpoints=True, **settings)
    except (JavaMissingError, SparkMissingError) as error:
        return DemoSpark(None, skipped=str(error))
    return DemoSpark(spark, engine="columnar" if has_jar(spark) else "Python", folder=folder)


@contextlib.contextmanager
def _quietly(path: Path) -> Iterator[None]:
    """Redirects standard error of this process and of the JVM that it starts to a file, because the JVM
    prints much.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    with path.open("wb") as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
