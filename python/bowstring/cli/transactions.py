"""Implements `bowstring transactions`: list, describe, find-hanging, abort."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bowstring.cli.command_config import security
from bowstring.cli.options import BOOTSTRAP_DEFAULT, TIMEOUT_DEFAULT_S, Bootstrap, Json, Timeout, all_of
from bowstring.cli.output import console, print_json, print_note, print_table
from bowstring.cli.tables import Cell
from bowstring.clients.errors import ConfigError
from bowstring.clients.records import TopicPartition

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin
    from bowstring.clients.admin.results import PartitionProducer

app = typer.Typer(help="Transactions: their states, and those that hang.", no_args_is_help=True)

_MINUTES = 15
Topic = Annotated[str, typer.Option("--topic", "-t", help="Topic of the partitions.")]


def _admin(bootstrap: str, timeout: float) -> Admin:
    from bowstring.clients.admin.admin import Admin

    return Admin(bootstrap, timeout_ms=int(timeout * 1000), client_id="bowstring-cli", security=security())


@app.command("list")
def list_transactions(
    state: Annotated[
        list[str], typer.Option("--state", help="Only ids in this state, e.g. Ongoing or Empty.")
    ] = [],  # noqa: B006 - typer copies it
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """List transactional ids."""
    with _admin(bootstrap, timeout) as admin:
        found = admin.list_transactions(state)
    if json:
        print_json([each._asdict() for each in found])
    elif found:
        rows: list[list[Cell]] = [
            [t.transactional_id, t.state, t.producer_id, str(t.coordinator)] for t in found
        ]
        print_table(["transactional id", "state", "producer id", "coordinator"], rows)
    else:
        console().print("there are no transactions")


@app.command()
def describe(
    transactional_id: Annotated[str, typer.Argument(metavar="ID", help="Transactional id.")],
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """Show the producer and the partitions of a transactional id."""
    with _admin(bootstrap, timeout) as admin:
        found = admin.describe_transaction(transactional_id)
    if json:
        print_json(found._asdict() | {"partitions": [each._asdict() for each in found.partitions]})
        return
    print_table(
        ["state", "producer id", "epoch", "timeout ms", "began ms", "coordinator", "partitions"],
        [
            [
                found.state,
                found.producer_id,
                found.producer_epoch,
                found.timeout_ms,
                None if found.start_ms < 0 else found.start_ms,
                str(found.coordinator),
                " ".join(f"{each.topic}-{each.partition}" for each in found.partitions) or None,
            ]
        ],
    )


@app.command("find-hanging")
def find_hanging(
    topic: Topic,
    minutes: Annotated[
        float, typer.Option("--older-than", help="Minutes since the last record of the transaction.", min=0)
    ] = _MINUTES,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """Find open transactions that no coordinator will end."""
    with _admin(bootstrap, timeout) as admin:
        partitions = all_of(topic, admin.describe_topic(topic).partitions)
        found = admin.find_hanging_transactions(partitions, min_age_ms=int(minutes * 60_000))
    if json:
        print_json([each._asdict() | {"partition": each.partition._asdict()} for each in found])
    elif found:
        rows: list[list[Cell]] = [
            [str(p.partition.partition), p.producer_id, p.producer_epoch, p.transaction_start_offset]
            for p in found
        ]
        print_table(["partition", "producer id", "epoch", "start offset"], rows)
    else:
        console().print("no transaction hangs")


@app.command()
def abort(
    topic: Topic,
    partition: Annotated[int, typer.Option("--partition", "-p", help="Partition of the transaction.", min=0)],
    start_offset: Annotated[
        int, typer.Option("--start-offset", help="First offset of the transaction, as find-hanging shows it.")
    ],
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
) -> None:
    """Abort a transaction that hangs in a partition. Readers of committed records never see its records."""
    place = TopicPartition(topic, partition)
    with _admin(bootstrap, timeout) as admin:
        producer = _of_offset(admin.describe_producers([place])[place], start_offset)
        admin.abort_transaction(producer)
    print_note(f"aborted the transaction of producer {producer.producer_id} in {topic}-{partition}")


def _of_offset(producers: list[PartitionProducer], start_offset: int) -> PartitionProducer:
    for each in producers:
        if each.transaction_start_offset == start_offset:
            return each
    raise ConfigError(f"no open transaction begins at offset {start_offset}")
