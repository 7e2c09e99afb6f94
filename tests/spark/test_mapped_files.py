"""option local: a segment file that tasks map is locked, so that a broker that starts after a crash leaves it whole."""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import bowstring
from tests.support.spark_topics import fill, read
from tests.support.target import BowstringBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def is_locked(path: Path) -> bool:
    """Whether another process has a lock on the file."""
    with path.open("r+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def hold(spark: SparkSession, path: Path, size: int) -> Any:
    """What a task has of a file in the JVM, None if it is not the file meant."""
    local = spark._jvm.bowstring.spark.local  # type: ignore[union-attr]
    status = path.stat()
    segment = local.LocalSegments.Segment(0, 1, status.st_dev, status.st_ino, 0, size, str(path))
    return local.SegmentFile.open(segment)


def test_a_mapped_file_outlasts_a_crash(spark: SparkSession, tmp_path: Path) -> None:
    broker = BowstringBroker(tmp_path / "broker", {"bowstring.durability": "os"})
    broker.start()
    try:
        with bowstring.Admin(broker.bootstrap) as admin:
            admin.create_topics([bowstring.NewTopic("mapped", 1)])
        fill(broker.bootstrap, "mapped", 100)
        fill(broker.bootstrap, "mapped", 50)
        assert read(spark, "bowstring", broker.bootstrap, "mapped", local="true").count() == 150
        (path,) = broker.data.rglob("mapped-0/*.log")
        whole = path.read_bytes().rstrip(b"\0")
        assert not is_locked(path), "a query that is done lets go"
        holders = [hold(spark, path, len(whole)) for _ in range(2)]
        assert hold(spark, path, len(whole) + (64 << 20)) is None, "shorter than the broker said"
        memory = holders[0].map(0, len(whole))
        holders[1].close()
        assert is_locked(path), "by the other task"
        broker.kill()
        with path.open("r+b") as file:
            file.seek(len(whole) - 1)
            file.write(bytes([whole[-1] ^ 0xFF]))
        inode = path.stat().st_ino
        broker.start()
        assert path.stat().st_ino != inode and path.stat().st_size < len(whole), (
            "recovery made a shorter copy"
        )
        assert memory.get(len(whole) - 1) & 0xFF == whole[-1] ^ 0xFF
        assert memory.get(len(whole) - 2) & 0xFF == whole[-2]
        hold(spark, path, 1).close()
        after = read(spark, "bowstring", broker.bootstrap, "mapped", local="true")
        assert after.count() == 100 and after.selectExpr("max(offset)").first() == (99,)
        holders[0].close()
    finally:
        broker.kill()


def test_a_file_that_was_replaced_is_not_mapped(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"segment")
    first = hold(spark, path, 7)
    os.rename(path, tmp_path / "00000000000000000000.log.deleted")
    path.write_bytes(b"another")
    assert is_locked(tmp_path / "00000000000000000000.log.deleted") and not is_locked(path)
    local = spark._jvm.bowstring.spark.local  # type: ignore[union-attr]
    status = (tmp_path / "00000000000000000000.log.deleted").stat()
    old = local.LocalSegments.Segment(0, 1, status.st_dev, status.st_ino, 0, 7, str(path))
    assert local.SegmentFile.open(old) is None
    assert is_locked(tmp_path / "00000000000000000000.log.deleted"), "as before"
    first.close()
    assert not is_locked(tmp_path / "00000000000000000000.log.deleted")


def test_a_socket_whose_path_is_too_long_for_an_address(spark: SparkSession, tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    links = set(Path(tempfile.gettempdir()).glob("bowstring-*/d"))
    with bowstring.Broker(data_dir=deep) as broker:
        fill(broker.bootstrap_servers, "mapped", 100)
        frame = read(spark, "bowstring", broker.bootstrap_servers, "mapped", local="true")
        assert frame.count() == 100
    assert set(Path(tempfile.gettempdir()).glob("bowstring-*/d")) == links, "a link was left behind"
