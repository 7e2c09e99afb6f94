"""Implements `bowstring quorum`: describe, add, remove, unregister, repair."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bowstring.cli.command_config import security
from bowstring.cli.options import BOOTSTRAP_DEFAULT, TIMEOUT_DEFAULT_S, Bootstrap, Json, Timeout
from bowstring.cli.output import console, print_json, print_note, print_table

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin
    from bowstring.clients.admin.results import QuorumDescription, QuorumReplica

app = typer.Typer(help="Show and change the quorum of controllers.", no_args_is_help=True)

_NO_ID = bytes(16)


def _admin(bootstrap: str, timeout: float) -> Admin:
    from bowstring.clients.admin.admin import Admin

    return Admin(bootstrap, timeout_ms=int(timeout * 1000), client_id="bowstring-cli", security=security())


@app.command()
def describe(
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """Show the active controller, the voters, and how far each node has the metadata log."""
    with _admin(bootstrap, timeout) as admin:
        found = admin.describe_quorum()
    nodes = [_node(found, each, "voter") for each in found.voters]
    nodes += [_node(found, each, "observer") for each in found.observers]
    facts = {
        "leader_id": found.leader_id,
        "leader_epoch": found.leader_epoch,
        "high_watermark": found.high_watermark,
    }
    if json:
        print_json({**facts, "nodes": nodes})
        return
    rows = [
        [
            str(node["id"]),
            node["role"],
            node["address"],
            node["log_end_offset"],
            node["lag"],
            _ago(node["last_caught_up_ms"]),
            node["directory_id"],
        ]
        for node in nodes
    ]
    columns = ["node", "role", "address", "log end", "lag", "caught up", "directory"]
    title = (
        f"leader {found.leader_id}  [not bold]epoch {found.leader_epoch}, committed {found.high_watermark}[/]"
    )
    print_table(columns, rows, title)
    console().print()


def _node(found: QuorumDescription, replica: QuorumReplica, role: str) -> dict[str, Any]:
    from bowstring.protocol.ids import format_uuid

    end = next((each.log_end_offset for each in found.voters if each.id == found.leader_id), 0)
    addresses = [f"{host}:{port}" for _, host, port in found.endpoints.get(replica.id, [])]
    return {
        "id": replica.id,
        "role": "leader" if role == "voter" and replica.id == found.leader_id else role,
        "address": ",".join(addresses) if addresses and role == "voter" else None,
        "log_end_offset": replica.log_end_offset,
        "lag": max(0, end - replica.log_end_offset),
        "last_fetch_ms": replica.last_fetch_ms,
        "last_caught_up_ms": replica.last_caught_up_ms,
        "directory_id": None if replica.directory_id == _NO_ID else format_uuid(replica.directory_id),
    }


def _ago(timestamp_ms: int) -> str | None:
    if timestamp_ms < 0:
        return None
    seconds = max(0.0, time.time() - timestamp_ms / 1000)
    return "now" if seconds < 1 else f"{seconds:,.0f} s ago"


@app.command()
def add(
    node_id: Annotated[
        int | None, typer.Argument(metavar="[ID]", help="Id of the controller; or give --config.", min=0)
    ] = None,
    address: Annotated[
        str | None,
        typer.Option("--address", metavar="HOST:PORT", help="Where the controller listens for controllers."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="server.properties of the controller, on its machine: has it all.",
        ),
    ] = None,
    directory_id: Annotated[
        str | None,
        typer.Option(
            "--directory-id", help="Id of its metadata directory; default: as the quorum sees it fetch."
        ),
    ] = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """Add a controller that runs and follows to the voters.

    Format it with --no-initial-controllers and start it first.
    """
    from bowstring.protocol.ids import format_uuid

    own_id: bytes | None
    if config is not None:
        if node_id is not None or address is not None or directory_id is not None:
            raise typer.BadParameter("--config has the id, the address and the directory; give no others")
        node_id, own_id, listeners = _from_config(config)
    elif node_id is None or address is None:
        raise typer.BadParameter("give ID and --address, or --config")
    else:
        own_id, listeners = None if directory_id is None else _uuid(directory_id), []
    with _admin(bootstrap, timeout) as admin:
        found = admin.describe_quorum()
        if own_id is None:
            own_id = _directory_of(found.observers, node_id, "follow")
        if address is not None:
            listeners = [_listener(found, address)]
        admin.add_raft_voter(node_id, own_id, listeners)
    if json:
        print_json({"id": node_id, "directory_id": format_uuid(own_id), "added": True})
    else:
        print_note(f"controller {node_id} is a voter now")


def _from_config(path: Path) -> tuple[int, bytes, list[tuple[str, str, int]]]:
    """Returns the id, the directory and the listeners of the node with this configuration."""
    from bowstring.clients.errors import ConfigError
    from bowstring.engine.broker.node_format import controller_identity
    from bowstring.engine.configs import ConfigError as WrongConfig
    from bowstring.engine.configs.files import load

    try:
        return controller_identity(load(path, []))
    except WrongConfig as error:
        raise ConfigError(f"{path}: {error}") from error


def _uuid(text: str) -> bytes:
    from bowstring.protocol.ids import parse_uuid

    try:
        return parse_uuid(text)
    except ValueError as error:
        raise typer.BadParameter(
            f"{text!r} is no directory id: {error}", param_hint="--directory-id"
        ) from None


def _listener(found: QuorumDescription, address: str) -> tuple[str, str, int]:
    """Returns the listener at an address, with the name that the leader's has."""
    from bowstring.clients.net.metadata import parse_bootstrap

    (node,) = parse_bootstrap([address])
    names = [name for name, _, _ in found.endpoints.get(found.leader_id, [])]
    return (names[0] if names else "CONTROLLER", node.host, node.port)


def _directory_of(replicas: list[QuorumReplica], node_id: int, verb: str) -> bytes:
    from bowstring.clients.errors import ConfigError

    ids = {each.directory_id for each in replicas if each.id == node_id}
    if len(ids) == 1 and _NO_ID not in ids:
        return ids.pop()
    if not ids:
        others = ", ".join(str(each.id) for each in replicas) or "none"
        raise ConfigError(f"node {node_id} does not {verb}; those that do: {others}")
    raise ConfigError(f"the directory of node {node_id} is not known; give --directory-id")


def why_voter_stays(admin: Admin, found: QuorumDescription, node_id: int) -> str | None:
    """Returns why a voter cannot be removed now, and what to do; None if it can (KIP-853)."""
    if [each.id for each in found.voters] == [node_id]:
        return f"node {node_id} is the only voter of the quorum; add another one before you remove it"
    if any(each.directory_id != _NO_ID for each in found.voters):
        return None
    kraft_version = admin.describe_features().get("kraft.version")
    if kraft_version is None or kraft_version.highest < 1:
        return (
            f"node {node_id} is a controller of the quorum and cannot be removed: controllers are static "
            "(controller.quorum.voters), and these brokers know no others (KIP-853)"
        )
    return (
        f"node {node_id} is a controller of the quorum and cannot be removed: controllers are static "
        "(controller.quorum.voters, kraft.version=0). While all of them run, put them into the metadata: "
        f"bowstring features upgrade kraft.version=1, then bowstring quorum remove {node_id}"
    )


@app.command()
def remove(
    node_id: Annotated[int, typer.Argument(metavar="ID", help="Id of the controller.", min=0)],
    directory_id: Annotated[
        str | None,
        typer.Option("--directory-id", help="Id of its metadata directory; default: that of the voter."),
    ] = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """Remove a controller from the voters. It may run on as an observer, or be stopped for good."""
    from bowstring.clients.errors import ClientError
    from bowstring.protocol.ids import format_uuid

    with _admin(bootstrap, timeout) as admin:
        found = admin.describe_quorum()
        if directory_id is None and (reason := why_voter_stays(admin, found, node_id)) is not None:
            raise ClientError(reason)
        own_id = _directory_of(found.voters, node_id, "vote") if directory_id is None else _uuid(directory_id)
        admin.remove_raft_voter(node_id, own_id)
    if json:
        print_json({"id": node_id, "directory_id": format_uuid(own_id), "removed": True})
    else:
        print_note(f"controller {node_id} is no voter any more")


@app.command()
def unregister(
    node_id: Annotated[int, typer.Argument(metavar="ID", help="Id of the controller.", min=0)],
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """Forget a controller that is stopped for good: it then bounds no feature level any more."""
    with _admin(bootstrap, timeout) as admin:
        admin.unregister_controller(node_id)
    if json:
        print_json({"id": node_id, "unregistered": True})
    else:
        print_note(f"controller {node_id} is unregistered")


@app.command()
def repair(
    directory: Annotated[
        Path,
        typer.Option("--directory", metavar="DIR", help="metadata.log.dir of the stopped node."),
    ],
    through: Annotated[
        int | None,
        typer.Option(
            "--through",
            metavar="OFFSET",
            help="Leave out such records up to this offset, which every voter must have; default: those of "
            "the first batch that has one.",
            min=0,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the records without changing anything.")
    ] = False,
    json: Json = False,
) -> None:
    """Leave records out of a node's metadata that cannot be applied, so that the node starts again.

    Writes a snapshot that replaces the log up to there; the log itself stays. Repair every node that names
    the record, with the same options (docs/how-to/repair-metadata.md).
    """
    from bowstring.cli.output import print_error, print_hint
    from bowstring.engine.quorum.repair import repair as repair_log
    from bowstring.engine.storage.directory_lock import DataDirectoryError

    try:
        done = repair_log(directory, through=through, dry_run=dry_run)
    except (DataDirectoryError, OSError) as error:
        print_error(str(error))
        raise typer.Exit(1) from None
    if json:
        found = [each._asdict() for each in done.dropped]
        print_json(done._asdict() | {"dropped": found, "snapshot": str(done.snapshot), "dry_run": dry_run})
        return
    for each in done.dropped:
        console().print(f"{each.offset}  {each.record}\n  {each.why}", markup=False)
    if not done.dropped:
        print_hint(f"every record up to offset {done.log_end_offset} can be applied; nothing to repair")
    elif dry_run:
        print_hint(
            f"nothing is changed; without --dry-run {len(done.dropped)} records are left out, and "
            f"{done.snapshot.name} replaces the log up to offset {done.end_offset} of {done.log_end_offset}"
        )
    else:
        print_note(f"left {len(done.dropped)} records out; wrote {done.snapshot}")
