"""Prints the results of the demo."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from bowstring.demo.headline import Headline
from bowstring.demo.headline_read import HeadlineRead
from bowstring.demo.headline_report import print_headline, print_replicated
from bowstring.demo.replay import Ledger
from bowstring.demo.replicated import Replicated
from bowstring.demo.spark_job import FileCount, SparkResult
from bowstring.demo.throughput import Rate


def percentile(values: list[float], share: float) -> float:
    """Returns the value at this share of the ordered values, 0 without any."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


class Figures:
    """All measurements; those of Spark and of the headline are added at their end."""

    def __init__(
        self,
        ledger: Ledger,
        expected: FileCount,
        rate_in: Rate,
        rate_out: Rate,
        round_trips_ms: list[float],
    ):
        self.ledger = ledger
        self.expected = expected
        self.rate_in = rate_in
        self.rate_out = rate_out
        self.round_trips_ms = round_trips_ms
        self.ready_ms = 0.0
        self.counted: SparkResult | None = None
        self.headline: Headline | None = None
        self.read: HeadlineRead | None = None
        self.replicated: Replicated | None = None

    @property
    def flights_problems(self) -> list[str]:
        """Differences in the flights."""
        return [*self.ledger.verdict(), *(self.counted.problems if self.counted is not None else ())]

    @property
    def headline_problems(self) -> list[str]:
        """Differences in the headline's records."""
        return [
            *(self.headline.problems if self.headline is not None else ()),
            *(self.read.problems if self.read is not None else ()),
        ]

    @property
    def problems(self) -> list[str]:
        """All differences."""
        replicated = self.replicated.problems if self.replicated is not None else ()
        return [*self.flights_problems, *self.headline_problems, *replicated]

    def as_json(self) -> dict[str, Any]:
        """Returns the figures for JSON output."""
        return {
            "ready_ms": self.ready_ms,
            "flights": self.ledger.sent,
            "flights_read": self.ledger.read,
            "keys": self.ledger.keys,
            "problems": self.problems,
            "produce": _rate_json(self.rate_in)
            | {
                "ack_p50_ms": percentile(self.rate_in.latencies_ms, 0.5),
                "ack_p99_ms": percentile(self.rate_in.latencies_ms, 0.99),
            },
            "consume": _rate_json(self.rate_out),
            "end_to_end": {
                "p50_ms": percentile(self.round_trips_ms, 0.5),
                "p99_ms": percentile(self.round_trips_ms, 0.99),
            },
            "spark": self.counted.as_json() if self.counted is not None else None,
            "headline": self.headline.as_json() if self.headline is not None else None,
            "headline_read": self.read.as_json() if self.read is not None else None,
            "replicated": self.replicated.as_json() if self.replicated is not None else None,
        }


def _rate_json(rate: Rate) -> dict[str, Any]:
    return {
        "records": rate.records,
        "seconds": rate.seconds,
        "records_per_s": rate.records_per_s,
        "mb_per_s": rate.size_bytes / rate.seconds / 1e6 if rate.seconds else 0.0,
        "broker_cpu_s_per_gb": rate.cpu_s_per_gb,
    }


def print_result(console: Console, figures: Figures) -> None:
    """Prints one verdict, one table, and the headline."""
    ledger = figures.ledger
    console.print()
    if figures.flights_problems:
        console.print(f"[bold red]✗ {len(figures.flights_problems)} things are wrong with the flights:[/]")
        for problem in figures.flights_problems:
            console.print(f"  {problem}", markup=False)
    else:
        console.print(
            f"[bold green]✓[/] {ledger.read:,} flights of {ledger.keys:,} aircraft came back: "
            "none missing, none out of its key's order, none changed"
        )
        _print_spark(console, figures.counted)
    console.print()
    console.print(result_table(figures))
    print_headline(console, figures.headline, figures.read, figures.headline_problems)
    print_replicated(console, figures.replicated)


def _print_spark(console: Console, spark: SparkResult | None) -> None:
    if spark is None:
        return
    if spark.skipped:
        console.print(f"[yellow]–[/] no Spark job: {spark.skipped}", highlight=False)
    else:
        console.print(
            f"[bold green]✓[/] Spark ({spark.engine} engine) counted {spark.counted:,} flights as a stream: "
            f"{spark.hours:,} hours of carriers closed by the watermark, all as in the source file"
        )


def result_table(figures: Figures) -> Table:
    """Returns a table of throughput, latency and the broker's CPU in both directions."""
    ins, outs = figures.rate_in, figures.rate_out
    table = Table(
        box=box.ROUNDED,
        title="100-byte records, one embedded broker, one client",
        title_style="bold",
        header_style="bold cyan",
    )
    table.add_column("")
    table.add_column("in", justify="right")
    table.add_column("out", justify="right")
    table.add_row("records/s", f"[bold]{ins.records_per_s:,.0f}[/]", f"[bold]{outs.records_per_s:,.0f}[/]")
    table.add_row("MB/s", _mb_per_s(ins), _mb_per_s(outs))
    table.add_row("records", f"{ins.records:,}", f"{outs.records:,}")
    table.add_row("broker CPU-s per GB", f"{ins.cpu_s_per_gb:.2f}", f"{outs.cpu_s_per_gb:.2f}")
    table.add_section()
    trips = figures.round_trips_ms
    table.add_row("", "p50", "p99", style="bold cyan")
    table.add_row(
        "ack latency under that load",
        f"{percentile(ins.latencies_ms, 0.5):.2f} ms",
        f"{percentile(ins.latencies_ms, 0.99):.2f} ms",
    )
    table.add_row(
        "send to receive, one at a time",
        f"{percentile(trips, 0.5):.2f} ms",
        f"{percentile(trips, 0.99):.2f} ms",
    )
    if figures.counted is not None and not figures.counted.skipped:
        table.add_section()
        table.add_row("", "flights", "seconds", style="bold cyan")
        table.add_row(
            "Spark: by carrier and hour, stream",
            f"{figures.counted.counted:,}",
            f"{figures.counted.seconds:.1f} s",
        )
    return table


def _mb_per_s(rate: Rate) -> str:
    return f"{rate.size_bytes / rate.seconds / 1e6:,.0f}" if rate.seconds else "–"
