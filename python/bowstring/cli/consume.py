"""`bowstring consume`: records to lines."""

from __future__ import annotations

import json as json_module
import sys
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from bowstring.cli.options import BOOTSTRAP_DEFAULT, TIMEOUT_DEFAULT_S, Bootstrap, Json, Timeout, timestamp_ms
from bowstring.cli.output import console, payload_json, payload_text, time_text
from bowstring.clients.errors import ConfigError
from bowstring.clients.records import Record, TopicPartition

if TYPE_CHECKING:
    from bowstring.clients.consumer import Consumer

POLL_S = 0.5
POLL_RECORDS = 5_000


def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="What to read.")],
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            "-o",
            metavar="WHERE",
            help="beginning, end, an offset, -N for the last N, or a time: 2013-01-01T05:15 or @seconds. "
            "Default: beginning; end with --follow; with --group where the group is.",
        ),
    ] = None,
    partition: Annotated[
        list[int], typer.Option("--partition", "-p", help="Only this one; may be repeated.")
    ] = [],  # noqa: B006 - typer copies it
    count: Annotated[int | None, typer.Option("-n", "--count", min=1, help="Stop after so many.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more at the end.")] = False,
    group: Annotated[
        str | None, typer.Option("--group", "-g", help="Read as a member of this group.")
    ] = None,
    keys: Annotated[bool, typer.Option("--keys", "-k", help="Print keys.")] = False,
    headers: Annotated[bool, typer.Option("--headers", help="Print headers.")] = False,
    timestamps: Annotated[bool, typer.Option("--timestamps", help="Print timestamps.")] = False,
    offsets: Annotated[bool, typer.Option("--offsets", help="Print partitions and offsets.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="All four of these.")] = False,
    separator: Annotated[str, typer.Option("--separator", help="Between what is printed.")] = "\t",
    committed: Annotated[bool, typer.Option("--read-committed", help="Skip aborted transactions.")] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """Print records; without --follow up to the end the topic has now."""
    from bowstring.clients.consumer import Consumer

    if group is not None and partition:
        raise typer.BadParameter("--group shares out partitions itself: --partition cannot be given with it")
    show = _Show(
        keys or verbose, headers or verbose, timestamps or verbose, offsets or verbose, separator, json
    )
    where = start or ("end" if follow else "beginning")
    with Consumer(
        bootstrap,
        group_id=group,
        client_id="bowstring-cli",
        auto_offset_reset="latest" if where == "end" else "earliest",
        isolation_level="read_committed" if committed else "read_uncommitted",
        default_timeout_ms=int(timeout * 1000),
        allow_auto_create=False,
    ) as consumer:
        wanted = _wanted(consumer, topic, partition)
        if group is not None:
            consumer.subscribe([topic])
            records = _of_group(consumer, wanted, start, follow, timeout)
        else:
            consumer.assign(wanted)
            records = _of_partitions(consumer, wanted, where, follow)
        _print(records, show, count)


def _wanted(consumer: Consumer, topic: str, numbers: list[int]) -> list[TopicPartition]:
    every = consumer.partitions_for(topic)
    missing = sorted(set(numbers) - {p.partition for p in every})
    if missing:
        raise ConfigError(f"topic {topic!r} has partitions 0 to {len(every) - 1}, not {missing[0]}")
    return [p for p in every if not numbers or p.partition in numbers]


def _start_offsets(consumer: Consumer, wanted: list[TopicPartition], where: str) -> dict[TopicPartition, int]:
    """Where to begin in each partition."""
    end = consumer.end_offsets(wanted)
    if where == "end":
        return end
    first = consumer.beginning_offsets(wanted)
    if where == "beginning":
        return first
    try:
        offset = int(where)
    except ValueError:
        found = consumer.offsets_for_times(dict.fromkeys(wanted, timestamp_ms(where, "--from")))
        return {p: answer.offset if (answer := found[p]) is not None else end[p] for p in wanted}
    if offset < 0:
        return {p: max(first[p], end[p] + offset) for p in wanted}
    return {p: max(first[p], min(offset, end[p])) for p in wanted}


def _of_partitions(
    consumer: Consumer, wanted: list[TopicPartition], where: str, follow: bool
) -> Iterator[Record]:
    end = consumer.end_offsets(wanted)
    for partition, offset in _start_offsets(consumer, wanted, where).items():
        consumer.seek(partition, offset)
    while follow or any(consumer.position(partition) < end[partition] for partition in wanted):
        for record in consumer.poll(POLL_RECORDS, POLL_S):
            if follow or record.offset < end[TopicPartition(record.topic, record.partition)]:
                yield record


def _of_group(
    consumer: Consumer, wanted: list[TopicPartition], start: str | None, follow: bool, timeout_s: float
) -> Iterator[Record]:
    """What the group gives this member; without `follow` until it is at the end of all it was given."""
    end = consumer.end_offsets(wanted)
    begun = start is None
    deadline = time.monotonic() + timeout_s
    while True:
        records = consumer.poll(POLL_RECORDS, POLL_S)
        assigned = sorted(consumer.assignment())
        if not begun and assigned:
            begun = True
            for partition, offset in _start_offsets(consumer, assigned, start or "").items():
                consumer.seek(partition, offset)
            continue
        yield from records
        if assigned and not follow and all(consumer.position(p) >= end.get(p, 0) for p in assigned):
            return
        if not assigned and time.monotonic() > deadline and not follow:
            raise ConfigError("the group gave this member no partition: it has as many members as partitions")


class _Show:
    """How a record becomes a line."""

    def __init__(
        self, keys: bool, headers: bool, timestamps: bool, offsets: bool, separator: str, json: bool
    ) -> None:
        self.keys = keys
        self.headers = headers
        self.timestamps = timestamps
        self.offsets = offsets
        self.separator = separator
        self.json = json
        self.colour = console().is_terminal and not json

    def line(self, record: Record) -> str:
        if self.json:
            return json_module.dumps(record_json(record), ensure_ascii=False)
        parts = []
        if self.timestamps:
            parts.append(self._styled("dim", time_text(record.timestamp)))
        if self.offsets:
            parts.append(self._styled("cyan", f"{record.partition}:{record.offset}"))
        if self.headers:
            pairs = ",".join(f"{name}={payload_text(value)}" for name, value in record.headers)
            parts.append(self._styled("magenta", pairs or "-"))
        if self.keys:
            parts.append(self._styled("yellow", _shown(record.key)))
        parts.append(escape(_shown(record.value)) if self.colour else _shown(record.value))
        return self.separator.join(parts)

    def _styled(self, style: str, text: str) -> str:
        return f"[{style}]{escape(text)}[/]" if self.colour else text


def _shown(data: bytes | None) -> str:
    return "null" if data is None else payload_text(data) or ""


def record_json(record: Record) -> dict[str, object]:
    """A record as `--json` prints it and `produce --format json` reads it."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": payload_json(record.key),
        "value": payload_json(record.value),
        "headers": [{"key": name, "value": payload_json(value)} for name, value in record.headers],
    }


def _print(records: Iterable[Record], show: _Show, count: int | None) -> None:
    printed = 0
    try:
        for record in records:
            line = show.line(record)
            if show.colour:
                console().print(line, soft_wrap=True)
            else:
                sys.stdout.write(line + "\n")
            printed += 1
            if printed == count:
                break
    except KeyboardInterrupt:
        pass  # the usual way to end --follow
    finally:
        sys.stdout.flush()
