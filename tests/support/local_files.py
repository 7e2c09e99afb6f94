"""A broker on a test's directory, with access to its logs, and reads of its topics over TCP and from files."""

import time
import uuid

import pyarrow as pa

from bowstring import Admin, Broker
from bowstring._native.record.encode import encode_batch
from bowstring.clients.consumer.local_reader import LocalReader
from bowstring.clients.consumer.range_reader import RangeReader
from tests.support.embedded import engine_of
from tests.support.log_batches import marker

NOW_MS = time.time_ns() // 1_000_000


class Files:
    """A broker on a test's directory, and shortcuts to its logs."""

    def __init__(self, directory, **config):
        self.directory = directory
        self.broker = Broker(data_dir=directory, config=config).start()
        self.bootstrap = self.broker.bootstrap_servers

    def topic(self, **configs) -> str:
        name = f"t-{uuid.uuid4().hex[:8]}"
        with Admin(self.bootstrap) as admin:
            admin.create_topic(name, 1, configs={k.replace("_", "."): str(v) for k, v in configs.items()})
        return name

    def log(self, topic):
        return engine_of(self.broker).logs.get(topic, 0)

    def append(self, topic, *batches):
        """Appends to the log directly: a transaction of any shape, without a coordinator."""
        log = self.log(topic)
        for each in batches:
            log.append(each, 0, NOW_MS)
        log.advance_high_watermark(log.log_end_offset)
        engine_of(self.broker).plane.notify(topic, 0)

    def fill(self, topic, batches, records=7, size=400, **fields):
        for i in range(batches):
            self.append(
                topic, plain(self.log(topic).log_end_offset, records, size, key=b"k%d" % (i % 5), **fields)
            )

    def reader(self, topic, start=0, end=None, **arguments) -> LocalReader:
        end = self.log(topic).high_watermark if end is None else end
        return LocalReader(self.bootstrap, topic=topic, partition=0, start=start, end=end, **arguments)

    def local(self, topic, start=0, end=None, **arguments) -> pa.Table:
        with self.reader(topic, start, end, **arguments) as reader:
            return pa.Table.from_batches(list(reader), reader.schema)

    def over_tcp(self, topic, start=0, end=None, **arguments) -> pa.Table:
        end = self.log(topic).high_watermark if end is None else end
        with RangeReader(
            self.bootstrap, topic=topic, partition=0, start=start, end=end, **arguments
        ) as reader:
            return pa.Table.from_batches(list(reader), reader.schema)

    def same(self, topic, start=0, end=None, **arguments) -> pa.Table:
        """Reads both ways, checks that both results are equal, and returns one."""
        found = self.local(topic, start, end, **arguments)
        assert found.equals(self.over_tcp(topic, start, end, **arguments))
        return found


def plain(first: int, records=7, size=400, key=None, codec=0, **fields) -> bytes:
    rows = [(key, b"%08d" % (first + i) + b"x" * size, NOW_MS + i, [("h", b"1")]) for i in range(records)]
    return encode_batch(rows, codec, **fields)


def transaction(files, topic, producer, sequence, abort, records=6):
    return (
        plain(
            files.log(topic).log_end_offset,
            records,
            transactional=True,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=sequence,
        ),
        marker(producer, 0, abort=abort, timestamp=NOW_MS),
    )
