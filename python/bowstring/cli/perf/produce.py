"""Implements `bowstring perf produce`: kafka-producer-perf-test with the native encoder."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from bowstring.cli.command_config import security
from bowstring.cli.options import BOOTSTRAP_DEFAULT, Bootstrap, Json
from bowstring.cli.output import print_json
from bowstring.cli.perf.payloads import Payloads, lines_of
from bowstring.cli.perf.statistics import Statistics

if TYPE_CHECKING:
    from bowstring.clients.producer.batches import ProduceBatch
    from bowstring.clients.producer.producer import Producer

WARM_UP = "Warmup first {} records. Steady state results will print after the complete test summary."
IN_FLIGHT_BATCHES_MAX = 256


def produce(
    topic: Annotated[str, typer.Option("--topic", help="Produce records to this topic.")],
    num_records: Annotated[int, typer.Option("--num-records", min=1, help="Number of records.")],
    throughput: Annotated[float, typer.Option("--throughput", help="Most records/s; -1: no limit.")] = -1,
    record_size: Annotated[
        int | None, typer.Option("--record-size", min=0, help="Bytes of a record.")
    ] = None,
    payload_file: Annotated[
        Path | None,
        typer.Option("--payload-file", exists=True, dir_okay=False, help="Values to choose from."),
    ] = None,
    payload_delimiter: Annotated[
        str, typer.Option("--payload-delimiter", help="Delimiter between values in --payload-file.")
    ] = "\\n",
    payload_monotonic: Annotated[
        bool, typer.Option("--payload-monotonic", help="Use ascending numbers as values.")
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
        int,
        typer.Option("--warmup-records", min=0, help="Exclude this many from a second total."),
    ] = 0,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    json: Json = False,
) -> None:
    """Produce records at the requested rate and print rates and latencies."""
    from bowstring.cli.perf.properties import properties
    from bowstring.clients.producer.config import PRODUCER
    from bowstring.clients.producer.producer import Producer

    if (record_size is not None) + (payload_file is not None) + payload_monotonic != 1:
        raise typer.BadParameter("give one of --record-size, --payload-file and --payload-monotonic")
    arguments: dict[str, Any] = {"bootstrap_servers": bootstrap, "client_id": "perf-producer-client"}
    given = PRODUCER.arguments(properties(command_config, command_property))
    arguments |= {"security": security()} | given
    lines = lines_of(payload_file, payload_delimiter, json) if payload_file is not None else None
    payloads = Payloads(record_size, lines)
    if warmup_records and not json:
        print(WARM_UP.format(warmup_records))
    with Producer(**arguments) as producer:
        pace = Pace(num_records, throughput, warmup_records, reporting_interval)
        overall = Statistics(reporting_interval, json)
        steady = _push(producer, topic, payloads, pace, overall)
    if json:
        return print_json({**overall.totals(), "steady_state": steady.totals() if steady else None})
    print(overall.text())
    if steady is not None:
        print(steady.text())


class Pace(NamedTuple):
    """Number of records, rate, and number of warm-up records."""

    num_records: int
    throughput: float
    warmup_records: int
    reporting_interval_ms: int

    def wait(self, started: float, sent: int) -> None:
        """Sleeps until the next record is due."""
        due = started + sent / self.throughput if self.throughput > 0 else 0.0
        while (wait_s := due - time.monotonic()) > 0:
            time.sleep(wait_s)

    def at_once(self, most: int) -> int:
        """Returns how many records may be sent together without visible steps in the rate."""
        return max(1, min(most, int(self.throughput / 50))) if self.throughput > 0 else most


def _push(
    producer: Producer, topic: str, payloads: Payloads, pace: Pace, overall: Statistics
) -> Statistics | None:
    """Sends all records and waits for the last acknowledgement; returns the statistics after the warm-up, if
    any.
    """
    window = threading.BoundedSemaphore(IN_FLIGHT_BATCHES_MAX)
    failures: list[Exception] = []
    steady: Statistics | None = None
    partitions = _rounds(producer.partitions_for(topic))
    per_batch = max(1, producer.batch_size // (payloads.mean_bytes() + 16))
    started, sent = time.monotonic(), 0
    while sent < pace.num_records and not failures:
        left = (pace.warmup_records if sent < pace.warmup_records else pace.num_records) - sent
        count = payloads.fits(pace.at_once(min(per_batch, left)))
        pace.wait(started, sent)
        if pace.warmup_records and steady is None and sent >= pace.warmup_records:
            steady = Statistics(pace.reporting_interval_ms, quiet=True, steady=True)
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
    """Yields the partitions round-robin without end."""
    while True:
        yield from partitions
