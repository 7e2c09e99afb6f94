"""What a task of the Python engine reads, without Spark around it."""

import os
import subprocess
import sys

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

import bowstring
from bowstring.audit.count_table import CountTable
from bowstring.audit.counts_reader import CountsReader, now_ms
from bowstring.clients.errors import UnknownTopicError
from bowstring.clients.records import TopicPartition
from bowstring.spark import python_read
from bowstring.spark.offsets import DataLossError
from bowstring.spark.options import read_options
from bowstring.spark.ranges import OffsetRange
from bowstring.spark.row_schema import arrow_schema, spark_schema
from tests.support.waiting import HANG_S


@pytest.fixture(scope="module")
def servers():
    with bowstring.Broker() as broker:
        with bowstring.Admin(broker.bootstrap_servers) as admin:
            admin.create_topic("t", 2)
        with bowstring.Producer(broker.bootstrap_servers) as producer:
            for number in range(1_000):
                producer.send("t", b"%d" % number, partition=number % 2)
            producer.flush(HANG_S)
        yield broker.bootstrap_servers


def options(servers, **given):
    return read_options({"kafka.bootstrap.servers": servers, "subscribe": "t", **given}, streaming=False)


def offsets(batches):
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


def test_connections_are_kept_between_tasks(servers):
    asked = options(servers, columns="offset")
    wanted = spark_schema(asked.shape)
    python_read.kept_consumers.clear()
    assert offsets(python_read.read_range(asked, wanted, OffsetRange("t", 0, 10, 20))) == list(range(10, 20))
    (consumer,) = python_read.kept_consumers.values()
    assert offsets(python_read.read_range(asked, wanted, OffsetRange("t", 1, 490, 500))) == list(
        range(490, 500)
    )
    assert list(python_read.kept_consumers.values()) == [consumer]
    # A task that ends early leaves nothing behind.
    begun = python_read.read_range(asked, wanted, OffsetRange("t", 0, 0, 500))
    assert next(begun).num_rows
    begun.close()
    assert not python_read.kept_consumers
    with pytest.raises(UnknownTopicError):
        list(python_read.read_range(asked, wanted, OffsetRange("gone", 0, 0, 5)))
    assert not python_read.kept_consumers


def test_a_range_counts_when_it_was_read_to_its_end(servers):
    """Else the report of a task that needed a few rows would replace that of one that read all."""
    asked = options(servers, **{"audit.tier": "app", "kafka.group.id": "parts"})
    wanted = spark_schema(asked.shape)

    def counted():
        table = CountTable()
        with CountsReader([servers], "audit-counts", table) as reader:
            reader.read_all()
        return sum(row.records for row in table.rows(now_ms()) if row.stage.reader == "parts")

    python_read.kept_reports.clear()
    begun = python_read.counted_range(asked, wanted, OffsetRange("t", 0, 0, 500), "q")
    assert next(begun).num_rows
    begun.close()
    assert not python_read.kept_reports
    assert len(offsets(python_read.counted_range(asked, wanted, OffsetRange("t", 0, 0, 500), "q"))) == 500
    assert counted() == 500


def test_exactly_the_columns_wanted(servers):
    asked = options(servers, includeHeaders="true")
    wanted = spark_schema(asked.shape)
    (batch,) = python_read.read_range(asked, wanted, OffsetRange("t", 0, 0, 5))
    assert batch.schema.equals(arrow_schema(wanted))
    row = batch.to_pylist()[0]
    assert (row["topic"], row["partition"], row["value"]) == ("t", 0, b"0")
    only = StructType([wanted["topic"]])
    (batch,) = python_read.read_range(asked, only, OffsetRange("t", 1, 0, 5))
    assert batch.to_pydict() == {"topic": ["t"] * 5}


NEW_WORKER = """
import gc, sys
from bowstring.spark import python_source
options = {"kafka.bootstrap.servers": sys.argv[1], "subscribe": "t"}
reader = python_source.batch_reader(options, python_source.schema(options))
rows = sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part))
print(rows, gc.get_freeze_count() > 10_000, *({"numba", "pandas", "pyarrow.compute"} & sys.modules.keys()))
"""


def test_a_new_worker_loads_nothing_heavy_and_keeps_it_from_the_collector(servers):
    done = subprocess.run(
        [sys.executable, "-c", NEW_WORKER, servers],
        env={**os.environ, "SPARK_REUSE_WORKER": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["1000", "True"], done.stderr


def test_timestamp_types_that_differ_within_a_batch(servers):
    asked = options(servers, columns="timestampType")
    columns = python_read.Columns(asked, spark_schema(asked.shape), OffsetRange("t", 0, 0, 5))
    for types in ([0, 0, 0], [1, 1], [0, 1, 1, 0]):
        given = pa.record_batch({"timestamp_type": pa.array([9, *types], pa.int8())}).slice(1)
        assert columns.convert(given).to_pydict() == {"timestampType": types}


def test_what_retention_took_meanwhile(servers):
    with bowstring.Admin(servers) as admin:
        admin.delete_records({TopicPartition("t", 1): 100})
    wanted = spark_schema(options(servers, columns="offset").shape)
    with pytest.raises(DataLossError, match="offset 50 of t-1 was deleted: the log begins at 100"):
        list(python_read.read_range(options(servers), wanted, OffsetRange("t", 1, 50, 120)))
    bold = options(servers, failOnDataLoss="false")
    assert offsets(python_read.read_range(bold, wanted, OffsetRange("t", 1, 50, 120))) == list(
        range(100, 120)
    )
    assert offsets(python_read.read_range(bold, wanted, OffsetRange("t", 1, 50, 80))) == []
