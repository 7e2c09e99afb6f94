"""Implements `bowstring reassign`: plan, execute, verify, cancel."""

from __future__ import annotations

import json as json_text
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bowstring.cli.command_config import security
from bowstring.cli.options import BOOTSTRAP_DEFAULT, TIMEOUT_DEFAULT_S, Bootstrap, Json, Timeout
from bowstring.cli.output import print_json, print_note, print_table, size_text, table_on_stderr

if TYPE_CHECKING:
    from bowstring.cli.replica_moves import Replicas, State
    from bowstring.clients.admin.admin import Admin
    from bowstring.clients.admin.assignment import Move
    from bowstring.clients.records import TopicInfo, TopicPartition

app = typer.Typer(help="Move replicas to other brokers.", no_args_is_help=True)

Plan = Annotated[
    Path, typer.Argument(metavar="PLAN", help="JSON of `plan`, or of Kafka's kafka-reassign-partitions.")
]
Wait = Annotated[bool, typer.Option("--wait", "-w", help="Wait until nothing moves any more.")]
Throttle = Annotated[
    int | None,
    typer.Option("--throttle", metavar="BYTES", min=1, help="Bytes per second that a broker moves."),
]
KeepThrottle = Annotated[bool, typer.Option("--keep-throttle", help="Do not remove throttles.")]


def _admin(bootstrap: str, timeout: float) -> Admin:
    from bowstring.clients.admin.admin import Admin

    return Admin(bootstrap, timeout_ms=int(timeout * 1000), client_id="bowstring-cli", security=security())


@app.command()
def plan(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[TOPIC...]", help="Topics to plan; default: all.")
    ] = None,
    brokers: Annotated[
        str | None,
        typer.Option("--brokers", metavar="ID,…", help="Brokers that may have replicas; default: all."),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor", "-r", min=1, help="Replicas of each partition; default: as now."
        ),
    ] = None,
    spread: Annotated[
        bool,
        typer.Option(help="Also move replicas that could stay, so that brokers have equally many."),
    ] = True,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the plan here.")
    ] = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """Propose which replicas to move, as JSON for `execute`. Nothing is changed.

    Replicas of a partition are in different racks where brokers have racks. As few as possible move.
    """
    from bowstring.cli import reassignment_json, replica_moves
    from bowstring.clients.admin import assignment

    with _admin(bootstrap, timeout) as admin:
        topics = _topics(admin, names)
        current = replica_moves.replicas_of(topics)
        racks, kept = _racks(admin, brokers)
        wanted = assignment.planned(
            current, racks=racks, kept=kept, replication_factor=replication_factor, spread=spread
        )
        sizes = replica_moves.sizes(admin)
    changes = assignment.moves(current, wanted)
    text = reassignment_json.to_json({each.partition: wanted[each.partition] for each in changes})
    if output is not None:
        output.write_text(json_text.dumps(text, indent=2) + "\n", encoding="utf-8")
    if not json:
        _tell_plan(changes, current, wanted, sizes)
    if output is None:
        print_json(text)


def _topics(admin: Admin, names: list[str] | None) -> dict[str, TopicInfo]:
    if not names:
        return admin.topics(internal=True)
    return {name: admin.describe_topic(name) for name in names}


def _racks(admin: Admin, brokers: str | None) -> tuple[dict[int, str | None], dict[int, str | None]]:
    """Returns the racks of the brokers that may get replicas, and of others that keep theirs: unless brokers
    are named, those that are down.
    """
    from bowstring.clients.errors import ConfigError

    there = {each.id: each for each in admin.describe_brokers()}
    if brokers is None:
        return (
            {each.id: each.rack for each in there.values() if not each.fenced},
            {each.id: each.rack for each in there.values() if each.fenced},
        )
    try:
        wanted = [int(each) for each in brokers.split(",")]
    except ValueError:
        raise typer.BadParameter(f"{brokers!r} is not ID,ID,…", param_hint="--brokers") from None
    for broker in wanted:
        if broker not in there:
            known = ", ".join(map(str, there))
            raise ConfigError(f"there is no broker {broker}; existing brokers: {known}")
        if there[broker].fenced:
            raise ConfigError(f"broker {broker} is fenced: it does not run, or cannot reach the controller")
    return {broker: there[broker].rack for broker in wanted}, {}


def _tell_plan(
    changes: list[Move],
    current: Replicas,
    wanted: Replicas,
    sizes: Mapping[TopicPartition, Mapping[int, int]],
) -> None:
    if not changes:
        print_note("nothing to move")
        return
    rows = []
    total = 0
    for each in changes:
        size = max(sizes.get(each.partition, {}).values(), default=None)
        total += (size or 0) * len(each.adding)
        rows.append(
            [
                str(each.partition),
                ",".join(map(str, current[each.partition])),
                ",".join(map(str, wanted[each.partition])),
                None if size is None else size_text(size * len(each.adding)),
            ]
        )
    table_on_stderr(["partition", "replicas", "planned", "to copy"], rows)
    copied = sum(len(each.adding) for each in changes)
    told = f", {size_text(total)}" if sizes else ""
    print_note(f"{len(changes)} partitions change; {copied} replicas to copy{told}")


@app.command()
def execute(
    plan: Plan,
    throttle: Throttle = None,
    additional: Annotated[
        bool, typer.Option("--additional", help="Even if other reassignments are under way.")
    ] = False,
    save_current: Annotated[
        Path | None,
        typer.Option("--save-current", metavar="FILE", help="Write a plan that leads back to this file."),
    ] = None,
    wait: Wait = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """Begin the moves of a plan. `verify` says how far they are and removes throttles.

    With --wait it does both. Repeat it with --additional and another --throttle to change the throttle.
    """
    from bowstring.cli import reassignment_json, replica_moves

    wanted, directories = reassignment_json.read(plan)
    with _admin(bootstrap, timeout) as admin:
        if save_current is not None:
            current = replica_moves.replicas_of(admin.topics(internal=True))
            back = {each: current[each] for each in wanted if each in current}
            text = json_text.dumps(reassignment_json.to_json(back), indent=2)
            save_current.write_text(text + "\n", encoding="utf-8")
        replica_moves.prefer_directories(admin, directories)
        begun = replica_moves.begin(admin, wanted, rate=throttle, additional=additional)
        if not wait:
            if json:
                print_json([{"topic": each.topic, "partition": each.partition} for each in begun])
            else:
                print_note(
                    f"{len(begun)} partitions are moving; `bowstring reassign verify {plan}` tells more"
                )
            return
        found = replica_moves.wait(admin, wanted, shown=not json)
        _remove_throttles(admin, found)
    _tell_states(found, json=json)


@app.command()
def verify(
    plan: Plan,
    keep_throttle: KeepThrottle = False,
    wait: Wait = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """Show how far a plan is; remove throttles when nothing moves any more.

    Ends with 0 if all partitions have the replicas of the plan, else with 1.
    """
    from bowstring.cli import reassignment_json, replica_moves

    wanted = reassignment_json.read(plan).replicas
    with _admin(bootstrap, timeout) as admin:
        if wait:
            found = replica_moves.wait(admin, wanted, shown=not json)
        else:
            found = replica_moves.states(admin, wanted)
        if not keep_throttle:
            _remove_throttles(admin, found)
    _tell_states(found, json=json)


def _remove_throttles(admin: Admin, found: list[State]) -> None:
    """Removes throttles when no move that needs them is under way."""
    from bowstring.cli import replica_moves

    if not admin.list_reassignments():
        replica_moves.remove_throttles(admin, {each.partition.topic for each in found})


def _tell_states(found: list[State], *, json: bool) -> None:
    from bowstring.cli import replica_moves

    if json:
        print_json(
            [
                {
                    "topic": each.partition.topic,
                    "partition": each.partition.partition,
                    "state": each.state,
                    "replicas": list(each.replicas),
                    "wanted": list(each.wanted),
                }
                for each in found
            ]
        )
    else:
        rows = [
            [
                str(each.partition),
                each.state,
                ",".join(map(str, each.replicas)),
                ",".join(map(str, each.wanted)),
            ]
            for each in found
        ]
        print_table(["partition", "state", "replicas", "wanted"], rows)
    replica_moves.check_done(found)


@app.command()
def cancel(
    plan: Annotated[
        Path | None, typer.Argument(metavar="[PLAN]", help="Cancel what this plan began.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Cancel all reassignments.")] = False,
    keep_throttle: KeepThrottle = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """Cancel reassignments under way: partitions get their old replicas back."""
    from bowstring.cli import reassignment_json

    if (plan is None) != everything:
        raise typer.BadParameter("give either a PLAN or --all")
    wanted = None if plan is None else reassignment_json.read(plan).replicas
    with _admin(bootstrap, timeout) as admin:
        ongoing = admin.list_reassignments()
        chosen = sorted(each for each in ongoing if wanted is None or each in wanted)
        if chosen:
            admin.alter_reassignments(dict.fromkeys(chosen))
        if not keep_throttle:
            from bowstring.cli import replica_moves

            if not admin.list_reassignments():
                replica_moves.remove_throttles(admin, {each.topic for each in wanted or chosen})
    done: list[dict[str, Any]] = [{"topic": each.topic, "partition": each.partition} for each in chosen]
    if json:
        print_json(done)
    else:
        print_note(f"cancelled {len(chosen)} reassignments")
