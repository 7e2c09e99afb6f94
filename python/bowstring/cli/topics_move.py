"""Implements `bowstring topics move`: moves partitions into another log directory of their broker, with
progress.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from bowstring.cli.command_config import security
from bowstring.cli.options import BOOTSTRAP_DEFAULT, TIMEOUT_DEFAULT_S, Bootstrap, Json, Timeout
from bowstring.cli.output import error_console, print_json, print_note

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin
    from bowstring.clients.admin.results import LogDir
    from bowstring.clients.records import TopicPartition

_LOOK_S = 0.2


def move(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.")],
    to: Annotated[str, typer.Option("--to", metavar="DIR", help="A directory of the broker's log.dirs.")],
    partition: Annotated[
        list[int],
        typer.Option("--partition", "-p", help="Partition to move; may be repeated. Default: all."),
    ] = [],  # noqa: B006 - typer copies it
    broker: Annotated[
        int | None, typer.Option("--broker", help="Broker id; default: the one that has DIR.")
    ] = None,
    wait: Annotated[bool, typer.Option(help="Wait until all partitions are moved.")] = True,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """Move partitions to another log directory of their broker while they are in use."""
    from bowstring.clients.admin.admin import Admin
    from bowstring.clients.errors import ConfigError
    from bowstring.clients.records import TopicPartition

    with Admin(
        bootstrap, timeout_ms=int(timeout * 1000), client_id="bowstring-cli", security=security()
    ) as admin:
        wanted = [
            TopicPartition(topic, index) for index in partition or admin.describe_topic(topic).partitions
        ]
        if broker is None:
            found = admin.describe_log_dirs()
            broker = next((id for id, dirs in found.items() if any(d.path == to for d in dirs)), None)
        if broker is None:
            names = ", ".join(sorted(d.path for dirs in found.values() for d in dirs))
            raise ConfigError(f"no broker has the log directory {to}; existing ones: {names}")
        admin.move_replicas(wanted, to, broker)
        there = _wait(admin, broker, to, wanted, shown=not json) if wait else False
    if json:
        print_json([{"topic": topic, "partition": p.partition, "to": to, "moved": there} for p in wanted])
    else:
        print_note(f"{'moved' if there else 'moving'} {len(wanted)} partitions of {topic} to {to}")


def _wait(admin: Admin, broker: int, to: str, wanted: list[TopicPartition], *, shown: bool) -> bool:
    from bowstring.clients.errors import ConfigError

    with _progress(len(wanted), shown=shown) as tell:
        while True:
            dirs = admin.describe_log_dirs()[broker]
            there, moving, share = _state(dirs, to, wanted)
            tell(share)
            if there == len(wanted):
                return True
            if not moving:
                dirs = admin.describe_log_dirs()[broker]  # the last move may have ended between two requests
                if _state(dirs, to, wanted)[0] == len(wanted):
                    return True
                raise ConfigError("a move was cancelled; the broker's log has the reason")
            time.sleep(_LOOK_S)


def _state(dirs: list[LogDir], to: str, wanted: list[TopicPartition]) -> tuple[int, int, float]:
    """Returns how many partitions are moved, how many are moving, and the fraction copied."""
    there = moving = 0
    share = 0.0
    for partition in wanted:
        found = [(each.path, each.replicas[partition]) for each in dirs if partition in each.replicas]
        current = next((size.size_bytes for _, size in found if not size.is_future), 0)
        for path, size in found:
            if path == to and not size.is_future:
                there += 1
                share += 1
            elif path == to:
                moving += 1
                share += min(1.0, size.size_bytes / max(current, 1))
    if there + moving < len(wanted) and any(r.is_future for each in dirs for r in each.replicas.values()):
        moving += 1  # waiting for its turn
    return there, moving, share


@contextmanager
def _progress(total: int, *, shown: bool) -> Iterator[Callable[[float], None]]:
    if not shown:
        yield lambda done: None
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("moving"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=error_console(), transient=True) as bar:
        task = bar.add_task("moving", total=total)
        yield lambda done: bar.update(task, completed=done)
