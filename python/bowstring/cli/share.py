"""Implements `bowstring share`: reads records of share groups."""

from __future__ import annotations

import json as json_module
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from bowstring.cli.consume import record_json
from bowstring.cli.options import BOOTSTRAP_DEFAULT, TIMEOUT_DEFAULT_S, Bootstrap, Json, Timeout
from bowstring.cli.output import payload_text
from bowstring.clients.records import Record

if TYPE_CHECKING:
    from bowstring.clients.share.records import ShareRecord

app = typer.Typer(help="Share groups: records that are acknowledged one by one.", no_args_is_help=True)

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

    Without --follow it ends when no records come any more, and fails if no partition is assigned in time.
    """
    from bowstring.clients.share.consumer import ShareConsumer
    from bowstring.clients.share.records import Acknowledgement

    if release and reject:
        raise typer.BadParameter("give one of --release and --reject")
    kind = Acknowledgement.ACCEPT
    if release or reject:
        kind = Acknowledgement.RELEASE if release else Acknowledgement.REJECT

    left = sys.maxsize if count is None else count
    with ShareConsumer(
        bootstrap,
        group_id=group,
        client_id="bowstring-cli",
        acknowledgement_mode="explicit",
        acquire_mode="record_limit",
        default_timeout_ms=int(timeout * 1000),
        max_poll_records=min(left, 500),
    ) as consumer:
        consumer.subscribe(topic)
        quiet_at = time.monotonic() + timeout
        assigned = False
        while left and (follow or time.monotonic() < quiet_at):
            records = consumer.poll(POLL_S)
            for record in records[:left]:
                sys.stdout.write(_line(record, json, verbose) + "\n")
            sys.stdout.flush()
            consumer.acknowledge(records[:left], kind)
            consumer.acknowledge(records[left:], Acknowledgement.RELEASE)
            left -= min(left, len(records))
            if records or (not assigned and consumer.assignment()):
                assigned = True
                quiet_at = time.monotonic() + 2 * POLL_S
            if records and release and not follow:
                break  # they would come again
        if not assigned:
            raise _unassigned(topic, group, timeout)


def _unassigned(topic: str, group: str, timeout_s: float) -> Exception:
    from bowstring.clients.errors import ClientTimeoutError

    return ClientTimeoutError(
        f"share group {group!r} has assigned no partition of {topic!r} within {timeout_s:g} s: check that "
        "the topic exists, or raise --timeout"
    )


def _line(record: ShareRecord, json: bool, verbose: bool) -> str:
    if json:
        shown = {**record_json(Record(*record[:8])), "delivery_count": record.delivery_count}
        return json_module.dumps(shown, ensure_ascii=False)
    value = "null" if record.value is None else payload_text(record.value) or ""
    if not verbose:
        return value
    return f"{record.partition}:{record.offset}\t{record.delivery_count}\t{value}"
