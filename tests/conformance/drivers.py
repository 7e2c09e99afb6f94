"""Client drivers: every client is a process that answers the same operations as JSON lines.

Operations (arguments beside `bootstrap`; answers):
    secure           security: {[ca certificate key (files)] [mechanism username password token]}: of what is opened later;
                     is_token: username and password are of a delegation token (Java and franz-go);
                     with GSSAPI {mechanism username realm service krb5 keytab cache (files) jaas site (folder)}
    greet            brokers, over a connection of its own
    produce_open     handle acks compression idempotent [large] [linger_ms]; large: records over 1 MB follow
    produce          handle topic records [outcomes]         results: [{partition offset}] in the order sent
                     outcomes (Java and confluent-kafka): {error: {kind message}} in the place of what failed
    flood            handle topic partitions count size [rate_per_s]     acked; generated records, see `flooded`
    produce_close    handle
    transact         topic id timeout_ms [for_ms]  one record in a transaction of a producer with that transactional
                     id; with for_ms another one so much later
    consume          topic partitions offset count timeout_ms [summary]  records | count bytes crc ordered
    offsets_for_times  topic partition timestamps            offsets, null where no record is that young
    bounds           topic partition                         earliest latest
    join             handle group topics assignor session_timeout_ms [instance_id] [protocol]
    member           handle                                  assignment records lost
    commit, leave    handle
    share_open       handle group topics mode acquire_mode max_poll_records      (Java)
    share_poll       handle timeout_ms                       records: [[offset deliveries value]] lock_ms
    share_acknowledge  handle offsets type                   share_commit   handle     codes
    share_close      handle
    create_topic     topic partitions [configs]              delete_topic   topic
    create_partitions  topic count                           list_topics    topics: {name: partitions}
    topic_configs    topic     configs: {name: value}        alter_topic_configs  topic configs
    delete_records   topic partition before   low_watermark  list_groups    groups
    describe_group   group     state members                 delete_group   group
    committed        group topic partitions                  offsets, null where nothing is committed
A record is {partition, timestamp, key, value, headers: [[name, value]]} with base64 bytes.
"""

import base64
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
import zlib
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from tests.support import peers
from tests.support.waiting import HANG_S

Json = dict[str, Any]
HANG_MS = int(HANG_S * 1000)
CALL_TIMEOUT_S = HANG_S + 60  # the driver's own waits end earlier
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


class DriverError(Exception):
    """An error that a client reported; `code` is Kafka's error code if the client reports it."""

    def __init__(self, client: str, op: str, code: int | None, message: str) -> None:
        super().__init__(f"{client} {op}: {message} (code {code})")
        self.code = code


@dataclass(frozen=True)
class Client:
    """A client under test: the command of its driver, and the client's own limits."""

    name: str
    command: Callable[[], list[str]]
    lacks: frozenset[str] = frozenset()
    assignor: str = "range"


def _python(module: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, "-m", f"tests.conformance.python.{module}"]


# `lacks` holds limits of the clients, not of the broker:
#   kafka-python   sends no record without key and value, and no null header value
#   aiokafka       no cooperative assignor; its admin deletes no groups; sends no record without key and value
#   sarama         returns neither DeleteRecords' low watermark nor a record's timestamp type
#   kafkajs        eager round-robin only, no static membership; header values cannot be null
CLIENTS = {
    client.name: client
    for client in [
        Client("confluent", _python("confluent")),
        Client("kafka-python", _python("kafka_python"), frozenset({"empty_record", "null_header"})),
        Client("aiokafka", _python("aio_kafka"), frozenset({"cooperative", "delete_group", "empty_record"})),
        Client("franz-go", lambda: [str(peers.go_driver()), "franz"]),
        Client(
            "sarama",
            lambda: [str(peers.go_driver()), "sarama"],
            frozenset({"low_watermark", "timestamp_type"}),
        ),
        Client(
            "kafkajs",
            peers.node_driver,
            frozenset({"cooperative", "static", "low_watermark", "timestamp_type", "null_header"}),
            assignor="roundrobin",
        ),
        Client("java", peers.java_driver),
    ]
}


def clients_with(*features: str) -> list[str]:
    """Returns the names of the clients that have all of these features."""
    return [name for name, client in CLIENTS.items() if not client.lacks.intersection(features)]


class Driver:
    """One running driver process; calls may come from any thread and are answered one after the other."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the process)
        self._process = subprocess.Popen(
            client.command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        self._ids = itertools.count(1)
        self._handles = itertools.count(1)
        self._pending: dict[int, tuple[str, Future[Json]]] = {}
        self._lock = threading.Lock()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            # Some clients print problems to standard output.
            if not line.startswith("{"):
                continue
            answer = json.loads(line)
            op, future = self._pending.pop(answer["id"])
            if "error" in answer:
                error = answer["error"]
                future.set_exception(DriverError(self.client.name, op, error["code"], error["message"]))
            else:
                future.set_result(answer["ok"])
        self._errors.seek(0)
        tail = self._errors.read()[-2000:].decode(errors="replace")
        for op, future in self._pending.values():
            future.set_exception(DriverError(self.client.name, op, None, f"the driver process ended\n{tail}"))

    def submit(self, op: str, **args: Any) -> "Future[Json]":
        """Sends a request; the future raises DriverError."""
        future: Future[Json] = Future()
        with self._lock:
            number = next(self._ids)
            self._pending[number] = (op, future)
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps({"id": number, "op": op, "args": args}) + "\n")
            self._process.stdin.flush()
        return future

    def call(self, op: str, **args: Any) -> Json:
        """Sends a request and waits for its answer."""
        try:
            return self.submit(op, **args).result(CALL_TIMEOUT_S)
        except TimeoutError:
            self.close()
            raise DriverError(self.client.name, op, None, f"no answer in {CALL_TIMEOUT_S:.0f} s") from None

    def handle(self) -> str:
        """Returns a new name for a producer or member."""
        return f"{self.client.name}-{next(self._handles)}"

    def running(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def kill(self) -> None:
        """Kills the process, and with it its clients."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait()


class Session:
    """One driver and one broker: short methods for the most frequent operations."""

    def __init__(self, driver: Driver, bootstrap: str) -> None:
        self.driver = driver
        self.bootstrap = bootstrap
        self.name = driver.client.name
        self.client = driver.client

    def call(self, op: str, **args: Any) -> Json:
        """Runs any operation."""
        return self.driver.call(op, bootstrap=self.bootstrap, **args)

    def open_producer(
        self,
        acks: str = "all",
        compression: str = "none",
        idempotent: bool | None = None,
        large: bool = False,
    ) -> str:
        """Opens a producer and returns its handle; idempotent by default if acks=all.

        Without idempotence, clients may duplicate or reorder records on their own: in sarama, one partition's
        goroutine may close the connection while a request of another is under way.
        """
        idempotent = acks == "all" if idempotent is None else idempotent
        handle = self.driver.handle()
        options = {"acks": acks, "compression": compression, "idempotent": idempotent, "large": large}
        self.call("produce_open", handle=handle, **options)
        return handle

    def produce(self, topic: str, records: list[Json], **options: Any) -> list[Json]:
        """Sends records with a new producer and returns their positions."""
        handle = self.open_producer(**options)
        try:
            sent = self.call(
                "produce", handle=handle, topic=topic, records=[encode(each) for each in records]
            )
        finally:
            self.call("produce_close", handle=handle)
        results: list[Json] = sent["results"]
        return results

    def flood(self, topic: str, partitions: int, count: int, size: int = 100, **options: Any) -> None:
        """Sends `count` generated records with a new producer."""
        handle = self.open_producer(**options)
        done = self.call("flood", handle=handle, topic=topic, partitions=partitions, count=count, size=size)
        self.call("produce_close", handle=handle)
        assert done["acked"] == count

    def consume(
        self,
        topic: str,
        count: int,
        partitions: int = 1,
        offset: str | int = "earliest",
        timeout_ms: int = HANG_MS,
    ) -> list[Json]:
        """Reads `count` records (fewer only at the time limit), ordered by partition and offset."""
        where = {"topic": topic, "partitions": list(range(partitions)), "offset": offset}
        records = self.call("consume", **where, count=count, timeout_ms=timeout_ms)["records"]
        return sorted(map(decode, records), key=lambda each: (each["partition"], each["offset"]))

    def summarize(self, topic: str, count: int, partitions: int = 1, timeout_ms: int = HANG_MS) -> Json:
        """Reads `count` generated records and returns their summary; compare with `flooded`."""
        where = {"topic": topic, "partitions": list(range(partitions)), "offset": "earliest"}
        return self.call("consume", **where, count=count, timeout_ms=timeout_ms, summary=True)


def encode(record: Json) -> Json:
    """Encodes a record with bytes for the driver protocol."""
    coded = dict(record)
    for field in ("key", "value"):
        coded[field] = _pack(record.get(field))
    coded["headers"] = [[name, _pack(value)] for name, value in record.get("headers", [])]
    return coded


def decode(record: Json) -> Json:
    """Reverses `encode`."""
    plain = dict(record)
    for field in ("key", "value"):
        plain[field] = _unpack(record[field])
    plain["headers"] = [(name, _unpack(value)) for name, value in record["headers"] or []]
    return plain


def _pack(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _unpack(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def flooded(count: int, size: int = 100) -> Json:
    """Returns the summary of `count` generated records that were read back completely and in order."""
    dots = b"." * (size - 8)
    crc = sum(zlib.crc32(b"%08d" % index + dots) for index in range(count)) & 0xFFFFFFFF
    return {"count": count, "bytes": count * size, "crc": crc, "ordered": True}
