"""Implements `bowstring quotas`: set, list, delete."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, NamedTuple

import typer

from bowstring.cli.options import (
    BOOTSTRAP_DEFAULT,
    TIMEOUT_DEFAULT_S,
    Bootstrap,
    Json,
    Timeout,
    admin_at,
    pairs,
    with_groups,
)
from bowstring.cli.output import console, print_hint, print_json, print_note
from bowstring.cli.tables import safe
from bowstring.clients.errors import ClientError
from bowstring.operations.quota_words import quota_entity_text, quota_sentence

HELP = """\
Set, list and delete quotas of users, client ids and addresses (KIP-13, KIP-546, KIP-612).

A client above its quota is slowed down, not refused. Each broker counts for itself.
"""

app = typer.Typer(help=HELP, no_args_is_help=True)


class Whose(NamedTuple):
    """Options for whose quotas."""

    user: Annotated[str | None, typer.Option("--user", metavar="NAME", help="Quota of this user.")] = None
    user_defaults: Annotated[
        bool, typer.Option("--user-defaults", help="Of each user without a quota of its own.")
    ] = False
    client_id: Annotated[
        str | None, typer.Option("--client-id", metavar="ID", help="Quota of this client id.")
    ] = None
    client_defaults: Annotated[
        bool, typer.Option("--client-defaults", help="Of each client id without one.")
    ] = False
    ip: Annotated[str | None, typer.Option("--ip", metavar="ADDRESS", help="Quota of this address.")] = None
    ip_defaults: Annotated[bool, typer.Option("--ip-defaults", help="Of each address without one.")] = False

    def entity(self) -> dict[str, str | None]:
        """Returns names by type; None is the default.

        Raises:
            typer.BadParameter: options do not go together.
        """
        found: dict[str, str | None] = {}
        for kind, name, default, option in (
            ("user", self.user, self.user_defaults, "--user"),
            ("client-id", self.client_id, self.client_defaults, "--client-id"),
            ("ip", self.ip, self.ip_defaults, "--ip"),
        ):
            if name is not None and default:
                raise typer.BadParameter(f"give one of {option} and its defaults")
            if name is not None or default:
                found[kind] = name
        if "ip" in found and len(found) > 1:
            raise typer.BadParameter("--ip stands alone: quotas of addresses are for no user or client id")
        return found

    def one_entity(self) -> dict[str, str | None]:
        """Returns names by type, at least one.

        Raises:
            typer.BadParameter: there is none, or options do not go together.
        """
        found = self.entity()
        if not found:
            raise typer.BadParameter("say whose quota: --user, --client-id, both, --ip, or their defaults")
        return found


ANYONE = Whose()


def _numbers(given: Mapping[str, str]) -> dict[str, float]:
    found = {}
    for name, text in given.items():
        try:
            found[name] = float(text)
        except ValueError:
            raise typer.BadParameter(f"{name}={text}: the value is not a number") from None
        if not math.isfinite(found[name]):
            raise typer.BadParameter(f"{name}={text} limits nothing; delete the quota instead")
    return found


@app.command("set")
@with_groups
def set_(
    values: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME=VALUE...",
            help="producer_byte_rate, consumer_byte_rate, request_percentage, controller_mutation_rate; with "
            "--ip connection_creation_rate.",
        ),
    ],
    whose: Whose = ANYONE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """Set quotas, and say what each means."""
    entity = whose.one_entity()
    quotas = _numbers(pairs(values, "NAME=VALUE"))
    with admin_at(bootstrap, timeout) as admin:
        admin.alter_client_quotas(entity, quotas)
    if json:
        print_json({"entity": entity, "quotas": quotas})
        return
    for name, value in quotas.items():
        print_note(quota_sentence(frozenset(entity.items()), name, value))


@app.command("list")
@with_groups
def list_(
    whose: Whose = ANYONE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """List quotas: all, or those of a user, client id or address."""
    entity = whose.entity()
    with admin_at(bootstrap, timeout) as admin:
        found = admin.describe_client_quotas(entity or None)
    ordered = sorted(found.items(), key=lambda each: sorted((kind, name or "") for kind, name in each[0]))
    if json:
        print_json([{"entity": dict(each), "quotas": quotas} for each, quotas in ordered])
        return
    if not ordered:
        print_hint("there are no such quotas" if entity else "there are no quotas")
    for each, quotas in ordered:
        for name, value in sorted(quotas.items()):
            console().print(safe(quota_sentence(each, name, value)), markup=False)


@app.command()
@with_groups
def delete(
    names: Annotated[
        list[str], typer.Argument(metavar="[NAME...]", help="Quotas; default: all.", show_default=False)
    ] = [],  # noqa: B006 - typer copies it
    whose: Whose = ANYONE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """Delete quotas of exactly one user, client id, pair of them, or address."""
    entity = whose.one_entity()
    with admin_at(bootstrap, timeout) as admin:
        there = admin.describe_client_quotas(entity, strict=True).get(frozenset(entity.items()), {})
        gone = list(names) or sorted(there)
        missing = [each for each in gone if each not in there]
        if missing or not gone:
            raise ClientError(
                f"{quota_entity_text(frozenset(entity.items()))} has no quota {''.join(missing[:1])}".rstrip()
            )
        admin.alter_client_quotas(entity, dict.fromkeys(gone))
    if json:
        print_json({"entity": entity, "deleted": gone})
        return
    for name in gone:
        print_note(f"no more: {quota_sentence(frozenset(entity.items()), name, there[name])}")
