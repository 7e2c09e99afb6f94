"""Implements `bowstring perf consume`: kafka-consumer-perf-test on undecoded batches."""

from __future__ import annotations

import random
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bowstring.cli.command_config import security
from bowstring.cli.options import BOOTSTRAP_DEFAULT, Bootstrap, Json
from bowstring.cli.output import print_json

if TYPE_CHECKING:
    from bowstring.clients.consumer.consumer import Consumer

HEADER_TAIL = "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec"
FETCH_TAIL = ", rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
WARNING = (
    "WARNING: Exiting before consuming the expected number of records: timeout ({} ms) exceeded. "
    "You can use the --timeout option to increase the timeout."
)
POLL_S = 0.1


class Progress:
    """Records read, and time spent in rebalances."""

    def __init__(self) -> None:
        self.started_ms = time.time() * 1000
        self.records = self.bytes = 0
        self.rebalance_ms = 0.0
        self.round_rebalance_ms = 0.0
        self._joining_since = self.started_ms
        self.window_ms = self.started_ms
        self.window_records = self.window_bytes = 0

    def revoked(self, _: Any) -> None:
        """Notes the start of a rebalance."""
        self._joining_since = time.time() * 1000

    def assigned(self, _: Any) -> None:
        """Notes the end of a rebalance."""
        took_ms = time.time() * 1000 - self._joining_since
        self.rebalance_ms += took_ms
        self.round_rebalance_ms += took_ms

    def window_line(self) -> str:
        """Returns a detailed line for the records since the last one."""
        now = time.time() * 1000
        elapsed = now - self.window_ms
        records, size = self.records - self.window_records, (self.bytes - self.window_bytes) / 2**20
        fetch_ms = elapsed - self.round_rebalance_ms
        line = (
            f"{_time(now)}, 0, {self.bytes / 2**20:.4f}, {1000 * size / elapsed:.4f}, {self.records}, "
            f"{1000 * records / elapsed:.4f}, {self.round_rebalance_ms:.0f}, {fetch_ms:.0f}, "
            f"{1000 * size / fetch_ms if fetch_ms > 0 else 0:.4f}, "
            f"{1000 * records / fetch_ms if fetch_ms > 0 else 0:.4f}"
        )
        self.window_ms, self.window_records, self.window_bytes = now, self.records, self.bytes
        self.round_rebalance_ms = 0.0
        return line

    def totals(self) -> dict[str, Any]:
        """Returns the figures of the last line, by the header's names."""
        end = time.time() * 1000
        elapsed_s = max(end - self.started_ms, 0.001) / 1000
        fetch_ms = max(end - self.started_ms - self.rebalance_ms, 0.001)
        size = self.bytes / 2**20
        return {
            "start.time": _time(self.started_ms),
            "end.time": _time(end),
            "data.consumed.in.MB": size,
            "MB.sec": size / elapsed_s,
            "data.consumed.in.nMsg": self.records,
            "nMsg.sec": self.records / elapsed_s,
            "rebalance.time.ms": round(self.rebalance_ms),
            "fetch.time.ms": round(fetch_ms),
            "fetch.MB.sec": size / (fetch_ms / 1000),
            "fetch.nMsg.sec": self.records / (fetch_ms / 1000),
        }


def _time(milliseconds: float) -> str:
    """Formats local time like Kafka's tool: yyyy-MM-dd HH:mm:ss:SSS."""
    moment = datetime.fromtimestamp(milliseconds / 1000)
    return f"{moment:%Y-%m-%d %H:%M:%S}:{moment.microsecond // 1000:03d}"


def consume(
    topic: Annotated[str, typer.Option("--topic", help="Read this topic.")],
    num_records: Annotated[
        int, typer.Option("--num-records", "--messages", min=1, help="Number of records.")
    ],
    group: Annotated[str | None, typer.Option("--group", help="Default perf-consumer-<random>.")] = None,
    from_latest: Annotated[bool, typer.Option("--from-latest", help="Without offset: from the end.")] = False,
    fetch_size: Annotated[
        int, typer.Option("--fetch-size", help="Bytes per partition and fetch.")
    ] = 1_048_576,
    timeout_ms: Annotated[
        int, typer.Option("--timeout", help="Give up after this many milliseconds without a record.")
    ] = 10_000,
    reporting_interval: Annotated[
        int, typer.Option("--reporting-interval", min=1, help="Milliseconds between detailed lines.")
    ] = 5_000,
    show_detailed_stats: Annotated[bool, typer.Option("--show-detailed-stats", help="More lines.")] = False,
    hide_header: Annotated[bool, typer.Option("--hide-header", help="Do not print the header.")] = False,
    command_property: Annotated[
        list[str], typer.Option("--command-property", metavar="NAME=VALUE", help="E.g. check.crcs=false.")
    ] = [],  # noqa: B006 - typer copies it
    command_config: Annotated[
        Path | None,
        typer.Option("--command-config", "--consumer.config", exists=True, help="Properties file."),
    ] = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    json: Json = False,
) -> None:
    """Consume records as fast as possible and print rates."""
    from bowstring.cli.perf.properties import properties
    from bowstring.clients.config.client import CONSUMER
    from bowstring.clients.consumer.consumer import Consumer

    arguments: dict[str, Any] = {
        "bootstrap_servers": bootstrap,
        "client_id": "perf-consumer-client",
        "security": security(),
        "group_id": group or f"perf-consumer-{random.randrange(100_000)}",
        "auto_offset_reset": "latest" if from_latest else "earliest",
        "max_partition_fetch_bytes": fetch_size,
    }
    arguments |= CONSUMER.arguments(properties(command_config, command_property))
    if not hide_header and not json:
        head = "time, threadId, " if show_detailed_stats else "start.time, end.time, "
        print(head + HEADER_TAIL + FETCH_TAIL, flush=True)
    progress = Progress()
    line_every_ms = reporting_interval if show_detailed_stats and not json else None
    with Consumer(**arguments) as consumer:
        consumer.subscribe([topic], on_assigned=progress.assigned, on_revoked=progress.revoked)
        _read(consumer, progress, num_records, timeout_ms, line_every_ms)
        totals = progress.totals()
    if progress.records < num_records and not json:
        print(WARNING.format(timeout_ms))
    if json:
        print_json(totals)
    elif not show_detailed_stats:
        print(
            ", ".join(f"{value:.4f}" if isinstance(value, float) else str(value) for value in totals.values())
        )


def _read(
    consumer: Consumer, progress: Progress, num_records: int, timeout_ms: int, line_every_ms: int | None
) -> None:
    """Reads `num_records` records, or until none arrives for `timeout_ms`."""
    from bowstring._native.record.decode import payload_bytes

    last = time.monotonic()
    while progress.records < num_records:
        taken = consumer.poll_batches(POLL_S)
        now = time.monotonic()
        for raw in taken:
            records, size = payload_bytes(raw.data)
            progress.records += records
            progress.bytes += size
        if taken:
            last = now
        elif (now - last) * 1000 > timeout_ms:
            return
        if line_every_ms is not None and time.time() * 1000 - progress.window_ms >= line_every_ms:
            print(progress.window_line(), flush=True)
