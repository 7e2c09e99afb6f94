"""`bowstring produce`: lines to records."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from bowstring.cli.lines import Line, LineFormat
from bowstring.cli.options import BOOTSTRAP_DEFAULT, TIMEOUT_DEFAULT_S, Bootstrap, Json, Timeout
from bowstring.cli.output import print_json, print_note

if TYPE_CHECKING:
    from bowstring.clients.accumulator import RecordFuture
    from bowstring.clients.producer import Producer


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Where to.")],
    file: Annotated[
        Path | None, typer.Option("--file", "-f", exists=True, dir_okay=False, help="Read this, not stdin.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", "-k", help="Key of every record.")] = None,
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", "-K", help="What stands between key and value in a line.")
    ] = None,
    header: Annotated[
        list[str], typer.Option("--header", "-H", metavar="NAME=VALUE", help="For every record; repeatable.")
    ] = [],  # noqa: B006 - typer copies it
    null_marker: Annotated[
        str | None, typer.Option("--null-marker", help="A key or value that is exactly this is null.")
    ] = None,
    input_format: Annotated[
        Literal["text", "json"],
        typer.Option("--format", help="`json`: a line is what `consume --json` prints."),
    ] = "text",
    partition: Annotated[int | None, typer.Option("--partition", "-p", help="Instead of by key.")] = None,
    compression: Annotated[
        str, typer.Option("--compression", "-z", help="none, gzip, snappy, lz4 or zstd.")
    ] = "none",
    acks: Annotated[str, typer.Option("--acks", help="all, 1 or 0.")] = "all",
    linger_ms: Annotated[float, typer.Option("--linger-ms", help="How long a batch waits for more.")] = 5,
    batch_size: Annotated[int, typer.Option("--batch-size", help="Bytes of a batch.")] = 65_536,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """Send each line of standard input, or of a file, as a record."""
    from bowstring.clients.producer import Producer

    common = tuple(_header(text) for text in header)
    form = LineFormat(input_format == "json", _bytes(key), _bytes(key_separator), _bytes(null_marker))
    milliseconds = int(timeout * 1000)
    with (
        file.open("rb") if file is not None else sys.stdin.buffer as source,
        Producer(
            bootstrap,
            client_id="bowstring-cli",
            acks=acks,
            compression=compression,
            linger_ms=linger_ms,
            batch_size=batch_size,
            delivery_timeout_ms=milliseconds,
            max_block_ms=milliseconds,
        ) as producer,
    ):
        records = (form.read(line, number) for number, line in enumerate(source, start=1))
        count, last = _send(producer, topic, records, common, partition)
    end = last.result(0) if last is not None else None
    if json:
        print_json({"topic": topic, "records": count, "last": end._asdict() if end else None})
        return
    known = end is not None and end.offset >= 0
    where = f", the last at {end.topic}-{end.partition} offset {end.offset}" if end and known else ""
    print_note(f"{count:,} records sent to {topic}{where}")


def _send(
    producer: Producer,
    topic: str,
    records: Iterable[Line],
    common: tuple[tuple[str, bytes | None], ...],
    partition: int | None,
) -> tuple[int, RecordFuture | None]:
    """Sends every record; how many they were, and the last one's future, which is done.

    Raises:
        ClientError: of the first that could not be delivered.
    """
    failures: list[Exception] = []
    last: RecordFuture | None = None
    count = 0
    for record in records:
        last = producer.send(
            topic,
            record.value,
            record.key,
            headers=(*common, *record.headers),
            timestamp=record.timestamp,
            partition=partition if partition is not None else record.partition,
            on_delivery=lambda future: _note(future, failures),
        )
        count += 1
        if failures:
            break
    producer.flush()
    if failures:
        raise failures[0]
    return count, last


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _note(future: RecordFuture, failures: list[Exception]) -> None:
    error = future.exception(0)
    if error is not None and not failures:
        failures.append(error)


def _header(text: str) -> tuple[str, bytes | None]:
    name, equals, value = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"{text!r} is not name=value", param_hint="--header")
    return name, value.encode()
