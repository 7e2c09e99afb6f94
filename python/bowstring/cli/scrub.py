"""Implements `bowstring scrub`: verifies a stopped broker's directory, batch by batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bowstring.cli.options import Json
from bowstring.cli.output import console, error_console, print_error, print_json, print_note, size_text

if TYPE_CHECKING:
    from bowstring.engine.storage.offline_scrub import BadPlace, ScrubResult


def scrub(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="A data directory of a stopped broker, or one partition's.")
    ],
    topic: Annotated[str | None, typer.Option("--topic", help="Only the partitions of this topic.")] = None,
    json: Json = False,
) -> None:
    """Check every batch of a stopped broker's directory, and print each damaged place.

    Writes nothing. The exit code is 1 when there is damage that the broker cannot repair by itself.
    """
    from bowstring.engine.storage.directory_lock import DataDirectoryError, locked
    from bowstring.engine.storage.offline_scrub import partitions_of, scrub_directory, size_of

    started = time.monotonic()
    try:
        cure = "stop it first, or let its own scrubber check it (bowstring.scrub.bytes.per.second)"
        with locked(directory, cure, make=False):
            partitions = partitions_of(directory)
            if topic is not None:
                partitions = [each for each in partitions if each.name.rpartition("-")[0] == topic]
            with _progress(size_of(partitions), shown=not json) as advance:
                result = scrub_directory(directory, partitions, advance)
    except DataDirectoryError as error:
        print_error(str(error))
        raise typer.Exit(1) from None
    except OSError as error:
        print_error(f"{error.filename}: {error.strerror}; name the data directory of a stopped broker")
        raise typer.Exit(1) from None
    if json:
        print_json(asdict(result))
    else:
        _show(result, time.monotonic() - started)
    if any(not bad.rebuilt for bad in result.bad):
        raise typer.Exit(1)


@contextmanager
def _progress(size_bytes: int, *, shown: bool) -> Iterator[Callable[[int], None]]:
    if not shown or not error_console().is_terminal:
        yield lambda _: None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(binary_units=True), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=error_console(), transient=True) as bar:
        task = bar.add_task("scrub", total=size_bytes)
        yield lambda read_bytes: bar.advance(task, read_bytes)


def _show(result: ScrubResult, seconds: float) -> None:
    for bad in result.bad:
        console().print(_line(bad), markup=False)
    print_note(
        f"{result.partitions} partitions, {result.segments} segments, {size_text(result.size_bytes)}, "
        f"{result.batches:,} good batches, {result.records:,} records in {seconds:.1f} s: "
        + (f"{len(result.bad)} bad places" if result.bad else "no damage found")
    )


def _line(bad: BadPlace) -> str:
    line = f"{bad.file}: {bad.what}"
    if bad.position >= 0:
        line += f" at byte {bad.position:,} ({bad.size_bytes:,} bytes)"
    if bad.first_offset >= 0:
        line += f", offset {bad.first_offset}"
        line += f" to {bad.end_offset - 1}" if bad.end_offset > bad.first_offset + 1 else ""
        line += " and all records after it" if bad.end_offset < 0 else ""
    return line + ("; the broker rebuilds it" if bad.rebuilt else "")
