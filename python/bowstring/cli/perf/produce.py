"""`bowstring perf produce`: kafka-producer-perf-test over the native encoder."""

from __future__ import annotations

import random
import threading
import time
from array import array
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bowstring.cli.options import BOOTSTRAP_DEFAULT, Bootstrap, Json
from bowstring.cli.output import print_json
from bowstring.clients.errors import ConfigError

if TYPE_CHECKING:
    from bowstring.clients.accumulator import ProduceBatch
    from bowstring.clients.producer import Producer

LETTERS = bytes(range(65, 91))
# Random payloads are drawn once and used again, each time at another place: making them costs more than
# sending them.
POOL_BYTES = 4 << 20
IN_FLIGHT_BATCHES_MAX = 256


class Statistics:
    """Counts acknowledged records and their latencies, as ProducerPerformance's Stats does."""

    def __init__(self, reporting_interval_ms: int, quiet: bool, steady: bool = False):
        self._interval_s = reporting_interval_ms / 1000
        self._quiet = quiet
        self._steady = steady
        self._lock = threading.Lock()
        self.started = self._window_started = time.monotonic()
        self.count = self.bytes = 0
        self.latencies: dict[int, int] = {}
        self._total_ms = self._max_ms = 0.0
        self._window = [0, 0, 0.0, 0.0]  # records, bytes, total latency, max latency

    def note(self, records: int, size_bytes: int, latency_ms: float) -> None:
        """A batch was acknowledged `latency_ms` after it was handed over."""
        with self._lock:
            self.count += records
            self.bytes += size_bytes
            self._total_ms += latency_ms * records
            self._max_ms = max(self._max_ms, latency_ms)
            bucket = int(latency_ms)
            self.latencies[bucket] = self.latencies.get(bucket, 0) + records
            window = self._window
            window[0] += records
            window[1] += size_bytes
            window[2] += latency_ms * records
            window[3] = max(window[3], latency_ms)
            if time.monotonic() - self._window_started >= self._interval_s:
                self._print_window()

    def _print_window(self) -> None:
        now = time.monotonic()
        elapsed = now - self._window_started
        records, size, total, longest = self._window
        self._window = [0, 0, 0.0, 0.0]
        self._window_started = now
        if not self._quiet:
            print(
                f"{records} records sent, {records / elapsed:.1f} records/sec "
                f"({size / elapsed / 2**20:.2f} MB/sec), {total / records:.1f} ms avg latency, "
                f"{longest:.1f} ms max latency.",
                flush=True,
            )

    def percentile(self, share: float) -> int:
        """Milliseconds that this share of the records took at most."""
        wanted, seen = int(share * self.count), 0
        for bucket in sorted(self.latencies):
            seen += self.latencies[bucket]
            if seen > wanted:
                return bucket
        return max(self.latencies, default=0)

    def totals(self) -> dict[str, Any]:
        """The closing line's figures."""
        elapsed = time.monotonic() - self.started
        return {
            "records": self.count,
            "records_per_sec": self.count / elapsed,
            "mb_per_sec": self.bytes / elapsed / 2**20,
            "avg_latency_ms": self._total_ms / self.count if self.count else 0.0,
            "max_latency_ms": self._max_ms,
            "p50_ms": self.percentile(0.5),
            "p95_ms": self.percentile(0.95),
            "p99_ms": self.percentile(0.99),
            "p999_ms": self.percentile(0.999),
        }

    def text(self) -> str:
        """The closing line."""
        t = self.totals()
        steady = " steady state" if self._steady else ""
        return (
            f"{t['records']}{steady} records sent, {t['records_per_sec']:f} records/sec "
            f"({t['mb_per_sec']:.2f} MB/sec), {t['avg_latency_ms']:.2f} ms avg latency, "
            f"{t['max_latency_ms']:.2f} ms max latency, {t['p50_ms']} ms 50th, {t['p95_ms']} ms 95th, "
            f"{t['p99_ms']} ms 99th, {t['p999_ms']} ms 99.9th."
        )


class Payloads:
    """Columns of values: random letters of one size, lines of a file, or rising numbers."""

    def __init__(self, record_size: int | None, lines: list[bytes] | None):
        self._size = record_size
        self._lines = lines
        self._rng = random.Random(0)
        self._next = 0
        if record_size is not None:
            letters = self._rng.choices(LETTERS, k=max(POOL_BYTES, record_size) + record_size)
            self._pool = memoryview(bytes(letters))

    def take(self, count: int) -> tuple[Any, Any]:
        """Data and offsets of `count` values, in Arrow's large_binary layout."""
        if self._size is not None:
            count_bytes = count * self._size
            start = self._rng.randrange(max(1, len(self._pool) - count_bytes))
            offsets = (
                array("q", range(0, count_bytes + 1, self._size))
                if self._size
                else array("q", [0] * (count + 1))
            )
            return self._pool[start : start + count_bytes], offsets
        if self._lines is not None:
            values = self._rng.choices(self._lines, k=count)
        else:
            values = [str(number).encode() for number in range(self._next, self._next + count)]
            self._next += count
        return b"".join(values), array("q", accumulate(map(len, values), initial=0))

    def mean_bytes(self) -> int:
        """About how long a value is."""
        if self._size is not None:
            return self._size
        return max(1, sum(map(len, self._lines)) // len(self._lines)) if self._lines else 8

    def fits(self, count: int) -> int:
        """How many values can be taken at once, at most `count`."""
        return max(1, min(count, POOL_BYTES // max(1, self._size or 1)))


def produce(
    topic: Annotated[str, typer.Option("--topic", help="Produce records to this topic.")],
    num_records: Annotated[int, typer.Option("--num-records", min=1, help="How many records.")],
    throughput: Annotated[
        float, typer.Option("--throughput", help="About so many records/s at most; -1 for no limit.")
    ] = -1,
    record_size: Annotated[
        int | None, typer.Option("--record-size", min=0, help="Bytes of a record.")
    ] = None,
    payload_file: Annotated[
        Path | None,
        typer.Option("--payload-file", exists=True, dir_okay=False, help="Values to choose from."),
    ] = None,
    payload_delimiter: Annotated[
        str, typer.Option("--payload-delimiter", help="What stands between values in --payload-file.")
    ] = "\\n",
    payload_monotonic: Annotated[
        bool, typer.Option("--payload-monotonic", help="Values are rising numbers.")
    ] = False,
    command_property: Annotated[
        list[str],
        typer.Option(
            "--command-property", "--producer-props", metavar="NAME=VALUE", help="E.g. linger.ms=10."
        ),
    ] = [],  # noqa: B006 - typer copies it
    command_config: Annotated[
        Path | None,
        typer.Option("--command-config", "--producer.config", exists=True, help="Properties file."),
    ] = None,
    reporting_interval: Annotated[
        int, typer.Option("--reporting-interval", min=1, help="Milliseconds between progress lines.")
    ] = 5_000,
    warmup_records: Annotated[
        int, typer.Option("--warmup-records", min=0, help="Leave the first so many out of a second total.")
    ] = 0,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    json: Json = False,
) -> None:
    """Produce records as fast as asked and print rates and latencies."""
    from bowstring.cli.perf.properties import PRODUCER, client_arguments
    from bowstring.clients.producer import Producer

    if (record_size is not None) + (payload_file is not None) + payload_monotonic != 1:
        raise typer.BadParameter("give one of --record-size, --payload-file and --payload-monotonic")
    arguments: dict[str, Any] = {"bootstrap_servers": bootstrap, "client_id": "perf-producer-client"}
    arguments |= client_arguments(PRODUCER, command_config, command_property)
    lines = _lines(payload_file, payload_delimiter, json) if payload_file is not None else None
    payloads = Payloads(record_size, lines)
    if warmup_records and not json:
        print(
            f"Warmup first {warmup_records} records. "
            "Steady state results will print after the complete test summary."
        )
    with Producer(**arguments) as producer:
        producer.partitions_for(topic)
        overall = Statistics(reporting_interval, json)
        steady = _push(
            producer, topic, payloads, num_records, throughput, overall, warmup_records, reporting_interval
        )
    if json:
        print_json({**overall.totals(), "steady_state": steady.totals() if steady else None})
        return
    print(overall.text())
    if steady is not None:
        print(steady.text())


def _lines(path: Path, delimiter: str, quiet: bool) -> list[bytes]:
    if not quiet:
        print(f"Reading payloads from: {path.absolute()}")
    separator = delimiter.replace("\\n", "\n").encode()
    lines = path.read_bytes().removesuffix(separator).split(separator)
    if not any(lines):
        raise ConfigError(f"{path} is empty")
    if not quiet:
        print(f"Number of records read: {len(lines)}")
    return lines


def _push(
    producer: Producer,
    topic: str,
    payloads: Payloads,
    num_records: int,
    throughput: float,
    overall: Statistics,
    warmup_records: int,
    reporting_interval_ms: int,
) -> Statistics | None:
    """Sends everything and waits for the last acknowledgement; the statistics after the warm-up, if any."""
    window = threading.BoundedSemaphore(IN_FLIGHT_BATCHES_MAX)
    failures: list[Exception] = []
    steady: Statistics | None = None
    partitions = _rounds(producer.partitions_for(topic))
    per_batch = max(1, producer.batch_size // (payloads.mean_bytes() + 16))
    started, sent = time.monotonic(), 0
    while sent < num_records and not failures:
        count = payloads.fits(min(per_batch, num_records - sent))
        if throughput > 0:
            count = max(1, min(count, int(throughput / 50)))
            due = started + sent / throughput
            while (wait_s := due - time.monotonic()) > 0:
                time.sleep(wait_s)
        if warmup_records and steady is None and sent >= warmup_records:
            steady = Statistics(reporting_interval_ms, quiet=True, steady=True)
        data, offsets = payloads.take(count)
        size_bytes = offsets[-1]
        target = [overall] if steady is None else [overall, steady]
        handed = time.monotonic()
        future = producer.send_arrow_columns(topic, next(partitions), (data, offsets))
        for _ in future.batches:
            window.acquire()

        def done(
            batch: ProduceBatch,
            handed: float = handed,
            share: float = size_bytes / count,
            target: Any = target,
        ) -> None:
            window.release()
            if batch.error is not None:
                failures.append(batch.error)
                return
            latency_ms = (time.monotonic() - handed) * 1000
            for statistics in target:
                statistics.note(batch.record_count, int(batch.record_count * share), latency_ms)

        future.add_done_callback(done)
        sent += count
    producer.flush()
    if failures:
        raise failures[0]
    return steady


def _rounds(partitions: list[int]) -> Iterator[int]:
    """The partitions in turn, without end."""
    while True:
        yield from partitions
