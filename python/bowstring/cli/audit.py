"""Implements `bowstring audit`: compares the counts that clients report (docs/how-to/audit.md)."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from bowstring.cli.command_config import security
from bowstring.cli.exit_codes import EXIT_FAILURE
from bowstring.cli.options import (
    BOOTSTRAP_DEFAULT,
    TIMEOUT_DEFAULT_S,
    Bootstrap,
    Json,
    Timeout,
    with_groups,
)
from bowstring.cli.output import print_error, print_hint, print_json, print_note, print_table
from bowstring.clients.audit import COUNTS_TOPIC

if TYPE_CHECKING:
    from bowstring.audit.counts_reader import CountsReader

app = typer.Typer(no_args_is_help=True, help="Compare how many records each tier has seen.")


class Sources(NamedTuple):
    """Options of where counts come from and what is compared."""

    also: Annotated[
        list[str] | None,
        typer.Option("--also", metavar="HOST:PORT,…", help="Another cluster with counts; repeat for more."),
    ] = None
    topic: Annotated[str, typer.Option("--counts-topic", help="Topic of the counts.")] = COUNTS_TOPIC
    tier: Annotated[
        list[str] | None,
        typer.Option(
            "--tier",
            help="Tiers to compare, the first one first; each is expected in every window. Default: all that "
            "reported, with the producers that came first.",
        ),
    ] = None
    hours: Annotated[
        float, typer.Option("--hours", min=0.01, help="How many hours of windows are compared.")
    ] = 24.0
    grace: Annotated[
        float,
        typer.Option("--grace", metavar="SECONDS", min=0, help="How long after its end a window stays open."),
    ] = 120.0


@app.command("status")
@with_groups
def status(
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="[TOPIC]...", help="Topics; default: all.")
    ] = None,
    sources: Sources = Sources(),  # noqa: B008
    all_windows: Annotated[bool, typer.Option("--all", help="Show complete windows, too.")] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """Print which topics and windows are incomplete; exit code 1 when some are.

    Without --all, windows that are complete everywhere are left out.
    """
    from bowstring.audit.counts_reader import now_ms
    from bowstring.audit.status_rows import COLUMNS, as_json, cells, incomplete

    with _reader(bootstrap, sources, timeout) as reader:
        reader.read_all()
        rows = reader.table.rows(now_ms(), grace_ms=round(sources.grace * 1000))
        lengths = {topic: reader.table.window_lengths(topic) for topic in reader.table.topics()}
    if topics:
        rows = [row for row in rows if row.topic in topics]
    shown = {(row.topic, row.start_ms) for row in rows if row.state != "complete"}
    listed = [row for row in rows if all_windows or (row.topic, row.start_ms) in shown]
    missing = incomplete(rows)
    if json:
        print_json([as_json(row) for row in listed])
    elif listed:
        print_table(COLUMNS, [cells(row) for row in listed])
    for topic, found in lengths.items():
        if len(found) > 1:
            print_error(
                f"clients count {topic} in windows of {', '.join(map(str, sorted(found)))} ms, which cannot "
                "be compared: give all of them the same audit.window.ms"
            )
    if missing:
        windows = len({(row.topic, row.start_ms) for row in missing})
        print_error(
            f"{sum(row.missing for row in missing)} records are missing, in {windows} windows of "
            f"{len({row.topic for row in missing})} topics"
        )
        raise typer.Exit(EXIT_FAILURE)
    if not json:
        if rows:
            print_note("no window is incomplete")
        else:
            print_hint("there are no counts of these topics and hours")


@app.command("run")
@with_groups
def run(
    sources: Sources = Sources(),  # noqa: B008
    metrics_port: Annotated[
        int, typer.Option("--metrics-port", min=0, max=65535, help="Port of the metrics; 0 takes a free one.")
    ] = 9645,
    metrics_host: Annotated[
        str, typer.Option("--metrics-host", help="Address of the metrics; default: loopback.")
    ] = "127.0.0.1",
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
) -> None:
    """Watch the counts, export metrics for alerts, and print windows that become incomplete.

    Creates the counts topic where it is missing. Ends with SIGINT or SIGTERM.
    """
    from bowstring.audit.service import AuditService, incomplete_text

    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    for each in (bootstrap, *(sources.also or ())):
        _create_topic(each, sources.topic, timeout)
    with _reader(bootstrap, sources, timeout) as reader:
        service = AuditService(
            reader,
            round(sources.grace * 1000),
            (metrics_host, metrics_port),
            lambda row: print_error(incomplete_text(row)),
        )
        print_note(f"metrics at http://{metrics_host}:{service.port}/metrics")
        try:
            while not ended.is_set():
                service.step()
        finally:
            service.close()


@app.command("jar")
def jar(
    kafka_libs: Annotated[
        Path | None,
        typer.Option("--kafka-libs", help="Folder of Kafka's jars, to compile; default: KAFKA_HOME/libs."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", help="File of the jar; default: in the user's cache.")
    ] = None,
) -> None:
    """Print the path of the jar with the Java interceptors; build it first where it is missing.

    For the class path of Java clients, whose interceptor.classes name
    bowstring.audit.CountingProducerInterceptor and bowstring.audit.CountingConsumerInterceptor.
    """
    from bowstring.audit.jar import jar_path

    print(jar_path(kafka_libs, output))


def _reader(bootstrap: str, sources: Sources, timeout_s: float) -> CountsReader:
    from bowstring.audit.count_table import CountTable
    from bowstring.audit.counts_reader import CountsReader

    table = CountTable(sources.tier or (), keep_ms=round(sources.hours * 3_600_000))
    clusters = (bootstrap, *(sources.also or ()))
    return CountsReader(clusters, sources.topic, table, security(), timeout_s)


def _create_topic(bootstrap: str, topic: str, timeout_s: float) -> None:
    from bowstring.cli.options import admin_at
    from bowstring.clients.admin.results import NewTopic
    from bowstring.clients.errors import TopicExistsError

    # Compaction keeps the newest report of each count, and a week is more than is ever compared.
    configs = {"cleanup.policy": "compact,delete", "retention.ms": str(7 * 24 * 3_600_000)}
    with admin_at(bootstrap, timeout_s) as admin:
        try:
            admin.create_topics([NewTopic(topic, partitions=1, configs=configs)])
        except TopicExistsError:
            return
    print_note(f"created topic {topic} at {bootstrap}")
