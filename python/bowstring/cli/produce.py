"""`bowstring produce`: lines to records."""

from __future__ import annotations

import json as json_module
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Literal, NamedTuple

import typer

from bowstring.cli.options import BOOTSTRAP_DEFAULT, TIMEOUT_DEFAULT_S, Bootstrap, Json, Timeout
from bowstring.cli.output import payload_from_json, print_json, print_note
from bowstring.clients.errors import ConfigError

if TYPE_CHECKING:
    from bowstring.clients.accumulator import RecordFuture


class Line(NamedTuple):
    """A record as one line of input says it."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int | None
    partition: int | None


def produce(
    topic: Annotated[str, typer.Argument(help="Where to.")],
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
    null = null_marker.encode() if null_marker is not None else None
    source: BinaryIO = file.open("rb") if file is not None else sys.stdin.buffer
    last: RecordFuture | None = None
    count = 0
    with (
        source,
        Producer(
            bootstrap,
            client_id="bowstring-cli",
            acks=acks,
            compression=compression,
            linger_ms=linger_ms,
            batch_size=batch_size,
            delivery_timeout_ms=int(timeout * 1000),
            max_block_ms=int(timeout * 1000),
        ) as producer,
    ):
        failures: list[Exception] = []
        for number, line in enumerate(source, start=1):
            text = line.rstrip(b"\r\n")
            if input_format == "json":
                record = _json_line(text, number)
            else:
                record = _text_line(text, number, key, key_separator, null)
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
        producer.flush(timeout * 2)
    if failures:
        raise failures[0]
    end = last.result(timeout) if last is not None else None
    if json:
        print_json({"topic": topic, "records": count, "last": end._asdict() if end else None})
    else:
        where = (
            f", the last at {end.topic}-{end.partition} offset {end.offset}"
            if end and end.offset >= 0
            else ""
        )
        print_note(f"{count:,} records sent to {topic}{where}")


def _note(future: RecordFuture, failures: list[Exception]) -> None:
    error = future.exception(0)
    if error is not None and not failures:
        failures.append(error)


def _header(text: str) -> tuple[str, bytes | None]:
    name, equals, value = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"{text!r} is not name=value", param_hint="--header")
    return name, value.encode()


def _text_line(
    text: bytes, number: int, fixed_key: str | None, separator: str | None, null: bytes | None
) -> Line:
    key: bytes | None = fixed_key.encode() if fixed_key is not None else None
    value: bytes | None = text
    if separator is not None:
        before, found, value = text.partition(separator.encode())
        if not found:
            raise ConfigError(f"line {number} has no key separator {separator!r}")
        key = before
    if null is not None:
        key = None if key == null else key
        value = None if value == null else value
    return Line(key, value, (), None, None)


def _json_line(text: bytes, number: int) -> Line:
    try:
        fields: dict[str, Any] = json_module.loads(text)
        headers = fields.get("headers") or []
        pairs = headers.items() if isinstance(headers, dict) else [(h["key"], h["value"]) for h in headers]
        return Line(
            payload_from_json(fields.get("key")),
            payload_from_json(fields.get("value")),
            tuple((str(name), payload_from_json(value)) for name, value in pairs),
            fields.get("timestamp"),
            fields.get("partition"),
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ConfigError(
            f'line {number} is no record in JSON, such as {{"key": "k", "value": "v"}}: {error}'
        ) from error
