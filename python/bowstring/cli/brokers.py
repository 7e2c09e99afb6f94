"""Implements `bowstring brokers`: describe, decommission."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bowstring.cli.command_config import security
from bowstring.cli.options import BOOTSTRAP_DEFAULT, TIMEOUT_DEFAULT_S, Bootstrap, Json, Timeout
from bowstring.cli.output import console, print_json, print_note, print_table, size_text
from bowstring.cli.quorum import why_voter_stays
from bowstring.cli.reassign import Throttle

if TYPE_CHECKING:
    from bowstring.cli.replica_moves import Replicas
    from bowstring.clients.admin.admin import Admin
    from bowstring.clients.admin.results import BrokerDescription, LogDir, QuorumDescription
    from bowstring.clients.records import TopicInfo

app = typer.Typer(help="Show brokers, and take them out of the cluster.", no_args_is_help=True)

_LOOK_S = 0.5
# Topics that an error names.
_NAMES_MAX = 20


def _admin(bootstrap: str, timeout: float) -> Admin:
    from bowstring.clients.admin.admin import Admin

    return Admin(bootstrap, timeout_ms=int(timeout * 1000), client_id="bowstring-cli", security=security())


# ------------------------------------------------------------ describe


@app.command()
def describe(
    ids: Annotated[
        list[int] | None, typer.Argument(metavar="[ID...]", help="Ids of brokers; default: all.")
    ] = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """Show brokers with their directories, and how many partitions they lead and keep."""
    with _admin(bootstrap, timeout) as admin:
        brokers = admin.describe_brokers()
        for wanted in ids or []:
            _find(brokers, wanted)
        chosen = [each for each in brokers if not ids or each.id in ids]
        topics = admin.topics(internal=True)
        metadata = _metadata_ends(admin)
        found = [
            {
                "id": each.id,
                "host": each.host,
                "port": each.port,
                "rack": each.rack,
                "fenced": each.fenced,
                **_counts(topics, each.id),
                "metadata_lag": metadata.get(each.id),
                "log_dirs": [] if each.fenced else _directories(admin, each.id),
            }
            for each in chosen
        ]
    if json:
        print_json(found)
    else:
        _print(found)


def _find(brokers: list[BrokerDescription], wanted: int) -> BrokerDescription:
    from bowstring.clients.errors import ConfigError

    for each in brokers:
        if each.id == wanted:
            return each
    known = ", ".join(str(each.id) for each in brokers)
    raise ConfigError(f"there is no broker {wanted}; existing brokers: {known}")


def _counts(topics: dict[str, TopicInfo], broker: int) -> dict[str, int]:
    partitions = [part for topic in topics.values() for part in topic.partitions.values()]
    return {
        "leaders": sum(part.leader == broker for part in partitions),
        "replicas": sum(broker in part.replicas for part in partitions),
        "replicas_out_of_sync": sum(
            broker in part.replicas and broker not in part.isr for part in partitions
        ),
    }


def _metadata_ends(admin: Admin) -> dict[int, int]:
    """Returns how many records of the metadata log each node lacks; empty without a quorum."""
    from bowstring.clients.errors import ClientError

    try:
        found = admin.describe_quorum()
    except ClientError:
        return {}
    nodes = [*found.voters, *found.observers]
    end = max(each.log_end_offset for each in nodes)
    return {each.id: end - each.log_end_offset for each in nodes}


def _directories(admin: Admin, broker: int) -> list[dict[str, Any]]:
    """Returns the directories of a broker; empty if it does not answer."""
    from bowstring.clients.errors import ClientError

    try:
        found = admin.describe_log_dirs_of(broker)
    except ClientError:
        return []
    return [_directory(each) for each in found]


def _directory(each: LogDir) -> dict[str, Any]:
    return {
        "path": each.path,
        "replicas": len(each.replicas),
        "size_bytes": sum(replica.size_bytes for replica in each.replicas.values()),
        "total_bytes": each.total_bytes,
        "usable_bytes": each.usable_bytes,
        "error": None if each.error is None else str(each.error),
    }


def _print(found: list[dict[str, Any]]) -> None:
    rows = [
        [
            str(each["id"]),
            f"{each['host']}:{each['port']}",
            each["rack"],
            {True: "fenced", False: "active", None: None}[each["fenced"]],
            each["leaders"],
            each["replicas"],
            each["replicas_out_of_sync"],
            each["metadata_lag"],
        ]
        for each in found
    ]
    columns = ["broker", "address", "rack", "state", "leads", "replicas", "out of sync", "metadata lag"]
    print_table(columns, rows)
    console().print()
    rows = [
        [
            str(each["id"]),
            directory["path"],
            directory["error"] or "online",
            directory["replicas"],
            size_text(directory["size_bytes"]),
            size_text(directory["usable_bytes"]) if directory["usable_bytes"] >= 0 else None,
        ]
        for each in found
        for directory in each["log_dirs"]
    ]
    if rows:
        print_table(["broker", "directory", "state", "replicas", "size", "free"], rows)
        console().print()


# ------------------------------------------------------------ decommission


@app.command()
def decommission(
    broker: Annotated[int, typer.Argument(metavar="ID", help="Id of the broker.")],
    throttle: Throttle = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """Move all replicas of a broker to others, wait until it has stopped, and unregister it.

    It can be interrupted and repeated. Nothing is moved if it cannot succeed; the error says why.
    """
    from bowstring.cli import replica_moves

    tell: Callable[[str], None] = (lambda said: None) if json else print_note
    moved = 0
    with _admin(bootstrap, timeout) as admin:
        _check_voter(admin, broker)
        # Topics created meanwhile may have got replicas there.
        while plan := plan_decommission(admin, broker):
            replica_moves.begin(admin, plan, rate=throttle, additional=False)
            tell(f"{len(plan)} partitions are moving away from broker {broker}")
            found = replica_moves.wait(admin, plan, shown=not json)
            if throttle is not None:
                replica_moves.remove_throttles(admin, {each.topic for each in plan})
            replica_moves.check_done(found)
            moved += len(plan)
        tell(
            f"broker {broker} has no replicas; stop it now (SIGTERM), or end this command and repeat it later"
        )
        while not _has_stopped(admin, broker):
            time.sleep(_LOOK_S)
        if replicas := replica_moves.on_broker(admin, broker):
            from bowstring.clients.errors import ClientError

            raise ClientError(
                f"broker {broker} has stopped, but has got {len(replicas)} replicas meanwhile, such as "
                f"{min(replicas)}; start it and repeat this command"
            )
        _unregister(admin, broker)
    if json:
        print_json({"broker": broker, "moved_partitions": moved, "unregistered": True})
    else:
        print_note(f"broker {broker} is unregistered")


def _unregister(admin: Admin, broker: int) -> None:
    """Unregisters a broker unless it is already: the answer is lost if the request went to that broker."""
    from bowstring.clients.errors import BrokerError
    from bowstring.protocol.errors import Errors

    if any(each.id == broker for each in admin.describe_brokers()):
        try:
            admin.unregister_broker(broker)
        except BrokerError as error:
            if error.code != Errors.BROKER_ID_NOT_REGISTERED.code:
                raise


def plan_decommission(admin: Admin, broker: int) -> Replicas:
    """Returns where the replicas of a broker go.

    Raises:
        ClientError: It is impossible; the message says why.
    """
    from bowstring.cli import replica_moves
    from bowstring.clients.admin.assignment import planned
    from bowstring.clients.errors import ClientError

    brokers = admin.describe_brokers()
    _find(brokers, broker)
    topics = admin.topics(internal=True)
    every = replica_moves.replicas_of(topics)
    current = {partition: replicas for partition, replicas in every.items() if broker in replicas}
    if not current:
        return {}
    leaderless = [each for each in current if topics[each.topic].partitions[each.partition].leader < 0]
    if leaderless:
        raise ClientError(
            f"{min(leaderless)} has no leader from which its records could be copied; start the brokers "
            "that are in sync first"
        )
    racks = {each.id: each.rack for each in brokers if each.id != broker and not each.fenced}
    _check_room(current, broker, sorted(racks))
    others = {each: replicas for each, replicas in every.items() if each not in current}
    loads = {id: sum(id in replicas for replicas in others.values()) for id in racks}
    # A fenced broker keeps what it has: its replicas return when it is started again.
    fenced = {each.id: each.rack for each in brokers if each.id != broker and each.fenced}
    return planned(current, racks=racks, kept=fenced, spread=False, loads=loads)


def _check_room(current: Replicas, broker: int, others: list[int]) -> None:
    """Refuses to move replicas where others have no room for them.

    Raises:
        ClientError: A partition has more replicas than brokers remain; the message has the commands.
    """
    from bowstring.clients.errors import ClientError

    largest = max(current, key=lambda each: (len(current[each]), each))
    if len(current[largest]) <= len(others):
        return
    large = sorted({each.topic for each, replicas in current.items() if len(replicas) > len(others)})
    names = " ".join(large[:_NAMES_MAX]) + (
        f" (and {len(large) - _NAMES_MAX} more)" * (len(large) > _NAMES_MAX)
    )
    brokers = ",".join(map(str, others))
    raise ClientError(
        f"{largest} has {len(current[largest])} replicas, and without broker {broker} only {len(others)} "
        "brokers run; start another broker, or lower the number of replicas: bowstring reassign plan "
        f"{names} --brokers {brokers} --replication-factor {max(len(others), 1)} --output plan.json, then "
        "bowstring reassign execute plan.json --wait"
    )


def _check_voter(admin: Admin, broker: int) -> None:
    from bowstring.clients.errors import ClientError, UnsupportedApiError

    try:
        quorum: QuorumDescription = admin.describe_quorum()
    except UnsupportedApiError:
        return  # before KIP-595
    if any(each.id == broker for each in quorum.voters):
        raise ClientError(
            why_voter_stays(admin, quorum, broker)
            or f"node {broker} is also a controller of the quorum; remove it there first: bowstring quorum "
            f"remove {broker}"
        )


def _has_stopped(admin: Admin, broker: int) -> bool:
    """Whether a broker is fenced or gone. Unless it reports fencing, the cluster lists no fenced brokers."""
    return all(each.fenced for each in admin.describe_brokers() if each.id == broker)
