"""Implements `bowstring topics`: create, list, describe, top, alter, move, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from bowstring.cli.command_config import security
from bowstring.cli.options import (
    BOOTSTRAP_DEFAULT,
    TIMEOUT_DEFAULT_S,
    Bootstrap,
    Json,
    Timeout,
    all_of,
    pairs,
)
from bowstring.cli.output import console, print_json, print_note, print_table
from bowstring.cli.topic_top import top
from bowstring.cli.topics_move import move
from bowstring.clients.errors import TopicExistsError, UnknownTopicError

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin
    from bowstring.clients.records import TopicInfo

app = typer.Typer(help="Create, list, describe, change, move and delete topics.", no_args_is_help=True)

app.command()(move)
app.command()(top)

Names = Annotated[list[str], typer.Argument(metavar="TOPIC...", help="Names of topics.")]
Configs = Annotated[
    list[str], typer.Option("--config", "-c", metavar="NAME=VALUE", help="A setting; may be repeated.")
]


def _admin(bootstrap: str, timeout: float) -> Admin:
    from bowstring.clients.admin.admin import Admin

    return Admin(bootstrap, timeout_ms=int(timeout * 1000), client_id="bowstring-cli", security=security())


@app.command()
def create(
    names: Names,
    partitions: Annotated[
        int, typer.Option("--partitions", "-p", help="Number of partitions; -1 for the broker's default.")
    ] = -1,
    replication_factor: Annotated[
        int,
        typer.Option("--replication-factor", "-r", help="Number of replicas; -1 for the broker's default."),
    ] = -1,
    config: Configs = [],  # noqa: B006 - typer copies it
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Do not fail if the topic exists.")
    ] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """Create topics."""
    settings = pairs(config, "--config")
    created = []
    with _admin(bootstrap, timeout) as admin:
        for name in names:
            try:
                topic_id = admin.create_topic(name, partitions, replication_factor, settings)
            except TopicExistsError:
                if not if_not_exists:
                    raise
                created.append({"topic": name, "created": False})
                if not json:
                    print_note(f"topic {name} already exists")
            else:
                created.append({"topic": name, "created": True, "id": str(UUID(bytes=topic_id))})
                if not json:
                    print_note(f"created topic {name}")
    if json:
        print_json(created)


@app.command("list")
def list_topics(
    internal: Annotated[bool, typer.Option("--internal", help="Also internal topics.")] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """List topics with their sizes."""
    with _admin(bootstrap, timeout) as admin:
        topics = admin.topics(internal=internal)
        sizes: dict[str, int] = {}
        for log_dirs in admin.describe_log_dirs().values():
            for log_dir in log_dirs:
                for partition, replica in log_dir.replicas.items():
                    sizes[partition.topic] = sizes.get(partition.topic, 0) + replica.size_bytes
    rows: list[dict[str, Any]] = [
        {
            "topic": name,
            "partitions": len(info.partitions),
            "replication_factor": max((len(p.replicas) for p in info.partitions.values()), default=0),
            "size_bytes": sizes.get(name, 0),
        }
        for name, info in sorted(topics.items())
    ]
    if json:
        print_json(rows)
    elif rows:
        print_table(["topic", "partitions", "replicas", "bytes"], [list(row.values()) for row in rows])
    else:
        console().print("there are no topics yet: create one with `bowstring topics create NAME`")


@app.command()
def describe(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[TOPIC...]", help="Default: all topics.")
    ] = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """Show partitions, leaders, offsets and settings."""
    with _admin(bootstrap, timeout) as admin:
        found = []
        for name in names or sorted(admin.topics()):
            found.append(_described(admin, admin.describe_topic(name)))
    if json:
        print_json(found)
        return
    for topic in found:
        _print_topic(topic)


def _described(admin: Admin, info: TopicInfo) -> dict[str, Any]:
    partitions = all_of(info.name, info.partitions)
    first = admin.beginning_offsets(partitions)
    end = admin.end_offsets(partitions)
    configs = admin.describe_configs("topic", info.name)
    return {
        "topic": info.name,
        "id": str(UUID(bytes=info.topic_id)),
        "internal": info.internal,
        "configs": {c.name: c.value for c in configs.values() if c.source == "DYNAMIC_TOPIC_CONFIG"},
        "partitions": [
            {
                "partition": p.partition,
                "leader": p.leader,
                "leader_epoch": p.leader_epoch,
                "replicas": list(p.replicas),
                "isr": list(p.isr),
                "log_start_offset": first.get(partition, 0),
                "log_end_offset": end.get(partition, 0),
            }
            for partition, p in (
                (partition, info.partitions[partition.partition]) for partition in partitions
            )
        ],
    }


def _print_topic(topic: dict[str, Any]) -> None:
    settings = " ".join(f"{name}={value}" for name, value in sorted(topic["configs"].items()))
    title = f"{topic['topic']}  [not bold dim]{topic['id']}[/]"
    if settings:
        title += f"  [not bold]{settings}[/]"
    rows = [
        [
            str(p["partition"]),
            str(p["leader"]) if p["leader"] >= 0 else "none",
            ",".join(map(str, p["replicas"])),
            ",".join(map(str, p["isr"])),
            p["log_start_offset"],
            p["log_end_offset"],
            p["log_end_offset"] - p["log_start_offset"],
        ]
        for p in topic["partitions"]
    ]
    columns = ["partition", "leader", "replicas", "in sync", "first offset", "end offset", "offsets"]
    print_table(columns, rows, title)
    console().print()


@app.command()
def alter(
    names: Names,
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", help="New, higher number of partitions.")
    ] = None,
    config: Configs = [],  # noqa: B006 - typer copies it
    delete_config: Annotated[
        list[str],
        typer.Option("--delete-config", metavar="NAME", help="Reset to the default; may be repeated."),
    ] = [],  # noqa: B006 - typer copies it
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """Add partitions and change settings."""
    settings = pairs(config, "--config")
    if partitions is None and not settings and not delete_config:
        raise typer.BadParameter("nothing to change: give --partitions, --config or --delete-config")
    with _admin(bootstrap, timeout) as admin:
        for name in names:
            if settings or delete_config:
                admin.alter_configs("topic", name, set=settings, delete=delete_config)
            if partitions is not None:
                admin.create_partitions({name: partitions})
            if not json:
                print_note(f"changed topic {name}")
    if json:
        print_json([{"topic": name, "altered": True} for name in names])


@app.command()
def delete(
    names: Names,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="Do not fail if the topic does not exist.")
    ] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """Delete topics with their records."""
    deleted = []
    with _admin(bootstrap, timeout) as admin:
        for name in names:
            try:
                admin.delete_topics([name])
            except UnknownTopicError:
                if not if_exists:
                    raise
                deleted.append({"topic": name, "deleted": False})
            else:
                deleted.append({"topic": name, "deleted": True})
                if not json:
                    print_note(f"deleted topic {name}")
    if json:
        print_json(deleted)
