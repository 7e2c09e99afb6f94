"""Implements `bowstring share`: reads records of share groups."""

from __future__ import annotations

import functools
import json as json_module
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from bowstring.cli.command_config import security
from bowstring.cli.consume import record_json
from bowstring.cli.options import BOOTSTRAP_DEFAULT, TIMEOUT_DEFAULT_S, Bootstrap, Json, Timeout
from bowstring.cli.output import payload_text, print_hint
from bowstring.clients.errors import ClientTimeoutError
from bowstring.clients.records import Record
from bowstring.clients.share.records import Acknowledgement

if TYPE_CHECKING:
    from bowstring.clients.share.consumer import ShareConsumer
    from bowstring.clients.share.records import ShareRecord

HELP = """\
Read in share groups (KIP-932): each record is delivered to one member, which acknowledges it.

`bowstring groups` and `bowstring configs` show and change share groups as well.
"""

app = typer.Typer(help=HELP, no_args_is_help=True)

POLL_S = 0.5


@app.command()
def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic to read.")],
    group: Annotated[str, typer.Option("--group", "-g", help="Share group.")],
    count: Annotated[int | None, typer.Option("-n", "--count", min=1, help="Stop after this many.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more at the end.")] = False,
    release: Annotated[
        bool, typer.Option("--release", help="Give the records back to the group after printing.")
    ] = False,
    reject: Annotated[
        bool, typer.Option("--reject", help="Take the records out of the group: nobody gets them again.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print partition, offset and delivery count, too.")
    ] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """Print records that a share group delivers to this member, and accept them.

    Without --follow it ends when no records come any more, and fails if no partition is assigned in time. A
    new group begins at the end of the topic; with
    `bowstring configs alter --group GROUP --set share.auto.offset.reset=earliest` at the first record.
    """
    from bowstring.clients.admin.admin import Admin
    from bowstring.clients.share.consumer import ShareConsumer

    if release and reject:
        raise typer.BadParameter("give one of --release and --reject")
    kind = Acknowledgement.ACCEPT
    if release or reject:
        kind = Acknowledgement.RELEASE if release else Acknowledgement.REJECT

    timeout_ms = int(timeout * 1000)
    with Admin(bootstrap, timeout_ms=timeout_ms, client_id="bowstring-cli", security=security()) as admin:
        admin.describe_topic(topic)  # a member would wait until the topic exists
    wanted = sys.maxsize if count is None else count
    with ShareConsumer(
        bootstrap,
        group_id=group,
        client_id="bowstring-cli",
        security=security(),
        acknowledgement_mode="explicit",
        acquire_mode="record_limit",
        default_timeout_ms=timeout_ms,
        max_poll_records=min(wanted, 500),
    ) as consumer:
        consumer.subscribe(topic)
        line = functools.partial(_line, json=json, verbose=verbose)
        printed = _print(consumer, kind, wanted, line, timeout_s=timeout, follow=follow)
        if printed is None:
            raise ClientTimeoutError(
                f"share group {group!r} has assigned no partition of {topic!r} within {timeout:g} s; raise "
                "--timeout"
            )
        if not printed:
            print_hint(
                f"no records for group {group}: others have them, or they are done, or the group is new "
                f"and begins at the end; `bowstring groups lag {group}` shows its progress"
            )


def _print(
    consumer: ShareConsumer,
    kind: Acknowledgement,
    wanted: int,
    line: Callable[[ShareRecord], str],
    *,
    timeout_s: float,
    follow: bool,
) -> int | None:
    """Prints and acknowledges up to `wanted` records; returns how many, None if no partition was assigned."""
    left = wanted
    quiet_at = time.monotonic() + timeout_s
    assigned = False
    while left and (follow or time.monotonic() < quiet_at):
        records = consumer.poll(POLL_S)
        for record in records[:left]:
            sys.stdout.write(line(record) + "\n")
        sys.stdout.flush()
        consumer.acknowledge(records[:left], kind)
        consumer.acknowledge(records[left:], Acknowledgement.RELEASE)
        left -= min(left, len(records))
        if records or (not assigned and consumer.assignment()):
            assigned = True
            quiet_at = time.monotonic() + 2 * POLL_S
        if records and kind is Acknowledgement.RELEASE and not follow:
            break  # they would come again
    return wanted - left if assigned else None


def _line(record: ShareRecord, json: bool, verbose: bool) -> str:
    if json:
        shown = {**record_json(Record(*record[:8])), "delivery_count": record.delivery_count}
        return json_module.dumps(shown, ensure_ascii=False)
    value = "null" if record.value is None else payload_text(record.value) or ""
    if not verbose:
        return value
    return f"{record.partition}:{record.offset}\t{record.delivery_count}\t{value}"
