"""Implements `bowstring consume`: prints records as lines."""

from __future__ import annotations

import json as json_module
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer
from rich.markup import escape

from bowstring.cli.command_config import security
from bowstring.cli.options import BOOTSTRAP_DEFAULT, TIMEOUT_DEFAULT_S, Bootstrap, Json, Timeout, timestamp_ms
from bowstring.cli.output import (
    client_lines,
    console,
    header_key_bytes,
    payload_json,
    payload_text,
    print_error,
    time_text,
)
from bowstring.cli.registry_values import (
    REGISTRY_DEFAULT,
    Coding,
    KeyCoding,
    RegistryUrl,
    registry_of,
    value_json,
    value_text,
)
from bowstring.clients.errors import ClientError, ConfigError
from bowstring.clients.records import Record, TopicPartition

if TYPE_CHECKING:
    from bowstring.clients.consumer.consumer import Consumer

POLL_S = 0.5
POLL_RECORDS = 5_000
# Flush after at most this much text: when a pipe breaks, it is uncertain how much of it was read.
FLUSH_SIZE = 8_192
COMMIT_EVERY_S = 5.0


def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic to read.")],
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            "-o",
            metavar="WHERE",
            help="beginning, end, an offset, -N for the last N records, or a time: 2013-01-01T05:15 or "
            "@seconds. Default: beginning; with --follow: end; with --group: the group's offset.",
        ),
    ] = None,
    partition: Annotated[
        list[int], typer.Option("--partition", "-p", help="Only this one; may be repeated.")
    ] = [],  # noqa: B006 - typer copies it
    count: Annotated[int | None, typer.Option("-n", "--count", min=1, help="Stop after this many.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more at the end.")] = False,
    group: Annotated[str | None, typer.Option("--group", "-g", help="Read in this group.")] = None,
    keys: Annotated[bool, typer.Option("--keys", "-k", help="Print keys.")] = False,
    headers: Annotated[bool, typer.Option("--headers", help="Print headers.")] = False,
    timestamps: Annotated[bool, typer.Option("--timestamps", help="Print timestamps.")] = False,
    offsets: Annotated[bool, typer.Option("--offsets", help="Print partitions and offsets.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print all of these.")] = False,
    separator: Annotated[str, typer.Option("--separator", help="Between printed fields.")] = "\t",
    committed: Annotated[bool, typer.Option("--read-committed", help="Skip aborted transactions.")] = False,
    value: Coding = "text",
    key_format: KeyCoding = "text",
    schema_registry: RegistryUrl = REGISTRY_DEFAULT,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """Print records; without --follow, up to the present end of the topic.

    With --group, the group commits exactly the records written to standard output, also when -n, Ctrl-C or an
    error ends the command. A pipe accepts more than its reader processes: use -n 5 instead of `| head -5`.
    """
    if group is not None and partition:
        raise typer.BadParameter("--partition excludes --group, which assigns partitions itself")
    keys, headers, timestamps, offsets = (each or verbose for each in (keys, headers, timestamps, offsets))
    show = Show(keys, headers, timestamps, offsets, separator, json)
    where = start or ("end" if follow else "beginning")
    formats = {"value": registry_of(value, schema_registry), "key": registry_of(key_format, schema_registry)}
    with _opened(bootstrap, group, where, committed, timeout, formats) as consumer:
        wanted = _wanted(consumer, topic, partition)
        if group is None:
            consumer.assign(wanted)
            _print(consumer, _of_partitions(consumer, wanted, where, follow), Printed(show), count)
        else:
            polls = _of_group(consumer, wanted, start, follow, timeout)
            _print_for_group(consumer, topic, polls, Printed(show), count)


def _opened(
    bootstrap: str, group: str | None, where: str, committed: bool, timeout: float, formats: dict[str, Any]
) -> Consumer:
    from bowstring.clients.consumer.consumer import Consumer

    return Consumer(
        bootstrap,
        group_id=group,
        client_id="bowstring-cli",
        security=security(),
        auto_offset_reset="latest" if where == "end" else "earliest",
        isolation_level="read_committed" if committed else "read_uncommitted",
        default_timeout_ms=int(timeout * 1000),
        allow_auto_create=False,
        enable_auto_commit=False,
        **formats,
    )


def _print_for_group(
    consumer: Consumer, topic: str, polls: Iterable[list[Record]], printed: Printed, count: int | None
) -> None:
    progress = GroupProgress(consumer, printed)
    consumer.subscribe([topic], on_revoked=progress.revoked, on_lost=progress.lost)
    _print(consumer, progress.kept(polls), printed, count, finish=progress.commit)


def _wanted(consumer: Consumer, topic: str, numbers: list[int]) -> list[TopicPartition]:
    every = consumer.partitions_for(topic)
    missing = sorted(set(numbers) - {p.partition for p in every})
    if missing:
        raise ConfigError(f"topic {topic!r} has partitions 0 to {len(every) - 1}, not {missing[0]}")
    return [p for p in every if not numbers or p.partition in numbers]


def _start_offsets(consumer: Consumer, wanted: list[TopicPartition], where: str) -> dict[TopicPartition, int]:
    """Returns the offset to start at in each partition."""
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
) -> Iterator[list[Record]]:
    """Yields the records to print, poll by poll."""
    end = consumer.end_offsets(wanted)
    for partition, offset in _start_offsets(consumer, wanted, where).items():
        consumer.seek(partition, offset)
    while follow or any(consumer.position(partition) < end[partition] for partition in wanted):
        records = consumer.poll(POLL_S, max_records=POLL_RECORDS)
        yield [r for r in records if follow or r.offset < end[TopicPartition(r.topic, r.partition)]]


def _of_group(
    consumer: Consumer, wanted: list[TopicPartition], start: str | None, follow: bool, timeout_s: float
) -> Iterator[list[Record]]:
    """Yields the records that the group assigns to this member; without `follow`, until it has reached the
    end of its partitions.
    """
    end = consumer.end_offsets(wanted)
    begun = start is None
    deadline = time.monotonic() + timeout_s
    while True:
        records = consumer.poll(POLL_S, max_records=POLL_RECORDS)
        assigned = sorted(consumer.assignment())
        if not begun and assigned:
            begun = True
            for partition, offset in _start_offsets(consumer, assigned, start or "").items():
                consumer.seek(partition, offset)
            continue
        yield records
        if assigned and not follow and all(consumer.position(p) >= end.get(p, 0) for p in assigned):
            return
        if not assigned and time.monotonic() > deadline and not follow:
            raise ConfigError(
                "the group assigned no partition to this member: the group already has as many members as "
                "partitions"
            )


class Show:
    """Formats a record as a line."""

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
        """Returns the line of a record: with colours it is markup."""
        if self.json:
            return json_module.dumps(record_json(record), ensure_ascii=False)
        parts = []
        if self.timestamps:
            parts.append(self._styled("dim", time_text(record.timestamp)))
        if self.offsets:
            parts.append(self._styled("cyan", f"{record.partition}:{record.offset}"))
        if self.headers:
            pairs = ",".join(
                f"{payload_text(header_key_bytes(name))}={payload_text(value)}"
                for name, value in record.headers
            )
            parts.append(self._styled("magenta", pairs or "-"))
        if self.keys:
            parts.append(self._styled("yellow", _shown(record.key)))
        parts.append(escape(_shown(record.value)) if self.colour else _shown(record.value))
        return self.separator.join(parts)

    def print(self, record: Record) -> int:
        """Prints a record; returns the characters of the line."""
        line = self.line(record)
        if self.colour:
            console().print(line, soft_wrap=True)
        else:
            sys.stdout.write(line + "\n")
        return len(line)

    def _styled(self, style: str, text: str) -> str:
        return f"[{style}]{escape(text)}[/]" if self.colour else text


def _shown(data: Any) -> str:
    if data is None:
        return "null"
    return payload_text(data) or "" if isinstance(data, bytes) else value_text(data)


def _as_json(data: Any) -> Any:
    return payload_json(data) if data is None or isinstance(data, bytes) else value_json(data)


def record_json(record: Record) -> dict[str, object]:
    """Returns a record in the form that `--json` prints and `produce --format json` reads."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _as_json(record.key),
        "value": _as_json(record.value),
        "headers": [
            {"key": payload_json(header_key_bytes(name)), "value": payload_json(value)}
            for name, value in record.headers
        ],
    }


class Printed:
    """Standard output, with the position printed in each partition."""

    def __init__(self, show: Show) -> None:
        self.ends: dict[TopicPartition, int] = {}
        """Offset after the last record that was written and flushed."""
        self._show = show
        self._unflushed: dict[TopicPartition, int] = {}
        self._unflushed_size = 0

    def write(self, record: Record) -> None:
        """Prints a record; it counts as printed when it has been flushed."""
        self._unflushed_size += self._show.print(record)
        self._unflushed[TopicPartition(record.topic, record.partition)] = record.offset + 1
        if self._unflushed_size >= FLUSH_SIZE:
            self.flush()

    def flush(self) -> None:
        """Flushes; raises BrokenPipeError when the reader has closed."""
        sys.stdout.flush()
        self.ends.update(self._unflushed)
        self._unflushed.clear()
        self._unflushed_size = 0


class GroupProgress:
    """Commits printed offsets for the group, at intervals and before partitions move to other members."""

    def __init__(self, consumer: Consumer, printed: Printed) -> None:
        self._consumer = consumer
        self._ends = printed.ends
        self._commit_at = time.monotonic() + COMMIT_EVERY_S

    def kept(self, polls: Iterable[list[Record]]) -> Iterator[list[Record]]:
        """Yields the polls; commits what was printed when a commit is due."""
        for records in polls:
            yield records
            if time.monotonic() >= self._commit_at:
                self._commit_at = time.monotonic() + COMMIT_EVERY_S
                if self._ends:  # the next commit repeats a failed one
                    self._consumer.commit(dict(self._ends), asynchronous=True, on_commit=lambda *_: None)

    def revoked(self, partitions: list[TopicPartition]) -> None:
        """Commits before other members get these partitions and continue at the committed offsets."""
        gone = {partition: self._ends.pop(partition) for partition in partitions if partition in self._ends}
        if not gone:
            return
        try:
            self._consumer.commit(gone)
        except ClientError as error:
            print_error(f"{error}; the next owner of the partitions prints some records again")

    def lost(self, partitions: list[TopicPartition]) -> None:
        """Drops partitions that other members already have."""
        for partition in partitions:
            self._ends.pop(partition, None)

    def commit(self) -> None:
        """Makes the last commit.

        Raises:
            ClientError: the offsets could not be stored.
        """
        if self._ends:
            self._consumer.commit(dict(self._ends))
            self._ends.clear()


class Interruption:
    """Handles Ctrl-C, the usual end of --follow: requests a stop, so that everything printed is also
    committed.

    A second Ctrl-C raises KeyboardInterrupt.
    """

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self.asked = False

    def _ask(self, *_: object) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        self._consumer.wakeup()

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)


def _print(
    consumer: Consumer,
    polls: Iterable[list[Record]],
    printed: Printed,
    count: int | None,
    *,
    finish: Callable[[], None] = lambda: None,
) -> None:
    """Prints until there are no more records, `count` is reached or a stop is requested; then always calls
    `finish`.
    """
    left = sys.maxsize if count is None else count
    client_lines.shown = True  # from here on the command waits for brokers without limit
    with Interruption(consumer) as interruption:
        try:
            for records in polls:
                for record in records[:left]:
                    if interruption.asked:
                        break
                    printed.write(record)
                    left -= 1
                printed.flush()
                if interruption.asked or not left:
                    break
        finally:
            try:
                printed.flush()
            finally:
                finish()
