"""Implements `bowstring groups top`: how far groups are behind, in records and in seconds."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from bowstring.cli.options import BOOTSTRAP_DEFAULT, TIMEOUT_DEFAULT_S, Bootstrap, Json, Timeout
from bowstring.cli.output import Cell, console, print_json, print_table
from bowstring.clients.errors import BrokerError
from bowstring.clients.records import TopicPartition

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin
    from bowstring.clients.consumer.consumer import Consumer

READ_S = 2.0
CLEAR = "\x1b[H\x1b[2J"


class Row(NamedTuple):
    """One group. `seconds`: age of the oldest record that it has not read; None if it is not known."""

    group: str
    type: str
    state: str
    partitions: int
    lag: int
    seconds: float | None


def top(
    groups: Annotated[
        list[str] | None, typer.Argument(metavar="[GROUP]...", help="Groups; default: all.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Print one table and end.")] = False,
    interval: Annotated[
        float, typer.Option("--interval", metavar="SECONDS", min=0.5, help="Seconds between two tables.")
    ] = 5.0,
    count: Annotated[int, typer.Option("-n", "--count", min=1, help="Show this many groups.")] = 20,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """Show the groups that are most behind, in records and in seconds, again and again."""
    from bowstring.clients.admin.admin import Admin
    from bowstring.clients.consumer.consumer import Consumer

    milliseconds = int(timeout * 1000)
    with (
        Admin(bootstrap, timeout_ms=milliseconds, client_id="bowstring-cli") as admin,
        Consumer(
            bootstrap,
            default_timeout_ms=milliseconds,
            client_id="bowstring-cli",
            max_partition_fetch_bytes=1,
            auto_offset_reset="earliest",
        ) as consumer,
    ):
        while True:
            rows = measure(admin, consumer, groups or ())[:count]
            _print(rows, json, clear=not once)
            if once:
                return
            time.sleep(interval)


def measure(admin: Admin, consumer: Consumer, wanted: Iterable[str]) -> list[Row]:
    """Returns a row for each group (of `wanted`, if given), those most behind first."""
    names = set(wanted)
    listed = [each for each in admin.list_groups() if not names or each.group_id in names]
    lags: dict[str, dict[TopicPartition, tuple[int, int]]] = {}
    plain = {
        each.group_id: admin.committed_offsets(each.group_id) for each in listed if _commits(each.group_type)
    }
    ends = _ends(admin, {partition for offsets in plain.values() for partition in offsets})
    for group, offsets in plain.items():
        lags[group] = {p: (o.offset, max(0, ends[p] - o.offset)) for p, o in offsets.items() if p in ends}
    for each in listed:
        if each.group_type.casefold() == "share":
            found = admin.describe_share_offsets(each.group_id)
            lags[each.group_id] = {p: (o.start_offset, max(0, o.lag)) for p, o in found.items()}
    behind = {(p, at) for found in lags.values() for p, (at, lag) in found.items() if lag}
    times = _timestamps(consumer, behind)
    now_ms = time.time() * 1000
    rows = []
    for each in listed:
        found_lags = lags.get(each.group_id, {})
        late = [times.get((p, at)) for p, (at, lag) in found_lags.items() if lag]
        ages = [max(0.0, (now_ms - at_ms) / 1000) for at_ms in late if at_ms is not None]
        oldest = max(ages) if ages else (None if late else 0.0)
        total = sum(lag for _, lag in found_lags.values())
        rows.append(Row(each.group_id, each.group_type, each.state, len(found_lags), total, oldest))
    return sorted(rows, key=lambda row: (-row.lag, row.group))


def _commits(group_type: str) -> bool:
    return group_type.casefold() != "share"


def _ends(admin: Admin, partitions: set[TopicPartition]) -> dict[TopicPartition, int]:
    """Returns the ends of partitions; those of topics that are deleted are left out."""
    there = admin.topics(internal=True)
    known = [p for p in partitions if p.topic in there and p.partition in there[p.topic].partitions]
    try:
        return admin.end_offsets(known) if known else {}
    except BrokerError:
        return {}  # a topic was deleted meanwhile: the next table has its facts


def _timestamps(
    consumer: Consumer, places: set[tuple[TopicPartition, int]]
) -> dict[tuple[TopicPartition, int], int]:
    """Returns the timestamp of the first record at or after each place, as far as brokers answer soon."""
    found: dict[tuple[TopicPartition, int], int] = {}
    left = sorted(places)
    while left:
        round_of: dict[TopicPartition, int] = {}
        rest = []
        for partition, offset in left:  # several groups may read one partition, each at its own offset
            if partition in round_of:
                rest.append((partition, offset))
            else:
                round_of[partition] = offset
        consumer.assign(round_of)
        for partition, offset in round_of.items():
            consumer.seek(partition, offset)
        deadline = time.monotonic() + READ_S
        open_ = set(round_of)
        while open_ and (wait_s := deadline - time.monotonic()) > 0:
            for record in consumer.poll(wait_s):
                partition = TopicPartition(record.topic, record.partition)
                if partition in open_:
                    open_.discard(partition)
                    consumer.pause(partition)
                    found[partition, round_of[partition]] = record.timestamp
        left = rest
    consumer.assign([])
    return found


def _print(rows: list[Row], json: bool, *, clear: bool) -> None:
    if json:
        print_json([row._asdict() for row in rows])
        return
    if clear and console().is_terminal:
        console().file.write(CLEAR)
    cells: list[list[Cell]] = [
        [row.group, row.type or None, row.state or None, row.partitions, row.lag, row.seconds] for row in rows
    ]
    if cells:
        print_table(["group", "type", "state", "partitions", "lag", "seconds"], cells)
    else:
        console().print("there are no groups")
