"""What the demo says in the end."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from bowstring.demo.push import Rate
from bowstring.demo.replay import Ledger
from bowstring.demo.spark_job import SparkResult


def percentile(values: list[float], share: float) -> float:
    """The value at this share of the ordered values, 0 without any."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


class Figures:
    """Everything measured."""

    def __init__(
        self,
        ledger: Ledger,
        rate_in: Rate,
        rate_out: Rate,
        round_trips_ms: list[float],
        spark: SparkResult | None = None,
    ):
        self.ledger = ledger
        self.rate_in = rate_in
        self.rate_out = rate_out
        self.round_trips_ms = round_trips_ms
        self.spark = spark
        self.problems = [*ledger.verdict(), *(spark.problems if spark is not None else ())]
        self.ready_ms = 0.0

    def as_json(self) -> dict[str, Any]:
        """For programs."""
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
            "spark": self.spark.as_json() if self.spark is not None else None,
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
    """One verdict, one table."""
    ledger = figures.ledger
    console.print()
    if figures.problems:
        console.print(f"[bold red]✗ {len(figures.problems)} things are wrong with the flights:[/]")
        for problem in figures.problems:
            console.print(f"  {problem}", markup=False)
    else:
        console.print(
            f"[bold green]✓[/] {ledger.read:,} flights of {ledger.keys:,} aircraft came back: "
            "none missing, none out of its key's order, none changed"
        )
        _print_spark(console, figures.spark)
    console.print()
    console.print(result_table(figures))


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
    """Throughput, latency and the broker's CPU, both ways."""
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
    if figures.spark is not None and not figures.spark.skipped:
        table.add_section()
        table.add_row("", "flights", "seconds", style="bold cyan")
        table.add_row(
            "Spark: by carrier and hour, stream",
            f"{figures.spark.counted:,}",
            f"{figures.spark.seconds:.1f} s",
        )
    return table


def _mb_per_s(rate: Rate) -> str:
    return f"{rate.size_bytes / rate.seconds / 1e6:,.0f}" if rate.seconds else "–"
