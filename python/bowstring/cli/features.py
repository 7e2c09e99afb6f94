"""Implements `bowstring features`: describe, upgrade, downgrade."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from bowstring.cli.command_config import security
from bowstring.cli.options import BOOTSTRAP_DEFAULT, TIMEOUT_DEFAULT_S, Bootstrap, Json, Timeout, pairs
from bowstring.cli.output import print_json, print_note, print_table
from bowstring.cli.tables import Cell

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin
    from bowstring.clients.admin.features import Change

HELP = """\
Show and change the feature levels of a cluster (KIP-584).

Levels decide which groups and transactions a cluster has. Older data directories keep their levels.
"""

app = typer.Typer(help=HELP, no_args_is_help=True)

DryRun = Annotated[bool, typer.Option("--dry-run", help="Check, and change nothing.")]
LEVELS = "FEATURE=LEVEL..."


def _admin(bootstrap: str, timeout: float) -> Admin:
    from bowstring.clients.admin.admin import Admin

    return Admin(bootstrap, timeout_ms=int(timeout * 1000), client_id="bowstring-cli", security=security())


@app.command()
def describe(
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """Show the level of each feature, and the levels that the broker supports."""
    with _admin(bootstrap, timeout) as admin:
        found = admin.describe_features()
    if json:
        print_json([{"feature": name, **levels._asdict()} for name, levels in found.items()])
        return
    rows: list[list[Cell]] = [
        [name, each.level, f"{each.lowest} to {each.highest}"] for name, each in found.items()
    ]
    print_table(["feature", "level", "supported"], rows)


@app.command()
def upgrade(
    levels: Annotated[
        list[str], typer.Argument(metavar=LEVELS, help="New levels, such as group.version=1.")
    ] = [],  # noqa: B006 - typer copies it
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Raise every feature to the level of a new data directory.")
    ] = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """Raise feature levels: all that are named, or none. Clients see them with their next connection."""
    if bool(levels) == everything:
        raise typer.BadParameter("give either levels, such as group.version=1, or --all")
    with _admin(bootstrap, timeout) as admin:
        _update(admin, _newest(admin) if everything else _parsed(levels), "upgrade", dry_run, json)


def _newest(admin: Admin) -> dict[str, int]:
    """Returns the levels that can be raised to those of a new data directory."""
    from bowstring.protocol.features import FINALIZED_FEATURES

    found = {}
    for name, known in admin.describe_features().items():
        level = min(FINALIZED_FEATURES.get(name, 0), known.highest)
        if level > known.level:
            found[name] = level
    return found


@app.command()
def downgrade(
    levels: Annotated[
        list[str], typer.Argument(metavar=LEVELS, help="New levels; 0 disables a feature: share.version=0.")
    ],
    unsafe: Annotated[
        bool, typer.Option("--unsafe", help="Also where metadata that the lower level cannot keep is lost.")
    ] = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """Lower or disable feature levels: all that are named, or none."""
    with _admin(bootstrap, timeout) as admin:
        _update(admin, _parsed(levels), "unsafe downgrade" if unsafe else "downgrade", dry_run, json)


def _parsed(levels: list[str]) -> dict[str, int]:
    from bowstring.protocol.whole_numbers import whole_number

    found = {}
    for name, level in pairs(levels, LEVELS).items():
        number = whole_number(level)
        if number is None:
            raise typer.BadParameter(f"the level {level!r} of {name} is not a number", param_hint=LEVELS)
        found[name] = number
    return found


def _update(admin: Admin, levels: Mapping[str, int], change: Change, dry_run: bool, json: bool) -> None:
    if levels:
        admin.update_features(levels, change=change, validate_only=dry_run)
    if json:
        changed = not dry_run
        print_json([{"feature": name, "level": each, "changed": changed} for name, each in levels.items()])
        return
    done = "can change" if dry_run else "changed"
    for name, level in levels.items():
        print_note(f"{done} {name} to level {level}")
    if not levels:
        print_note("every feature has the level of a new data directory")
