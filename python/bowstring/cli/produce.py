"""Implements `bowstring produce`: sends lines as records."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from bowstring.cli.command_config import security
from bowstring.cli.options import BOOTSTRAP_DEFAULT, TIMEOUT_DEFAULT_S, Bootstrap, Json, Timeout
from bowstring.cli.output import print_json, print_note
from bowstring.cli.record_lines import Line, LineFormat
from bowstring.cli.registry_values import (
    REGISTRY_DEFAULT,
    Coding,
    KeyCoding,
    LineValues,
    RegistryUrl,
    SchemaFile,
    registry_of,
)
from bowstring.clients.choices import Compression
from bowstring.clients.errors import ConfigError

if TYPE_CHECKING:
    from bowstring.clients.producer.batches import RecordFuture
    from bowstring.clients.producer.producer import Producer

Codec = Annotated[Compression, typer.Option("--compression", "-z", help="Codec of record batches.")]
Acks = Annotated[Literal["all", "1", "0"], typer.Option("--acks", help="Replicas that acknowledge a record.")]


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic to write to.")],
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", exists=True, dir_okay=False, help="Read this file, not stdin."),
    ] = None,
    key: Annotated[str | None, typer.Option("--key", "-k", help="Key of every record.")] = None,
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", "-K", help="Separator of key and value.")
    ] = None,
    header: Annotated[
        list[str],
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="For every record; repeatable."),
    ] = [],  # noqa: B006 - typer copies it
    null_marker: Annotated[str | None, typer.Option("--null-marker", help="Text that means null.")] = None,
    input_format: Annotated[
        Literal["text", "json"],
        typer.Option("--format", help="`json`: lines of `consume --json`; their partitions are ignored."),
    ] = "text",
    keep_partitions: Annotated[
        bool,
        typer.Option("--keep-partitions", help="With JSON: use the line's partition, not the key."),
    ] = False,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", help="Partition instead of by key.")
    ] = None,
    compression: Codec = "none",
    acks: Acks = "all",
    linger_ms: Annotated[float, typer.Option("--linger-ms", help="How long a batch waits for more.")] = 5,
    batch_size: Annotated[int, typer.Option("--batch-size", help="Bytes of a batch.")] = 65_536,
    value: Coding = "text",
    value_schema: SchemaFile = None,
    key_format: KeyCoding = "text",
    schema_registry: RegistryUrl = REGISTRY_DEFAULT,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """Send each line of standard input or of a file as a record."""
    _check_partitions(keep_partitions, input_format, partition)
    common = tuple(map(_header, header))
    texts = [_bytes(text) for text in (key, key_separator, null_marker)]
    form = LineFormat(input_format == "json", texts[0], texts[1], texts[2], keep_partitions)
    formats = {
        "value": registry_of(value, schema_registry, value_schema),
        "key": registry_of(key_format, schema_registry),
    }
    settings = {
        **{"acks": acks, "compression": compression, "linger_ms": linger_ms, "batch_size": batch_size},
        **dict.fromkeys(("delivery_timeout_ms", "max_block_ms"), int(timeout * 1000)),
    }
    with (
        file.open("rb") if file is not None else sys.stdin.buffer as source,
        _opened(bootstrap, {**settings, **formats}) as producer,
    ):
        made = {part: LineValues(each.for_topic(topic, part)) for part, each in formats.items() if each}
        records = (_objects(form.read(line, number), made, number) for number, line in enumerate(source, 1))
        sent = _send(producer, topic, records, common, partition)
    _report(topic, *sent, json)


def _opened(bootstrap: str, settings: dict[str, Any]) -> Producer:
    from bowstring.clients.producer.producer import Producer

    return Producer(bootstrap, client_id="bowstring-cli", security=security(), **settings)


def _objects(record: Line, made: dict[str, LineValues], number: int) -> Line:
    """Returns a record with the objects that a schema encodes."""
    if not made:
        return record
    found = {part: values.object_of(getattr(record, part), number) for part, values in made.items()}
    return record._replace(**found)


def _check_partitions(keep: bool, input_format: str, partition: int | None) -> None:
    if keep and (input_format != "json" or partition is not None):
        raise typer.BadParameter("--keep-partitions needs --format json and excludes --partition")


def _report(topic: str, count: int, last: RecordFuture | None, json: bool) -> None:
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
    """Sends every record; returns their number and the completed future of the last one.

    Raises:
        ClientError: the error of the first record that could not be delivered.
    """
    failures: list[Exception] = []
    last: RecordFuture | None = None
    count = 0
    for record in records:
        count += 1
        try:
            last = producer.send(
                topic,
                record.value,
                record.key,
                headers=(*common, *record.headers),
                timestamp=record.timestamp,
                partition=partition if partition is not None else record.partition,
                on_delivery=lambda future: _note(future, failures),
            )
        except ConfigError as error:
            if record.partition is None:
                raise
            raise ConfigError(
                f"line {count}: {error}; without --keep-partitions the key determines the partition"
            ) from error
        if failures:
            break
    producer.flush()
    if failures:
        raise failures[0]
    return count, last


def _bytes(text: str | None) -> bytes | None:
    """The bytes of an argument: Python has surrogates for those that are not UTF-8."""
    return None if text is None else text.encode("utf-8", "surrogateescape")


def _note(future: RecordFuture, failures: list[Exception]) -> None:
    error = future.exception(0)
    if error is not None and not failures:
        failures.append(error)


def _header(text: str) -> tuple[str, bytes | None]:
    name, equals, value = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"{text!r} is not name=value", param_hint="--header")
    return name, _bytes(value)
