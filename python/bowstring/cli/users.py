"""Implements `bowstring users`: add, list, delete."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from bowstring.cli.options import BOOTSTRAP_DEFAULT, TIMEOUT_DEFAULT_S, Bootstrap, Json, Timeout, admin_at
from bowstring.cli.output import print_hint, print_json, print_note, print_table
from bowstring.cli.tables import Cell
from bowstring.clients.admin.scram_users import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from bowstring.clients.errors import ClientError

HELP = """\
Add, list and delete users that log in with SCRAM (KIP-554).

A user may do what rules allow: see `bowstring acls`. Passwords are salted and hashed here; brokers never get
them.
"""

app = typer.Typer(help=HELP, no_args_is_help=True)

PASSWORD_VARIABLE = "BOWSTRING_NEW_PASSWORD"
SASL_NAMES: dict[str, ScramMechanism] = {each.sasl_name: each for each in ScramMechanism}

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the user.")]


@app.command()
def add(
    name: Name,
    password_file: Annotated[
        Path | None,
        typer.Option("--password-file", metavar="FILE", help="Take the password from the file's first line."),
    ] = None,
    password_stdin: Annotated[
        bool,
        typer.Option("--password-stdin", help="Take the password from the first line of standard input."),
    ] = False,
    mechanism: Annotated[
        list[str],
        typer.Option(
            "--mechanism", help="How the user may log in: SCRAM-SHA-256 or SCRAM-SHA-512; may be repeated."
        ),
    ] = ["SCRAM-SHA-512"],  # noqa: B006 - typer copies it
    iterations: Annotated[
        int,
        typer.Option("--iterations", min=ITERATIONS_MIN, max=ITERATIONS_MAX, help="Rounds of the hash."),
    ] = ITERATIONS_MIN,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """Add a user, or give one a new password; connections that are open stay.

    The password comes from a file, standard input, the variable BOWSTRING_NEW_PASSWORD or a prompt, never
    from an argument, which other users of the machine could read.
    """
    chosen = _mechanisms(mechanism)
    password = _password(name, password_file, password_stdin)
    wanted = [
        UserScramCredentialUpsertion(name, ScramCredentialInfo(each, iterations), password) for each in chosen
    ]
    with admin_at(bootstrap, timeout) as admin:
        for each in wanted:  # brokers refuse two of one user in a request
            admin.alter_user_scram_credentials([each])
    names = [each.scram_credential_info.mechanism.sasl_name for each in wanted]
    if json:
        print_json({"user": name, "mechanisms": names, "iterations": iterations})
        return
    print_note(f"user {name} logs in with {' or '.join(names)}, {iterations:,} iterations")


def _mechanisms(names: list[str]) -> list[ScramMechanism]:
    for name in names:
        if name.upper() not in SASL_NAMES:
            raise typer.BadParameter(f"--mechanism is one of {', '.join(SASL_NAMES)}, not {name!r}")
    return list(dict.fromkeys(SASL_NAMES[each.upper()] for each in names))


def _password(name: str, file: Path | None, stdin: bool) -> str:
    """Returns the password from the one source that is given.

    Raises:
        typer.BadParameter: two sources, none, or an empty password.
    """
    if file is not None and stdin:
        raise typer.BadParameter("give one of --password-file and --password-stdin")
    if file is not None:
        try:
            password, source = file.read_text(encoding="utf-8"), str(file)
        except UnicodeDecodeError:
            raise typer.BadParameter(f"{file} is no text in UTF-8") from None
    elif stdin:
        password, source = sys.stdin.readline(), "standard input"
    elif PASSWORD_VARIABLE in os.environ:
        password, source = os.environ[PASSWORD_VARIABLE], PASSWORD_VARIABLE
    elif sys.stdin.isatty():
        password = typer.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True, err=True)
        source = "the prompt"
    else:
        raise typer.BadParameter(
            f"there is no password: give --password-file, --password-stdin or {PASSWORD_VARIABLE}, or run "
            "this on a terminal"
        )
    password = password.partition("\n")[0].rstrip("\r")
    if not password:
        raise typer.BadParameter(f"the password from {source} is empty")
    return password


@app.command("list")
def list_(
    users: Annotated[
        list[str], typer.Argument(metavar="[NAME...]", help="Users; default: all.", show_default=False)
    ] = [],  # noqa: B006 - typer copies it
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """List users and how they log in. Passwords cannot be shown."""
    with admin_at(bootstrap, timeout) as admin:
        found = admin.describe_user_scram_credentials(users or None)
    if json:
        print_json(
            [
                {"user": name, "mechanism": each.mechanism.sasl_name, "iterations": each.iterations}
                for name, credentials in found.items()
                for each in credentials
            ]
        )
        return
    missing = [name for name in users if name not in found]
    if missing:
        raise ClientError(f"there is no user {missing[0]!r} with a SCRAM credential")
    if not found:
        print_hint("no users log in with SCRAM; `bowstring users add NAME` adds one")
        return
    rows: list[list[Cell]] = [
        [name, each.mechanism.sasl_name, each.iterations]
        for name, credentials in found.items()
        for each in credentials
    ]
    print_table(["user", "mechanism", "iterations"], rows)


@app.command()
def delete(
    name: Name,
    mechanism: Annotated[
        list[str],
        typer.Option("--mechanism", help="Only this way to log in; may be repeated.", show_default=False),
    ] = [],  # noqa: B006 - typer copies it
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """Delete a user: it cannot log in any more. Its rules and quotas stay, and so do open connections until
    they end or must log in again (`connections.max.reauth.ms`).
    """
    with admin_at(bootstrap, timeout) as admin:
        if mechanism:
            chosen = _mechanisms(mechanism)
        else:
            found = admin.describe_user_scram_credentials([name]).get(name)
            if found is None:
                raise ClientError(f"there is no user {name!r} with a SCRAM credential")
            chosen = [each.mechanism for each in found]
        for each in chosen:
            admin.alter_user_scram_credentials([UserScramCredentialDeletion(name, each)])
    names = [each.sasl_name for each in chosen]
    if json:
        print_json({"user": name, "deleted": names})
        return
    print_note(f"user {name} no longer logs in with {' or '.join(names)}")
