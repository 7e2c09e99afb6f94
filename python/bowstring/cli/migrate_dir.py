"""Implements `bowstring migrate-dir`: migrates a stopped broker's directory between Bowstring and Apache
Kafka.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from bowstring.cli.options import Json
from bowstring.cli.output import console, print_error, print_hint, print_json, print_note

if TYPE_CHECKING:
    from bowstring.engine.migration.directories import Migration


def migrate_dir(
    directories: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Every log directory of the stopped broker.")
    ],
    to: Annotated[
        Literal["kafka", "bowstring"] | None,
        typer.Option("--to", help="The broker that takes over; default: the one that did not run last."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="The broker's present settings, to be kept."),
    ] = None,
    properties: Annotated[
        Path | None,
        typer.Option("--properties", metavar="FILE", help="File to write; default DIR/server.properties."),
    ] = None,
    backup: Annotated[
        Path | None,
        typer.Option("--backup", metavar="DIR", help="Copy of the metadata log; default: beside DIR."),
    ] = None,
    controller_port: Annotated[
        int, typer.Option("--controller-port", help="Port of Kafka's controller listener.")
    ] = 9093,
    unclean: Annotated[
        bool, typer.Option("--unclean", help="Recover a directory that was not shut down cleanly.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done without doing it.")
    ] = False,
    json: Json = False,
) -> None:
    """Migrate a stopped broker's directory to Apache Kafka, or from Kafka to Bowstring.

    Data files stay unchanged. The command writes a server.properties to start with, and copies the metadata
    log before it changes anything in it.
    """
    from bowstring._native.log.partition_log import LogError
    from bowstring.engine.configs import ConfigError
    from bowstring.engine.configs.files import load_with_unknown
    from bowstring.engine.migration.directories import migrate
    from bowstring.engine.storage.directory_lock import DataDirectoryError

    try:
        done = migrate(
            directories,
            to,
            settings=load_with_unknown(config) if config is not None else {},
            properties=properties,
            backup=backup,
            controller_port=controller_port,
            accept_unclean=unclean,
            dry_run=dry_run,
        )
    except (ConfigError, DataDirectoryError, LogError) as error:
        print_error(str(error))
        raise typer.Exit(1) from None
    if json:
        print_json(asdict(done) | {"dry_run": dry_run})
    else:
        _show(done, dry_run)


def _show(done: Migration, dry_run: bool) -> None:
    console().print(
        f"node {done.node_id} of cluster {done.cluster_id}: {done.topics} topics, {done.partitions} "
        f"partitions, metadata.version {done.metadata_version}",
        markup=False,
    )
    if dry_run:
        print_hint("nothing is changed; without --dry-run:")
    for line in [*done.changes, *([f"copied the metadata log to {done.backup}"] if done.backup else [])]:
        if dry_run:
            print_hint(f"  {line}")
        else:
            print_note(line)
    for warning in done.warnings:
        console().print(f"note: {warning}", markup=False)
    if done.refused is not None:
        console().print(f"change {done.properties} before the start: {done.refused}", markup=False)
    console().print(
        f"{'then start' if dry_run or done.refused else 'start'} it with: {done.command}", markup=False
    )
