"""Implements `bowstring cluster`: start, status, top."""

from __future__ import annotations

import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Group
from rich.markup import escape

from bowstring.cli.cluster_top import top
from bowstring.cli.command_config import security
from bowstring.cli.options import BOOTSTRAP_DEFAULT, TIMEOUT_DEFAULT_S, Bootstrap, Json, Timeout, pairs
from bowstring.cli.output import console, print_error, print_json, print_note, print_parts
from bowstring.cli.tables import FittedTable

if TYPE_CHECKING:
    from bowstring.cli.cluster_status import ClusterStatus
    from bowstring.clients.admin.admin import Admin

# Partitions in trouble that people are shown.
SHOWN_MAX = 50

app = typer.Typer(help="Run a cluster on this machine, and see how a cluster is.", no_args_is_help=True)

Secure = Annotated[
    bool, typer.Option("--secure", help="With TLS, users and access control; see DIR/security afterwards.")
]
Set = Annotated[
    list[str], typer.Option("--set", metavar="KEY=VALUE", help="One config of all nodes; may be repeated.")
]


@app.command()
def start(
    data: Annotated[
        Path,
        typer.Option("--data", metavar="DIR", help="Directory for the nodes; a new one gets a new cluster."),
    ] = Path("bowstring-cluster"),
    brokers: Annotated[
        int | None,
        typer.Option("--brokers", help="Number of brokers; default: as the directory has, or 3."),
    ] = None,
    controllers: Annotated[
        int | None,
        typer.Option(
            "--controllers",
            help="Number of nodes that are only controllers; default: brokers are controllers, too.",
        ),
    ] = None,
    port: Annotated[
        int,
        typer.Option("--port", help="Port of the first broker; the next one has the next port, and so on."),
    ] = 9092,
    durability: Annotated[
        Literal["commit", "os"] | None,
        typer.Option(
            "--durability", help="Acknowledge from the medium (default), or from the page cache as in Kafka."
        ),
    ] = None,
    secure: Secure = False,
    set_: Set = [],  # noqa: B006 - typer copies it
) -> None:
    """Run a cluster of processes on this machine until SIGTERM, SIGINT or SIGHUP stops it cleanly.

    Directories are formatted at the first start, and used again afterwards. Ports of controllers begin 100
    above that of the first broker, and stay in later starts. Each node has its server.properties and its
    node.log in DIR/node-ID. Topics have three replicas if there are three brokers, and a broker that is gone
    is noticed after three seconds.
    """
    from bowstring.cluster.foreground import ForegroundCluster
    from bowstring.engine.configs import ConfigError
    from bowstring.engine.storage.directory_lock import DataDirectoryError

    config = pairs(set_, "--set")
    if durability is not None:
        config["bowstring.durability"] = durability
    try:
        cluster = ForegroundCluster(
            data,
            brokers=brokers,
            controllers=controllers,
            port=port,
            config=config,
            secure=secure,
            tell=print_note,
            warn=print_error,
        )
        raise typer.Exit(cluster.run())
    except (ConfigError, DataDirectoryError, OSError) as error:
        print_error(str(error))
        raise typer.Exit(1) from None


@app.command()
def status(
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show it again and again.")] = False,
    interval: Annotated[
        float, typer.Option("--interval", metavar="SECONDS", min=0.1, help="Between two looks with --watch.")
    ] = 1.0,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """Show nodes, the quorum, leaders, and partitions that lack replicas or a leader.

    Lag is in records: of followers behind leaders, and of nodes behind the metadata log. A partition at min
    ISR takes writes with acks=all until it loses one more replica; under min ISR it takes none.
    """
    from bowstring.cli.cluster_status import collect
    from bowstring.clients.admin.admin import Admin

    with Admin(
        bootstrap, timeout_ms=int(timeout * 1000), client_id="bowstring-cli", security=security()
    ) as admin:
        if not watch:
            found = collect(admin)
            if json:
                print_json(found.as_json())
            else:
                print_parts(_shown(found))
            return
        _watch(admin, interval, json)


def _watch(admin: Admin, interval: float, json: bool) -> None:
    """Continues when brokers do not answer: that is what one watches for."""
    from rich.live import Live

    from bowstring.cli.cluster_status import collect
    from bowstring.clients.errors import ClientError

    with ExitStack() as shown:
        live = None
        if sys.stdout.isatty() and not json:
            live = shown.enter_context(Live(console=console(), auto_refresh=False, screen=False))
        while True:
            try:
                found = collect(admin)
            except ClientError as error:
                print_error(str(error))
            else:
                if json:
                    print_json(found.as_json())
                    sys.stdout.flush()
                elif live is not None:
                    live.update(_shown(found), refresh=True)
                else:
                    print_parts(_shown(found))
            time.sleep(interval)


def _shown(found: ClusterStatus) -> Group:
    parts: list[Any] = [_title(found), _nodes(found), "", _summary(found)]
    if troubled := found.troubled():
        parts.append(_partitions(troubled))
    return Group(*parts)


def _title(found: ClusterStatus) -> str:
    quorum = "[yellow]it tells nothing about a quorum[/]"
    if found.quorum is not None:
        quorum = (
            f"controller {found.quorum.leader_id}, epoch {found.quorum.leader_epoch}, "
            f"metadata committed up to {found.quorum.high_watermark:,}"
        )
    return f"[bold]cluster {escape(found.cluster_id)}[/]  {quorum}"


def _nodes(found: ClusterStatus) -> FittedTable:
    states = {None: None, True: "fenced", False: "active"}
    rows = [
        [
            str(node["id"]),
            node["address"],
            ",".join(node["roles"]) or None,
            states[node["fenced"]],
            node["rack"],
            node.get("quorum"),
            node.get("metadata_lag"),
            node.get("leaders"),
            node.get("in_sync"),
            node.get("replicas"),
            node.get("lag"),
        ]
        for node in found.nodes()
    ]
    columns = ["node", "address", "roles", "state", "rack", "quorum", "metadata lag"]
    return FittedTable([*columns, "leads", "in sync", "replicas", "lag"], rows)


def _summary(found: ClusterStatus) -> str:
    from bowstring.operations.partition_state import OFFLINE, STATES, UNDER_MIN_ISR

    counts = Counter(each["state"] for each in found.troubled())
    text = f"{_count(len(found.topics), 'topic')}, {_count(len(found.partitions), 'partition')}: "
    if not counts:
        return text + "[green]all replicas in sync[/]"
    colours = {OFFLINE: "bold red", UNDER_MIN_ISR: "bold red"}
    return text + ", ".join(
        f"[{colours.get(state, 'yellow')}]{counts[state]:,} {state}[/]" for state in STATES if counts[state]
    )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _partitions(troubled: list[dict[str, Any]]) -> FittedTable:
    rows = [
        [
            f"{each['topic']}-{each['partition']}",
            each["state"],
            None if each["leader"] is None else str(each["leader"]),
            ",".join(map(str, each["replicas"])),
            ",".join(map(str, each["isr"])),
            ", ".join(f"{id}: {lag:,}" for id, lag in each["lag"].items()) or None,
        ]
        for each in troubled[:SHOWN_MAX]
    ]
    if len(troubled) > SHOWN_MAX:
        rows.append([f"and {len(troubled) - SHOWN_MAX:,} more; --json has all", *[None] * 5])
    return FittedTable(["partition", "state", "leader", "replicas", "in sync", "lag by follower"], rows)


app.command("top")(top)
