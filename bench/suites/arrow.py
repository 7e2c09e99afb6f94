"""Measures Arrow in and out: columns to record batches, record batches to columns, and both through a
broker.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import random
import time
from typing import TYPE_CHECKING, ClassVar

import bowstring
from bench.suites.batch import TIMESTAMP_MS, one_batch
from bowstring._native.arrow.decode import ArrowRows
from bowstring._native.client.accumulator import Accumulator
from bowstring._native.client.producer_batch import Batch
from bowstring._native.client.record_sender import RecordSender
from bowstring.clients.producer.arrow import open_rows
from bowstring.clients.producer.batches import ProduceBatch
from bowstring.clients.producer.config import producer_settings
from bowstring.clients.records import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

timer = time.process_time

TOPIC = "bench"
ROLES = {"key": "key", "value": "value", "timestamp": "timestamp"}
PARTITIONS = 6
ROWS = 100_000
# Default producer settings: those of its constructor.
DEFAULTS = {
    name: parameter.default
    for name, parameter in inspect.signature(bowstring.Producer.__init__).parameters.items()
    if name in inspect.signature(producer_settings).parameters
}
COLUMNS = ("partition", "offset", "timestamp", "key", "value")


def table(rows: int, *, keyed: bool) -> pa.Table:
    """Values of 100 random bytes; keys, if any, of 8."""
    import pyarrow as pa

    draw = random.Random(0)
    columns = {"value": pa.array([draw.randbytes(100) for _ in range(rows)], pa.binary())}
    if keyed:
        columns["key"] = pa.array([draw.randbytes(8) for _ in range(rows)], pa.binary())
    columns["timestamp"] = pa.array(itertools.repeat(TIMESTAMP_MS, rows), pa.int64())
    return pa.table(columns)


class Dropping(RecordSender):
    """Takes the batches of a producer, counts their records and drops them."""

    records = 0

    def submit(self, topic: str, partition: int, batch: Batch) -> None:
        """Nothing is sent."""
        self.records += batch.record_count


class Encode:
    """10,000 rows of a table to the batches that a producer would send; without keys to one partition."""

    param_names: ClassVar = ["keyed"]
    params: ClassVar = [False, True]
    rows = 10_000

    def setup(self, keyed: bool) -> None:
        """The table, and a producer's settings."""
        self.table = table(self.rows, keyed=keyed)
        self.accumulator = Accumulator(TopicPartition, ProduceBatch, producer_settings(**DEFAULTS))
        partitions = PARTITIONS if keyed else 1
        self.accumulator.route(TOPIC, 0, partitions, list(range(partitions)))
        self.producer = Dropping()
        self.producer.accumulator = self.accumulator
        self.places = [TopicPartition(TOPIC, number) for number in range(partitions)]
        assert self.encode() == self.rows

    def encode(self) -> int:
        """Encodes like `send_arrow`, but drops the batches; returns the number of rows."""
        before = self.producer.records
        rows = open_rows(self.table, ROLES)
        while rows.next_array():
            while rows.next_slice(self.accumulator, TOPIC):
                for partition, begin, end in rows.spans():
                    rows.send_span(self.producer, self.places[partition], begin, end, [])
        return self.producer.records - before

    def time_encode(self, keyed: bool) -> None:
        """Rows placed and encoded; the CRC but for the header, which comes when a batch is sent."""
        self.encode()


class Decode:
    """9,000 records in batches of 595 (64 KiB) to columns; values copied, or pointed to."""

    param_names: ClassVar = ["layout"]
    params: ClassVar = ["binary", "binary_view"]
    batches = 15

    def setup(self, layout: str) -> None:
        """Prepares the bytes of a fetch."""
        self.fetched = one_batch(595, 100) * self.batches
        self.views = layout == "binary_view"

    def time_decode(self, layout: str) -> None:
        """The buffers of five columns, CRC checked."""
        rows = ArrowRows(COLUMNS, views=self.views)
        rows.append(self.fetched, 0, verify_crc=True)
        count, _ = rows.take()
        assert count == 595 * self.batches


class _Brokered:
    """A broker in this process, its CPU time included, and a topic."""

    # Most of its time is waiting for threads; the report has the clients' speed from separate processes.
    of_seconds = True
    param_names: ClassVar = ["keyed"]
    params: ClassVar = [False, True]

    def setup(self, keyed: bool) -> None:
        """Starts it, and fills the topic once."""
        self.table = table(ROWS, keyed=keyed)
        with contextlib.ExitStack() as stack:
            self.broker = stack.enter_context(bowstring.Broker())
            with bowstring.Admin(self.broker.bootstrap_servers) as admin:
                admin.create_topics([bowstring.NewTopic(TOPIC, PARTITIONS)])
            self.producer = stack.enter_context(bowstring.Producer(self.broker.bootstrap_servers))
            self.produce()
            self.running = stack.pop_all()

    def produce(self) -> None:
        self.producer.send_arrow(TOPIC, self.table, key="key", value="value", timestamp="timestamp")
        self.producer.flush()

    def teardown(self, keyed: bool) -> None:
        """Stops client and broker."""
        self.running.close()


class Produce(_Brokered):
    """`send_arrow` of 100,000 rows until all are acknowledged."""

    def time_send_arrow(self, keyed: bool) -> None:
        """A table."""
        self.produce()


class Consume(_Brokered):
    """`bowstring.read` of 100,000 rows."""

    def time_read(self, keyed: bool) -> None:
        """All columns."""
        found = bowstring.read(TOPIC, bootstrap_servers=self.broker.bootstrap_servers)
        assert found.num_rows == ROWS
