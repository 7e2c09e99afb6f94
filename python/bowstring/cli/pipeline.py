"""Implements `bowstring pipeline`: checks and runs declared pipelines."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bowstring.cli.options import Json
from bowstring.cli.output import console, print_hint, print_json, print_note, print_table

if TYPE_CHECKING:
    from bowstring.pipeline.declaration import Pipeline

app = typer.Typer(no_args_is_help=True, help="Run pipelines declared in TOML as Spark streaming jobs.")
File = Annotated[Path, typer.Argument(metavar="FILE", help="The declaration; see docs/guide/pipelines.md.")]
_LOOK_S = 0.2


@app.command()
def check(
    file: File,
    offline: Annotated[
        bool, typer.Option("--offline", help="Do not ask brokers whether topics exist.")
    ] = False,
    json: Json = False,
) -> None:
    """Check a pipeline without running it; show errors, or the columns of its views."""
    from bowstring.pipeline.check import check_plan, check_topics
    from bowstring.pipeline.declaration import load
    from bowstring.pipeline.job import start_session

    pipeline = load(file)
    to_create = [] if offline else check_topics(pipeline)
    spark = start_session(pipeline)
    try:
        columns = check_plan(spark, pipeline)
    finally:
        spark.stop()
    if json:
        found = {"pipeline": pipeline.name, "views": columns, "sinks": list(pipeline.sink)}
        print_json(found | {"topics_to_create": to_create})
        return
    print_table(("view", "columns"), columns.items(), title=pipeline.name)
    for line in to_create:
        print_hint(f"{line}; run creates it")
    print_note(f"{file} is valid: {len(pipeline.source)} sources, {len(pipeline.sink)} sinks")


@app.command()
def run(file: File, json: Json = False) -> None:
    """Run a pipeline until its topics are read (trigger "available now") or until it is stopped.

    Creates the sinks' topics that do not exist. Prints a line for each batch. SIGTERM and Ctrl-C end it after
    the present batch; the next run continues at its checkpoint.
    """
    from bowstring.pipeline.check import check_topics, create_topics
    from bowstring.pipeline.declaration import load
    from bowstring.pipeline.job import start, start_session

    pipeline = load(file)
    check_topics(pipeline)
    for topic in create_topics(pipeline):
        print_note(f"created topic {topic}")
    stop = threading.Event()
    with _stopped_by_signals(stop):
        spark = start_session(pipeline)
        try:
            queries = start(spark, pipeline)
            batches = _follow(queries, stop, json=json)
        finally:
            spark.stop()
    if not json:
        print_note(f"{pipeline.name}: {_total(pipeline, batches)}")


def _follow(queries: list[Any], stop: threading.Event, *, json: bool) -> dict[str, int]:
    """Prints each batch until all queries have ended; returns the records read by each sink's query.

    Raises:
        PipelineError: a query has failed.
    """
    from bowstring.pipeline.declaration import PipelineError
    from bowstring.pipeline.job import progress_line, reason

    told: dict[str, int] = {}
    read = {query.name: 0 for query in queries}
    while True:
        active = [query for query in queries if query.isActive]
        for query in queries:
            for progress in query.recentProgress:
                line = progress_line(progress)
                if line["batch"] <= told.get(query.name, -1) or not line["records"]:
                    continue
                told[query.name] = line["batch"]
                read[query.name] += line["records"]
                _tell(line, json=json)
        failed = next((query for query in queries if query.exception() is not None), None)
        if failed is not None or stop.is_set():
            for query in active:
                query.stop()
        if failed is not None:
            raise PipelineError(f"sink.{failed.name}: {reason(failed.exception())}")
        if not active:
            return read
        stop.wait(_LOOK_S)


def _tell(line: dict[str, Any], *, json: bool) -> None:
    if json:
        print_json(line)
        return
    console().print(
        f"[bold]{line['sink']}[/]  batch {line['batch']}  {line['records']:,} records in "
        f"{line['milliseconds']:,} ms  {line['records_per_second']:,}/s  {line['behind']:,} behind"
    )


def _total(pipeline: Pipeline, read: dict[str, int]) -> str:
    return ", ".join(f"{name} read {read.get(name, 0):,} records" for name in pipeline.sink)


@contextmanager
def _stopped_by_signals(stop: threading.Event) -> Iterator[None]:
    before = {
        number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
