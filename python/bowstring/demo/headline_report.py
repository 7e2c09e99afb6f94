"""Prints the headline in words and bars, beside the results of 2014."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.bar import Bar
from rich.console import Console
from rich.table import Table

from bowstring.demo.headline import (
    PARTITIONS,
    PRODUCERS,
    RECORD_BYTES,
    RECORDS_PER_S_2014,
    SETTINGS,
    Headline,
    ProducerRun,
)
from bowstring.demo.headline_read import HeadlineRead
from bowstring.demo.replicated import BROKERS, Replicated

BAR_WIDTH = 40


def print_headline(
    console: Console, written: Headline | None, read: HeadlineRead | None, problems: list[str]
) -> None:
    """Prints bars of records/s with an explanation, and Spark's result."""
    if written is None:
        return
    console.print(
        f"\n[bold]{len(written.runs)} producers at once[/], {RECORD_BYTES}-byte records, "
        f"{PARTITIONS} partitions, acks={SETTINGS['acks']}, batch.size {SETTINGS['batch.size']}"
    )
    console.print(rates_table(written.runs, {"together": written.records_per_s}))
    console.print(
        f"That is [bold]{written.of_bare:.2f}[/] of a bare append loop's "
        f"{written.bare_records_per_s:,.0f} records/s here ({written.bare.cpu_s_per_gb:.2f} CPU-s/GB)"
    )
    console.print(
        "[dim]Here: one broker and three producer processes on one machine, no replication.\n"
        "2014: three brokers on three machines, 3x asynchronous replication, and three\n"
        "more machines to produce. Both acknowledge from the page cache.[/]\n"
    )
    for problem in problems:
        console.print(f"[bold red]✗[/] {problem}")
    if read is not None and read.skipped:
        console.print("[yellow]–[/] Spark did not read them, for the reason above")
    elif read is not None and not read.problems:
        console.print(
            f"[bold green]✓[/] Spark ({read.engine} engine) read all {read.records:,} records in "
            f"{read.seconds:.1f} s ({read.records_per_s:,.0f}/s): their count and the "
            f"{read.size_bytes:,} bytes of their values are what was acknowledged"
        )


def print_replicated(console: Console, written: Replicated | None) -> None:
    """Prints the same for three brokers: the rate of acknowledgements, and that of all replicas."""
    if written is None:
        return
    console.print(
        f"\n[bold]{BROKERS} brokers, {BROKERS} replicas, {PRODUCERS} producers at once[/], "
        f"acks={SETTINGS['acks']}, batch.size {SETTINGS['batch.size']}"
    )
    for problem in written.problems:
        console.print(f"[bold red]✗[/] {problem}", markup=True)
    if not written.runs:
        return
    together = {
        "acknowledged": written.records_per_s,
        "on all replicas": written.replicated_per_s,
    }
    console.print(rates_table(written.runs, together))
    if not written.problems:
        console.print(
            f"[bold green]✓[/] all {written.records:,} records are on all three brokers "
            f"({written.brokers_cpu_s_per_gb:.2f} CPU-s/GB)"
        )
    console.print(
        "[dim]Here: six processes on one machine. 2014: three brokers on three machines,\n"
        "and three more machines to produce. Both replicate asynchronously.[/]"
    )


def rates_table(runs: Sequence[ProducerRun], together: Mapping[str, float]) -> Table:
    """Returns a bar for each producer, for all together by its name, and for 2014."""
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(width=BAR_WIDTH)
    table.add_column(justify="right")
    most = max(*together.values(), RECORDS_PER_S_2014)

    def row(name: str, records_per_s: float, color: str, style: str = "") -> None:
        bar = Bar(most, 0, records_per_s, width=BAR_WIDTH, color=color)
        table.add_row(name, bar, f"{records_per_s:,.0f} records/s", style=style)

    for number, run in enumerate(runs, start=1):
        row(f"producer {number}", run.records_per_s, "cyan")
    for name, records_per_s in together.items():
        row(name, records_per_s, "green", "bold")
    row("the article, 2014", RECORDS_PER_S_2014, "bright_black")
    return table
